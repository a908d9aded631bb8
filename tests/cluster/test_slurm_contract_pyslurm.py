"""Both clients on one live cluster: what pyslurm tells is, field by field, what Slurm's commands tell.

A client that hides behind the commands would pass any comparison: where pyslurm is to answer by itself, the
commands beneath it count what they are asked.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import AnswerLost, JobUnknown, Refused, Unreachable
from slurmkit.slurm.client import choose
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import NEVER
from slurmkit.slurm.pyslurm import PySlurm
from slurmkit.slurm.request import Submission
from slurmkit.testbed.daemons import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.slurm.records import Job
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.conftest import Submit

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        PathFinder.find_spec("pyslurm") is None, reason="pyslurm is not installed (docker/pyslurm builds it)"
    ),
]

LONG = 120.0
HOSTILE = ["a|b", "line1\nline2", "-x $HOME `id` 'q'", "é", "12_[1-3]", "None", "x" * 250]


class Counting(Commands):
    """The commands, and what they were asked for."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.asked: list[str] = []

    def jobs(self, *words: Any, **options: Any) -> list[Job]:
        self.asked.append("jobs")
        return super().jobs(*words, **options)

    def accounting(self, *words: Any, **options: Any) -> list[Job]:
        self.asked.append("accounting")
        return super().accounting(*words, **options)

    def cancel(self, *words: Any, **options: Any) -> None:
        self.asked.append("cancel")
        super().cancel(*words, **options)


@pytest.fixture(scope="module")
def environment(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The process's own, led to the testbed: Slurm's library reads no other."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm_testbed.environment.items():
            patch.setenv(name, value)
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("kept")))
        yield dict(os.environ)


@pytest.fixture(scope="module")
def commands(environment: dict[str, str]) -> Counting:
    return Counting(environment=environment)


@pytest.fixture
def ours(commands: Counting) -> PySlurm:
    commands.asked.clear()
    return PySlurm(commands, clock=SystemClock())


@pytest.fixture(scope="module")
def began() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=5)


@pytest.fixture(scope="module")
def jobs(submit: Submit, commands: Counting, began: datetime) -> dict[str, JobId]:
    """One job of every kind, once those that end have ended and those that run are running."""
    made = {
        "completed": submit("srun -n2 sleep 1", "-n2", "--gpus=2"),
        "failed": submit("exit 3"),
        "failed by a code over 128": submit("exit 137"),
        "signal": submit("kill -KILL $$"),
        "step": submit("srun -n2 sh -c 'exit 9'", "-n2"),
        "array": submit("exit $SLURM_ARRAY_TASK_ID", "--array=0-2"),
        "het": submit("srun --het-group=1 sleep 1", "-n1", "--gpus=1", ":", "-n2"),
        "running": submit("srun sleep 600 & wait", "--gpus=a100:1", "--time=30"),
        "remainder": submit("sleep 600", "--array=0-9%1"),
        "held": submit("true", "--hold", "--comment=c"),
        "held array": submit("true", "--hold", f"--array={','.join(map(str, range(1, 500, 2)))}%7"),
        "held het": submit("true", "--hold", "-n1", "--gpus=1", ":", "-n2"),
        "begin": submit("true", "--begin=now+1hour", "--time=1-02:03"),
        "large": submit("true", "--hold", "-N3", "-n100", "--mem-per-cpu=1500M"),
    }
    made["dependency"] = submit("true", f"--dependency=afterok:{made['held']}")
    made["never"] = submit("true", f"--dependency=afterok:{made['failed']}", "--kill-on-invalid-dep=no")
    for text in HOSTILE:
        made[text] = submit("true", f"--job-name={text}", f"--comment={text}")
    cancelled = submit("sleep 600")
    in_parts = submit("true", "--hold", "--array=0-1")
    for part in (1, 0):
        commands.cancel([JobId(in_parts.job, task=part)])
    waits = {
        "running",
        "remainder",
        "held",
        "held array",
        "held het",
        "begin",
        "large",
        "dependency",
        "never",
    }

    def are_over() -> bool:
        ends = [job for name, job in made.items() if name not in waits]
        told = commands.accounting(ends)
        return len(told) >= len(ends) + 3 and all(job.state.is_final and job.partition for job in told)

    def is_running(job: JobId) -> bool:
        return any(one.state.name == "RUNNING" for one in commands.jobs([job]))

    assert wait_for(lambda: all(map(is_running, (made["running"], made["remainder"], cancelled))), LONG, 0.3)
    commands.cancel([cancelled])
    made["cancelled"] = cancelled
    assert wait_for(are_over, LONG, 0.5)
    assert wait_for(lambda: commands.accounting([cancelled])[0].state.is_final, LONG, 0.5)
    return made


