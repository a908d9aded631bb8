from __future__ import annotations

import pytest

from slurmkit.errors import UsageError
from slurmkit.recovery.attempt import current_attempt, restart_of

BATCH = {"SLURM_JOB_ID": "1241", "SLURM_JOB_NODELIST": "n[3,1]", "SLURMD_NODENAME": "n3"}


def test_trap_096_the_first_start_has_no_restart_count() -> None:
    attempt = current_attempt(BATCH)
    assert (attempt.name, attempt.restart) == ("1241-0", 0)


def test_a_requeued_job_is_another_attempt() -> None:
    assert current_attempt(BATCH | {"SLURM_RESTART_COUNT": "2"}).name == "1241-2"


def test_a_start_that_slurm_does_not_count_has_a_name_of_its_own() -> None:
    again = BATCH | {"SLURM_RESTART_COUNT": "2"}
    assert current_attempt(again, {"1241-2"}).name == "1241-2.2"
    assert current_attempt(again, {"1241-2", "1241-2.2"}).name == "1241-2.3"
    assert restart_of("1241-2.3") == 2


def test_the_nodes_are_in_slurms_order() -> None:
    assert current_attempt(BATCH).nodes == ("n3", "n1")


def test_a_task_of_an_array_has_attempts_of_its_own_in_the_common_directory() -> None:
    attempt = current_attempt(BATCH | {"SLURM_ARRAY_JOB_ID": "1234", "SLURM_ARRAY_TASK_ID": "7"})
    assert (attempt.name, attempt.job_id, attempt.array_job_id) == ("1234_7-0", "1234_7", "1234")
    assert attempt.number == 1241  # ports are derived from it: each task has another


@pytest.mark.parametrize("missing", ["SLURM_JOB_ID", "SLURM_JOB_NODELIST"])
def test_outside_of_a_job_there_is_no_attempt(missing: str) -> None:
    environ = {name: value for name, value in BATCH.items() if name != missing}
    with pytest.raises(UsageError, match=missing):
        current_attempt(environ)
