"""`#SBATCH` lines: which options a job has, and which of them a line can carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import UsageError
from slurmkit.script.quoting import directive_quoted
from slurmkit.script.step import counts_by_gpu
from slurmkit.spec.gres import format_gpus, node_count, parse_gpus, tasks
from slurmkit.spec.options import OPTIONS
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.spec.model import Checkpoint, JobSpec, OptionValue

LONGEST_WARNING = 65535
"""Seconds; Slurm takes no more."""


class Directives(NamedTuple):
    """What stands in the script, and what can stand only on sbatch's command line."""

    lines: tuple[str, ...]
    arguments: tuple[str, ...]


def directives(spec: JobSpec, *, log: Path, run_id: str, warns: str | None = None) -> Directives:
    """The options of a job in the order of the table, its name first; `log` is the folder of the batch log.

    `warns` is whom Slurm signals before the time limit: `batch`, as the agent is there to see to it, `steps`,
    as nobody else does, or None.

    Raises:
        UsageError: the job cannot be asked for like this; says why.
    """
    values = job_options(spec, log=log, run_id=run_id, warns=warns)
    lines = []
    arguments = []
    for flag, value in [("--job-name", spec.name), *_spelled(values)]:
        # A line break ends a directive, whatever quotes stand around it.
        if "\n" in str(value):
            arguments.append(f"{flag}={value}")
        else:
            lines.append(flag if value is True else f"{flag}={directive_quoted(str(value))}")
    return Directives(tuple(lines), tuple(arguments))


def _spelled(values: dict[str, OptionValue]) -> list[tuple[str, OptionValue]]:
    return [(option.flag_text, values[option.name]) for option in OPTIONS if option.name in values]


def job_options(spec: JobSpec, *, log: Path, run_id: str, warns: str | None = None) -> dict[str, OptionValue]:
    """Options of sbatch by name: the job file's, and those that slurmkit adds to them."""
    values = dict(spec.resources)
    if spec.spare_nodes:
        _add_spares(spec, values)
    else:
        values |= _tasks(spec)
    if "ntasks" not in values and str(values.get("distribution", "")).startswith("plane"):
        # From 24.11 sbatch takes no plane unless it hears how many tasks there are; srun gets it anyway.
        del values["distribution"]
    if "output" not in values:
        values["output"] = _batch_log(log, is_array="array" in values)
    # A requeued job would otherwise overwrite the log of the attempt that failed.
    values.setdefault("open_mode", "append")
    if (spec.checkpoint or spec.retry) and "no_requeue" not in values:
        values.setdefault("requeue", True)
    if warns is not None and spec.checkpoint is not None:
        values.setdefault("signal", _warning(spec.checkpoint, warns))
    comment = values.get("comment")
    values["comment"] = f"{comment} slurmkit:{run_id}" if comment else f"slurmkit:{run_id}"
    return values


def _warning(checkpoint: Checkpoint, whom: str) -> str:
    """The signal that asks for a checkpoint, so long before the limit; it reaches one of the two."""
    lead = min(parse_duration(checkpoint.lead_time), LONGEST_WARNING)
    return f"{'B:' if whom == 'batch' else ''}{checkpoint.signal}@{lead}"


def _tasks(spec: JobSpec) -> dict[str, OptionValue]:
    """How many tasks, where that is neither stated by an option nor Slurm's default of one on each node."""
    wanted = tasks(spec)
    stated = {"ntasks", "ntasks_per_node", "ntasks_per_gpu", "ntasks_per_tres"} & spec.resources.keys()
    if stated and spec.launch.ntasks_per_node is None:
        return {}
    if wanted.per_node is not None:
        return {} if wanted.per_node == 1 and not stated else {"ntasks_per_node": wanted.per_node}
    return {} if wanted.ntasks is None else {"ntasks": wanted.ntasks}


def _batch_log(folder: Path, *, is_array: bool) -> str:
    if "\\" in str(folder):
        raise UsageError(
            "Slurm expands no job id where a directory's name has a backslash: the job would have no log",
            where=str(folder),
            hint="take the backslash out of the name, or set `output` in [resources]",
        )
    return f"{str(folder).replace('%', '%%')}/{'%A_%a' if is_array else '%j'}.out"


def _add_spares(spec: JobSpec, values: dict[str, OptionValue]) -> None:
    """Ask for the spare nodes as well. All nodes are alike: what is counted in all is counted by node."""
    nodes = node_count(spec.resources)
    wanted = tasks(spec)
    if nodes is None:
        raise UsageError("spare_nodes needs `nodes` as one number", hint="write `nodes = 4`, not a range")
    if wanted.per_node is None and wanted.ntasks is None:
        raise UsageError("spare_nodes needs a number of tasks", hint="add `ntasks_per_node`")
    values["nodes"] = nodes + spec.spare_nodes
    values.setdefault("no_kill", True)
    values.pop("ntasks", None)
    if not counts_by_gpu(spec):
        values["ntasks_per_node"] = wanted.per_node or -(-(wanted.ntasks or 0) // nodes)
    asked = values.pop("gpus", None)
    if asked is not None and "gpus_per_node" not in values:
        counts = parse_gpus(str(asked))
        if any(one.count % nodes for one in counts):
            raise UsageError(
                f"`gpus = {asked}` does not divide by {nodes} nodes, and the spares must be like them",
                hint="ask with `gpus_per_node`",
            )
        shares = (type(one)(one.name, one.type, one.count // nodes) for one in counts)
        values["gpus_per_node"] = format_gpus(shares)
