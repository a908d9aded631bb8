"""Real jobs of every kind, synced from a real slurmdbd: the store has what sacct has, each attempt once."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.accounting.source import open_source
from slurmkit.accounting.store import open_store
from slurmkit.slurm.ids import JobId
from slurmkit.testbed.daemons import wait_for
from tests.cluster.site import BINARIES

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.slurm.commands import Commands
    from slurmkit.slurm.records import Job
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.conftest import Submit

pytestmark = pytest.mark.cluster

LONG = 120.0
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def jobs(slurm: Commands, submit: Submit, slurm_testbed: Testbed) -> dict[str, JobId]:
    """One job of each kind; those that end have ended, in accounting too."""
    jobs = {
        "completed": submit(
            "srun -n2 --gpus=2 true", "-n2", "--gpus=a100:2", "--comment=a|b", "--job-name=x\ny"
        ),
        "failed": submit("exit 3"),
        "requeued": submit("sleep 600", "--requeue"),
        "suspended": submit("sleep 4"),
        "cancelled": submit("sleep 600"),
        "never started": submit("true", "--begin=now+1hour"),
        "array": submit("sleep 600", "--array=0-9%2"),
        "het": submit("srun --het-group=1 sleep 1", "-n1", "--gpus=1", ":", "-n2"),
        "running": submit("sleep 600", "--gpus=a100:4"),
    }

    def runs(name: str) -> bool:
        return all(one.state.name == "RUNNING" for one in slurm.jobs([jobs[name]]))

    for name in ("requeued", "suspended", "cancelled", "running"):
        assert wait_for(lambda name=name: runs(name), LONG, 0.2), name  # type: ignore[misc]
    for verb in ("suspend", "resume"):
        slurm_testbed.command(["scontrol", verb, str(jobs["suspended"])])
    slurm.requeue(jobs["requeued"])
    slurm.cancel([jobs["cancelled"], jobs["never started"]])

    # Until it may start again, its second attempt is not in sacct's windows.
    assert wait_for(lambda: runs("requeued") and slurm.jobs([jobs["requeued"]])[0].restarts == 1, LONG, 0.3)

    def is_over() -> bool:
        over = [
            jobs[name] for name in ("completed", "failed", "suspended", "cancelled", "never started", "het")
        ]
        found = slurm.accounting(over)
        return len(found) == len(over) + 1 and all(job.state.is_final and job.partition for job in found)

    assert wait_for(is_over, LONG, 0.5)
    return jobs


def slurmkit(testbed: Testbed, store: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [BINARIES / "slurmkit", "accounting", *words, "--store", store],
        env={**os.environ, **testbed.environment, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def stored(store: Path) -> list[Row]:
    with closing(open_store(store)) as ledger:
        return ledger.connection.execute(
            "SELECT job_id, state, submit_time, start_time, end_time, CASE WHEN is_final THEN elapsed END,"
            " gpus, exit_code, exit_signal, name FROM jobs ORDER BY job_id, submit_time"
        ).fetchall()


def of(jobs: dict[str, JobId], rows: list[Row]) -> list[Row]:
    """The rows of this module's jobs, but for that which sacct leaves out as long as it may not begin."""
    first, not_yet = jobs["completed"].job, str(jobs["never started"])
    return [row for row in rows if JobId.parse(row[0]).job >= first and row[0] != not_yet]


def in_slurm(slurm: Commands) -> list[Row]:
    def row(job: Job) -> Row:
        elapsed = int(job.elapsed.total_seconds()) if job.elapsed is not None and job.state.is_final else None
        if job.end_time and elapsed is None and job.elapsed is not None:
            elapsed = int(job.elapsed.total_seconds())
        code = job.exit_code
        gpus = job.tres.gpus if job.tres and job.start_time else 0
        return (
            str(job.id), job.state.name, job.submit_time, job.start_time, job.end_time, elapsed, gpus,
            code.code if code else 0, code.signal if code else 0, job.name,
        )  # fmt: skip

    return sorted(map(row, slurm.accounting(duplicates=True)), key=lambda one: (one[0], one[2]))


