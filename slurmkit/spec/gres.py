"""Generic resources: what was asked for, and how many GPUs and tasks that makes where it is determined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from slurmkit.spec.units import parse_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.spec.model import JobSpec, OptionValue

GRES_FORMS: Final = "`gpu:4`, `gpu:a100:4`, `gpu:1g.10gb:2`, `shard:2` or `mps:50`"
GPU_FORMS: Final = "`4`, `a100:4` or `1g.10gb:2`"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_TYPE: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]+[KMGTPkmgtp]?", re.ASCII)


class Gres(msgspec.Struct, frozen=True):
    """So many of one resource, of one type or of any."""

    name: str
    type: str | None
    count: int

    def __str__(self) -> str:
        """Slurm's own form: `gpu:a100:4`."""
        return ":".join(part for part in (self.name, self.type, str(self.count)) if part)


def parse_gres(value: str) -> tuple[Gres, ...]:
    """Read `--gres`: `gpu:a100:4,shard:2`. A count is 1 where none is given; k multiplies by 1024.

    Raises:
        ValueError: names the part that is wrong.
    """
    return tuple(
        _gres(part.strip(), part.strip().replace("=", ":").split(":"), GRES_FORMS)
        for part in value.split(",")
    )


def parse_gpus(value: str | int) -> tuple[Gres, ...]:
    """Read `--gpus` and its kin: `4`, `a100:4`, `a100:2,v100:2`.

    Raises:
        ValueError: names the part that is wrong.
    """
    parts = (part.strip() for part in str(value).split(","))
    return tuple(_gres(part, ["gpu", *part.replace("=", ":").split(":")], GPU_FORMS) for part in parts)


def _gres(text: str, words: list[str], forms: str) -> Gres:
    name, *rest = words
    count = 1
    if rest and _COUNT.fullmatch(rest[-1]):
        count = parse_count(rest.pop())
    kind = rest.pop() if rest else None
    if rest or not _NAME.fullmatch(name) or (kind is not None and not _TYPE.fullmatch(kind)):
        raise ValueError(f"`{text}` is not a resource request; write {forms}")
    return Gres(name, kind, count)


def format_gpus(gpus: Iterable[Gres]) -> str:
    """Slurm's own form for `--gpus` and its kin: `a100:4`."""
    return ",".join(str(one).removeprefix("gpu:") for one in gpus)


def parse_tres(value: str) -> dict[str, int | str]:
    """Read `--tres-per-task`: `cpu=4,gres/gpu:a100=1`, or the older `gres:gpu:1`; names to counts.

    Raises:
        ValueError: names the part that is wrong.
    """
    counts: dict[str, int | str] = {}
    for part in (part.strip() for part in value.split(",")):
        if part.startswith(("gres:", "gres/")):
            gres = parse_gres(part[5:])[0]
            counts["gres/" + ":".join(word for word in (gres.name, gres.type) if word)] = gres.count
            continue
        name, separator, count = part.replace(":", "=", 1).partition("=")
        if not separator or not re.fullmatch(r"[A-Za-z]+(?:/[A-Za-z0-9_.:-]+)?", name):
            raise ValueError(f"`{part}` is not a resource of a task; write `cpu=4` or `gres/gpu=1`")
        if name in {"mem", "energy", "node", "billing", "fs", "vmem", "pages", "bb"}:
            raise ValueError(f"`{name}` cannot be asked for by task; Slurm refuses it")
        counts[name] = parse_count(count)
    return counts


class GpuCount(msgspec.Struct, frozen=True):
    """GPUs (or MIG slices) of a job as far as the job file determines them; None where it leaves them open.

    `text` says in a few words where the numbers come from; it is empty where no GPU is asked for.
    """

    per_node: int | None = None
    total: int | None = None
    types: Mapping[str, int] = {}
    """By type, in the unit of the request (a node, a task, the job); untyped GPUs have no entry."""
    text: str = ""

    def __bool__(self) -> bool:
        """Whether GPUs are asked for at all."""
        return bool(self.text)


class Tasks(msgspec.Struct, frozen=True):
    """Tasks of the step as far as they are determined: in all, and on each node."""

    ntasks: int | None = None
    per_node: int | None = None


_MAY_NEED_NODES: Final = ("ntasks", "gpus", "nodelist", "nodefile", "constraint", "distribution")
GPU_OPTIONS: Final = ("gpus_per_node", "gres", "gpus_per_task", "tres_per_task", "gpus_per_socket", "gpus")


