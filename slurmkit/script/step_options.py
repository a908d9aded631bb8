"""Options of srun, mpirun and apptainer on a script's launch line, into [launch] and [container]."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slurmkit.spec.options import BY_SHORT, find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurmkit.script.shell import Word

_MPI_VALUES: Final = dict.fromkeys(
    ("np", "n", "c", "N", "ppn", "npernode", "map-by", "bind-to", "rank-by", "hostfile", "machinefile", "f",
     "host", "hosts", "H", "x", "wdir"), 1) | {"mca": 2, "genv": 2, "env": 2}  # fmt: skip
"""Options of mpirun's and how many words follow them; the others are taken for flags."""
_SRUN_SHORT: Final = {
    "K": "kill-on-bad-exit", "W": "wait", "r": "relative", "T": "threads", "l": "label", "u": "unbuffered",
    "E": "preserve-env", "X": "disable-status", "Z": "no-allocate",
}  # fmt: skip
_SRUN_FLAGS: Final = frozenset({
    "label", "unbuffered", "preserve-env", "disable-status", "no-allocate", "overlap", "exact", "exclusive",
    "kill-on-bad-exit", "pty", "multi-prog", "interactive", "whole", "resv-ports", "quit-on-interrupt",
    "container-mount-home", "no-container-mount-home", "container-writable", "container-readonly",
    "container-remap-root", "no-container-remap-root", "container-entrypoint", "no-container-entrypoint",
})  # fmt: skip
"""Options of srun's that take no value in a word of its own, besides those of sbatch."""


@dataclass(slots=True)
class Launching:
    """What became of the line, under the names of the job file; `notes` is what was left behind."""

    command: str | list[str]
    launch: dict[str, Any] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def stated_tasks(resources: Mapping[str, Any]) -> bool:
    """Whether the directives say how many tasks there are."""
    return any(
        name in resources for name in ("ntasks", "ntasks_per_node", "ntasks_per_gpu", "ntasks_per_tres")
    )


def node_number(resources: Mapping[str, Any]) -> int | None:
    """The number of nodes, where it is one number."""
    nodes = str(resources.get("nodes", 1))
    return int(nodes) if nodes.isdigit() else None


def read_srun(words: list[Word], made: Launching, resources: Mapping[str, Any]) -> None:
    """Take srun's options off the front of `words`."""
    options = dict(_srun_options(words, made))
    kept = []
    shape: dict[str, str | None] = {
        name: options.pop(name) for name in ("nodes", "ntasks", "ntasks-per-node") if name in options
    }
    for name, value in options.items():
        option = find(f"--{name}")
        if option is not None and str(resources.get(option.name, "")) == (value or "True"):
            continue
        if name == "mpi" and value:
            made.launch["mpi"] = value
        elif name == "kill-on-bad-exit":
            if value == "0":
                made.launch["kill_on_bad_exit"] = False
        elif name in {"output", "error"}:
            made.notes.append(f"srun --{name}={value}: every rank has its own log (`slurmkit logs`)")
        elif name == "export":
            _read_export(value or "ALL", made)
        elif (
            name in {"container-image", "container-mounts", "container-workdir"}
            and "container-image" in options
        ):
            made.container["runtime"] = "pyxis"
            key = name.removeprefix("container-")
            made.container[key] = value.split(",") if key == "mounts" and value else value
        else:
            kept.append(f"--{name}" if value is None else f"--{name}={value}")
    kept = [*_shape(shape, made, resources), *kept]
    if kept:
        made.launch["srun"] = kept