def same(ask: Callable[[], tuple[list[Job], list[Job]]]) -> None:
    """Two listings agree in every field of every record, at one moment: time goes on between them."""
    difference: list[object] = []

    def agrees() -> bool:
        left, right = ({str(job.id): job._asdict() for job in jobs} for jobs in ask())
        difference[:] = [left.keys() ^ right.keys()] if left.keys() != right.keys() else []
        difference.extend(
            (job, field, theirs, right[job][field])
            for job in left.keys() & right.keys()
            for field, theirs in left[job].items()
            if theirs != right[job][field]
        )
        return not difference

    assert wait_for(agrees, 20, 0.1), f"they differ in {difference}"


def test_the_whole_queue_is_the_same(commands: Counting, ours: PySlurm, jobs: dict[str, JobId]) -> None:
    same(lambda: (commands.jobs(), ours.jobs()))
    kinds = {job.state.kind for job in ours.jobs()}
    assert {"pending", "running", "final"} <= kinds


def test_the_queue_is_read_without_a_command_but_for_codes_that_pyslurm_loses(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId]
) -> None:
    told = {job.id: job for job in ours.jobs()}
    assert told[jobs["failed by a code over 128"]].exit_code == ExitCode(137)
    assert commands.asked == ["jobs"]
    commands.asked.clear()
    assert {job.id for job in ours.jobs()} == set(told)
    assert commands.asked == []


def test_jobs_of_some_ids_and_of_a_user_are_the_same(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId]
) -> None:
    asked = [jobs["held array"], jobs["het"], jobs["running"], JobId(999_999)]
    same(lambda: (commands.jobs(asked), ours.jobs(asked)))
    for part in (JobId(jobs["array"].job, task=1), JobId(jobs["het"].job, het=1), JobId(jobs["het"].job + 1)):
        same(lambda part=part: (commands.jobs([part, JobId(1)]), ours.jobs([part, JobId(1)])))  # type: ignore[misc]
    for user in (str(os.getuid()), "root", "nobody", f"nobody,{os.getuid()}"):
        same(lambda user=user: (commands.jobs(user=user), ours.jobs(user=user)))  # type: ignore[misc]
    assert ours.jobs([]) == []


def test_an_answer_is_shared_with_whoever_asks_by_commands(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId]
) -> None:
    user = str(os.getuid())
    first = ours.jobs(user=user, max_age=3600)
    assert commands.asked in ([], ["jobs"])
    assert commands.jobs(user=user, max_age=3600) == first
    assert {job.id for job in first} == {job.id for job in commands.jobs(user=user)}


@pytest.mark.parametrize("steps", [True, False])
def test_accounting_is_the_same(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId], began: datetime, *, steps: bool
) -> None:
    same(lambda: (commands.accounting(since=began, steps=steps), ours.accounting(since=began, steps=steps)))


def test_accounting_of_every_kind_of_job_is_the_same(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId]
) -> None:
    for job in jobs.values():
        same(lambda job=job: (commands.accounting([job]), ours.accounting([job])))  # type: ignore[misc]
    many = list(jobs.values())
    same(lambda: (commands.accounting(many), ours.accounting(many)))


def test_accounting_of_jobs_that_did_well_is_read_without_a_command(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId]
) -> None:
    (record,) = ours.accounting([jobs["completed"]])
    assert commands.asked == []
    assert [step.id.step for step in record.steps][-1] == "0"
    assert record.tres
    assert record.tres.gpus_by_type == {"a100": 2}


