"""One diagnosis of all that is known: the strongest evidence counts, and every line of it is said."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slurmkit.recovery.cause_kinds import KINDS as CAUSES
from slurmkit.recovery.diagnosis import Evidence, diagnose, from_accounting
from slurmkit.recovery.diagnosis_kinds import KINDS, OF_A_CAUSE, as_markdown
from slurmkit.recovery.exits import RankExit
from slurmkit.recovery.monitor import Hung
from slurmkit.run.suspects import AT_ONCE, PERHAPS
from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId, StepId
from slurmkit.slurm.records import Job, Step
from slurmkit.slurm.states import JobState

CRASH = RankExit(rank=3, host="n2", exit_code=1, stderr_tail=("ValueError: bad batch",))
KILLED = RankExit(rank=3, host="n2", signal=9)
OOM = RankExit(rank=3, host="n2", signal=9, oom_killed=True)
HANG = Hung(since=0.0, step=40, after=60.0)
STEP_CANCELLED = ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",)


def said(*words: str, code: int = 1, host: str = "n2") -> RankExit:
    return RankExit(rank=3, host=host, exit_code=code, stderr_tail=words)


def due_to(why: str) -> tuple[str, ...]:
    return (f"slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO {why} ***",)


@pytest.mark.parametrize(
    ("kind", "evidence"),
    [
        ("finished", Evidence(exit_code=0)),
        ("finished", Evidence(exit_code=0, at_step=99, total=100)),
        ("finished", Evidence(exit_code=0, at_step=40, checkpoint_step=100, total=100, told=15)),
        ("finished", Evidence(exit_code=0, total=100)),
        ("killed", Evidence(exit_code=0, srun_lines=("srun: Job step aborted: Waiting up to 7 seconds",))),
        (
            "killed",
            Evidence(exit_code=0, at_step=50, total=100, srun_lines=("srun: forcing job termination",)),
        ),
        ("ended-early", Evidence(exit_code=0, at_step=50, total=100)),
        ("ended-early", Evidence(exit_code=0, checkpoint_step=50, total=100, job_state="COMPLETED")),
        ("time-limit", Evidence(exit_code=0, at_step=99, total=100, at_limit=True)),
        ("cancelled", Evidence(exit_code=143, cancel_requested=True, received=(15,))),
        ("cancelled", Evidence(exit_code=143, job_state="CANCELLED by 1000", cancelled_by="ada")),
        ("cancelled", Evidence(first_failure=CRASH, job_state="CANCELLED+COMPLETING", nodes_down=("n1",))),
        ("held", Evidence(job_state="PENDING", job_reason="JobHoldMaxRequeue")),
        ("held", Evidence(job_state="PENDING", job_reason="JobHeldUser")),
        ("held", Evidence(job_state="REQUEUE_HOLD")),
        ("held", Evidence(job_state="PENDING+SPECIAL_EXIT")),
        ("never-starts", Evidence(job_state="PENDING", job_reason="DependencyNeverSatisfied")),
        ("never-starts", Evidence(job_state="DEADLINE")),
        ("never-starts", Evidence(job_state="CANCELLED", job_reason="DependencyNeverSatisfied")),
        ("preempted", Evidence(exit_code=143, job_state="PREEMPTED", received=(15,))),
        ("preempted", Evidence(exit_code=143, told=15)),
        ("preempted", Evidence(exit_code=0, told=15)),
        ("preempted", Evidence(exit_code=143, srun_lines=due_to("PREEMPTION"))),
        ("requeued", Evidence(exit_code=143, job_state="REQUEUED", received=(15,))),
        ("time-limit", Evidence(exit_code=143, job_state="REQUEUED", received=(15,), at_limit=True)),
        ("requeued", Evidence(exit_code=143, job_state="PENDING", job_reason="BeginTime")),
        ("requeued", Evidence(exit_code=143, srun_lines=due_to("JOB REQUEUE"), received=(15,))),
        ("time-limit", Evidence(exit_code=143, job_state="TIMEOUT")),
        ("time-limit", Evidence(exit_code=143, at_limit=True, first_failure=KILLED)),
        ("time-limit", Evidence(exit_code=143, srun_lines=due_to("TIME LIMIT"), received=(15,))),
        ("node-died", Evidence(job_state="NODE_FAIL")),
        ("node-died", Evidence(job_state="BOOT_FAIL")),
        ("node-died", Evidence(exit_code=137, first_failure=KILLED, nodes_down=("n2",))),
        ("killed", Evidence(exit_code=137, first_failure=KILLED, nodes_down=("n2",), outlived={"n1", "n2"})),
        ("node-died", Evidence(exit_code=1, srun_lines=("srun: error: Node failure on n2",))),
        ("node-died", Evidence(exit_code=1, srun_lines=due_to("NODE n2 FAILURE"))),
        ("node-died", Evidence(exit_code=1, nodes_down=("n2",), hung=HANG)),
        ("told-to-end", Evidence(exit_code=143, received=(15,), first_failure=CRASH)),
        ("told-to-end", Evidence(exit_code=0, received=(15,))),
        ("node-unfit", Evidence(unfit={"n2": ("no GPU answers",)})),
        ("node-unfit", Evidence(exit_code=1, first_failure=said("CUDA error: GPU has fallen off the bus"))),
        ("host-out-of-memory", Evidence(exit_code=137, first_failure=OOM)),
        ("host-out-of-memory", Evidence(exit_code=1, step_state="OUT_OF_MEMORY", job_state="FAILED")),
        ("host-out-of-memory", Evidence(job_state="FAILED", job_exit=ExitCode(0, 125))),
        ("hung", Evidence(exit_code=137, hung=HANG, first_failure=KILLED)),
        ("do-not-requeue", Evidence(exit_code=93, first_failure=said(code=93))),
        ("do-not-requeue", Evidence(exit_code=93)),
        ("setup-failed", Evidence(exit_code=1, setup_failed="srun is not installed")),
        ("launch-failed", Evidence(exit_code=1, setup_failed="srun: Socket timed out on send/recv")),
        (
            "setup-failed",
            Evidence(exit_code=1, first_failure=said("ModuleNotFoundError: No module named 'x'")),
        ),
        (
            "setup-failed",
            Evidence(exit_code=127, first_failure=said("bash: trian: command not found", code=127)),
        ),
        (
            "launch-failed",
            Evidence(
                exit_code=1,
                srun_lines=(
                    "srun: error: Task launch for StepId=42.0 failed on node n2: Connection refused",
                ),
            ),
        ),
        (
            "setup-failed",
            Evidence(exit_code=1, srun_lines=("srun: error: Invalid --distribution specification",)),
        ),
        (
            "communication-timeout",
            Evidence(exit_code=1, first_failure=said("RuntimeError: Connection closed by peer")),
        ),
        (
            "disk-full",
            Evidence(exit_code=1, first_failure=said("OSError: [Errno 28] No space left on device")),
        ),
        (
            "port-in-use",
            Evidence(exit_code=1, first_failure=said("OSError: [Errno 98] Address already in use")),
        ),
        (
            "gpu-out-of-memory",
            Evidence(exit_code=1, first_failure=said("RuntimeError: CUDA error: out of memory")),
        ),
        ("killed", Evidence(exit_code=137, first_failure=KILLED, told=15)),
        ("killed", Evidence(exit_code=137, first_failure=said(code=137))),
        ("killed", Evidence(exit_code=143, srun_lines=STEP_CANCELLED, told=15)),
        ("killed", Evidence(exit_code=137)),
        ("crashed", Evidence(exit_code=1, first_failure=CRASH, told=15)),
        ("crashed", Evidence(exit_code=139, first_failure=RankExit(rank=0, host="n1", signal=11))),
        ("crashed", Evidence(exit_code=3, job_state="FAILED", job_exit=ExitCode(3))),
        ("agent-died", Evidence(restart_lost=True)),
        (
            "agent-died",
            Evidence(exit_code=137, job_state="FAILED", job_exit=ExitCode(0, 9), restart_lost=True),
        ),
        ("finished", Evidence(exit_code=0, job_state="COMPLETED", restart_lost=True)),
        ("unknown", Evidence()),
        ("unknown", Evidence(exit_code=1)),
    ],
)
def test_the_strongest_evidence_tells_the_kind(kind: str, evidence: Evidence) -> None:
    assert diagnose(evidence).kind == kind


def test_every_kind_is_met_by_the_cases_above() -> None:
    (mark,) = test_the_strongest_evidence_tells_the_kind.pytestmark  # type: ignore[attr-defined]
    met = {kind for kind, _ in mark.args[1]}
    assert set(KINDS) - met == {"storage-failed"}


@pytest.mark.parametrize("step", [None, 5])
def test_a_missing_file_is_the_setup_s_only_before_the_first_step(step: int | None) -> None:
    lost = said("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'")
    found = diagnose(Evidence(exit_code=1, first_failure=lost, at_step=step))
    assert found.kind == ("setup-failed" if step is None else "crashed")


def test_exit_codes_that_the_job_file_names_are_not_tried_again() -> None:
    evidence = Evidence(exit_code=7, first_failure=said(code=7))
    assert diagnose(evidence).kind == "crashed"
    assert diagnose(evidence, stop_on=(7,)).kind == "do-not-requeue"


@pytest.mark.parametrize(
    ("line", "evidence"),
    [
        ("rank 3 on n2: killed by SIGKILL (which no program can catch)", Evidence(first_failure=KILLED)),
        (
            "rank 3 on n2: exit code 137, as a shell reports SIGKILL (which no program can catch)",
            Evidence(exit_code=137, first_failure=said(code=137)),
        ),
        (
            "the step is OUT_OF_MEMORY, though the job says FAILED 0:125",
            Evidence(step_state="OUT_OF_MEMORY", job_state="FAILED", job_exit=ExitCode(0, 125)),
        ),
        ("Slurm says: cancelled by ada", Evidence(job_state="CANCELLED", cancelled_by="ada")),
        ("it said: ValueError: bad batch", Evidence(exit_code=1, first_failure=CRASH)),
        ("2 other ranks failed after it", Evidence(exit_code=1, first_failure=CRASH, others=2)),
        ("the agent got SIGTERM (asked to end)", Evidence(exit_code=143, received=(15,))),
        ("n2 is down", Evidence(nodes_down=("n2",))),
        ("n2 is down, and did not end the step", Evidence(nodes_down=("n2",), outlived={"n2"})),
        ("n2 is unfit: slow; hot", Evidence(unfit={"n2": ("slow", "hot")})),
        ("the last step heard of is 5 of 9", Evidence(exit_code=1, at_step=5, total=9)),
        ("srun said: boo", Evidence(exit_code=1, srun_lines=("boo",))),
    ],
)
def test_what_was_seen_is_told_in_a_line(line: str, evidence: Evidence) -> None:
    assert line in diagnose(evidence).evidence


def test_what_nobody_knows_says_what_was_seen() -> None:
    assert (
        diagnose(Evidence(exit_code=4)).sentence == "nobody knows why it ended: the step ended: exit code 4"
    )


def test_the_user_who_cancelled_is_named() -> None:
    found = diagnose(Evidence(job_state="CANCELLED", cancelled_by="ada"))
    assert found.sentence == "the job was cancelled by ada"


@pytest.mark.parametrize(
    "reason",
    [
        "launch_failed_requeued_held",
        "launch failed requeued held",
        "(launch failed requeued held)",
        "JobHeldAdmin",
    ],
)
def test_trap_105_a_job_that_is_held_needs_somebody(reason: str) -> None:
    found = diagnose(Evidence(job_state="PENDING", job_reason=reason))
    assert found.kind == "held"
    assert found.advice
    assert ("scontrol release" in found.advice) == (reason != "JobHeldAdmin")


def test_trap_098_a_job_that_waits_after_its_requeue_is_in_the_queue() -> None:
    assert diagnose(Evidence(job_state="PENDING", job_reason="BeginTime")).kind == "requeued"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: bad batch 17 at 0x7f00aa", "ValueError: bad batch 99 at 0xdeadbeef"),
        ("[rank3]: RuntimeError: pid 4711 at 12:00:01", "[rank5]: RuntimeError: pid 12 at 23:59:59"),
        (
            "OSError: file 0f8fad5b-d9cb-469f-a165-70867728950e",
            "OSError: file 7c9e6679-7425-40de-944b-e07fc1f90ae7",
        ),
        ("ValueError: on n2", "ValueError: on n7"),
    ],
)
def test_the_same_error_has_the_same_signature(one: str, other: str) -> None:
    first = diagnose(Evidence(exit_code=1, first_failure=said(one)))
    second = diagnose(Evidence(exit_code=1, first_failure=said(other, host="n7"), at_step=8, others=3))
    assert first.signature == second.signature


def test_other_errors_have_other_signatures() -> None:
    ends = [
        Evidence(exit_code=1, first_failure=said("ValueError: bad batch")),
        Evidence(exit_code=1, first_failure=said("KeyError: 'loss'")),
        Evidence(exit_code=2, first_failure=said("ValueError: bad batch", code=2)),
        Evidence(exit_code=139, first_failure=RankExit(rank=0, host="n1", signal=11)),
        Evidence(exit_code=137, first_failure=KILLED),
        Evidence(exit_code=1, hung=HANG, at_step=40),
        Evidence(exit_code=1, hung=HANG, at_step=41),
        Evidence(exit_code=1, srun_lines=("srun: error: odd",)),
        Evidence(exit_code=1, srun_lines=("srun: error: even",)),
    ]
    assert len({diagnose(end).signature for end in ends}) == len(ends)


def test_a_node_that_failed_to_launch_is_named() -> None:
    line = "srun: error: Task launch for StepId=42.0 failed on node n2: Communication connection failure"
    assert diagnose(Evidence(exit_code=1, srun_lines=(line,))).host == "n2"


def test_every_cause_makes_a_kind_that_there_is() -> None:
    assert set(OF_A_CAUSE) <= set(CAUSES)
    assert set(OF_A_CAUSE.values()) <= set(KINDS)
    assert {name for name, kind in KINDS.items() if kind.blames_node} == AT_ONCE
    assert set(KINDS) >= PERHAPS


def record(state: str, code: str = "0:0", **fields: Any) -> Job:
    return Job(
        id=JobId(7),
        name="tiny",
        user="ada",
        state=JobState.parse(state),
        exit_code=ExitCode.parse(code),
        **fields,
    )


@pytest.mark.parametrize(
    ("kind", "job"),
    [
        ("finished", record("COMPLETED")),
        ("crashed", record("FAILED", "3:0")),
        ("killed", record("FAILED", "0:9")),
        ("killed", record("FAILED", "137:0")),
        ("time-limit", record("TIMEOUT", "0:15", elapsed=timedelta(hours=1))),
        ("preempted", record("PREEMPTED", "0:15")),
        ("cancelled", record("CANCELLED", "0:15", cancelled_by=0)),
        ("node-died", record("NODE_FAIL", "1:0")),
        ("requeued", record("REQUEUED")),
    ],
)
def test_what_accounting_alone_tells(kind: str, job: Job) -> None:
    assert diagnose(from_accounting(job)).kind == kind


def test_a_step_that_ran_out_of_memory_counts_though_the_job_says_failed() -> None:
    step = Step(
        id=StepId.parse("7.0"), name="tiny", state=JobState("OUT_OF_MEMORY"), exit_code=ExitCode(0, 125)
    )
    found = diagnose(from_accounting(record("FAILED", "1:0", steps=(step,))))
    assert found.kind == "host-out-of-memory"
    assert "the step is OUT_OF_MEMORY, though the job says FAILED 1:0" in found.evidence


def test_trap_101_a_record_of_an_earlier_attempt_is_history() -> None:
    assert not diagnose(from_accounting(record("PENDING"))).transient
    assert diagnose(from_accounting(record("NODE_FAIL", "1:0"))).transient


def test_the_user_is_named_by_name_where_there_is_one() -> None:
    assert diagnose(from_accounting(record("CANCELLED", cancelled_by=0))).sentence.endswith("by root")
    assert diagnose(from_accounting(record("CANCELLED", cancelled_by=54321))).sentence.endswith(
        "by uid 54321"
    )


def test_the_manual_has_every_kind() -> None:
    page = Path(__file__).parents[3] / "docs/explanation/recovery.md"
    assert as_markdown() in page.read_text(encoding="utf-8")
