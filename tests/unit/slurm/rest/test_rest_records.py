"""Values that are open, unlimited or cut, in both shapes of slurmrestd's JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slurmkit.slurm.exitcode import ExitCode
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.rest import accounting, jobs, nodes, wire
from slurmkit.slurm.rest.versions import APIS
from slurmkit.slurm.times import UNLIMITED
from slurmkit.slurm.tres import Tres

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
V45, V42, V38 = APIS


def told(number: int = 0, *, is_set: bool = True, infinite: bool = False) -> dict[str, object]:
    return {"set": is_set, "infinite": infinite, "number": number}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5), (0, 0), ("5", 5), (2.0, 2), (told(5), 5), (told(0), 0),
        (None, None), ("", None), (-1, None), (-2, None), (4294967294, None), (4294967295, None),
        (2**64 - 2, None), (65534, None), (told(is_set=False), None), (told(infinite=True), None),
        (told(4294967294), None),
    ],
)  # fmt: skip
def test_a_number_that_is_open_is_none(value: object, number: int | None) -> None:
    assert wire.number(value) == number


@pytest.mark.parametrize("value", [True, [1], "five"])
def test_what_is_no_number_is_said(value: object) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        wire.number(value)


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (30, timedelta(minutes=30)), (told(30), timedelta(minutes=30)), (told(infinite=True), UNLIMITED),
        (4294967295, UNLIMITED), (-1, UNLIMITED), (4294967294, None), (told(is_set=False), None),
        (None, None),
    ],
)  # fmt: skip
def test_a_limit_is_unlimited_open_or_minutes(value: object, limit: timedelta | None) -> None:
    assert wire.minutes(value) == limit


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("RUNNING", "RUNNING"), (["RUNNING"], "RUNNING"), (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "SIGNALING", "CONFIGURING"], "CONFIGURING"), (["PENDING", "POWER_UP_NODE"], "PENDING"),
        (["NEW_STATE"], "NEW_STATE"), ("CANCELLED", "CANCELLED"),
    ],
)  # fmt: skip
def test_a_state_is_the_word_that_squeue_would_show(value: object, state: str) -> None:
    assert str(wire.state(value)) == state


@pytest.mark.parametrize("value", [None, "", []])
def test_a_job_without_a_state_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="expected a state"):
        wire.state(value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (768, ExitCode(3)), (9, ExitCode(0, 9)), (0, ExitCode(0)), (None, None),
        ({"status": ["ERROR"], "return_code": told(3), "signal": {"id": told(is_set=False)}}, ExitCode(3)),
        ({"status": ["SIGNALED"], "return_code": told(0), "signal": {"id": told(9)}}, ExitCode(0, 9)),
        ({"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}}, ExitCode(0, 9)),
    ],
)  # fmt: skip
def test_an_exit_code_is_a_code_and_a_signal(value: object, code: ExitCode | None) -> None:
    assert wire.exit_code(value) == code


def test_resources_are_text_or_a_list_with_memory_in_mebibytes() -> None:
    listed = [
        {"type": "cpu", "name": None, "count": 2},
        {"type": "mem", "name": "", "count": 100},
        {"type": "gres", "name": "gpu:a100", "count": 1},
        {"type": "energy", "name": None, "count": -2},
        {"type": "billing", "name": None, "count": None},
    ]
    assert wire.tres(listed) == wire.tres("cpu=2,mem=100M,gres/gpu:a100=1") == Tres.parse(
        "cpu=2,mem=100M,gres/gpu:a100=1"
    )  # fmt: skip
    assert wire.tres("") is None
    assert wire.tres([]) is None


@pytest.mark.parametrize(
    ("task", "waiting", "throttle", "text"),
    [
        (3, "", 0, "12_3"),
        (told(0), "", told(0), "12_0"),
        (None, "1-4,7%2", 0, "12_[1-4,7%2]"),
        (told(is_set=False), "1-4", told(2), "12_[1-4%2]"),
        (None, "0x240", 2, "12_[6,9%2]"),
        (None, "1,3,5,7,...%4", 0, "12_[1,3,5,7%4]"),
        (None, "1-100,...", 0, "12_[1-100]"),
        (None, None, 0, "12"),
    ],
)
def test_tasks_of_an_array_that_wait_come_with_their_throttle(
    task: object, waiting: object, throttle: object, text: str
) -> None:
    assert jobs.array_id(12, task, waiting, throttle) == JobId.parse(text)


def queued(**more: object) -> dict[str, Any]:
    """A running job of v0.0.38 as slurmctld tells it."""
    return {
        "job_id": 7, "array_job_id": 0, "array_task_id": None, "het_job_id": 0, "name": "x",
        "user_name": "ada", "user_id": 1000, "job_state": "RUNNING", "state_reason": "None",
        "state_description": "", "nodes": "n[1-2]", "submit_time": 1796000000, "start_time": 1796000100,
        "end_time": 1796003700, "suspend_time": 0, "pre_sus_time": 0, "time_limit": 60, "cpus": None,
        "tres_alloc_str": "cpu=4,mem=1G", "tres_req_str": "cpu=2", "exit_code": 0, **more,
    }  # fmt: skip


def one(**more: object) -> Any:
    now = datetime.fromtimestamp(1796000200, UTC)
    (job,) = jobs.parse({"jobs": [queued(**more)]}, now)
    return job


def test_a_job_of_v0_0_38_without_a_number_of_cpus_has_those_of_its_resources() -> None:
    assert one().cpus == 4
    assert one(nodes="", job_state="PENDING").cpus == 2


def test_time_that_a_job_was_suspended_does_not_count() -> None:
    assert one().elapsed == timedelta(seconds=100)
    assert one(suspend_time=1796000180, pre_sus_time=30).elapsed == timedelta(seconds=50)
    assert one(job_state="SUSPENDED", pre_sus_time=30).elapsed == timedelta(seconds=30)


def test_a_job_without_a_limit_ends_by_no_time() -> None:
    assert one().ends_by == datetime.fromtimestamp(1796003700, UTC)
    assert one(time_limit=None).ends_by is None


def test_what_slurmctld_says_of_the_reason_beats_its_word() -> None:
    assert one(state_reason="Resources", state_description="Nodes are down").reason == "Nodes are down"
    assert one(state_reason="Resources").reason == "Resources"


@pytest.mark.parametrize(("user", "count"), [("ada", 1), ("1000", 1), ("bob,ada", 1), ("bob", 0), (None, 1)])
def test_users_are_named_or_numbered(user: str | None, count: int) -> None:
    assert len(jobs.parse({"jobs": [queued()]}, NOW, user=user)) == count


@pytest.mark.parametrize(
    "field", ["job_id", "job_state", "nodes", "end_time", "time_limit", "submit_time", "name"]
)
def test_a_field_that_a_job_must_have_is_named_where_it_is_missing(field: str) -> None:
    record = queued()
    del record[field]
    with pytest.raises(ValueError, match=f"there is no field {field}"):
        jobs.parse({"jobs": [record]}, NOW)


def test_a_field_that_is_new_is_passed_over() -> None:
    assert one(colour="blue", nested={"a": [1]}) == one()


def recorded(**more: object) -> dict[str, Any]:
    """A job of v0.0.38 as slurmdbd tells it."""
    return {
        "job_id": 7, "name": "x", "user": "ada", "nodes": "n1", "array": {"job_id": 0}, "het": {"job_id": 0},
        "state": {"current": "FAILED", "reason": "None"},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "kill_request_user": None, "allocation_nodes": 1, "required": {"CPUs": 2}, "comment": {"job": None},
        "time": {"submission": 1796000000, "start": 1796000100, "end": 1796000200, "elapsed": 100,
                 "limit": None},
        "tres": {"allocated": [], "requested": []}, **more,
    }  # fmt: skip


def past(**more: object) -> Any:
    (job,) = accounting.parse({"jobs": [recorded(**more)]}, V38)
    return job


def test_trap_v0_0_38_says_success_of_a_program_that_failed() -> None:
    assert past().exit_code is None
    assert past(state={"current": "COMPLETED"}).exit_code == ExitCode(0)
    signaled = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}}
    assert past(exit_code=signaled).exit_code == ExitCode(0, 9)


def test_a_limit_that_v0_0_38_leaves_open_is_unlimited_once_the_job_has_started() -> None:
    assert past().time_limit == UNLIMITED
    assert past(nodes="None assigned").time_limit is None


@pytest.mark.parametrize(
    ("who", "uid"), [("root", 0), ("1000", 1000), ("ada", 1000), ("stranger", None), (None, None)]
)
def test_who_cancelled_a_job_is_a_number_or_unknown(who: str | None, uid: int | None) -> None:
    record = recorded(state={"current": "CANCELLED"}, kill_request_user=who)
    (job,) = accounting.parse({"jobs": [record]}, V38, uids={"root": 0, "ada": 1000})
    assert job.cancelled_by == uid


def test_of_several_attempts_the_last_stands_unless_all_are_asked_for() -> None:
    first, second = (
        recorded(time=recorded()["time"] | {"submission": at}) for at in (1796000000, 1796000500)
    )
    found = accounting.parse({"jobs": [second, first]}, V38)
    assert [job.submit_time for job in accounting.last_attempts(found)] == [
        datetime.fromtimestamp(1796000500, UTC)
    ]


def test_states_of_a_node_are_one_list_or_base_and_flags() -> None:
    base = {"name": "n1", "cpus": 8, "real_memory": 1000, "active_features": "a,b", "partitions": ["main"]}
    old = nodes.parse_nodes({"nodes": [base | {"state": "idle", "state_flags": ["DRAIN"]}]})[0]
    new = nodes.parse_nodes({"nodes": [base | {"state": ["IDLE", "DRAIN"], "active_features": ["a", "b"]}]})[
        0
    ]
    assert old == new
    assert (str(old.state), old.memory) == ("IDLE+DRAIN", 1000 * 1024**2)
