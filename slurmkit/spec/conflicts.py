"""What contradicts what in a job file: pairs of options in one table, and sums that do not come out.

Facts from the checks that sbatch makes of its options (22.05 to 26.05). What Slurm would let pass in silence,
by dropping one of the two, is an error here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmkit.spec import patterns, units
from slurmkit.spec.gres import gpu_count, node_count, requested_gpus, tasks
from slurmkit.spec.mesh import mesh_problems
from slurmkit.spec.problems import KeyPath, Problem, dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from slurmkit.spec.model import JobSpec

_MEMORY: Final = "each says how much memory the job gets, and Slurm takes one of them"
_PER_GPU: Final = "GPUs by task and tasks by GPU say the same thing from both ends"
_HINT: Final = "a hint stands for a choice of cores and threads, and is dropped where they are chosen"

PAIRS: Final = (
    ("mem", "mem_per_cpu", _MEMORY),
    ("mem", "mem_per_gpu", _MEMORY),
    ("mem_per_cpu", "mem_per_gpu", _MEMORY),
    ("exclusive", "oversubscribe", "nodes are either shared or not"),
    ("requeue", "no_requeue", "the job may be requeued or may not"),
    ("core_spec", "thread_spec", "the system's share is counted in cores or in threads"),
    ("cpus_per_task", "cpus_per_gpu", "CPUs are counted by task or by GPU"),
    ("ntasks_per_gpu", "ntasks_per_tres", "both are tasks by GPU"),
    ("ntasks_per_gpu", "gpus_per_task", _PER_GPU),
    ("ntasks_per_gpu", "tres_per_task", _PER_GPU),
    ("ntasks_per_gpu", "gpus_per_socket", "tasks by GPU need GPUs by node or in all"),
    ("ntasks_per_gpu", "ntasks_per_node", "tasks are counted by GPU or by node"),
    ("cpus_per_task", "ntasks_per_gpu", "since Slurm 23.11 srun refuses the two together; use cpus_per_gpu"),
    ("hint", "ntasks_per_core", _HINT),
    ("hint", "threads_per_core", _HINT),
    ("hint", "extra_node_info", _HINT),
    ("hint", "cores_per_socket", _HINT),
    ("hint", "sockets_per_node", _HINT),
    ("spread_segments", "consolidate_segments", "segments are spread or put together"),
    ("export", "export_file", "each says which variables the job sees"),
)
"""Options of which one alone may stand in [resources], and why."""

WORKS_ONLY_WITH_GPUS: Final = ("cpus_per_gpu", "mem_per_gpu", "ntasks_per_gpu", "gpu_bind", "gpu_freq")


def pair_conflicts(resources: Mapping[str, object]) -> list[Problem]:
    """Options of [resources] that exclude each other; values need not be sound for it."""
    return [
        _contradiction(("resources", second), ("resources", first), why)
        for first, second, why in PAIRS
        if resources.get(first, False) is not False and resources.get(second, False) is not False
    ]


def conflicts(spec: JobSpec) -> list[Problem]:
    """All that does not come out in a spec whose every value is sound by itself."""
    return [problem for rule in _RULES for problem in rule(spec)]


def _contradiction(path: KeyPath, also: KeyPath, why: str) -> Problem:
    return Problem(path, f"{dotted(path)} contradicts {dotted(also)}: {why}", at="key", also=also)


def _resource(name: str) -> KeyPath:
    return ("resources", name)


def _tasks_twice(spec: JobSpec) -> Iterator[Problem]:
    resources, launch = spec.resources, spec.launch
    for option in ("ntasks_per_node", "ntasks_per_gpu"):
        if launch.ntasks_per_node is not None and option in resources:
            yield _contradiction(
                ("launch", "ntasks_per_node"),
                _resource(option),
                "tasks are counted in one place; keep one of them",
            )


def _torchrun(spec: JobSpec) -> Iterator[Problem]:
    if spec.launch.launcher != "torchrun":
        return
    why = "torchrun starts the ranks of a node itself, so there is exactly one task on each node"
    launcher: KeyPath = ("launch", "launcher")
    if spec.launch.ntasks_per_node not in {None, 1}:
        yield _contradiction(("launch", "ntasks_per_node"), launcher, why)
    for option in ("ntasks_per_node", "ntasks_per_gpu"):
        if option in spec.resources and (option == "ntasks_per_gpu" or spec.resources[option] != 1):
            yield _contradiction(_resource(option), launcher, why)
    nodes, ntasks = node_count(spec.resources), spec.resources.get("ntasks")
    if isinstance(ntasks, int) and ntasks != nodes and spec.resources.get("nodes") is not None:
        yield _contradiction(_resource("ntasks"), launcher, why)


def _nodes_and_tasks(spec: JobSpec) -> Iterator[Problem]:
    resources = spec.resources
    ntasks = resources.get("ntasks")
    if not isinstance(ntasks, int) or "nodes" not in resources:
        return
    text = str(resources["nodes"])
    if "," in text or ":" in text:
        return
    least, _, most = text.partition("-")
    lowest, highest = int(least), int(most or least)
    if ntasks < lowest:
        why = f"{ntasks} tasks cannot be on {lowest} nodes; Slurm would take fewer nodes"
        yield _contradiction(_resource("ntasks"), _resource("nodes"), why)
        return
    place: KeyPath = ("launch", "ntasks_per_node")
    if spec.launch.ntasks_per_node is None:
        place = _resource("ntasks_per_node")
    per_node = tasks(spec).per_node
    stated = spec.launch.ntasks_per_node is not None or "ntasks_per_node" in resources
    if not stated or per_node is None or spec.launch.launcher == "torchrun":
        return
    if ntasks % per_node or not lowest * per_node <= ntasks <= highest * per_node:
        makes = _times(lowest, highest, per_node)
        why = f"{per_node} on each of {text} nodes makes {makes} tasks, not {ntasks}"
        yield _contradiction(_resource("ntasks"), place, why)


def _times(lowest: int, highest: int, factor: int) -> str:
    return f"{lowest * factor}" if lowest == highest else f"{lowest * factor} to {highest * factor}"


def _gpus_by_task(spec: JobSpec) -> Iterator[Problem]:
    resources = spec.resources
    for option in ("gpus_per_task", "tres_per_task"):
        if requested_gpus(resources, option) and not (
            {"ntasks", "ntasks_per_node", "gpus"} & resources.keys()
            or isinstance(spec.launch.ntasks_per_node, int)
        ):
            right = "add `ntasks`, or `ntasks_per_node` in [launch], or `gpus`; or ask with `gpus_per_node`"
            yield Problem(
                _resource(option),
                f"resources.{option} needs a number of tasks, and none is given",
                right,
                at="key",
            )
    if "gpus_per_socket" in resources and "sockets_per_node" not in resources:
        yield Problem(
            _resource("gpus_per_socket"),
            "resources.gpus_per_socket needs the number of sockets",
            "add `sockets_per_node`, or ask with `gpus_per_node`",
            at="key",
        )


def _gpu_totals(spec: JobSpec) -> Iterator[Problem]:
    resources = spec.resources
    asked = {
        name: sum(gres.count for gres in requested_gpus(resources, name))
        for name in ("gpus", "gpus_per_node", "gres", "gpus_per_task")
    }
    if asked["gpus_per_node"] and asked["gres"]:
        yield _contradiction(
            _resource("gres"), _resource("gpus_per_node"), "both ask for the GPUs of each node; keep one"
        )
    nodes = node_count(resources)
    here = tasks(spec)
    for_each_node = "gpus_per_node" if asked["gpus_per_node"] else "gres"
    per_node, total, per_task = asked[for_each_node], asked["gpus"], asked["gpus_per_task"]
    if total and per_node and nodes and total != per_node * nodes:
        why = f"{per_node} on each of {nodes} nodes makes {per_node * nodes} GPUs, not {total}"
        yield _contradiction(_resource("gpus"), _resource(for_each_node), why)
    stated = (
        "ntasks" in resources or spec.launch.ntasks_per_node is not None or "ntasks_per_node" in resources
    )
    if not per_task or not stated or spec.launch.launcher == "torchrun":
        return
    if total and here.ntasks and per_task * here.ntasks != total:
        why = f"{per_task} for each of {here.ntasks} tasks makes {per_task * here.ntasks} GPUs, not {total}"
        yield _contradiction(_resource("gpus_per_task"), _resource("gpus"), why)
    if per_node and here.per_node and per_task * here.per_node != per_node:
        makes = per_task * here.per_node
        why = f"{per_task} for each of {here.per_node} tasks makes {makes} GPUs on a node, not {per_node}"
        yield _contradiction(_resource("gpus_per_task"), _resource(for_each_node), why)


def _one_task_per_gpu(spec: JobSpec) -> Iterator[Problem]:
    if spec.launch.ntasks_per_node != "gpu" or spec.launch.launcher == "torchrun":
        return
    gpus = gpu_count(spec)
    what = None
    if not gpus:
        what = "no GPUs are asked for"
    elif gpus.per_node is None and gpus.total is None:
        what = f"`{gpus.text}` does not say how many GPUs a node has"
    if what:
        yield Problem(
            ("launch", "ntasks_per_node"), f'launch.ntasks_per_node = "gpu", but {what}',
            "add `gpus_per_node` in [resources], or write a number here",
        )  # fmt: skip


def _without_gpus(spec: JobSpec) -> Iterator[Problem]:
    if not gpu_count(spec):
        for option in WORKS_ONLY_WITH_GPUS:
            if option in spec.resources:
                yield Problem(
                    _resource(option), f"resources.{option} counts by GPU, and no GPUs are asked for",
                    "add `gpus_per_node`, or leave it out", at="key",
                )  # fmt: skip


def _times_fit(spec: JobSpec) -> Iterator[Problem]:
    limit = _seconds(spec, "time")
    least = _seconds(spec, "time_min")
    if limit is not None and least is not None and least > limit:
        yield _contradiction(
            _resource("time_min"), _resource("time"), "the least time is longer than the limit"
        )
    if limit is not None and spec.checkpoint is not None:
        lead = units.parse_duration(spec.checkpoint.lead_time)
        if lead >= limit:
            why = f"a signal {spec.checkpoint.lead_time} before the end would come before the start"
            yield _contradiction(("checkpoint", "lead_time"), _resource("time"), why)


def _seconds(spec: JobSpec, option: str) -> int | None:
    value = spec.resources.get(option)
    return units.parse_time(value) if isinstance(value, str) else None


def _segments(spec: JobSpec) -> Iterator[Problem]:
    segment, nodes = spec.resources.get("segment"), spec.resources.get("nodes")
    if isinstance(segment, int) and isinstance(nodes, int) and nodes > segment and nodes % segment:
        why = f"{nodes} nodes cannot be cut into segments of {segment}"
        yield _contradiction(_resource("segment"), _resource("nodes"), why)


def _log_names(spec: JobSpec) -> Iterator[Problem]:
    for option in ("output", "error", "input"):
        pattern = spec.resources.get(option)
        if isinstance(pattern, str):
            wrong = patterns.check(
                pattern, name=spec.name, array="array" in spec.resources and option != "input"
            )
            if wrong:
                yield Problem(_resource(option), f"resources.{option}: {wrong}")


_RULES: Final[tuple[Callable[[JobSpec], Iterator[Problem]], ...]] = (
    _tasks_twice,
    _torchrun,
    _nodes_and_tasks,
    _gpus_by_task,
    _gpu_totals,
    _one_task_per_gpu,
    _without_gpus,
    _times_fit,
    _segments,
    _log_names,
    mesh_problems,
)
