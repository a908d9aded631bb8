"""A million job records through slurmdbd and sacct: all arrive, once each; how long it takes is printed."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.accounting import usage
from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.bench.trace import STATES, generate
from tests.bench.trace_cluster import CLASSES
from tests.bench.trace_text import NAMES
from tests.cluster.database import STATES as STORED
from tests.cluster.database import Past, associations, insert
from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = [pytest.mark.cluster, pytest.mark.long]

JOBS = int(os.environ.get("SLURMKIT_MILLION", "1000000"))
DAYS = 30
ACCOUNTS = {f"lab{number}": [f"u{number}{letter}" for letter in "abcde"] for number in range(8)}
TIMED = """\
begin=$(date +%s.%N)
"$REAL" "$@"
code=$?
echo "$begin $(date +%s.%N) $1" >> "$TIMES"
exit $code
"""


@pytest.fixture
def testbed(make_testbed: Callable[[Options], Testbed]) -> Iterator[Testbed]:
    testbed = make_testbed(Options(nodes=1, gpus="a100:8"))
    yield testbed
    native.down(testbed.root)


def past(numbers: dict[tuple[str, str], int]) -> Iterator[Past]:
    """The ended jobs of a generated trace that ends an hour ago, shared out to a few users."""
    trace = generate(JOBS, seed=7, days=DAYS)
    later = int(time.time()) - 3600 - trace.now
    users = [(account, user) for account, members in ACCOUNTS.items() for user in members]
    columns = (
        trace.job,
        trace.user,
        trace.name,
        trace.state,
        trace.submit,
        trace.start,
        trace.end,
        trace.code,
    )
    rows = zip(*(one.tolist() for one in columns), trace.suspended.tolist(), strict=True)
    for job, user, name, state, submit, start, end, code, suspended in rows:
        one, (account, login) = CLASSES[code], users[user % len(users)]
        if end and STATES[state] in STORED:
            yield Past(
                number=job,
                association=numbers[account, login],
                account=account,
                name="a|b\nc" if name % 10_000 == 0 else NAMES[name % len(NAMES)],
                state=STATES[state],
                submit=submit + later,
                start=start + later if start else 0,
                end=end + later,
                nodes=one.nodes,
                cpus=one.cpus,
                gpus=one.gpus,
                memory=one.slots * one.partition.memory * 1024,
                suspended=suspended,
                partition=one.partition.name,
            )


@pytest.mark.timeout(3600)
def test_a_million_records_arrive_once_each(
    testbed: Testbed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = associations(testbed, ACCOUNTS)
    key_of = {number: key for key, number in numbers.items()}
    jobs = list(past(numbers))
    insert(testbed, jobs)
    times = tmp_path / "times"
    with closing(Site(testbed, tmp_path)) as site:
        site.environment |= {"XDG_DATA_HOME": str(tmp_path / "data"), "TIMES": str(times)}
        site.wrap("sacct", TIMED)
        begin = time.monotonic()
        process = site.start("accounting", "sync", "--since", f"{DAYS + 8}d")
        _, errors = process.communicate()
        taken = time.monotonic() - begin
        assert process.returncode == 0, errors
        queries = [line.split(" ", 2) for line in times.read_text().splitlines()]
    sacct = sum(float(end) - float(start) for start, end, _ in queries)
    with capsys.disabled():
        print(
            f"\n{len(jobs):,} records: sync took {taken:.0f} s, {sacct:.0f} s of it in {len(queries)} sacct"
        )
    frame = usage(tmp_path / "data" / "slurmkit" / "accounting", by=["account", "user"])
    told = {(row["account"], row["user"]): row["gpu_seconds"] for row in frame.to_dict("records")}
    expected: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.start:
            expected[key_of[job.association]] += job.gpus * (job.end - job.start - job.suspended)

    assert told == expected
    assert frame["jobs"].sum() == sum(job.start > 0 for job in jobs)
