"""A generated trace: job records as sacct prints them, and what is true of them.

`python -m tests.bench.trace --jobs 1000000 --seed 1 --days 365 > dump`. The same seed gives the same bytes.
Everything that is known to break readers of dumps is in it, seldom.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.bench import trace_cluster
from tests.bench.trace_cluster import CLASSES, PARTITIONS, SHAPES, Lanes

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.bench.trace_cluster import Ints

    Flags = npt.NDArray[np.bool_]

BEGIN = 1_735_689_600
"""2025-01-01 in UTC."""
DAY = 86_400
PAUSE = 121
"""Seconds after which Slurm starts a requeued job again, at the earliest."""
LIMITS = np.array([600, 3600, 14_400, 43_200, DAY, 2 * DAY, 7 * DAY])
FAILURE_RATE = 6.5e-3
"""Nodes lost per node-day, as on Meta's larger cluster (arXiv 2410.21680)."""
STATES = (
    "PENDING",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REQUEUED",
)
(PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, PREEMPTED, REQUEUED) = (
    range(10)
)
ENDS = {COMPLETED: 0.66, FAILED: 0.23, CANCELLED: 0.08, TIMEOUT: 0.02, OUT_OF_MEMORY: 0.01}


class Used(NamedTuple):
    """What the attempts of somebody used, in seconds; runaways are left out."""

    started: int
    cpu: int
    gpu: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Attempts, one in each position of every array, in the order of their jobs' submission."""

    now: int
    lanes: Lanes
    job: Ints
    """Number of the job: attempts of one job share it. `array` and `het` are that of the first, or 0."""
    array: Ints
    task: Ints
    het: Ints
    code: Ints
    """Which of CLASSES."""
    lane: Ints
    user: Ints
    account: Ints
    name: Ints
    memory: Ints
    """0 to 3: an eighth, a quarter, a half or all of what its slots have."""
    submit: Ints
    start: Ints
    """0 for an attempt that never started; `end` for one that has not ended."""
    end: Ints
    elapsed: Ints
    suspended: Ints
    limit: Ints
    """Seconds; -1 for UNLIMITED."""
    state: Ints
    runaway: Ints

    def __len__(self) -> int:
        return len(self.job)


COLUMNS = tuple(field.name for field in fields(Trace) if field.name not in {"now", "lanes"})


