"""Who got how much against what was meant for them, how even that is, and who was slowed down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.frames import frame_of, with_none
from slurmkit.accounting.moments import END, READY, START, at_moment
from slurmkit.accounting.parts import parts
from slurmkit.accounting.periods import GROUPED_BY_TIME
from slurmkit.accounting.report import Measure, Report, Table
from slurmkit.accounting.schema import OF_SUMS
from slurmkit.accounting.statistics import gini, jain
from slurmkit.errors import SlurmkitError
from slurmkit.slurm import shares as sshare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question
    from slurmkit.slurm.shares import Targets

SHORT = 10
"""Seconds of run time below which a job's slowdown would say nothing of its wait."""

WAITED = f"(greatest({START} - {READY}, 0) // 1000000 + coalesce(suspended, 0))"
SLOWDOWN = f"greatest(({WAITED} + elapsed) / greatest(elapsed, {SHORT}), 1.0)"
"""Bounded slowdown (D. Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, 2001)."""

TARGETED = frozenset({"account", "user"})
"""Groups that have targets."""

PART = ("users", "accounts", "partitions", "qos", "states", "names", "jobs")
"""Fields of a question that leave a part of the cluster's jobs, whose shares have no targets."""

OFF = 1.25
"""A share is said to be off its target from this factor on."""

MEASURES = (
    Measure("jobs", "jobs", "count", "attempts that ran in the window"),
    Measure("gpu_seconds", "GPU-hours", "hours", "GPUs allocated, times the seconds in the window"),
    Measure("cpu_seconds", "CPU-hours", "hours", "CPUs allocated, times the seconds in the window"),
    Measure(
        "share", "share", "share", "of the GPU-hours of all rows; of the CPU-hours where no GPU was used"
    ),
    Measure("target", "target", "share", "of the cluster, by the shares that sshare has now"),
    Measure("of_target", "of target", "ratio", "share / target: below 1 is less than was meant"),
    Measure(
        "slowdown_p50", "slowdown p50", "ratio", "(wait + run) / run of half of the jobs is at most that"
    ),
    Measure("slowdown_p90", "p90", "ratio", "and of nine of ten; of those that ended in the window"),
    Measure("slowdown_mean", "mean", "ratio", "the mean of the same"),
)
EVENNESS = (
    Measure("number", "number", "count", "how many had a job in the window"),
    Measure("gini", "Gini index", "ratio", "0: all have the same; near 1: one has all"),
    Measure("jain", "Jain index", "ratio", "1: all have the same; 1 / number: one has all"),
    Measure("largest", "largest share", "share", "what the first of them had of the whole"),
)


class _Used(NamedTuple):
    column: str
    words: str


def _used(frame: DataFrame) -> _Used:
    return _Used("gpu_seconds", "GPU") if frame["gpu_seconds"].sum() else _Used("cpu_seconds", "CPU")


def _shares(ledger: Ledger, question: Question) -> DataFrame:
    from pandas import Series

    frame = _summed(ledger, question)
    targets = _targets(ledger, question)
    if question.by == ("account",):
        frame = _with_idle(frame, targets)
    column = _used(frame).column
    keys = frame[list(question.by)].itertuples(index=False, name=None)
    frame["target"] = Series([targets.get(key) for key in keys], index=frame.index, dtype="float64")
    frame["share"] = frame[column] / (int(frame[column].sum()) or float("nan"))
    frame["of_target"] = frame["share"] / frame["target"].where(frame["target"] > 0)
    return frame[[*question.by, *(measure.name for measure in MEASURES)]]


def _summed(ledger: Ledger, question: Question) -> DataFrame:
    held = parts(ledger, question)
    ends = at_moment(ledger, question, END, "start_time IS NOT NULL AND is_final")
    by = [f'"{name}"' for name in question.by]
    groups = "".join(f"{name}, " for name in by)
    sums = ", ".join(
        f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in ("jobs", "gpu_seconds", "cpu_seconds")
    )
    order = [*(f'"{name}"' for name in question.by if name in GROUPED_BY_TIME), "gpu_seconds DESC"]
    sql = (
        f"SELECT {groups}{sums}, quantile_disc(slowdown, 0.5) AS slowdown_p50,"
        " quantile_disc(slowdown, 0.9) AS slowdown_p90, favg(slowdown) AS slowdown_mean"
        f" FROM (SELECT {groups}counts AS jobs, gpus * seconds AS gpu_seconds, cpus * seconds AS cpu_seconds,"
        f" NULL AS slowdown FROM ({held.sql}) UNION ALL SELECT {groups}0, 0, 0, {SLOWDOWN} FROM ({ends.sql}))"
        f"{' GROUP BY ' if by else ''}{', '.join(by)} ORDER BY {', '.join([*order, 'cpu_seconds DESC', *by])}"
    )
    return frame_of(ledger, sql, held.values | ends.values, texts=question.by)


