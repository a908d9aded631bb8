"""The client against a real Slurm: what squeue, sacct and scontrol really print comes out as records."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import AccountingOff, JobUnknown, Refused, Unreachable
from slurmkit.recovery.diagnosis import diagnose, from_accounting
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import NEVER
from slurmkit.slurm.request import Submission
from slurmkit.testbed import native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options

if TYPE_CHECKING:
    from slurmkit.slurm.records import Job
    from slurmkit.testbed.testbed import Testbed
    from tests.cluster.conftest import Submit

pytestmark = pytest.mark.cluster

LONG = 120.0
HOSTILE = ["a|b", "line1\nline2", "d\x1fe\x1ff", "-x $HOME `id` 'q'", "é", "\n7\x1f", "12_[1-3]", "x" * 250]
# What slurmdbd does not keep as it is: double quotes, characters outside its character set, more than 255.
LOST_BY_SLURMDBD = ['say "hi"', "名前", "x" * 300]


@pytest.fixture(scope="module")
def began() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=5)


@pytest.fixture(scope="module")
def jobs(submit: Submit, began: datetime) -> dict[str, JobId]:
    """Jobs that end in every way there is, submitted at once: they end while others are looked at."""
    return {
        "TIMEOUT": submit("sleep 600", "--time=1"),
        "COMPLETED": submit("true"),
        "FAILED": submit("exit 3"),
        "signal": submit("kill -KILL $$"),
        "step": submit("srun -n2 --gpus=1 sh -c 'exit 5'", "-n2", "--gpus=2"),
        "array": submit("exit $SLURM_ARRAY_TASK_ID", "--array=0-2"),
        "het": submit("srun --het-group=1 sleep 1", "-n1", "--gpus=1", ":", "-n2"),
    }


def ended(slurm: Commands, job: JobId) -> list[Job]:
    """The records of a job in accounting once all of them are final there."""
    found: list[Job] = []

    def is_over() -> bool:
        found[:] = slurm.accounting([job])
        # slurmdbd may learn of an end first, and of the job's name and partition some seconds later.
        return bool(found) and all(one.state.is_final and one.partition for one in found)

    assert wait_for(is_over, LONG, 0.5), found
    return found


def shown(slurm: Commands, job: JobId) -> Job:
    (one,) = slurm.jobs([job])
    return one


def reaches(slurm: Commands, job: JobId, condition: Callable[[Job], bool]) -> Job:
    assert wait_for(lambda: condition(shown(slurm, job)), LONG, 0.3), shown(slurm, job)
    return shown(slurm, job)


@pytest.mark.parametrize(
    ("how", "state", "code"),
    [
        ("COMPLETED", "COMPLETED", ExitCode(0)),
        ("FAILED", "FAILED", ExitCode(3)),
        ("signal", "FAILED", ExitCode(0, 9)),
        ("step", "FAILED", ExitCode(5)),
    ],
)
def test_an_end_is_told_alike_by_squeue_and_sacct(
    slurm: Commands, jobs: dict[str, JobId], how: str, state: str, code: ExitCode
) -> None:
    (record,) = ended(slurm, jobs[how])
    live = shown(slurm, jobs[how])
    assert (record.state.name, record.exit_code) == (state, code)
    for name in ("id", "name", "user", "state", "exit_code", "submit_time", "start_time", "end_time", "nodes",
                 "cpus", "tres", "working_directory", "cluster", "partition", "elapsed"):  # fmt: skip
        assert getattr(live, name) == getattr(record, name), name


def test_steps_come_with_their_job(slurm: Commands, slurm_testbed: Testbed, jobs: dict[str, JobId]) -> None:
    (record,) = ended(slurm, jobs["step"])
    steps = {step.id.step: step for step in record.steps}
    # The step `extern` is there where jobs are contained, in cgroups.
    assert {"batch", "0", *(["extern"] if slurm_testbed.cgroup else [])} == set(steps)
    assert (steps["0"].exit_code, steps["0"].tasks, steps["0"].state.name) == (ExitCode(5), 2, "FAILED")
    assert record.tres
    assert (record.tres.gpus, record.tres.gpus_by_type) == (2, {"a100": 2})
    assert not slurm.accounting([jobs["step"]], steps=False)[0].steps


def test_every_task_of_an_array_is_a_record(slurm: Commands, jobs: dict[str, JobId]) -> None:
    array = jobs["array"].job

    def are_all_there() -> bool:
        return len(slurm.accounting([jobs["array"]])) == 3

    assert wait_for(are_all_there, LONG, 0.5)
    codes = {str(job.id): job.exit_code for job in ended(slurm, jobs["array"])}
    assert codes == {f"{array}_{task}": ExitCode(task) for task in range(3)}
    assert [str(job.id) for job in slurm.accounting([JobId(array, task=1)])] == [f"{array}_1"]


def test_trap_029_a_het_job_is_its_components(slurm: Commands, jobs: dict[str, JobId]) -> None:
    leader = jobs["het"].job
    records = ended(slurm, jobs["het"])
    assert [str(job.id) for job in records] == [f"{leader}+0", f"{leader}+1"]
    assert [job.tres.gpus for job in records if job.tres] == [1, 0]
    for same in (JobId(leader, het=1), JobId(leader + 1)):
        assert [str(job.id) for job in slurm.accounting([same])] in (
            [f"{leader}+1"],
            [f"{leader}+0", f"{leader}+1"],
        )
    assert {str(job.id) for job in slurm.jobs([jobs["het"]])} == {f"{leader}+0", f"{leader}+1"}


@pytest.mark.parametrize("text", [*HOSTILE, *LOST_BY_SLURMDBD])
def test_trap_003_and_004_any_name_and_comment_come_back_whole(
    slurm: Commands, submit: Submit, text: str
) -> None:
    job = submit("true", f"--job-name={text}", f"--comment={text}")
    live = shown(slurm, job)
    assert (live.name, live.comment) == (text, text)
    (record,) = ended(slurm, job)
    assert (record.id, record.state.name, record.exit_code) == (job, "COMPLETED", ExitCode(0))
    if text in HOSTILE:
        assert (record.name, record.comment) == (text, text)
        assert record.submit_line
        assert f"--comment={text}" in record.submit_line


def test_a_cancelled_job_names_who_did_it(slurm: Commands, submit: Submit) -> None:
    running, held = submit("sleep 600"), submit("true", "--hold")
    reaches(slurm, running, lambda job: job.state.name == "RUNNING")
    slurm.cancel([running, held])
    for job in (running, held):
        (record,) = ended(slurm, job)
        assert (record.state.name, record.cancelled_by) == ("CANCELLED", os.getuid())
    assert (record.start_time, record.nodes) == (None, ())
    slurm.cancel([running, JobId(999_999)])


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (["--hold"], {"JobHeldUser"}),
        (["--begin=now+1hour"], {"BeginTime"}),
        (["--nodes=4", "--exclusive"], {"Resources", "Priority"}),
        (["--dependency=afterok:{failed}"], {"DependencyNeverSatisfied"}),
        (["--dependency=afterany:{held}"], {"Dependency"}),
    ],
)
def test_why_a_job_waits_is_told(
    slurm: Commands, submit: Submit, jobs: dict[str, JobId], options: list[str], reasons: set[str]
) -> None:
    ended(slurm, jobs["FAILED"])
    held = submit("true", "--hold")
    blocker = submit("sleep 600", "--nodes=1")
    reaches(slurm, blocker, lambda job: job.state.is_running)
    words = [word.format(failed=jobs["FAILED"], held=held) for word in options]
    job = submit("true", *words)
    waiting = reaches(slurm, job, lambda job: job.reason in reasons)
    assert (waiting.state.is_pending, waiting.start_time, waiting.exit_code) == (True, None, None)
    slurm.cancel([held, blocker, job])


def test_a_pending_array_is_one_row_with_all_its_tasks(slurm: Commands, submit: Submit) -> None:
    spec = ",".join(str(number) for number in range(1, 500, 2))
    array = submit("true", "--hold", f"--array={spec}%7")
    row = shown(slurm, array)
    assert row.id.tasks
    assert (len(row.id.tasks), row.id.tasks.throttle) == (250, 7)
    slurm.cancel([array])


def test_trap_030_a_requeued_job_has_a_record_for_every_attempt(slurm: Commands, submit: Submit) -> None:
    job = submit("sleep 600", "--requeue")
    reaches(slurm, job, lambda job: job.state.name == "RUNNING")
    slurm.requeue(job)
    again = reaches(slurm, job, lambda job: job.restarts == 1 and job.state.name == "RUNNING")
    slurm.cancel([job])

    def attempts() -> list[Job]:
        return slurm.accounting([job], duplicates=True)

    assert wait_for(lambda: [one.state.name for one in attempts()] == ["REQUEUED", "CANCELLED"], LONG, 0.5)
    assert [one.restarts for one in attempts()] == [0, 1]
    assert attempts()[1].submit_time == again.submit_time
    (last,) = slurm.accounting([job])
    assert last.state.name == "CANCELLED"


def test_a_job_can_be_held_changed_released_and_signalled(slurm: Commands, submit: Submit) -> None:
    job = submit("trap 'exit 7' USR1\nsleep 600 &\nwait", "--begin=now+1hour")
    slurm.hold(job)
    reaches(slurm, job, lambda one: one.reason in {"JobHeldUser", "JobHeldAdmin"})
    slurm.update(job, {"Comment": 'it\'s $x = `y` "z" é', "ExcNodeList": "n[1-2]", "StartTime": "now"})
    assert shown(slurm, job).comment == 'it\'s $x = `y` "z" é'
    slurm.release(job)
    running = reaches(slurm, job, lambda one: one.state.name == "RUNNING")
    assert not {"n1", "n2"}.intersection(running.nodes)
    # A signal that comes before bash has set its trap would kill it: it is sent until the job has taken it.
    assert wait_for(lambda: _signal(slurm, job) and shown(slurm, job).state.is_final, LONG, 1)
    assert shown(slurm, job).exit_code in {ExitCode(7), ExitCode(0, 10)}


def _signal(slurm: Commands, job: JobId) -> bool:
    try:
        slurm.signal(job, "USR1", batch=True)
    except Refused:
        return shown(slurm, job).state.is_final
    return True


def test_requeue_and_hold_leaves_the_job_held(slurm: Commands, submit: Submit) -> None:
    job = submit("sleep 600")
    reaches(slurm, job, lambda one: one.state.name == "RUNNING")
    slurm.requeue(job, hold=True)
    held = reaches(slurm, job, lambda one: one.state.is_pending and one.restarts == 1)
    assert "held" in (held.reason or "").lower()
    slurm.cancel([job])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--partition=nowhere"], "There is no such partition"),
        (["--gpus=h100:1"], "No node can ever give what is asked for"),
        (["--gres=tpu:1"], "There is no such GPU or other resource"),
        (["--constraint=nothing"], "No node has that feature"),
        (["--mem=100T"], "No node has that much memory"),
        (["--array=0-5000000"], "The array goes beyond what this cluster allows"),
        (["--reservation=none"], "There is no such reservation"),
        (["--nonsense"], "sbatch failed"),
    ],
)
def test_trap_147_a_refusal_says_what_is_wrong(submit: Submit, options: list[str], sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        submit("true", *options)
    assert (caught.value.what, caught.value.passing) == (sentence, False)


def test_trap_125_a_script_that_slurm_does_not_take_is_named(slurm: Commands, tmp_path: Path) -> None:
    for text, sentence in (("#!/bin/bash\r\ntrue\r\n", "line ends"), ("\n#!/bin/bash\n", "begin with #!")):
        script = tmp_path / "job.sh"
        script.write_bytes(text.encode())
        with pytest.raises(Refused, match=sentence):
            slurm.submit(Submission(script=script, tag="t", directory=tmp_path, environment={"PATH": "/bin"}))


def test_trap_151_ids_that_slurm_never_had_are_absent_and_hide_no_others(
    slurm: Commands, jobs: dict[str, JobId]
) -> None:
    ended(slurm, jobs["COMPLETED"])
    unknown = [JobId(999_998), JobId(999_999, task=3), JobId(999_997, het=1)]
    for ids in ([unknown[0]], unknown):
        assert slurm.jobs(ids) == slurm.accounting(ids) == []
    for asked in (slurm.jobs, slurm.accounting):
        assert [job.id for job in asked([*unknown, jobs["COMPLETED"]])] == [jobs["COMPLETED"]]
    with pytest.raises(JobUnknown):
        slurm.hold(unknown[0])


def test_trap_033_a_record_from_before_the_window_is_not_taken_for_the_job(
    slurm: Commands, jobs: dict[str, JobId]
) -> None:
    (record,) = ended(slurm, jobs["COMPLETED"])
    assert record.end_time
    assert slurm.accounting([jobs["COMPLETED"]], since=record.end_time - timedelta(seconds=1))
    later = record.end_time + timedelta(seconds=2)
    assert wait_for(lambda: datetime.now(UTC) > later, 10)
    assert slurm.accounting([jobs["COMPLETED"]], since=later) == []


def test_jobs_are_listed_by_user_and_by_window(
    slurm: Commands, began: datetime, jobs: dict[str, JobId]
) -> None:
    ended(slurm, jobs["COMPLETED"])
    mine = {job.id for job in slurm.accounting(since=began, user=str(os.getuid()))}
    assert jobs["COMPLETED"] in mine
    assert jobs["COMPLETED"] in {job.id for job in slurm.jobs(user=str(os.getuid()))}
    assert slurm.jobs(user="nobody") == []


def test_a_job_is_found_by_its_whole_tag(slurm: Commands, submit: Submit, began: datetime) -> None:
    tag = f"slurmkit:find-{began.timestamp():.0f}"
    job = submit("true", "--hold", f"--comment=mine, {tag}")
    submit("true", f"--comment={tag}2")
    found = slurm.find(tag, since=began)
    assert found
    assert found.id == job
    assert slurm.find(tag[:-1], since=began) is None
    slurm.cancel([job])


def test_nodes_partitions_and_configuration_are_read(slurm: Commands, slurm_testbed: Testbed) -> None:
    nodes = slurm.nodes()
    assert tuple(node.name for node in nodes) == slurm_testbed.nodes
    first = nodes[0]
    assert first.tres
    assert (first.gres, first.tres.gpus, first.cpus) == ("gpu:a100:8", 8, slurm_testbed.options.cpus)
    assert first.memory == slurm_testbed.options.memory * 2**20
    assert [node.name for node in slurm.nodes(["n2", "n99"])] == ["n2"]
    (partition,) = slurm.partitions()
    assert (partition.is_default, partition.state, partition.nodes) == (True, "UP", slurm_testbed.nodes)
    assert slurm.config()["ClusterName"] == slurm_testbed.cluster
    assert slurm.version() >= (22, 5, 0)


def test_why_a_node_was_drained_is_read_whole(slurm: Commands, slurm_testbed: Testbed) -> None:
    reason = "bad  Foo=bar State=IDLE"
    drain = ["scontrol", "update", "nodename=n4", "state=drain", f"reason={reason}"]
    assert slurm_testbed.command(drain).returncode == 0
    try:
        (node,) = slurm.nodes(["n4"])
        assert (node.reason, node.state.is_drained, node.state.is_available) == (reason, True, False)
    finally:
        slurm_testbed.command(["scontrol", "update", "nodename=n4", "state=resume"])
    assert wait_for(lambda: slurm.nodes(["n4"])[0].state.is_available, LONG, 0.3)


def test_the_cluster_can_be_named(slurm_testbed: Testbed, jobs: dict[str, JobId]) -> None:
    environment = {**os.environ, **slurm_testbed.environment}
    named = Commands(environment=environment, clusters=slurm_testbed.cluster)
    elsewhere = Commands(environment=environment, clusters="nowhere")
    assert jobs["TIMEOUT"] in {job.id for job in named.jobs()}
    assert [node.name for node in named.nodes()] == list(slurm_testbed.nodes)
    with pytest.raises(Refused):
        elsewhere.jobs()


def test_trap_154_slurmdbd_that_is_down_is_told_and_the_queue_is_still_read(
    slurm_testbed: Testbed, jobs: dict[str, JobId]
) -> None:
    impatient = Commands(environment={**os.environ, **slurm_testbed.environment}, retry=NEVER)
    slurm_testbed.stop("slurmdbd")
    try:
        with pytest.raises(Unreachable) as caught:
            impatient.accounting([jobs["COMPLETED"]])
        assert (type(caught.value), caught.value.what) == (Unreachable, "slurmdbd does not answer")
        assert impatient.jobs()
    finally:
        slurm_testbed.start("slurmdbd")


def test_slurmctld_that_is_down_is_told(slurm_testbed: Testbed) -> None:
    impatient = Commands(environment={**os.environ, **slurm_testbed.environment}, retry=NEVER)
    slurm_testbed.stop("slurmctld")
    try:
        with pytest.raises(Unreachable, match="slurmctld does not answer"):
            impatient.jobs()
    finally:
        slurm_testbed.start("slurmctld")


def test_a_cluster_without_accounting_is_told_from_one_that_is_down(
    make_testbed: Callable[[Options], Testbed], tmp_path: Path
) -> None:
    testbed = make_testbed(Options(nodes=1, gpus="", accounting=False))
    slurm = Commands(environment={**os.environ, **testbed.environment}, clock=SystemClock())
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nexit 3\n")
    submission = Submission(
        script=script, tag="t", directory=tmp_path, arguments=("--output=/dev/null", "--comment=tag-1"),
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    job = slurm.submit(submission).id
    with pytest.raises(AccountingOff):
        slurm.accounting([job])
    assert slurm.find("tag-2", since=datetime.now(UTC)) is None
    last = reaches(slurm, job, lambda one: one.state.is_final)
    assert (last.state.name, last.exit_code, last.comment) == ("FAILED", ExitCode(3), "tag-1")
    native.down(testbed.root)


def test_a_job_over_its_time_is_a_timeout(slurm: Commands, jobs: dict[str, JobId]) -> None:
    (record,) = ended(slurm, jobs["TIMEOUT"])
    assert (record.state.name, record.time_limit) == ("TIMEOUT", timedelta(minutes=1))
    assert diagnose(from_accounting(record)).kind == "time-limit"
    # Of the step Slurm says either, as the end of the script or the word of the limit comes first (trap 017).
    batch = {step.id.step: step.state.name for step in record.steps}["batch"]
    assert batch in {"CANCELLED", "TIMEOUT"}
