"""What sacct prints of real jobs, in several shapes, read as a dump: equal to the records of the client."""

from __future__ import annotations

import gzip
import math
from contextlib import closing
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from slurmkit.accounting.dump import open_dump
from slurmkit.slurm.rows import DELIMITER
from slurmkit.slurm.times import UNLIMITED
from slurmkit.testbed.daemons import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.slurm.commands import Commands
    from slurmkit.slurm.ids import JobId
    from slurmkit.slurm.records import Job, Step
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.conftest import Submit

pytestmark = pytest.mark.cluster

LONG = 120.0
EVERYTHING = (
    "JobID,JobIDRaw,Cluster,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,"
    "Suspended,TimelimitRaw,NNodes,NodeList,AllocCPUS,ReqMem,AllocTRES,ReqTRES,NTasks,TotalCPU,MaxRSS,"
    "TRESUsageInTot,Comment,WorkDir,JobName"
)
FOR_PEOPLE = (
    "JobName,State,NodeList,Elapsed,Timelimit,Start,End,Submit,AllocTRES,AllocCPUS,JobID,NNodes,ExitCode"
)
SHAPES = {
    "ours": (["--parsable", f"--delimiter={DELIMITER}", f"--format={EVERYTHING}"], "%s"),
    "plain": (["--parsable2", f"--format={EVERYTHING}"], "%s"),
    "trailing": (["--parsable", f"--format={EVERYTHING}"], "%s"),
    "carets": (["--parsable2", "--delimiter=^|^", f"--format={EVERYTHING}"], "standard"),
    "for people": (["--parsable2", f"--format={FOR_PEOPLE}"], "standard"),
}
ZONE = "America/New_York"


@pytest.fixture(scope="module")
def jobs(slurm: Commands, submit: Submit) -> list[Job]:
    """Jobs that have ended, with what free text may hold, and their records."""
    ids: list[JobId] = [
        submit("srun -n2 --gpus=2 true", "-n2", "--gpus=a100:2", "--comment=a|b", "--job-name=x\ny"),
        submit("exit 3", "--time=3", "--job-name=größe|1"),
        submit("kill -9 $$", "--mem=50M"),
        submit("true", "--array=1-2"),
        submit("srun --het-group=1 true", "-n1", "--gpus=1", ":", "-n2"),
        submit("true", "--begin=now+1hour"),
    ]
    slurm.cancel([ids[-1]])

    def found() -> list[Job]:
        return slurm.accounting(ids, duplicates=True)

    assert wait_for(lambda: len(found()) == 8 and all(job.state.is_final for job in found()), LONG, 0.5)
    return found()


def columns_of(job: Job) -> tuple[Any, ...]:
    """What both sides tell of a job."""
    code = job.exit_code
    limit = None if job.time_limit is None else job.time_limit.total_seconds()
    if job.time_limit == UNLIMITED:
        limit = math.inf
    return (
        str(job.id), job.state.name, job.submit_time, job.start_time, job.end_time,
        int(job.elapsed.total_seconds()) if job.elapsed is not None else None,
        limit,
        job.cpus if job.start_time else 0, job.tres.gpus if job.tres else 0,
        code.code if code else None, code.signal if code else None, job.name,
    )  # fmt: skip


def columns_of_step(job: Job, step: Step) -> tuple[Any, ...]:
    return (
        f"{job.id}.{step.id.step}", job.submit_time, job.start_time, step.state.name, step.start_time,
        step.end_time, step.tres.gpus if step.tres else 0, step.name,
    )  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "packed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_sacct_is_read_as_the_client_reads_it(
    slurm_testbed: Testbed, jobs: list[Job], tmp_path: Path, shape: str, packed: bool
) -> None:
    options, times = SHAPES[shape]
    ids = ",".join({str(job.id.job) for job in jobs})
    text = slurm_testbed.command(
        [
            "env",
            f"SLURM_TIME_FORMAT={times}",
            f"TZ={ZONE}",
            "sacct",
            "--allusers",
            "--duplicates",
            "--noconvert",
            f"--jobs={ids}",
            *options,
        ]
    ).stdout
    path = tmp_path / "dump"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with closing(open_dump(path, zone=ZoneInfo(ZONE))) as ledger:
        rows = ledger.connection.execute(
            "SELECT job_id, state, submit_time, start_time, end_time, elapsed, time_limit, cpus, gpus,"
            " exit_code, exit_signal, name FROM jobs"
        ).fetchall()
        steps = ledger.connection.execute(
            "SELECT job_id || '.' || step, job_submit_time, job_start_time, state, start_time, end_time,"
            " coalesce(gpus, 0), name FROM steps"
        ).fetchall()
        assert ledger.notes == ()
        assert (
            ledger.connection.execute("SELECT problems FROM jobs WHERE problems IS NOT NULL").fetchall() == []
        )
    assert sorted(rows) == sorted(map(columns_of, jobs))
    assert sorted(steps) == sorted(columns_of_step(job, step) for job in jobs for step in job.steps)
