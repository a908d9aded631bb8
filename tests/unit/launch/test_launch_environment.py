from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.devices import device
from slurmkit.launch.environment import as_started, rank_environment, rank_variables

if TYPE_CHECKING:
    from pathlib import Path

TASK = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "9",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_NTASKS": "10",
    "SLURM_STEP_NUM_TASKS": "10",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),2",
    "SLURM_STEP_NODELIST": "gpu[01-03]",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "23456",
}
"""A task as srun starts it: the last one of ten on three uneven nodes."""


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in TASK.items() if name not in names}


def test_a_task_learns_its_ranks_and_where_to_meet() -> None:
    assert rank_variables(TASK) == {
        "RANK": "9",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "10",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "MASTER_ADDR": "gpu01",
        "MASTER_PORT": "23456",
    }


def test_outside_of_slurm_a_process_is_rank_0_of_1() -> None:
    variables, said = rank_environment({"PATH": "/bin"})
    assert (variables["RANK"], variables["WORLD_SIZE"], said) == ("0", "1", [])


@pytest.mark.parametrize(
    ("local_rank", "visible", "index"),
    [
        (3, "0", 0),
        (3, "0,1,2,3", 3),
        (5, "0,1,2,3", 1),
        (2, "GPU-aaa,MIG-bbb,MIG-ccc", 2),
        (0, "", None),
        (0, "NoDevFiles", None),
    ],
)
def test_trap_059_the_device_is_counted_among_those_that_the_task_sees(
    local_rank: int, visible: str, index: int | None
) -> None:
    assert device({"CUDA_VISIBLE_DEVICES": visible}, local_rank) == index
    variables, _ = rank_environment(
        TASK | {"CUDA_VISIBLE_DEVICES": visible, "SLURM_LOCALID": str(local_rank)}
    )
    assert variables.get("SLURMKIT_DEVICE") == (None if index is None else str(index))
    assert variables["LOCAL_RANK"] == str(local_rank)


def test_trap_059_where_nothing_tells_which_devices_are_visible_none_is_named() -> None:
    assert device({}, 3) is None


def test_trap_060_the_visible_devices_stay_as_slurm_set_them() -> None:
    variables, _ = rank_environment(TASK | {"SLURM_JOB_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"})
    assert "CUDA_VISIBLE_DEVICES" not in variables


def test_trap_074_the_first_host_is_found_without_scontrol() -> None:
    environ = without("MASTER_ADDR") | {"SLURM_STEP_NODELIST": "node[001-003]", "PATH": "/nonexistent"}
    assert rank_variables(environ)["MASTER_ADDR"] == "node001"


def test_trap_074_without_a_list_of_hosts_there_is_an_error_not_localhost() -> None:
    with pytest.raises(ValueError, match="SLURM_STEP_NODELIST is missing"):
        rank_variables(without("MASTER_ADDR", "SLURM_STEP_NODELIST"))


def test_trap_074_only_on_a_single_node_localhost_will_do() -> None:
    environ = without("MASTER_ADDR", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
    environ |= {"SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0"}
    assert rank_variables(environ)["MASTER_ADDR"] == "localhost"


def test_trap_075_where_srun_was_called_is_not_where_the_ranks_meet() -> None:
    environ = without("MASTER_ADDR") | {"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}
    assert rank_variables(environ)["MASTER_ADDR"] == "gpu01"


def test_the_agents_choice_is_dropped_where_the_step_begins_on_another_node() -> None:
    chosen = {"MASTER_ADDR": "10.1.2.3", "SLURMKIT_MASTER_NODE": "gpu01"}
    assert rank_variables(TASK | chosen)["MASTER_ADDR"] == "10.1.2.3"
    moved = {**chosen, "SLURM_STEP_NODELIST": "gpu[02-04]"}
    assert rank_variables(TASK | moved)["MASTER_ADDR"] == "gpu02"


def test_without_an_agent_all_ranks_of_a_step_agree_on_a_port() -> None:
    other = without("MASTER_PORT") | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    port = rank_variables(without("MASTER_PORT"))["MASTER_PORT"]
    assert rank_variables(other)["MASTER_PORT"] == port
    assert rank_variables(other | {"SLURM_STEP_ID": "1"})["MASTER_PORT"] != port


def test_trap_080_a_login_into_a_node_is_a_single_process() -> None:
    assert rank_variables({"SLURM_JOB_ID": "12"})["WORLD_SIZE"] == "1"


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        (
            {"SLURM_JOB_ID": "12", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"},
            "SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_NTASKS",
        ),
        (without("SLURM_LOCALID"), "SLURM_LOCALID"),
        (without("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"), "SLURM_NTASKS"),
        (TASK | {"SLURM_NODEID": "x"}, "SLURM_NODEID"),
    ],
)
def test_trap_080_variables_in_part_are_an_error_that_lists_what_is_missing(
    environ: dict[str, str], missing: str
) -> None:
    with pytest.raises(ValueError, match=f"{missing} missing: start the program with srun"):
        rank_variables(environ)


def test_trap_080_a_task_needs_no_more_than_its_numbers_and_the_hosts() -> None:
    numbers = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
    variables = rank_variables(numbers | {"SLURM_NODELIST": "a,b"})
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["MASTER_ADDR"]) == ("5", "8", "a")
    assert "LOCAL_WORLD_SIZE" not in variables