def test_accounting_knows_windows_users_and_attempts_alike(
    commands: Counting, ours: PySlurm, jobs: dict[str, JobId], began: datetime
) -> None:
    (record,) = commands.accounting([jobs["completed"]])
    assert record.end_time
    for since in (record.end_time - timedelta(seconds=1), record.end_time + timedelta(seconds=2)):
        same(lambda since=since: tuple(one.accounting([record.id], since=since) for one in (commands, ours)))  # type: ignore[misc,arg-type]
    window = {"since": began - timedelta(days=2), "until": began - timedelta(days=1)}
    assert ours.accounting(**window) == commands.accounting(**window)  # type: ignore[arg-type]
    user = str(os.getuid())
    same(lambda: (commands.accounting(since=began, user=user), ours.accounting(since=began, user=user)))
    same(
        lambda: (
            commands.accounting(since=began, duplicates=True),
            ours.accounting(since=began, duplicates=True),
        )
    )


def test_nodes_partitions_configuration_and_version_are_the_same(
    commands: Counting, ours: PySlurm, slurm_testbed: Testbed
) -> None:
    assert wait_for(lambda: ours.nodes() == commands.nodes(), 20)
    assert [node.name for node in ours.nodes(["n2"])] == ["n2"]
    assert ours.partitions() == commands.partitions()
    assert ours.config()["ClusterName"] == slurm_testbed.cluster
    assert ours.config().keys() == commands.config().keys()
    assert (ours.version(), ours.topology()) == (commands.version(), commands.topology())


def made(slurm: PySlurm, folder: Path, *options: str, body: str = "sleep 600") -> JobId:
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    submission = Submission(
        script=script, tag="t", directory=folder, arguments=("--output=/dev/null", *options),
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return slurm.submit(submission).id


def shown(slurm: PySlurm, job: JobId) -> Job:
    (one,) = (one for one in slurm.jobs() if one.id == job)
    return one


def reaches(slurm: PySlurm, job: JobId, condition: Callable[[Job], bool]) -> Job:
    assert wait_for(lambda: condition(shown(slurm, job)), LONG, 0.3), shown(slurm, job)
    return shown(slurm, job)


def test_a_job_is_submitted_found_by_its_tag_and_refused_as_the_commands_do(
    ours: PySlurm, tmp_path: Path, began: datetime
) -> None:
    tag = f"slurmkit:pyslurm-{began.timestamp():.0f}"
    job = made(ours, tmp_path, "--hold", f"--comment={tag}")
    found = ours.find(tag, since=began)
    assert found
    assert (found.id, found.comment) == (job, tag)
    assert ours.find(tag[:-1], since=began) is None
    ours.cancel([job])
    with pytest.raises(Refused, match="no such partition") as caught:
        made(ours, tmp_path, "--partition=nowhere")
    assert not caught.value.passing


def test_an_answer_to_a_submit_that_is_lost_is_told_as_lost(
    environment: dict[str, str], tmp_path: Path
) -> None:
    wrapper = tmp_path / "sbatch"
    wrapper.write_text(
        "#!/bin/sh\necho 'sbatch: error: Socket timed out on send/recv operation' >&2\nexit 1\n"
    )
    wrapper.chmod(0o755)
    wrapped = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}"}
    with pytest.raises(AnswerLost):
        made(PySlurm(Commands(environment=wrapped), clock=SystemClock()), tmp_path)


def test_whole_jobs_are_cancelled_without_a_command_and_parts_by_one(
    commands: Counting, ours: PySlurm, tmp_path: Path
) -> None:
    array = made(ours, tmp_path, "--array=0-3%2")
    assert wait_for(
        lambda: any(one.id == JobId(array.job, task=1) for one in ours.jobs([array, array])), LONG, 0.3
    )
    commands.asked.clear()
    ours.cancel([JobId(array.job, task=1)])
    assert commands.asked == ["cancel"]
    assert wait_for(
        lambda: (
            {str(one.id.task): one.state.name for one in ours.jobs([array, JobId(1)])}.get("1") == "CANCELLED"
        ),
        LONG,
        0.3,
    )
    het = made(ours, tmp_path, "-n1", ":", "-n1")
    held = made(ours, tmp_path, "--hold")
    commands.asked.clear()
    ours.cancel([array, het, held, JobId(999_999)])
    assert commands.asked == []
    wanted = [array, het, held]
    assert wait_for(lambda: all(one.state.is_final for one in ours.jobs(wanted)), LONG, 0.3)
    ours.cancel([held])
    same(lambda: (commands.accounting([held]), ours.accounting([held])))
    assert ours.accounting([held])[0].cancelled_by == os.getuid()


