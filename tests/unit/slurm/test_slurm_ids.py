from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.ids import LARGEST_TASK, JobId, StepId, TaskSet

numbers = st.integers(min_value=0, max_value=2**32 - 3)
indices = st.integers(min_value=0, max_value=LARGEST_TASK)
task_sets = st.builds(
    TaskSet, st.lists(indices, min_size=1, max_size=40).map(tuple), st.none() | st.integers(1, 10_000)
)
job_ids = st.one_of(
    st.builds(JobId, numbers),
    st.builds(JobId, numbers, task=indices),
    st.builds(JobId, numbers, het=st.integers(0, 127)),
    st.builds(JobId, numbers, tasks=task_sets),
)
steps = st.sampled_from(["batch", "extern", "interactive"]) | st.integers(0, 4_294_000_000).map(str)


@pytest.mark.parametrize(
    ("text", "count", "throttle"),
    [
        ("123_[9201-10000%500]", 800, 500),
        ("4400_[5-100]", 96, None),
        ("12_[60-89,91-94,96-98]", 37, None),
        ("5_[1%1]", 1, 1),
        ("41_[0,4,8,12]", 4, None),
        ("188_[1-99:2]", 50, None),
    ],
)
def test_trap_025_array_ids_with_throttle_and_ranges(text: str, count: int, throttle: int | None) -> None:
    tasks = JobId.parse(text).tasks
    assert tasks is not None
    assert (len(tasks), tasks.throttle) == (count, throttle)


def test_trap_025_one_task_of_an_array() -> None:
    assert JobId.parse("123_7") == JobId(123, task=7)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123.batch", StepId(JobId(123), "batch")),
        ("123.extern", StepId(JobId(123), "extern")),
        ("123.interactive", StepId(JobId(123), "interactive")),
        ("123.0", StepId(JobId(123), "0")),
        ("123_4.batch", StepId(JobId(123, task=4), "batch")),
        ("123_4.0", StepId(JobId(123, task=4), "0")),
        ("159+1.0", StepId(JobId(159, het=1), "0")),
        ("170.0+1", StepId(JobId(170), "0+1")),
    ],
)
def test_trap_028_step_and_component_ids(text: str, expected: StepId) -> None:
    assert StepId.parse(text) == expected
    assert str(expected) == text


def test_trap_028_a_het_component_is_a_job_id() -> None:
    assert JobId.parse("159+0") == JobId(159, het=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "12_",
        "12_[",
        "12_[]",
        "12_[1-4",
        "12+",
        "-3",
        "12.0",
        "1 2",
        "12_[3-1]",
        "12_[1-9:0]",
        "١٢",
    ],
)
def test_trap_028_a_malformed_id_is_an_error_that_names_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|an empty range") as caught:
        JobId.parse(text)
    assert text.partition("_[")[2].rstrip("]") in str(caught.value)


@pytest.mark.parametrize("text", ["12", "12.", "12.a b", "x.0", "12.0.1", "12.-1"])
def test_a_malformed_step_id_is_an_error_that_names_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        StepId.parse(text)


def test_an_index_that_no_slurm_accepts_is_refused_before_memory_is_spent() -> None:
    with pytest.raises(ValueError, match="4000000"):
        TaskSet.parse("0-99999999999")


@pytest.mark.parametrize("throttle", ["1%", "1%x", "1%-1", "1%1%2"])
def test_a_malformed_throttle_is_named(throttle: str) -> None:
    with pytest.raises(ValueError, match="throttle"):
        TaskSet.parse(throttle)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("1-4,7%2", "1-4,7%2"),
        ("1-99:2", "1-99:2"),
        ("0,4,8,12", "0-12:4"),
        ("3,1,2", "1-3"),
        ("1,2", "1-2"),
        ("1,3", "1,3"),
        ("5,5,5", "5"),
        ("0-3,10-30:10,99", "0-3,10-30:10,99"),
    ],
)
def test_tasks_print_in_slurms_own_form(text: str, folded: str) -> None:
    assert str(TaskSet.parse(text)) == folded


@given(task_sets)
def test_tasks_read_back_what_they_print(tasks: TaskSet) -> None:
    assert TaskSet.parse(str(tasks)) == tasks


@given(job_ids)
def test_job_ids_read_back_what_they_print(job: JobId) -> None:
    assert JobId.parse(str(job)) == job


@given(job_ids, steps)
def test_step_ids_read_back_what_they_print(job: JobId, step: str) -> None:
    assert StepId.parse(str(StepId(job, step))) == StepId(job, step)


@pytest.mark.parametrize(
    ("whole", "part", "covered"),
    [
        ("12", "12", True),
        ("12", "12_3", True),
        ("12", "12_[1-4]", True),
        ("12", "12+1", True),
        ("12", "13", False),
        ("12_3", "12_3", True),
        ("12_3", "12_4", False),
        ("12_3", "12", False),
        ("12_[1-4]", "12_2", True),
        ("12_[1-4]", "12_[2-3%1]", True),
        ("12_[1-4]", "12_[4-5]", False),
        ("12_[1-4]", "12", False),
        ("159+1", "159+1", True),
        ("159+1", "159+0", False),
    ],
)
def test_an_id_covers_itself_and_its_parts(whole: str, part: str, covered: bool) -> None:
    assert JobId.parse(whole).covers(JobId.parse(part)) is covered


def test_trap_029_a_het_job_goes_by_the_id_of_its_leader() -> None:
    assert JobId.parse("159+1").base == JobId(159)
