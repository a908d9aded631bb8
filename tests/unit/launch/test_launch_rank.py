from __future__ import annotations

import dataclasses

import pytest

from slurmkit.launch import Rank, rank_from_env

SLURM = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NODELIST": "n[1-2]",
}
TORCHRUN = {
    "RANK": "11",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "3",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
}


def test_without_a_launcher_a_program_is_rank_0_of_1() -> None:
    assert rank_from_env({}) == Rank(
        rank=0,
        world_size=1,
        local_rank=0,
        local_world_size=1,
        node_rank=0,
        master_addr=None,
        master_port=None,
        device=None,
    )


def test_under_bare_srun_the_numbers_are_slurms() -> None:
    rank = rank_from_env(SLURM)
    assert (rank.rank, rank.world_size, rank.local_world_size, rank.node_rank) == (1, 2, 1, 1)
    assert rank.master_addr == "n1"
    assert rank.master_port is not None


def test_under_torchrun_its_numbers_go_before_those_of_the_task_that_it_is() -> None:
    rank = rank_from_env(
        SLURM | TORCHRUN | {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "SLURMKIT_DEVICE": "0"}
    )
    assert (rank.rank, rank.world_size, rank.local_rank, rank.node_rank) == (11, 16, 3, 1)
    assert (rank.master_addr, rank.master_port, rank.device) == ("n1", 29500, 3)


def test_pytorchs_variables_in_part_are_not_mistaken_for_a_launcher() -> None:
    assert rank_from_env(SLURM | {"WORLD_SIZE": "8"}).world_size == 2


def test_trap_081_the_batch_shell_is_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match="start the program with srun"):
        rank_from_env({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "8"})


def test_a_rank_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        rank_from_env({}).rank = 1  # type: ignore[misc]