def _live_targets() -> Targets | None:
    """What slurmctld has as shares now; None where that cannot be read from here."""
    try:
        return sshare.read_targets()
    except (SlurmkitError, ValueError):
        return None


def _targets(ledger: Ledger, question: Question) -> dict[tuple[str, ...], float]:
    """The target of each group; none where the shares of its rows are not those of one whole cluster."""
    is_part = any(getattr(question, name) for name in PART)
    if is_part or not question.by or not TARGETED.issuperset(question.by):
        return {}
    clusters = ledger.connection.execute("SELECT DISTINCT cluster FROM jobs").fetchall()
    names = {cluster for (cluster,) in clusters if not question.clusters or cluster in question.clusters}
    live = _live_targets() if len(names) == 1 else None
    if live is None:
        return {}
    found: dict[tuple[str, ...], float] = {}
    users = {key[1:]: part for key, part in live.of_users.items() if key[0] in names}
    accounts = {(account, ""): part for (name, account), part in live.of_accounts.items() if name in names}
    for (account, user), part in (users if "user" in question.by else accounts).items():
        group = tuple(account if name == "account" else user for name in question.by)
        found[group] = found.get(group, 0.0) + part
    return found


def _with_idle(frame: DataFrame, targets: Mapping[tuple[str, ...], float]) -> DataFrame:
    """Accounts that have a target and ran nothing have a row too; root is not meant to run jobs."""
    from pandas import DataFrame, concat

    there = set(frame["account"])
    idle = sorted(account for (account,), part in targets.items() if part and account not in {*there, "root"})
    if not idle:
        return frame
    rows = DataFrame({"account": idle} | dict.fromkeys(("jobs", "gpu_seconds", "cpu_seconds"), 0))
    return with_none(concat([frame, rows], ignore_index=True), ("account",))


def _evenness(ledger: Ledger, question: Question) -> DataFrame:
    from pandas import DataFrame

    rows = []
    for name in ("user", "account"):
        frame = _summed(ledger, replace(question, by=(name,)))
        used = _used(frame)
        values = [int(value) for value in frame[used.column]]
        whole = sum(values)
        rows.append(
            (
                f"{name}s",
                f"{used.words}-hours",
                len(values),
                gini(values),
                jain(values),
                max(values) / whole if whole else None,
            )
        )
    frame = DataFrame(rows, columns=["over", "of", *(measure.name for measure in EVENNESS)])
    return frame.astype(dict.fromkeys(("gini", "jain", "largest"), "float64"))


def stands_out(frames: Mapping[str, DataFrame]) -> Sequence[str]:
    """Who is furthest from the target, how even use is, and what is missing."""
    said = []
    if (shares := frames.get("fairness")) is not None:
        said += _off_target(shares)
    if (evenness := frames.get("evenness")) is not None:
        for row in evenness[evenness["gini"].notna()].itertuples(index=False):
            said.append(
                f"{row.of} of {row.number:,} {row.over}: Gini index {row.gini:.2f},"
                f" Jain index {row.jain:.2f}; the first had {row.largest:.1%}."
            )
    return said


def _off_target(shares: DataFrame) -> list[str]:
    aimed = shares[shares["target"] > 0]
    if aimed.empty:
        return [
            "Without targets: they are sshare's on this cluster, of accounts and users, and of all its jobs."
        ]
    keys = list(shares.columns[: list(shares.columns).index("jobs")])
    below, above = (aimed.sort_values("of_target", kind="stable").iloc[end] for end in (0, -1))
    said = []
    for row, way in ((below, "less"), (above, "more")):
        factor = row["of_target"]
        if factor == factor and (factor < 1 / OFF if way == "less" else factor > OFF):  # noqa: PLR0124
            name = ", ".join(str(row[key]) for key in keys)
            said.append(f"{name} had {row['share']:.1%}, {way} than its target of {row['target']:.1%}.")
    return said


REPORT = Report(
    name="fairness",
    summary="Shares against targets, and how even they are.",
    tables=(
        Table("fairness", "Shares and slowdown", MEASURES, _shares),
        Table(
            "evenness",
            "How even use is",
            EVENNESS,
            _evenness,
            is_grouped=False,
            keys=(
                Measure("over", "over", "text", "users or accounts"),
                Measure("of", "of", "text", "what is shared"),
            ),
        ),
    ),
    columns=OF_SUMS,
    stands_out=stands_out,
    default_by=("account",),
    explanation=(
        "Targets are what the shares of all levels of Slurm's accounts make of the cluster, as sshare has "
        "them now: an account's is that of jobs in the account itself. They are shown where the records are "
        "of sshare's own cluster and no jobs were chosen. Slowdown is (wait + run) / run of jobs that ended "
        f"in the window; a run below {SHORT} s counts as {SHORT} s, time suspended as wait."
    ),
)