def _shape(shape: Mapping[str, str | None], made: Launching, resources: Mapping[str, Any]) -> Iterator[str]:
    """What the step has of its own in nodes and tasks, where that is not what the directives say."""
    nodes = node_number(resources)
    stated = {
        "nodes": resources.get("nodes", 1),
        "ntasks": resources.get("ntasks"),
        "ntasks-per-node": resources.get("ntasks_per_node"),
    }
    own = {name: value for name, value in shape.items() if value != str(stated[name])}
    if not stated_tasks(resources):
        made.launch["ntasks_per_node"] = 1
        own = {name: value for name, value in own.items() if (name, value) != ("ntasks", str(nodes))}
        per_node, count = own.get("ntasks-per-node"), own.get("ntasks")
        if per_node and per_node.isdigit() and nodes and not count:
            own["ntasks"] = str(nodes * int(per_node))
        elif count and count.isdigit() and nodes and not int(count) % nodes and "nodes" not in own:
            own["ntasks-per-node"] = str(int(count) // nodes)
    per_node = str(resources.get("ntasks_per_node", ""))
    if per_node.isdigit() and nodes and own.get("ntasks") == str(nodes * int(per_node)):
        del own["ntasks"]
    yield from (f"--{name}={value}" for name, value in own.items())


def _srun_options(words: list[Word], made: Launching) -> Iterator[tuple[str, str | None]]:
    """Names without dashes, and values; what bash expands is left out, and said unless Slurm set it."""
    while words and words[0].raw.startswith("-"):
        word = words.pop(0)
        text = word.value if word.value is not None else word.raw
        if text == "--":
            return
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            name = "ntasks-per-node" if name == "tasks-per-node" else name
        else:
            option = BY_SHORT.get(text[1])
            name = _SRUN_SHORT.get(text[1]) or (option.flag_text[2:] if option else text[1])
            equals, value = text[2:], text[2:].removeprefix("=")
        known = find(f"--{name}")
        is_flag = name in _SRUN_FLAGS or (known is not None and known.takes != "value")
        is_dynamic = word.value is None
        if not equals and not is_flag and words:
            following = words.pop(0)
            is_dynamic = is_dynamic or following.value is None
            value = following.value if following.value is not None else following.raw
        if not is_dynamic:
            yield name, value if equals or not is_flag else None
        elif not re.fullmatch(r"\"?\$\{?SLURM_\w+\}?\"?", value):
            made.notes.append(f"srun --{name}={value}: write its value into [launch] srun")


def _read_export(value: str, made: Launching) -> None:
    for name in value.split(","):
        if "=" in name:
            key, _, text = name.partition("=")
            made.variables[key] = text
        elif name != "ALL":
            made.notes.append(f"srun --export={name}: the tasks get all variables")


def read_mpirun(words: list[Word], made: Launching, resources: Mapping[str, Any]) -> None:
    """Take mpirun's options off the front of `words`."""
    made.launch["mpi"] = "pmix"
    made.notes.append(
        'srun takes the place of mpirun, through `mpi = "pmix"`: `srun --mpi=list` shows what is there'
    )
    left = []
    count = None
    while words and words[0].raw.startswith("-"):
        name = words.pop(0).raw
        following = [words.pop(0) for _ in range(min(_MPI_VALUES.get(name.lstrip("-"), 0), len(words)))]
        if name in {"-np", "-n", "--np", "-c"} and following:
            count = following[0].value
        else:
            left.append(" ".join([name, *(word.raw for word in following)]))
    if left:
        made.notes.append(f"options of mpirun: {' '.join(left)}")
    kept = list(_shape({"ntasks": count} if count else {}, made, resources))
    if kept:
        made.launch["srun"] = kept


def read_apptainer(words: list[Word], made: Launching) -> list[Word]:
    """What runs inside the container; `apptainer exec` becomes [container] where its words are fixed."""
    if [word.value for word in words[:2]] != ["apptainer", "exec"]:
        return words
    rest = [word.value for word in words[2:]]
    found: dict[str, Any] = {"runtime": "apptainer", "mounts": [], "arguments": []}
    while rest and rest[0] is not None and rest[0].startswith("-"):
        name, equals, value = str(rest.pop(0)).partition("=")
        if name in {
            "--nv",
            "-e",
            "--cleanenv",
            "--containall",
            "--contain",
            "-c",
            "--writable-tmpfs",
            "--no-home",
        }:
            found["arguments"] += [] if name == "--nv" else [name]
            continue
        following = value if equals else rest.pop(0) if rest else None
        if following is None:
            return words
        if name in {"-B", "--bind"}:
            found["mounts"] += following.split(",")
        elif name in {"--pwd", "--cwd"}:
            found["workdir"] = following
        else:
            found["arguments"].append(
                f"{name}={following}" if name.startswith("--") else f"{name}{following}"
            )
    if len(rest) < 2 or rest[0] is None:
        return words
    made.container |= {key: value for key, value in found.items() if value} | {"image": rest[0]}
    return words[len(words) - len(rest) + 1 :]