def generate(jobs: int, *, seed: int = 1, days: int = 365) -> Trace:
    """So many attempts of jobs, submitted within so many days from `BEGIN`.

    Tasks of an array that still wait at the end share one record: there may be some fewer.
    """
    random = np.random.default_rng(seed)
    attempts = 1 + (random.random(jobs) < 0.05) * random.geometric(0.6, jobs)
    count = int(np.searchsorted(np.cumsum(attempts), jobs)) + 1
    attempts = attempts[:count]
    attempts[-1] -= int(attempts.sum()) - jobs
    now = BEGIN + days * DAY
    index = np.arange(count)
    head = _heads(random, count)
    submit = _arrivals(random, count, days)[head]
    code = _codes(random, count)[head]
    duration = _durations(random, code)
    ends = random.choice(list(ENDS), size=count, p=list(ENDS.values()))
    in_queue = (ends == CANCELLED) & (random.random(count) < 0.4)
    attempts = np.where(in_queue, 1, attempts)
    limit = LIMITS[
        np.minimum(np.searchsorted(LIMITS, duration * random.uniform(1, 6, count)), len(LIMITS) - 1)
    ]
    duration = np.where(ends == TIMEOUT, limit + random.integers(0, 30, count), np.minimum(duration, limit))
    duration = np.maximum(duration, attempts)
    suspended = np.where(random.random(count) < 2e-4, random.integers(5, 7200, count), 0)
    occupied = np.where(in_queue, 0, duration + suspended + (attempts - 1) * PAUSE)
    lanes = trace_cluster.build(trace_cluster.lanes_needed(code, occupied, days * DAY), random)
    started = ~in_queue
    start, lane = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    start[started], lane[started] = trace_cluster.schedule(
        code[started], submit[started], occupied[started], lanes
    )
    ends = np.where(started & _hit(random, code, duration, lane, lanes), NODE_FAIL, ends)
    users = max(20, min(5000, count // 1500))
    user = _zipf(random, users, count)[head]
    return _attempts(
        random, now, lanes, attempts,
        {
            "job": 1_000_000 + index, "array": np.where(_grouped(head), 1_000_000 + head, 0),
            "task": index - head,
            "het": _het(random, head), "code": code, "lane": lane, "user": user,
            "account": _accounts(random, users, user)[head], "name": random.integers(0, 1 << 30, count)[head],
            "memory": random.choice(4, size=count, p=[0.2, 0.4, 0.3, 0.1])[head], "submit": submit,
            "start": np.where(in_queue, 0, start), "duration": duration, "suspended": suspended,
            "limit": limit, "ends": ends,
        },
    )  # fmt: skip


def _arrivals(random: np.random.Generator, count: int, days: int) -> Ints:
    """Sorted moments: few at night and at weekends, many in the afternoon."""
    hours = np.arange(days * 24)
    by_hour = 1 + 0.8 * np.sin((hours % 24 - 9) * np.pi / 12)
    # 2025 began on a Wednesday.
    by_day = np.where((hours // 24 + 2) % 7 >= 5, 0.45, 1.0)
    done = np.concatenate([[0.0], np.cumsum(by_hour * by_day)])
    drawn = np.sort(random.random(count)) * done[-1]
    moments: Ints = np.interp(drawn, done, np.arange(len(done)) * 3600.0).astype(np.int64)
    return BEGIN + moments


def _heads(random: np.random.Generator, count: int) -> Ints:
    """For each job the first of its array, itself outside arrays: a third of all are tasks of arrays."""
    heads = np.flatnonzero(random.random(count) < 0.01)
    ends = np.minimum(heads + random.geometric(1 / 40, len(heads)), count)
    head = np.arange(count)
    for first, end in zip(heads.tolist(), ends.tolist(), strict=True):
        head[first:end] = head[first]
    return head


def _grouped(head: Ints) -> Flags:
    """Whether a job is one of several with the same head."""
    sizes: Ints = np.bincount(head, minlength=len(head))
    return sizes[head] > 1


def _codes(random: np.random.Generator, count: int) -> Ints:
    shares = np.array([partition.share for partition in PARTITIONS])
    weights = np.array([shape.weight for shape in SHAPES])
    partition = random.choice(len(PARTITIONS), size=count, p=shares / shares.sum())
    return partition * len(SHAPES) + random.choice(len(SHAPES), size=count, p=weights / weights.sum())


def _durations(random: np.random.Generator, code: Ints) -> Ints:
    shape = code % len(SHAPES)
    middle = np.log([one.median for one in SHAPES])[shape]
    spread = np.array([one.sigma for one in SHAPES])[shape]
    drawn = np.exp(middle + random.standard_normal(len(code)) * spread)
    seconds: Ints = np.clip(drawn, 1, 7 * DAY).astype(np.int64)
    return seconds


def _hit(random: np.random.Generator, code: Ints, duration: Ints, lane: Ints, lanes: Lanes) -> Flags:
    """Whether a node was lost under a job: by chance, or as it is one of those that often are."""
    nodes = np.array([one.nodes for one in CLASSES])[code]
    risk = 1 - np.exp(-nodes * duration / DAY * FAILURE_RATE)
    hit: Flags = random.random(len(code)) < np.maximum(risk, lanes.faulty[lane] * 0.2)
    return hit


def _zipf(random: np.random.Generator, kinds: int, count: int) -> Ints:
    weights = 1 / np.arange(1, kinds + 1) ** 1.1
    return random.choice(kinds, size=count, p=weights / weights.sum())


def _accounts(random: np.random.Generator, users: int, user: Ints) -> Ints:
    """A user's jobs are charged to one account, and one of twenty to a second."""
    accounts = max(5, users // 12)
    first, second = random.integers(0, accounts, users), random.integers(0, accounts, users)
    return np.where(random.random(len(user)) < 0.05, second[user], first[user])


def _het(random: np.random.Generator, head: Ints) -> Ints:
    """The first number of a heterogeneous job, for it and the job after it. Both queue by themselves."""
    count = len(head)
    alone = ~_grouped(head)
    firsts = np.flatnonzero((random.random(count - 1) < 2e-4) & alone[:-1] & alone[1:])
    firsts = firsts[np.diff(firsts, prepend=-2) > 1]
    het = np.zeros(count, dtype=np.int64)
    het[firsts] = het[firsts + 1] = 1_000_000 + firsts
    return het


def _attempts(
    random: np.random.Generator, now: int, lanes: Lanes, attempts: Ints, jobs: dict[str, Ints]
) -> Trace:
    """Each job's time on its lane cut into its attempts; what would be after `now` has not happened."""
    of = np.repeat(np.arange(len(attempts)), attempts)
    first = np.concatenate([[0], np.cumsum(attempts)[:-1]])
    number = np.arange(len(of)) - first[of]
    all_of = {name: values[of] for name, values in jobs.items()}
    last = number == attempts[of] - 1
    share = all_of["duration"] // attempts[of]
    elapsed = np.where(last, all_of["duration"] - share * (attempts[of] - 1), share)
    suspended = np.where(last, all_of["suspended"], 0)
    never = all_of["start"] == 0
    start = np.where(never, 0, all_of["start"] + number * (share + PAUSE))
    end = np.where(never, all_of["submit"] + random.integers(1, 36_000, len(of)), start + elapsed + suspended)
    before = random.choice([PREEMPTED, REQUEUED, NODE_FAIL], size=len(of), p=[0.6, 0.3, 0.1])
    state = np.where(last, all_of["ends"], before)
    submit = np.where(number == 0, all_of["submit"], start - PAUSE + 1)
    pending = (never & (end > now)) | (start >= now)
    running = ~pending & ~never & (end > now)
    # slurmdbd never heard of their end: they have long been over, and would run for ever.
    old = ~pending & ~running & ~never & last & (start < now - 9 * DAY - all_of["limit"])
    runaway = old & (random.random(len(of)) < max(1e-5, 8 / len(of)))
    limit = np.where((random.random(len(of)) < 2e-3) & ~runaway, -1, all_of["limit"])
    suspended = np.where(pending | runaway | (running & (start + suspended > now)), 0, suspended)
    elapsed = np.where(runaway, now - start, np.where(running, now - start - suspended, elapsed))
    over = running | runaway
    columns = all_of | {
        "submit": submit,
        "start": np.where(pending, 0, start),
        "end": np.where(pending | over, 0, end),
        "elapsed": np.where(pending | never, 0, elapsed),
        "suspended": suspended,
        "limit": limit,
        "state": np.where(pending, PENDING, np.where(over, RUNNING, state)),
        "runaway": runaway.astype(np.int64),
    }
    del columns["duration"], columns["ends"]
    happened = submit < now
    return Trace(now=now, lanes=lanes, **{name: values[happened] for name, values in columns.items()})


def truth(trace: Trace) -> dict[tuple[str, str], Used]:
    """By (account, user): what was used. Added up in plain Python, without any dump between."""
    started: dict[tuple[int, int], int] = {}
    cpu: dict[tuple[int, int], int] = {}
    gpu: dict[tuple[int, int], int] = {}
    cpus, gpus = [one.cpus for one in CLASSES], [one.gpus for one in CLASSES]
    columns = (trace.account, trace.user, trace.code, trace.start, trace.elapsed, trace.runaway)
    for account, user, code, start, elapsed, runaway in zip(*(one.tolist() for one in columns), strict=True):
        if start and not runaway:
            key = account, user
            started[key] = started.get(key, 0) + 1
            cpu[key] = cpu.get(key, 0) + cpus[code] * elapsed
            gpu[key] = gpu.get(key, 0) + gpus[code] * elapsed
    return {
        (account_name(account), user_name(user)): Used(started[key], cpu[key], gpu[key])
        for key in started
        for account, user in [key]
    }


def without_earlier_attempts(trace: Trace) -> Trace:
    """Only the last attempt of each job, as sacct without `--duplicates`."""
    last = np.append(trace.job[1:] != trace.job[:-1], True)
    return replace(trace, **{name: getattr(trace, name)[last] for name in COLUMNS})


def moved_to(trace: Trace, midnight: int) -> Trace:
    """The same jobs, all on the day that begins then."""
    submit = midnight + trace.submit % DAY
    start = np.where(trace.start > 0, submit, 0)
    return replace(trace, submit=submit, start=start, end=np.where(trace.end > 0, start + trace.elapsed, 0))


def account_name(account: int) -> str:
    """What an account is called."""
    return f"lab-{account:03d}"


def user_name(user: int) -> str:
    """What a user is called."""
    return f"u{user:04d}"


def main(arguments: list[str]) -> int:
    """Write a dump to the standard output, as sacct would."""
    from tests.bench.trace_text import FIELDS, write

    parser = argparse.ArgumentParser(prog="python -m tests.bench.trace", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="records, one for each attempt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--steps", action="store_true", help="with the steps of each attempt")
    parser.add_argument(
        "--epoch", action="store_true", help="times as seconds since 1970, not as local times"
    )
    parser.add_argument("--delimiter", default="|")
    parser.add_argument("--format", default=",".join(FIELDS), help="sacct's names of the fields")
    given = parser.parse_args(arguments)
    trace = generate(given.jobs, seed=given.seed, days=given.days)
    write(
        trace, sys.stdout.buffer, fields=given.format.split(","), delimiter=given.delimiter,
        epoch=given.epoch, steps=given.steps,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