def test_a_job_is_held_changed_released_signalled_and_requeued(
    commands: Counting, ours: PySlurm, tmp_path: Path
) -> None:
    job = made(ours, tmp_path, "--begin=now+1hour", "--requeue", body="trap 'exit 7' USR1\nsleep 600 & wait")
    ours.hold(job)
    reaches(ours, job, lambda one: one.reason in {"JobHeldUser", "JobHeldAdmin"})
    ours.update(job, {"Comment": "a=b c", "StartTime": "now"})
    ours.exclude(job, ["n1"])
    ours.exclude(job, ["n2"])
    assert commands.excluded(job) == ("n1", "n2")
    ours.release(job)
    running = reaches(ours, job, lambda one: one.state.name == "RUNNING")
    assert (running.comment, {"n1", "n2"}.isdisjoint(running.nodes)) == ("a=b c", True)
    same(lambda: (commands.jobs([job, JobId(1)]), ours.jobs([job, JobId(1)])))
    ours.requeue(job, hold=True)
    again = reaches(ours, job, lambda one: one.state.is_pending and one.restarts == 1)
    assert "held" in (again.reason or "").lower()
    same(lambda: (commands.jobs([job, JobId(1)]), ours.jobs([job, JobId(1)])))
    ours.release(job)
    # A requeued job waits out its credentials; a signal before bash has its trap would kill it.
    reaches(ours, job, lambda one: one.state.name == "RUNNING")

    def is_over() -> bool:
        with suppress(Refused):
            ours.signal(job, "USR1", batch=True)
        return shown(ours, job).state.is_final

    assert wait_for(is_over, LONG, 1)
    assert shown(ours, job).exit_code in {ExitCode(7), ExitCode(0, 10)}
    with pytest.raises(JobUnknown):
        ours.hold(JobId(999_998))


def test_the_steps_of_a_job_are_ended_and_the_job_goes_on(ours: PySlurm, tmp_path: Path) -> None:
    job = made(ours, tmp_path, body="srun sleep 600; sleep 600")
    reaches(ours, job, lambda one: one.state.name == "RUNNING")
    assert wait_for(lambda: ours.end_steps(job) == (f"{job}.0",), LONG, 0.3)
    assert shown(ours, job).state.name == "RUNNING"
    ours.cancel([job])


def test_it_is_chosen_here_and_says_why(environment: dict[str, str]) -> None:
    choice = choose("auto", clusters=None, clock=SystemClock(), environ=environment)
    assert (choice.client, "built for this Slurm" in choice.reason) == ("pyslurm", True)


def test_slurm_that_is_down_is_told_by_the_commands_and_nothing_is_printed(
    slurm_testbed: Testbed,
    environment: dict[str, str],
    jobs: dict[str, JobId],
    capfd: pytest.CaptureFixture[str],
) -> None:
    impatient = PySlurm(Commands(environment=environment, retry=NEVER), clock=SystemClock())
    slurm_testbed.stop("slurmdbd")
    try:
        with pytest.raises(Unreachable, match="slurmdbd does not answer"):
            impatient.accounting([jobs["completed"]])
        assert impatient.jobs()
    finally:
        slurm_testbed.start("slurmdbd")
    slurm_testbed.stop("slurmctld")
    try:
        with pytest.raises(Unreachable, match="slurmctld does not answer"):
            impatient.jobs()
    finally:
        slurm_testbed.start("slurmctld")
    assert capfd.readouterr() == ("", "")
