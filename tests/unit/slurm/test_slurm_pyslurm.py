"""What of the pyslurm client shows without pyslurm: the protocol, the manual, and rows made of plain objects.

The stand-ins are only for what a machine without pyslurm can test; the contract suite has the real ones.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import slurmkit
from slurmkit.slurm.protocol import Slurm
from slurmkit.slurm.pyslurm import LEFT_TO_COMMANDS, PySlurm
from slurmkit.slurm.pyslurm_rows import accounted, live

NO_TRES: dict[str, Any] = {
    "mem": None, "node": None, "billing": None, "energy": None, "pages": None, "vmem": None,
    "gres": {}, "fs": {}, "interconnect": {}, "license": {}, "other": {},
}  # fmt: skip
COMMON: dict[str, Any] = {
    "id": 14, "array_id": None, "array_task_id": None, "array_tasks_waiting": None,
    "array_tasks_parallel": None, "heterogeneous_offset": None,
    "heterogeneous_id": None, "state": "COMPLETED", "state_reason": None,
    "exit_code": 0, "exit_code_signal": 0, "requeue_count": 0, "account": None, "partition": "main",
    "qos": None, "cluster": "c", "submit_time": 5, "eligible_time": None, "start_time": None,
    "end_time": None, "time_limit": None, "cpus": 1, "working_directory": "/", "comment": None, "name": "x",
    "requested_tres": None, "user_name": "ada", "user_id": 7,
    "allocated_tres": SimpleNamespace(**NO_TRES, cpu=SimpleNamespace(count=4)),
}  # fmt: skip
IN_QUEUE = {"allocated_nodes": None, "num_nodes": 1, "run_time": 3725}
IN_ACCOUNTING: dict[str, Any] = {
    "cancelled_by": None,
    "elapsed_time": None,
    "nodelist": None,
    "submit_command": None,
    "steps": {},
}


def queued(**fields: Any) -> tuple[dict[str, str], bool]:
    return live(SimpleNamespace(**{**COMMON, **IN_QUEUE, **fields}), "ada", 1000)  # type: ignore[arg-type]


def past(**fields: Any) -> tuple[dict[str, str], bool]:
    return accounted(SimpleNamespace(**{**COMMON, **IN_ACCOUNTING, **fields}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "job_id"),
    [
        ({}, "14"),
        ({"array_id": 12}, "12_0"),
        ({"array_id": 12, "array_task_id": 3}, "12_3"),
        ({"array_id": 12, "array_tasks_waiting": "1-4", "array_tasks_parallel": 2}, "12_[1-4%2]"),
        ({"id": 12, "array_id": 12, "state": "CANCELLED"}, "12"),
        ({"id": 12, "array_id": 12, "state": "CANCELLED", "array_tasks_waiting": "0"}, "12_[0]"),
        ({"id": 12, "array_id": 12, "state": "CANCELLED", "array_task_id": 3}, "12_3"),
        ({"id": 12, "array_id": 12, "state": "CANCELLED", "allocated_nodes": "n1"}, "12_0"),
        ({"id": 12, "array_id": 12, "state": "CANCELLED", "requeue_count": 1}, "12_0"),
        ({"heterogeneous_id": 12}, "12+0"),
        ({"heterogeneous_id": 12, "heterogeneous_offset": 2}, "12+2"),
    ],
)
def test_a_job_has_the_id_that_squeue_prints(fields: dict[str, Any], job_id: str) -> None:
    assert queued(**fields)[0]["JobArrayID"] == job_id


def test_a_job_without_a_limit_has_no_end_before_it_ends() -> None:
    ends = [
        queued(end_time=2000)[0]["EndTime"],
        queued(end_time=900)[0]["EndTime"],
        queued(end_time=2000, time_limit=5)[0]["EndTime"],
    ]
    assert ends == ["", "900", "2000"]


def test_accountings_bit_mask_of_tasks_is_read() -> None:
    assert past(array_id=12, array_tasks_waiting="0xE")[0]["JobID"] == "12_[1-3]"


def test_an_exit_code_is_doubtful_and_a_signal_is_not() -> None:
    assert [queued(exit_code=9)[1], queued(exit_code_signal=9)[1], queued()[1]] == [True, False, False]


@pytest.mark.parametrize(
    ("state", "signal", "is_doubtful"),
    [
        ("CANCELLED", 0, True),
        ("NODE_FAIL", 0, True),
        ("TIMEOUT", 0, True),
        ("CANCELLED", 15, False),
        ("COMPLETED", 0, False),
    ],
)
def test_a_record_is_doubtful_where_a_step_that_was_ended_seems_to_have_done_well(
    state: str, signal: int, *, is_doubtful: bool
) -> None:
    step = SimpleNamespace(state=state, exit_code=0, exit_code_signal=signal)
    assert past(steps={0: step})[1] == is_doubtful


def test_a_record_is_doubtful_where_the_user_is_unknown() -> None:
    assert past(user_name="7")[1]


def test_the_client_keeps_the_protocol() -> None:
    for name, method in inspect.getmembers(Slurm, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(PySlurm, name)).parameters
            assert list(ours) == list(inspect.signature(method).parameters), name


@pytest.mark.parametrize("call", LEFT_TO_COMMANDS)
def test_the_manual_says_what_is_left_to_the_commands(call: str) -> None:
    page = Path(slurmkit.__file__).parents[1] / "docs" / "howto" / "pyslurm.md"
    assert f"| {call} | {LEFT_TO_COMMANDS[call]} |" in page.read_text()