BATCH_SHELL = {
    "SLURM_JOB_ID": "12",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "3",
}


OF_26_05 = {"SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5"}
"""What the batch shell has besides."""


@pytest.mark.parametrize("more", [{}, OF_26_05], ids=["22.05", "26.05"])
def test_trap_081_the_batch_shell_is_not_rank_0(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="none of them, SLURM_STEP_ID missing: start the program with srun"):
        rank_variables(BATCH_SHELL | more)


@pytest.mark.parametrize("more", [{}, OF_26_05], ids=["22.05", "26.05"])
def test_trap_081_the_batch_shell_of_one_task_is_a_world_of_one(more: dict[str, str]) -> None:
    variables = rank_variables(BATCH_SHELL | {"SLURM_NTASKS": "1"} | more)
    assert variables["WORLD_SIZE"] == "1"
    assert "MASTER_PORT" not in variables


def test_trap_081_an_interactive_step_is_a_world_of_one() -> None:
    """`salloc -n 4`: its shell is a step of one task, while SLURM_NTASKS is still the job's."""
    environ = BATCH_SHELL | {
        "SLURM_NTASKS": "4",
        "SLURM_STEP_ID": "4294967290",
        "SLURM_STEP_NUM_TASKS": "1",
        "SLURM_STEP_NODELIST": "n1",
        "SLURM_STEP_TASKS_PER_NODE": "1",
    }
    assert rank_variables(environ)["WORLD_SIZE"] == "1"


@pytest.mark.parametrize(
    ("text", "nodes", "tasks"),
    [("4(x2)", "3", "8"), ("4(x2),2", "3", "12"), ("4(x2),2", "2", "10"), ("4", "1", "4")],
)
def test_trap_082_tasks_per_node_must_fit_nodes_and_tasks(text: str, nodes: str, tasks: str) -> None:
    environ = TASK | {
        "SLURM_STEP_TASKS_PER_NODE": text,
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_STEP_NUM_TASKS": tasks,
    }
    with pytest.raises(ValueError, match="tasks per node"):
        rank_variables(environ)


@pytest.mark.parametrize(
    ("rank", "local", "node", "size"), [(0, 0, 0, "3"), (1, 0, 1, "1"), (2, 1, 0, "3"), (3, 2, 0, "3")]
)
def test_trap_085_in_a_cyclic_distribution_the_place_is_slurms_word(
    rank: int, local: int, node: int, size: str
) -> None:
    environ = TASK | {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_TASKS_PER_NODE": "3,1",
    }
    variables = rank_variables(environ)
    found = [variables[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE")]
    assert found == [str(rank), str(local), str(node), size]


def test_trap_088_no_network_interface_is_chosen_for_nccl() -> None:
    assert not [name for name in rank_environment(TASK)[0] if name.startswith("NCCL")]


def test_what_the_user_set_stays_and_is_said() -> None:
    users = {"RANK": "77", "MASTER_PORT": "999", "SLURMKIT_USER_VARIABLES": "RANK MASTER_PORT"}
    variables, said = rank_environment(TASK | users)
    assert not {"RANK", "MASTER_PORT"} & variables.keys()
    assert said == ["RANK=77 is the job's own and stays; Slurm says 9"]


def test_what_is_overwritten_is_said() -> None:
    variables, said = rank_environment(TASK | {"LOCAL_RANK": "5"})
    assert variables["LOCAL_RANK"] == "1"
    assert said == ["LOCAL_RANK is 1 here; the environment had 5"]


@pytest.mark.parametrize(
    ("before", "value", "stays"),
    [
        (b"PATH=/bin\0", "C.UTF-8", False),
        (b"PATH=/bin\0LC_CTYPE=C.UTF-8\0", "C.UTF-8", True),
        (b"LC_CTYPE=C.UTF-8\0", "C.UTF-8", True),
        (b"XLC_CTYPE=1\0", "C.UTF-8", False),
        (b"", "de_DE.UTF-8", True),
    ],
)
def test_the_locale_that_python_added_is_taken_back(
    tmp_path: Path, before: bytes, value: str, stays: bool
) -> None:
    path = tmp_path / "environ"
    path.write_bytes(before)
    assert ("LC_CTYPE" in as_started({"LC_CTYPE": value}, str(path))) == stays


def test_without_proc_the_environment_stays_as_it_is(tmp_path: Path) -> None:
    environ = {"LC_CTYPE": "C.UTF-8"}
    assert as_started(environ, str(tmp_path / "none")) == environ