def test_the_store_has_what_sacct_has_each_attempt_once(
    slurm: Commands, slurm_testbed: Testbed, jobs: dict[str, JobId], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    slurmkit(slurm_testbed, store, "sync", "--since", "1d")
    found = stored(store)
    assert of(jobs, found) == of(jobs, in_slurm(slurm))
    assert len({(row[0], row[2], row[3]) for row in found}) == len(found)
    by_id = {row[0]: row for row in found}
    assert by_id[str(jobs["completed"])][6:] == (2, 0, 0, "x\ny")
    assert by_id[str(jobs["never started"])][3] is None
    assert {f"{jobs['het']}+0", f"{jobs['het']}+1"} <= by_id.keys()
    assert next(row[1] for row in found if row[0] == str(jobs["requeued"])) == "REQUEUED"
    with closing(open_store(store)) as ledger:
        steps = ledger.connection.execute(
            "SELECT step, tasks, gpus FROM steps WHERE job_number = ? ORDER BY 1", [jobs["completed"].job]
        ).fetchall()
    # There is an extern step where there are control groups, whatever the version.
    assert [step for step, _, _ in steps if step != "extern"] == ["0", "batch"]
    assert steps[0][1:] == (2, 2)


def test_a_second_sync_sees_the_end_of_what_ran(
    slurm: Commands, slurm_testbed: Testbed, jobs: dict[str, JobId], submit: Submit, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    job = submit("sleep 600", "--gpus=1")
    assert wait_for(lambda: slurm.jobs([job])[0].state.name == "RUNNING", LONG, 0.2)
    assert wait_for(lambda: [one.state.name for one in slurm.accounting([job])] == ["RUNNING"], LONG, 0.5)
    slurmkit(slurm_testbed, store, "sync", "--since", "1d")
    assert (str(job), "RUNNING") in [row[:2] for row in stored(store)]
    slurm.cancel([job])
    assert wait_for(lambda: all(one.state.is_final for one in slurm.accounting([job])), LONG, 0.5)
    slurmkit(slurm_testbed, store, "sync")
    assert of(jobs, stored(store)) == of(jobs, in_slurm(slurm))
    with closing(open_store(store)) as ledger:
        assert ledger.notes == ()


def test_a_sync_that_is_killed_leaves_a_store_that_the_next_completes(
    slurm: Commands, slurm_testbed: Testbed, jobs: dict[str, JobId], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    environment = {**os.environ, **slurm_testbed.environment}
    words = [str(BINARIES / "slurmkit"), "accounting", "sync", "--since", "3d", "--store", str(store)]
    for bound in (0.5, 1.5, 3.0):
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as program:
            wait_for(lambda program=program: program.poll() is not None, bound, 0.05)  # type: ignore[misc]
            program.kill()
    slurmkit(slurm_testbed, store, "sync", "--since", "3d")
    assert of(jobs, stored(store)) == of(jobs, in_slurm(slurm))


def test_sacct_json_of_this_slurm_gives_the_same_records(
    slurm_testbed: Testbed, jobs: dict[str, JobId], tmp_path: Path
) -> None:
    columns = (
        "job_id, job_number, state, submit_time, start_time, end_time, suspended, nodes, node_list, cpus,"
        " memory, gpus, gpu_type, name, qos, account, array_tasks, het_offset"
    )
    where = "WHERE is_final ORDER BY job_id, submit_time"
    dump, store = tmp_path / "dump.json", tmp_path / "store"
    done = slurm_testbed.command(["sacct", "--json", "--duplicates", "--allusers"])
    dump.write_text(done.stdout)
    slurmkit(slurm_testbed, store, "sync", "--since", "1d")
    with closing(open_source(dump)) as from_json, closing(open_store(store)) as from_text:
        one, other = (
            ledger.connection.execute(f"SELECT {columns} FROM jobs {where}").fetchall()
            for ledger in (from_json, from_text)
        )
    assert one
    assert one == [row for row in other if row[0] in {row[0] for row in one}]


def test_slurmdbd_that_is_down_is_code_3_and_the_store_stays(
    slurm_testbed: Testbed, jobs: dict[str, JobId], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    slurmkit(slurm_testbed, store, "sync", "--since", "1d")
    before = stored(store)
    slurm_testbed.stop("slurmdbd")
    try:
        said = slurmkit(slurm_testbed, store, "sync", code=3)
    finally:
        slurm_testbed.start("slurmdbd")
    assert "slurmdbd does not answer" in said
    assert "Traceback" not in said
    assert stored(store) == before
