"""`report usage` says what sreport says, to the second: on three days of jobs in slurmdbd's database."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slurmkit.accounting import usage
from slurmkit.testbed import native
from slurmkit.testbed.options import Options
from tests.cluster.database import Past, associations, insert, roll_up, sql
from tests.cluster.site import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

HOUR = 3600
SPAN = 72 * HOUR
COLUMNS = {
    "cpu": "cpu_seconds",
    "gres/gpu": "gpu_seconds",
    "mem": "memory_mib_seconds",
    "billing": "billing_seconds",
    "node": "node_seconds",
}
"""Of `report usage`, by sreport's names. sreport counts memory in MiB."""
FIELDS = (
    "JobID,JobIDRaw,Cluster,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,Suspended,"
    "TimelimitRaw,NNodes,NodeList,AllocCPUS,ReqMem,AllocTRES,JobName"
)

Told = dict[tuple[str, str, str], int]
"""By account, user and resource."""


class Site(NamedTuple):
    """A testbed with a past, and when that begins and ends: full hours."""

    testbed: Testbed
    begin: int
    end: int


@pytest.fixture(scope="module")
def site(make_testbed: Callable[[Options], Testbed]) -> Iterator[Site]:
    testbed = make_testbed(Options(nodes=2, gpus="a100:8"))
    end = int(time.time()) // HOUR * HOUR
    users = associations(testbed, {"physics": ["ada", "bob"], "biology": ["ada", "eve"]})
    real_jobs(testbed)
    # What really ran a moment ago is put into the hour before the last full one.
    for table in ("job", "step", "suspend"):
        moved = ["time_start", "time_end", *(["time_submit", "time_eligible"] if table == "job" else [])]
        changes = ", ".join(f"{name} = IF({name} > 0, {name} - {2 * HOUR}, 0)" for name in moved)
        sql(testbed, f"UPDATE `{testbed.cluster}_{table}_table` SET {changes};")
    insert(testbed, past(users, end))
    roll_up(testbed, end - SPAN - HOUR)
    yield Site(testbed, end - SPAN, end)
    native.down(testbed.root)


def real_jobs(testbed: Testbed) -> None:
    """One that was suspended for a while, one that was requeued, one that was cancelled in the queue."""

    def call(*words: str) -> str:
        done = testbed.command(words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(*options: str) -> str:
        shape = ["--output=/dev/null", "--mem=100M", "--chdir=/tmp", *options]
        return call("sbatch", "--parsable", *shape, "--wrap", "exec sleep 600")

    def runs(job: str) -> bool:
        return call("squeue", "--noheader", "--format=%T", f"--jobs={job}") == "RUNNING"

    held, stopped, again = submit("--hold"), submit("--gpus=3"), submit("--gpus=2", "--requeue")
    until(lambda: runs(stopped) and runs(again), "two jobs run")
    started = time.time()
    call("scontrol", "suspend", stopped)
    call("scontrol", "requeue", again)
    until(lambda: time.time() > started + 3, "a moment")
    call("scontrol", "resume", stopped)
    until(lambda: runs(again), f"job {again} runs again")
    call("scancel", held, stopped, again)
    until(lambda: not call("squeue", "--noheader"), "the queue is empty")
    table = f"`{testbed.cluster}_job_table`"
    until(
        lambda: sql(testbed, f"SELECT count(*) FROM {table} WHERE time_end = 0;") == [["0"]], "all are stored"
    )


def past(users: dict[tuple[str, str], int], end: int) -> Iterator[Past]:
    """Jobs of all lengths and states; some reach over both ends of the window, some were requeued."""
    random = Random(5)
    chosen = [key for key in sorted(users) if key[0] in {"physics", "biology"}]
    for number in range(1_000_001, 1_000_401):
        account, user = random.choice(chosen)
        gpus, nodes = random.choice([(0, 1), (1, 1), (2, 1), (8, 1), (16, 2)])
        begin = end - random.randrange(SPAN + 12 * HOUR)
        for attempt in range(random.choice([1, 1, 1, 2, 3])):
            seconds = int(10 ** random.uniform(0, 4.9))
            state = random.choice(["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"])
            never = random.random() < 0.05
            stop = begin + seconds
            runs = stop >= end + HOUR
            yield Past(
                number=number,
                association=users[account, user],
                account=account,
                name=f"job {attempt}",
                state="RUNNING" if runs and not never else "CANCELLED" if never else state,
                submit=begin - random.randrange(1, 9000),
                start=0 if never else begin,
                end=0 if runs and not never else stop,
                nodes=nodes,
                cpus=max(1, 4 * gpus),
                gpus=gpus,
                memory=random.choice([1000, 1537, 64_000]),
                limit=7 * 24 * 60,
                node_list="n[1-2]" if nodes == 2 else "n1",
            )
            if runs or never:
                break
            begin = stop + random.randrange(9001, 12_000)
            if begin >= end:
                break


def local(moment: int) -> str:
    """As sreport and sacct take a time: this machine's."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


def sreport(site: Site, begin: int, end: int) -> Told:
    """Slurm's own figures."""
    done = site.testbed.command(
        ["sreport", "--noheader", "--parsable2", "-t", "Seconds", f"--tres={','.join(COLUMNS)}",
         "cluster", "AccountUtilizationByUser", f"start={local(begin)}", f"end={local(end)}",
         "format=Account,Login,TRESName,Used"]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return {(account, user, name): int(used) for account, user, name, used in rows if user and int(used)}


def ours(site: Site, dump: Path, begin: int, end: int) -> Told:
    """Those of slurmkit, from what sacct prints."""
    done = site.testbed.command(
        ["sacct", "--allusers", "--duplicates", "--allocations", "--parsable2", "--noconvert",
         f"--starttime={local(begin - 30 * 24 * HOUR)}", f"--endtime={local(int(time.time()))}",
         f"--format={FIELDS}"]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    dump.write_text(done.stdout)
    since, before = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)
    frame = usage(dump, by=["account", "user"], since=since, until=before)
    return {
        (row["account"], row["user"], name): int(row[column])
        for row in frame.to_dict("records")
        for name, column in COLUMNS.items()
        if row[column]
    }


@pytest.mark.parametrize(
    ("skipped", "taken"), [(0, 72), (24, 48), (13, 14), (0, 1), (71, 72)], ids=lambda hours: f"{hours} h"
)
def test_usage_is_what_sreport_says_to_the_second(
    site: Site, tmp_path: Path, skipped: int, taken: int
) -> None:
    begin, end = site.begin + skipped * HOUR, site.begin + taken * HOUR
    told, found = sreport(site, begin, end), ours(site, tmp_path / "dump", begin, end)

    assert without_real(told)
    assert without_real(found) == without_real(told)


def without_real(told: Told) -> Told:
    """Without the account of the jobs that really ran."""
    return {key: used for key, used in told.items() if key[0] != "research"}


def test_of_suspended_time_sreport_charges_all_but_the_cpus_and_usage_nothing(
    site: Site, tmp_path: Path
) -> None:
    told = sreport(site, site.begin, site.end)
    found = ours(site, tmp_path / "dump", site.begin, site.end)
    user = next(user for account, user, _ in told if account == "research")
    more = {name: told["research", user, name] - found["research", user, name] for name in COLUMNS}

    # Three GPUs, one CPU and 100 MiB of one node were held by the job that was suspended.
    suspended = more["node"]
    assert suspended > 0
    assert more == {
        "cpu": 0,
        "gres/gpu": 3 * suspended,
        "mem": 100 * suspended,
        "billing": suspended,
        "node": suspended,
    }
