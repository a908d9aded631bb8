"""The client against programs of ours on PATH: what it asks, how it reads the answer, what it never does."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import (
    AccountingOff,
    AnswerLost,
    JobUnknown,
    MissingRequirement,
    Refused,
    SlurmError,
    Unreachable,
)
from slurmkit.slurm import sacct, squeue
from slurmkit.slurm.commands import CHUNK, Commands, sbatch_arguments
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submission
from slurmkit.slurm.rows import DELIMITER
from slurmkit.slurm.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.slurm.conftest import FakeClock, Stubs

SAID = "sbatch: error: Batch job submission failed:"
SINCE = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
QUEUED = {
    "JobArrayID": "12", "JobID": "12", "State": "RUNNING", "Reason": "None", "exit_code": "0",
    "RestartCnt": "0", "UserName": "u", "Account": "research", "Partition": "main", "QOS": "normal",
    "Cluster": "c1", "SubmitTime": "1796186408", "EligibleTime": "1796186408", "StartTime": "1796186409",
    "EndTime": "1796186469", "TimeUsed": "0:02", "TimeLimit": "1:00", "NodeList": "n[1-2]", "NumNodes": "2",
    "NumCPUs": "2", "tres-alloc": "cpu=2,mem=8000M,node=2,billing=2,gres/gpu=4,gres/gpu:a100=4",
    "WorkDir": "/w", "Comment": "(null)", "Name": "train",
}  # fmt: skip
RECORDED = {
    "JobID": "12", "JobIDRaw": "12", "State": "FAILED", "ExitCode": "3:0", "User": "u",
    "Account": "research", "Partition": "main", "QOS": "normal", "Cluster": "c1", "Submit": "1796186408",
    "Eligible": "1796186408", "Start": "1796186409", "End": "1796186469", "ElapsedRaw": "60",
    "TimelimitRaw": "10", "NNodes": "2", "NTasks": "", "AllocCPUS": "2",
    "AllocTRES": "cpu=2,gres/gpu:a100=4,gres/gpu=4,mem=8000M", "ReqTRES": "cpu=2,gres/gpu=4", "MaxRSS": "",
    "Restarts": "", "NodeList": "n[1-2]", "Reason": "None", "WorkDir": "/w",
    "SubmitLine": "sbatch --parsable /r/job.sbatch", "Comment": "", "JobName": "train",
}  # fmt: skip


def queued(**changes: str) -> str:
    return "".join(f"{({**QUEUED, **changes})[name]}{DELIMITER}" for name in squeue.COLUMNS) + "\n"


def recorded(**changes: str) -> str:
    return "".join(f"{({**RECORDED, **changes})[name]}{DELIMITER}" for name in sacct.FIELDS) + "\n"


def prints(text: str) -> str:
    return f"printf %s {shlex.quote(text)}"


def fails(text: str, code: int = 1) -> str:
    return f"printf '%s\\n' {shlex.quote(text)} >&2; exit {code}"


def answers_sacct(stubs: Stubs, body: str, *, lacking: str = "") -> None:
    fields = " ".join(field for field in sacct.FIELDS if field != lacking)
    stubs.add("sacct", f'if [ "$1" = --helpformat ]; then echo "{fields}"; exit 0; fi\n{body}')


@pytest.fixture
def slurm(stubs: Stubs, clock: FakeClock, tmp_path: Path) -> Commands:
    return Commands(environment={**stubs.environment, "XDG_RUNTIME_DIR": str(tmp_path)}, clock=clock)


def submission(**changes: object) -> Submission:
    given = {
        "script": Path("/r/a b.sbatch"),
        "tag": "t",
        "directory": Path("/"),
        "environment": {"A": "x,y\n'é"},
    }
    return Submission(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("out", "job", "cluster"), [("910001;cluster1\n", 910001, "cluster1"), ("910001\n", 910001, None)]
)
def test_trap_134_a_receipt_may_name_a_cluster(
    stubs: Stubs, slurm: Commands, out: str, job: int, cluster: str | None
) -> None:
    stubs.add("sbatch", prints(out))
    receipt = slurm.submit(submission())
    assert (receipt.id, receipt.cluster) == (JobId(job), cluster)


def test_trap_135_the_answer_is_asked_for_in_the_form_for_programs(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("sbatch", "echo 5")
    slurm.submit(submission(arguments=("--comment=it's", "-J", "-x y"), cluster="c2"))
    assert stubs.calls() == [
        ["sbatch", "--parsable", "--clusters=c2", "--comment=it's", "-J", "-x y", "/r/a b.sbatch"]
    ]


@pytest.mark.parametrize(
    "out",
    ["", "Submitted batch job 910002 on cluster c1\n", "910003\n910004\n", "job 5\n", "٣\n", "5 \n6;c\n"],
)
def test_trap_136_no_id_or_several_is_never_a_guess(stubs: Stubs, slurm: Commands, out: str) -> None:
    stubs.add("sbatch", prints(out))
    with pytest.raises(AnswerLost):
        slurm.submit(submission())
    assert len(stubs.calls()) == 1


def test_trap_165_a_submit_without_an_id_leaves_nothing_to_watch(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("sbatch", "exit 0")
    with pytest.raises(AnswerLost, match="did not say which job"):
        slurm.submit(submission())


def test_trap_136_banners_with_digits_are_passed_on_and_not_read(stubs: Stubs, slurm: Commands) -> None:
    banner = "Welcome to System3\n--> checking quota (/home1/..) OK\n910003\n"
    stubs.add("sbatch", f"{prints(banner)}; echo 'sbatch: no partition specified, using default p_all' >&2")
    receipt = slurm.submit(submission())
    assert receipt.id == JobId(910003)
    assert "System3" in receipt.message
    assert "default p_all" in receipt.message


def test_trap_137_the_jobs_environment_is_the_submissions_and_nothing_else(
    stubs: Stubs, tmp_path: Path, clock: FakeClock
) -> None:
    stubs.add("sbatch", "echo 5; /usr/bin/env -0 >&2")
    client = {
        **stubs.environment,
        "SLURM_CONF": "/c",
        "SLURM_JOB_ID": "9",
        "SBATCH_TIMELIMIT": "7",
        "HOME": "/h",
    }
    told = Commands(environment=client, clock=clock).submit(submission()).message
    names = {entry.partition("=")[0] for entry in told.split("\0")}
    assert "A=x,y\n'é" in told.split("\0")
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", ""} == {"A", "SLURM_CONF"}


def test_a_submit_runs_in_its_directory(stubs: Stubs, slurm: Commands, tmp_path: Path) -> None:
    stubs.add("sbatch", "echo 5; pwd >&2")
    assert slurm.submit(submission(directory=tmp_path)).message == str(tmp_path)
    assert sbatch_arguments(submission(directory=tmp_path, script=Path("x"))) == [
        "sbatch", "--parsable", f"{tmp_path}/x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (fails(f"{SAID} Socket timed out on send/recv operation"), AnswerLost),
        (fails(f"{SAID} Unable to contact slurm controller (connect failure)"), Unreachable),
        (fails(f"{SAID} Invalid qos specification"), Refused),
        (fails("sbatch: unrecognized option '--nonsense'"), Refused),
        (fails("/opt/site/sbatch: line 3: quota: command not found", 127), AnswerLost),
        ("exit 1", AnswerLost),
        ("kill -9 $$", AnswerLost),
        ("echo 77; " + fails("sbatch: error: the site's hook failed"), AnswerLost),
    ],
)  # fmt: skip
def test_a_submit_that_fails_is_told_by_what_may_have_happened(
    stubs: Stubs, slurm: Commands, body: str, kind: type[SlurmError]
) -> None:
    stubs.add("sbatch", body)
    with pytest.raises(kind) as caught:
        slurm.submit(submission())
    assert type(caught.value) is kind
    assert len(stubs.calls()) == 1


def test_the_whole_queue_is_read_with_its_columns_whole(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("squeue", prints(queued()))
    (job,) = slurm.jobs()
    assert (str(job.id), job.name, str(job.state), job.nodes) == ("12", "train", "RUNNING", ("n1", "n2"))
    assert (job.exit_code, job.reason, job.comment, job.restarts) == (None, None, None, 0)
    assert job.start_time == datetime(2026, 12, 2, 4, 40, 9, tzinfo=UTC)
    assert (job.end_time, job.time_limit) == (None, timedelta(minutes=1))
    assert job.tres
    assert (job.tres.gpus, job.tres["mem"], job.requested_tres) == (4, 8000 * 2**20, None)


def test_a_job_that_waits_has_no_start_and_no_nodes_but_what_it_asked_for(
    stubs: Stubs, slurm: Commands
) -> None:
    row = queued(
        JobArrayID="4_[6,9%2]", State="PENDING", Reason="JobArrayTaskLimit", NodeList="",
        StartTime="1796190008", EndTime="N/A", EligibleTime="N/A", TimeUsed="0:00", TimeLimit="UNLIMITED",
    )  # fmt: skip
    stubs.add("squeue", prints(row))
    (job,) = slurm.jobs()
    assert (str(job.id), job.reason, job.start_time, job.nodes) == (
        "4_[6,9%2]",
        "JobArrayTaskLimit",
        None,
        (),
    )
    assert (job.elapsed, job.tres, job.time_limit) == (None, None, timedelta.max)
    assert job.requested_tres
    assert job.requested_tres.gpus == 4


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        ("768", ExitCode(3, 0)),
        ("9", ExitCode(0, 9)),
        ("0", ExitCode(0, 0)),
        ("125", ExitCode(0, 125)),
        ("3:0", ExitCode(3)),
    ],
)
def test_the_exit_code_of_an_ended_job_is_read_from_the_queue(
    stubs: Stubs, slurm: Commands, printed: str, code: ExitCode
) -> None:
    stubs.add("squeue", prints(queued(State="FAILED", exit_code=printed)))
    assert slurm.jobs()[0].exit_code == code


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (fails("slurm_load_jobs error: Invalid job id specified"), []),
        ("exit 0", []),
        (prints(queued()), ["12"]),
    ],
)
def test_trap_151_an_id_that_squeue_forgot_is_absent_and_no_error(
    stubs: Stubs, slurm: Commands, body: str, found: list[str]
) -> None:
    stubs.add("squeue", body)
    assert [str(job.id) for job in slurm.jobs([JobId(12), JobId(999999)])] == found


def test_trap_152_array_tasks_are_asked_for_by_a_number_that_slurm_always_takes(
    stubs: Stubs, slurm: Commands
) -> None:
    stubs.add("squeue", prints(queued(JobArrayID="4_3", JobID="11") + queued(JobArrayID="4_5", JobID="13")))
    asked = [JobId.parse(text) for text in ("4_3", "4_[8-9]", "159+1", "159")]
    assert [str(job.id) for job in slurm.jobs(asked)] == ["4_3"]
    assert "--jobs=4,159" in stubs.calls()[0]


def test_trap_156_so_many_ids_that_no_command_line_holds_them(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("squeue", prints(queued(JobArrayID="40000") + queued(JobArrayID="50000", JobID="50000")))
    answers_sacct(
        stubs, 'case "$*" in *--jobs=1,*) ' + prints(recorded(JobID="40000", JobIDRaw="40000")) + ";; esac"
    )
    many = [JobId(number) for number in range(1, 40001)]
    assert [str(job.id) for job in slurm.jobs(many)] == ["40000"]
    assert len(stubs.calls()) == 1
    assert [str(job.id) for job in slurm.accounting(many, since=SINCE)] == ["40000"]
    assert len(stubs.calls()) == 2 + 40000 // CHUNK


@pytest.mark.parametrize("ids", [[], ()])
def test_no_ids_are_no_question(stubs: Stubs, slurm: Commands, ids: list[JobId]) -> None:
    stubs.add("squeue", "exit 0")
    answers_sacct(stubs, "exit 0")
    assert (slurm.jobs(ids), slurm.accounting(ids)) == ([], [])
    assert all("--jobs" not in " ".join(call) for call in stubs.calls())


def test_a_record_of_accounting_is_read_with_its_steps(stubs: Stubs, slurm: Commands) -> None:
    step = recorded(
        JobID="12.batch", JobIDRaw="12.batch", User="", JobName="batch", NTasks="1", MaxRSS="3764224",
        State="FAILED", SubmitLine="", ReqTRES="", TimelimitRaw="", NodeList="n1",
    )  # fmt: skip
    answers_sacct(stubs, prints(recorded(State="CANCELLED by 1000", ExitCode="0:15") + step))
    (job,) = slurm.accounting([JobId(12)], since=SINCE)
    assert (job.state, job.cancelled_by, job.exit_code) == (JobState("CANCELLED"), 1000, ExitCode(0, 15))
    assert (job.elapsed, job.time_limit) == (timedelta(minutes=1), timedelta(minutes=10))
    assert (job.submit_line, job.comment) == ("sbatch --parsable /r/job.sbatch", None)
    (batch,) = job.steps
    assert (str(batch.id), batch.tasks, batch.max_rss, batch.nodes) == ("12.batch", 1, 3764224, ("n1",))


@pytest.mark.parametrize(
    ("state", "start", "end"),
    [("CANCELLED by 0", "None", "1796186432"), ("PENDING", "Unknown", "Unknown")],
)
def test_trap_010_unknown_and_none_are_no_times_and_no_nodes(
    stubs: Stubs, slurm: Commands, state: str, start: str, end: str
) -> None:
    answers_sacct(stubs, prints(recorded(State=state, Start=start, End=end, NodeList="None assigned")))
    (job,) = slurm.accounting([JobId(12)])
    assert (job.start_time, job.nodes) == (None, ())
    assert (job.end_time is not None) is (job.exit_code is not None) is state.startswith("CANCELLED")


def test_trap_013_memory_stands_on_the_steps_and_one_that_has_none_is_not_zero(
    stubs: Stubs, slurm: Commands
) -> None:
    steps = recorded(JobID="92.0", MaxRSS="3758096384") + recorded(JobID="92.1", MaxRSS="")
    answers_sacct(stubs, prints(recorded(JobID="92") + steps))
    (job,) = slurm.accounting([JobId(92)])
    assert [step.max_rss for step in job.steps] == [3758096384, None]


def test_a_cancelled_step_may_have_ended_without_an_exit_code(stubs: Stubs, slurm: Commands) -> None:
    answers_sacct(
        stubs, prints(recorded(JobID="94") + recorded(JobID="94.0", State="CANCELLED", ExitCode=""))
    )
    assert slurm.accounting([JobId(94)])[0].steps[0].exit_code is None


def test_trap_017_the_jobs_state_is_the_allocations(stubs: Stubs, slurm: Commands) -> None:
    steps = recorded(JobID="94.batch", State="CANCELLED", ExitCode="0:9") + recorded(
        JobID="94.0", State="CANCELLED"
    )
    answers_sacct(stubs, prints(recorded(JobID="94", State="TIMEOUT", ExitCode="0:0") + steps))
    (job,) = slurm.accounting([JobId(94)])
    assert (job.state.name, [step.state.name for step in job.steps]) == ("TIMEOUT", ["CANCELLED"] * 2)


def test_trap_030_attempts_keep_their_own_steps_and_are_numbered(stubs: Stubs, slurm: Commands) -> None:
    second = recorded(JobID="83", State="COMPLETED", Submit="1796186500", ExitCode="0:0")
    rows = second + recorded(JobID="84") + recorded(JobID="83", State="REQUEUED") + recorded(JobID="83.batch")
    answers_sacct(stubs, prints(rows))
    jobs = slurm.accounting([JobId(83)], duplicates=True)
    assert [(job.state.name, job.restarts, len(job.steps)) for job in jobs] == [
        ("COMPLETED", 1, 0),
        ("REQUEUED", 0, 1),
    ]
    assert "--duplicates" in stubs.calls()[-1]


@pytest.mark.parametrize(
    ("ids", "since", "start"),
    [
        ([JobId(1)], None, None),
        ([JobId(1)], SINCE, "2026-12-01T09:30:00"),
        (None, None, "2026-11-30T12:00:00"),
        (None, SINCE.astimezone(), "2026-12-01T09:30:00"),
    ],
)
def test_trap_034_a_window_never_starts_at_midnight_by_itself(
    stubs: Stubs, slurm: Commands, ids: list[JobId] | None, since: datetime | None, start: str | None
) -> None:
    answers_sacct(stubs, "exit 0")
    slurm.accounting(ids, since=since)
    call = stubs.calls()[-1]
    starts = [word.partition("=")[2] for word in call if word.startswith("--starttime=")]
    assert starts == ([start] if start else [])
    assert "--endtime=now" in call


def test_trap_039_times_are_asked_for_and_given_in_utc(
    stubs: Stubs, clock: FakeClock, tmp_path: Path
) -> None:
    answers_sacct(stubs, 'echo "$TZ $SLURM_TIME_FORMAT" >&2; exit 1')
    environment = {**stubs.environment, "TZ": "America/New_York", "XDG_RUNTIME_DIR": str(tmp_path)}
    with pytest.raises(SlurmError, match="UTC %s"):
        Commands(environment=environment, clock=clock).accounting(
            since=SINCE, until=SINCE + timedelta(days=1)
        )
    assert "--endtime=2026-12-02T09:30:00" in stubs.calls()[-1]


def test_trap_157_a_record_is_searched_for_in_a_bounded_time_and_by_few_ids(
    stubs: Stubs, slurm: Commands
) -> None:
    answers_sacct(stubs, "exit 0")
    slurm.accounting([JobId(number) for number in range(1, 1001)], since=SINCE, steps=False)
    (call,) = (call for call in stubs.calls() if call[1] != "--helpformat")
    assert "--starttime=2026-12-01T09:30:00" in call
    assert "--allocations" in call


def test_trap_159_text_is_asked_for_with_the_columns_that_are_read(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("squeue", "exit 0")
    answers_sacct(stubs, "exit 0")
    slurm.jobs()
    slurm.accounting([JobId(1)])
    words = [word for call in stubs.calls() for word in call]
    assert not [word for word in words if word.startswith(("--json", "--yaml", "--long"))]
    assert len([word for word in words if word.startswith(("--Format=", "--format="))]) == 2


def test_fields_that_this_sacct_does_not_know_are_not_asked_for(stubs: Stubs, slurm: Commands) -> None:
    answers_sacct(stubs, "exit 0", lacking="Restarts")
    slurm.accounting([JobId(1)])
    (fields,) = (word.partition("=")[2] for word in stubs.calls()[-1] if word.startswith("--format="))
    assert fields.split(",") == [field for field in sacct.FIELDS if field != "Restarts"]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sacct: error: Problem talking to the database: Connection refused", Unreachable),
        ("Slurm accounting storage is disabled", AccountingOff),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_trap_154_accounting_that_is_down_or_off_is_no_empty_answer(
    stubs: Stubs, slurm: Commands, said: str, kind: type[SlurmError], code: int
) -> None:
    answers_sacct(stubs, fails(said, code))
    with pytest.raises(kind) as caught:
        slurm.accounting([JobId(1)])
    assert type(caught.value) is kind


def test_an_answer_of_an_unknown_shape_is_an_error_of_slurms_that_shows_it(
    stubs: Stubs, slurm: Commands
) -> None:
    stubs.add("squeue", prints(queued(SubmitTime="Ystday 09:10")))
    with pytest.raises(SlurmError, match="Ystday 09:10"):
        slurm.jobs()


@pytest.mark.parametrize(
    ("comment", "line", "is_found"),
    [
        ("slurmkit:r1", "", True),
        ("my own, slurmkit:r1", "", True),
        ("slurmkit:r12", "", False),
        ("xslurmkit:r1", "", False),
        ("slurmkit:r1-2", "", False),
        ("", "sbatch --comment=slurmkit:r1 /x", True),
        ("", "sbatch /x", False),
    ],
)
def test_a_job_is_found_by_its_whole_tag_in_the_queue_or_in_accounting(
    stubs: Stubs, slurm: Commands, comment: str, line: str, is_found: bool
) -> None:
    stubs.add("squeue", prints(queued(Comment=comment)))
    answers_sacct(stubs, prints(recorded(SubmitLine=line)))
    found = slurm.find("slurmkit:r1", since=SINCE)
    assert (found is not None) is is_found
    assert f"--user={os.getuid()}" in stubs.calls()[0]


def test_a_search_where_accounting_is_off_is_complete_and_where_it_is_down_is_not(
    stubs: Stubs, slurm: Commands
) -> None:
    stubs.add("squeue", "exit 0")
    answers_sacct(stubs, fails("Slurm accounting storage is disabled"))
    assert slurm.find("t", since=SINCE) is None
    answers_sacct(stubs, fails("sacct: error: Problem talking to the database: Connection refused"))
    with pytest.raises(Unreachable):
        slurm.find("t", since=SINCE)


def test_reads_are_repeated_and_changes_that_must_happen_once_are_not(
    stubs: Stubs, slurm: Commands, clock: FakeClock
) -> None:
    lost = fails("slurm_load_jobs error: Socket timed out on send/recv operation")
    for program in ("squeue", "scontrol", "scancel"):
        stubs.add(program, lost)
    with pytest.raises(Unreachable):
        slurm.jobs()
    assert len(stubs.calls()) == 3
    with pytest.raises(AnswerLost):
        slurm.requeue(JobId(1))
    with pytest.raises(AnswerLost):
        slurm.signal(JobId(1), "USR1")
    assert len(stubs.calls()) == 5


@pytest.mark.parametrize(
    ("change", "argv"),
    [
        (lambda slurm: slurm.cancel([JobId(1), JobId.parse("4_[1-3]")]), ["scancel", "1", "4_[1-3]"]),
        (lambda slurm: slurm.signal(JobId(1), "USR1"), ["scancel", "--signal=USR1", "1"]),
        (
            lambda slurm: slurm.signal(JobId(1), "TERM", batch=True),
            ["scancel", "--signal=TERM", "--batch", "1"],
        ),
        (lambda slurm: slurm.requeue(JobId(1)), ["scontrol", "requeue", "1"]),
        (lambda slurm: slurm.requeue(JobId(1), hold=True), ["scontrol", "requeuehold", "1"]),
        (lambda slurm: slurm.hold(JobId(1, task=3)), ["scontrol", "hold", "1_3"]),
        (lambda slurm: slurm.release(JobId(1)), ["scontrol", "release", "1"]),
        (
            lambda slurm: slurm.update(JobId(1), {"Comment": "a b='$x", "ExcNodeList": "n[1-2]"}),
            ["scontrol", "update", "JobId=1", "Comment=a b='$x", "ExcNodeList=n[1-2]"],
        ),
    ],
)
def test_changes_are_asked_for_in_slurms_words(
    stubs: Stubs, slurm: Commands, change: Callable[[Commands], None], argv: list[str]
) -> None:
    stubs.add("scancel", "exit 0")
    stubs.add("scontrol", "exit 0")
    change(slurm)
    assert stubs.calls() == [argv]


def test_another_cluster_is_named_in_every_call(stubs: Stubs, clock: FakeClock, tmp_path: Path) -> None:
    for program in ("squeue", "scancel", "scontrol"):
        stubs.add(program, "exit 0")
    stubs.add("sbatch", "echo 5")
    answers_sacct(stubs, "exit 0")
    slurm = Commands(
        environment={**stubs.environment, "XDG_RUNTIME_DIR": str(tmp_path)}, clusters="c7", clock=clock
    )
    slurm.jobs()
    slurm.accounting([JobId(1)])
    slurm.nodes()
    slurm.cancel([JobId(1)])
    slurm.submit(submission())
    slurm.submit(submission(cluster="c8"))
    calls = [" ".join(call) for call in stubs.calls() if call[1:2] != ["--helpformat"]]
    assert all("--clusters=c7" in call for call in calls[:-1])
    assert "c7" not in calls[-1]


def test_cancelling_what_has_ended_is_no_error(stubs: Stubs, slurm: Commands) -> None:
    said = "scancel: error: Kill job error on job id 1: Job/step already completing or completed"
    stubs.add("scancel", fails(said))
    slurm.cancel([JobId(1)])
    stubs.add("scancel", fails("scancel: error: Kill job error on job id 1: Access/permission denied"))
    with pytest.raises(Refused, match="does not let you"):
        slurm.cancel([JobId(1)])


def test_a_change_to_a_job_that_is_gone_says_so(stubs: Stubs, slurm: Commands) -> None:
    stubs.add(
        "scontrol",
        fails("Invalid job id specified for job 999\nslurm_suspend error: Invalid job id specified"),
    )
    with pytest.raises(JobUnknown):
        slurm.hold(JobId(999))


def test_a_machine_without_slurm_is_told_so(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(MissingRequirement, match="squeue"):
        Commands(environment={"PATH": str(tmp_path)}, clock=clock).jobs()


def test_an_answer_that_is_young_enough_is_not_asked_for_again(
    stubs: Stubs, slurm: Commands, clock: FakeClock
) -> None:
    stubs.add("squeue", prints(queued()))
    for _ in range(3):
        assert len(slurm.jobs(user="u", max_age=10)) == 1
    assert len(stubs.calls()) == 1
    slurm.jobs(user="u")
    assert len(stubs.calls()) == 2


def test_nodes_partitions_configuration_and_version_are_asked_of_scontrol(
    stubs: Stubs, slurm: Commands
) -> None:
    node = "NodeName={} NodeAddr=a RealMemory=1 State=IDLE CPUTot=2\n"
    stubs.add(
        "scontrol",
        f"""case "$*" in
        *"show node") {prints(node.format("n1") + node.format("n2"))};;
        *"show partition") {prints("PartitionName=p Default=YES Nodes=n[1-2] State=UP MaxTime=1-00:00:00")};;
        *"show config") {prints("MinJobAge   = 300 sec")};;
        --version) echo "slurm 24.11.5";;
        esac""",
    )
    assert [node.name for node in slurm.nodes()] == ["n1", "n2"]
    assert [node.name for node in slurm.nodes(["n2", "n9"])] == ["n2"]
    assert [partition.name for partition in slurm.partitions()] == ["p"]
    assert slurm.config() == slurm.config() == {"MinJobAge": "300 sec"}
    assert slurm.version() == (24, 11, 5)
    assert len(stubs.calls()) == 5


def test_what_is_no_version_is_an_error_of_slurms(stubs: Stubs, slurm: Commands) -> None:
    stubs.add("scontrol", "echo hello")
    with pytest.raises(SlurmError, match="hello"):
        slurm.version()
