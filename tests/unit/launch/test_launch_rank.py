from __future__ import annotations

import dataclasses
import json

import pytest

from slurmkit.launch import MeshPlace, Rank, rank_from_env

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


PLACE = MeshPlace(
    order=("tensor", "context", "data", "pipeline"),
    sizes={"tensor": 2, "context": 1, "data": 8, "pipeline": 1, "expert": 1},
    coordinates={"tensor": 1, "context": 0, "data": 5, "pipeline": 0, "expert": 0},
    groups={
        "tensor": (10, 11),
        "context": (11,),
        "data": tuple(range(1, 16, 2)),
        "pipeline": (11,),
        "expert": (11,),
    },
)
"""Rank 11 of 16 where two neighbours share each layer."""
SIZES = "order=tensor,context,data,pipeline;tensor=2;context=1;pipeline=1;expert=1;data=8"


def test_the_place_in_the_mesh_is_read_from_what_the_parent_told() -> None:
    told = json.dumps(dataclasses.asdict(PLACE))
    assert rank_from_env(TORCHRUN | {"SLURMKIT_MESH": told}).mesh == PLACE
    assert hash(rank_from_env(TORCHRUN | {"SLURMKIT_MESH": told})) == hash(rank_from_env(TORCHRUN))


def test_a_worker_of_torchrun_finds_its_place_in_the_mesh_itself() -> None:
    """The parent has one task for all the workers of a node."""
    environ = TORCHRUN | {"TORCHELASTIC_RUN_ID": "none", "SLURMKIT_PARALLEL": SIZES}
    assert rank_from_env(environ).mesh == PLACE


def test_without_a_mesh_there_is_no_place_in_one() -> None:
    assert rank_from_env(SLURM).mesh is None


def test_a_worker_of_torchrun_takes_its_gpu_by_its_own_local_rank() -> None:
    environ = {"TORCHELASTIC_RUN_ID": "none", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_GPUS_ON_NODE": "8"}
    assert rank_from_env(SLURM | TORCHRUN | environ).device == 3
