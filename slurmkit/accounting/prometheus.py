"""The state of a cluster as Prometheus' text format, for the textfile collector of node exporter.

What is now comes from slurmctld (`live`), what was from the records of jobs (`history`). Names and units as
https://prometheus.io/docs/practices/naming/ asks. All are gauges: figures of a window go down as well as up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.parts import chosen, window_of
from slurmkit.slurm.gres import by_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question
    from slurmkit.slurm.records import Job, Node, Partition

PERCENTILES = (50, 90, 99)
JOB_STATES = ("pending", "running", "ending", "unknown")
"""The kinds of `slurmkit.slurm.states`, without the final one."""
GPU_STATES = ("allocated", "idle", "down")

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """One value, with the labels that tell it from the others of its family."""

    labels: Mapping[str, str]
    value: float


class Family(NamedTuple):
    """A metric: its name says what and in which unit, its help what exactly."""

    name: str
    help: str
    samples: Sequence[Sample]


def exposition(families: Iterable[Family]) -> str:
    """The families as text; one without samples is left out.

    The format is https://prometheus.io/docs/instrumenting/exposition_formats/.
    """
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        told = family.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {family.name} {told}", f"# TYPE {family.name} gauge"]
        lines += [f"{family.name}{_labels(one.labels)} {_number(one.value)}" for one in family.samples]
    return "".join(f"{line}\n" for line in lines)


def live(
    cluster: str, partitions: Sequence[Partition], nodes: Sequence[Node], jobs: Sequence[Job]
) -> list[Family]:
    """Jobs and GPUs as they are now. What is not there is 0: no series ends with the last job."""
    return [
        Family(
            "slurmkit_jobs",
            "Jobs in the queue by partition, each task of an array one. What waits for several stands under "
            "their list.",
            _jobs(cluster, partitions, jobs),
        ),
        Family(
            "slurmkit_gpus",
            "GPUs by type. down: not allocated, on a node that is down or takes no new jobs.",
            _gpus(cluster, nodes),
        ),
        Family(
            "slurmkit_partition_gpus",
            "GPUs by partition and type; states as above. A node counts in each of its partitions.",
            [
                sample
                for name in sorted({name for node in nodes for name in node.partitions})
                for sample in _gpus(
                    cluster, [node for node in nodes if name in node.partitions], partition=name
                )
            ],
        ),
    ]


def history(ledger: Ledger, question: Question) -> list[Family]:
    """How long jobs waited that started in the question's window, and how those ended that ended in it."""
    window = window_of(ledger, question)
    moment = (window.until if ledger.as_of is None else ledger.as_of).timestamp()
    return [
        Family(
            "slurmkit_accounting_window_seconds",
            "How far back the figures of started and ended jobs look.",
            [Sample({}, (window.until - window.since).total_seconds())],
        ),
        Family(
            "slurmkit_accounting_complete_timestamp_seconds",
            "Until when the records of jobs are known, as seconds since 1970.",
            [Sample({}, moment)],
        ),
        *_started(ledger, question),
        *_ended(ledger, question),
    ]


def _started(ledger: Ledger, question: Question) -> list[Family]:
    percentiles = [percent / 100 for percent in PERCENTILES]
    found = _within(
        ledger,
        question,
        f"""SELECT cluster, partition, count(*), quantile_disc(greatest(0,
 epoch(start_time) - epoch(coalesce(eligible_time, submit_time, start_time))), {percentiles})""",
        "start_time",
    )
    labelled = [(_named(cluster=cluster, partition=name), *rest) for cluster, name, *rest in found]
    return [
        Family(
            "slurmkit_started_jobs",
            "Attempts of jobs that started within the window.",
            [Sample(labels, count) for labels, count, _ in labelled],
        ),
        Family(
            "slurmkit_wait_seconds",
            "Time from when a job was eligible to its start: percentiles of those started in the window.",
            [
                Sample({**labels, "percentile": str(percent)}, seconds)
                for labels, _, waited in labelled
                for percent, seconds in zip(PERCENTILES, waited, strict=True)
            ],
        ),
    ]


def _ended(ledger: Ledger, question: Question) -> list[Family]:
    found = _within(
        ledger,
        question,
        "SELECT cluster, partition, lower(state), count(*), coalesce(sum(gpus * elapsed), 0)",
        "end_time",
    )
    labelled = [
        (_named(cluster=cluster, partition=name, state=state), *rest) for cluster, name, state, *rest in found
    ]
    return [
        Family(
            "slurmkit_ended_jobs",
            "Attempts of jobs that ended within the window, by how.",
            [Sample(labels, count) for labels, count, _ in labelled],
        ),
        Family(
            "slurmkit_ended_gpu_seconds",
            "What the attempts that ended within the window had held, from start to end: GPUs times seconds.",
            [Sample(labels, seconds) for labels, _, seconds in labelled],
        ),
    ]


def _within(ledger: Ledger, question: Question, select: str, moment: str) -> list[tuple[Any, ...]]:
    """A SELECT over the question's jobs that have the moment in its window, grouped."""
    window, condition = window_of(ledger, question), chosen(question)
    return ledger.connection.execute(
        f"{select} FROM jobs WHERE {moment} >= $since AND {moment} < $until AND {condition.sql}"
        " GROUP BY ALL ORDER BY ALL",
        {**condition.values, "since": window.since, "until": window.until},
    ).fetchall()


def _named(**labels: str | None) -> dict[str, str]:
    return {name: value or "" for name, value in labels.items()}


def _jobs(cluster: str, partitions: Sequence[Partition], jobs: Sequence[Job]) -> list[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.state.kind != "final":
            tasks = len(job.id.tasks) if job.id.tasks else 1
            counts[job.partition or "", job.state.kind] += tasks
    names = sorted({*(one.name for one in partitions), *(name for name, _ in counts)})
    return [
        Sample({"cluster": cluster, "partition": name, "state": state}, counts[name, state])
        for name in names
        for state in JOB_STATES
    ]


def _gpus(cluster: str, nodes: Iterable[Node], **labels: str) -> list[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    types = set()
    for node in nodes:
        used = by_type(node.gres_used)
        rest = "down" if node.state.is_down or node.state.is_drained else "idle"
        for kind, total in by_type(node.gres).items():
            types.add(kind)
            allocated = min(used.get(kind, 0), total)
            counts[kind, "allocated"] += allocated
            counts[kind, rest] += total - allocated
    return [
        Sample({"cluster": cluster, **labels, "type": kind, "state": state}, counts[kind, state])
        for kind in sorted(types)
        for state in GPU_STATES
    ]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