def requested_gpus(resources: Mapping[str, OptionValue], option: str) -> tuple[Gres, ...]:
    """The GPUs that one option of [resources] asks for, in that option's own unit."""
    value = resources.get(option)
    if value is None or isinstance(value, bool):
        return ()
    if option == "gres":
        return tuple(one for one in parse_gres(str(value)) if one.name == "gpu")
    if option == "tres_per_task":
        return tuple(
            Gres("gpu", name.partition(":")[2] or None, int(count))
            for name, count in parse_tres(str(value)).items()
            if name == "gres/gpu" or name.startswith("gres/gpu:")
        )
    return parse_gpus(value)


def node_count(resources: Mapping[str, OptionValue]) -> int | None:
    """The number of nodes where it is one number: as stated, or 1 where nothing else could ask for more."""
    nodes = resources.get("nodes")
    if nodes is None and not any(option in resources for option in _MAY_NEED_NODES):
        return 1
    return nodes if isinstance(nodes, int) else None


def gpu_count(spec: JobSpec) -> GpuCount:
    """The GPUs of a job per node and in total, where the job file determines them."""
    resources = spec.resources
    for option in GPU_OPTIONS:
        asked = requested_gpus(resources, option)
        count = sum(one.count for one in asked)
        if count:
            break
    else:
        return GpuCount()
    nodes = node_count(resources)
    per_node, total = _spread(option, count, spec)
    if per_node is not None and total is None and nodes is not None:
        total = per_node * nodes
    if total is None and (whole := requested_gpus(resources, "gpus")):
        total = sum(one.count for one in whole)
    if total is not None and per_node is None and nodes == 1:
        per_node = total
    types: dict[str, int] = {}
    for one in asked:
        if one.type:
            types[one.type] = types.get(one.type, 0) + one.count
    return GpuCount(per_node, total, types, f"{option} = {resources[option]}")


def _spread(option: str, count: int, spec: JobSpec) -> tuple[int | None, int | None]:
    """GPUs per node and in total that `count` by that option makes."""
    resources = spec.resources
    if option in {"gpus_per_node", "gres"}:
        return count, None
    if option in {"gpus_per_task", "tres_per_task"}:
        per_node = _stated_per_node(spec)
        ntasks = resources.get("ntasks")
        return (
            None if per_node is None else count * per_node,
            count * ntasks if isinstance(ntasks, int) else None,
        )
    if option == "gpus_per_socket":
        sockets = resources.get("sockets_per_node")
        return (count * sockets if isinstance(sockets, int) else None), None
    return None, count


def _stated_per_node(spec: JobSpec) -> int | None:
    """Tasks on each node where they are stated as a number."""
    for value in (spec.launch.ntasks_per_node, spec.resources.get("ntasks_per_node")):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def tasks(spec: JobSpec) -> Tasks:
    """Tasks of the step: as stated, one for each GPU where GPUs are asked for, else one on each node.

    With `launcher = "torchrun"` there is one task on each node, which starts the ranks.
    """
    resources = spec.resources
    nodes = node_count(resources)
    stated = resources.get("ntasks")
    ntasks = stated if isinstance(stated, int) else None
    per_node = 1 if spec.launch.launcher == "torchrun" else _stated_per_node(spec)
    if per_node is None and (ntasks is None or spec.launch.ntasks_per_node == "gpu"):
        per_node, ntasks = _one_per_gpu(spec, ntasks)
    if ntasks is None and per_node is not None and nodes is not None:
        ntasks = per_node * nodes
    if per_node is None and nodes == 1:
        per_node = ntasks
    return Tasks(ntasks, per_node)


def _one_per_gpu(spec: JobSpec, ntasks: int | None) -> tuple[int | None, int | None]:
    """Tasks per node and in all where nothing but the GPUs says how many."""
    resources = spec.resources
    gpus = gpu_count(spec)
    if not gpus:
        return 1, ntasks
    for_each = resources.get("ntasks_per_gpu", resources.get("ntasks_per_tres", 1))
    factor = for_each if isinstance(for_each, int) else 1
    per_node = None if gpus.per_node is None else gpus.per_node * factor
    total = None if gpus.total is None else gpus.total * factor
    return per_node, ntasks if ntasks is not None else total
