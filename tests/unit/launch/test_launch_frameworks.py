"""What torchrun, JAX and Lightning are given beside PyTorch's names."""

from __future__ import annotations

import pytest

from slurmkit.launch.environment import rank_environment
from slurmkit.launch.frameworks import is_torchrun

SHARED = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "23456",
    "CUDA_VISIBLE_DEVICES": "0,1,2,3",
}
ONE_PER_NODE = SHARED | {
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}
FOUR_PER_NODE = SHARED | {
    "SLURM_PROCID": "7",
    "SLURM_LOCALID": "3",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
PET = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "4",
    "PET_MASTER_ADDR": "n1",
    "PET_MASTER_PORT": "23456",
}


def pet(environ: dict[str, str], *command: str) -> dict[str, str]:
    variables, _ = rank_environment(environ, command)
    return {name: value for name, value in variables.items() if name.startswith("PET_")}


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "train.py"),
        ("/opt/venv/bin/torchrun", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("python3", "-u", "-m", "torch.distributed.launch", "train.py"),
        ("bash", "-eo", "pipefail", "-c", "cd /data; exec torchrun --nproc-per-node=8 'train it.py'"),
        ("bash", "-c", "(torchrun train.py)|tee log"),
        ("apptainer", "exec", "--nv", "image.sif", "torchrun", "train.py"),
        ("env", "A=1", "--", "torchrun", "train.py"),
    ],
)
def test_torchrun_is_recognised(command: tuple[str, ...]) -> None:
    assert is_torchrun({}, command)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--launcher", "torchrun"),
        ("python", "train.py", "--launcher=torchrun"),
        ("python", "torchrun_like.py"),
        ("./mytorchrun",),
        ("torchrun.sh",),
        (),
    ],
)
def test_what_only_names_torchrun_is_none(command: tuple[str, ...]) -> None:
    assert not is_torchrun({}, command)


def test_a_script_that_starts_torchrun_is_known_by_the_job_files_word() -> None:
    assert is_torchrun({"SLURMKIT_LAUNCHER": "torchrun"}, ("./train.sh",))


def test_trap_086_torchrun_gets_its_rendezvous_where_it_runs() -> None:
    assert pet(ONE_PER_NODE, "torchrun", "train.py") == PET
    assert pet(ONE_PER_NODE, "torchrun", "--nnodes=2", "--rdzv-backend=c10d", "train.py") == PET


@pytest.mark.parametrize(
    "options", [["--standalone"], ["--nnodes=1"], ["--nnodes", "1"], ["--nproc_per_node=4", "--standalone"]]
)
def test_a_torchrun_that_stays_on_its_node_is_left_alone(options: list[str]) -> None:
    assert pet(ONE_PER_NODE, "torchrun", *options, "train.py") == {}
    assert pet(ONE_PER_NODE, "bash", "-c", " ".join(["torchrun", *options, "train.py"])) == {}


def test_trap_086_torchrun_in_each_of_several_tasks_of_a_node_is_said() -> None:
    variables, said = rank_environment(FOUR_PER_NODE, ("torchrun", "train.py"))
    assert not [name for name in variables if name.startswith("PET_")]
    assert said == [
        "torchrun starts ranks of its own in each of this node's 4 tasks: "
        "start it once on each node, with --ntasks-per-node=1"
    ]


def test_what_the_user_set_for_torchrun_stays_and_is_said() -> None:
    users = {"PET_NNODES": "1:2", "SLURMKIT_USER_VARIABLES": "PET_NNODES"}
    variables, said = rank_environment(ONE_PER_NODE | users, ("torchrun", "train.py"))
    assert "PET_NNODES" not in variables
    assert said == ["PET_NNODES=1:2 is the job's own and stays; Slurm says 2"]


def test_torchrun_and_jax_meet_where_the_user_said() -> None:
    users = {"MASTER_PORT": "29555", "SLURMKIT_USER_VARIABLES": "MASTER_PORT"}
    assert pet(ONE_PER_NODE | users, "torchrun", "train.py")["PET_MASTER_PORT"] == "29555"
    variables, _ = rank_environment(ONE_PER_NODE | users, ("python", "train.py"))
    assert variables["JAX_COORDINATOR_ADDRESS"] == "n1:29555"


def test_torchruns_workers_inherit_neither_a_gpu_nor_a_coordinator_of_the_task() -> None:
    variables, _ = rank_environment(ONE_PER_NODE, ("torchrun", "train.py"))
    assert not {"SLURMKIT_DEVICE", "JAX_COORDINATOR_ADDRESS", "JAX_LOCAL_DEVICE_IDS"} & variables.keys()


def test_inside_of_torchrun_nothing_is_set_a_second_time() -> None:
    environ = FOUR_PER_NODE | {"TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "16"}
    assert rank_environment(environ, ("python", "train.py")) == ({}, [])


def test_trap_087_an_address_of_ipv6_is_in_brackets_before_a_port_only() -> None:
    environ = ONE_PER_NODE | {"MASTER_ADDR": "fd00::5"}
    variables, _ = rank_environment(environ, ("python", "train.py"))
    assert variables["MASTER_ADDR"] == "fd00::5"
    assert variables["JAX_COORDINATOR_ADDRESS"] == "[fd00::5]:23456"


@pytest.mark.parametrize(
    ("task", "visible", "on_node", "jax", "device"),
    [
        (ONE_PER_NODE, "0,1,2,3", "4", "0,1,2,3", "0"),
        (FOUR_PER_NODE, "0,1,2,3", "4", "3", "3"),
        (FOUR_PER_NODE, "0,1,2,3,4,5,6,7", "8", "6,7", "3"),
        (FOUR_PER_NODE, "0", "4", "0", "0"),
        (FOUR_PER_NODE, "0,1", "8", "0,1", "0"),
        (FOUR_PER_NODE, "0,1", "2", "1", "1"),
        (FOUR_PER_NODE, "", "0", None, None),
        (ONE_PER_NODE, "NoDevFiles", "0", None, None),
    ],
)
def test_trap_059_a_task_is_told_of_its_own_gpus_among_the_visible_ones(
    task: dict[str, str], visible: str, on_node: str, jax: str | None, device: str | None
) -> None:
    """JAX would take the local rank for an index, and leave 3 of 4 GPUs idle with one task on a node."""
    environ = task | {"CUDA_VISIBLE_DEVICES": visible, "SLURM_GPUS_ON_NODE": on_node}
    variables, _ = rank_environment(environ, ("python", "train.py"))
    assert variables.get("JAX_LOCAL_DEVICE_IDS") == jax
    assert variables.get("SLURMKIT_DEVICE") == device


def test_lightning_is_told_of_the_steps_tasks_on_this_node() -> None:
    """It refuses `--ntasks` alone, and reads what the job had where the step is another."""
    assert rank_environment(FOUR_PER_NODE)[0]["SLURM_NTASKS_PER_NODE"] == "4"
    variables, said = rank_environment(FOUR_PER_NODE | {"SLURM_NTASKS_PER_NODE": "8"})
    assert variables["SLURM_NTASKS_PER_NODE"] == "4"
    assert said == ["SLURM_NTASKS_PER_NODE is 4 here; the environment had 8"]


def test_what_mpi_needs_of_slurm_stays_as_it_is() -> None:
    environ = FOUR_PER_NODE | {"PMI_RANK": "7", "PMIX_RANK": "7", "OMPI_COMM_WORLD_RANK": "7", "PMI_FD": "9"}
    assert not [name for name in rank_environment(environ)[0] if name.startswith(("PMI", "OMPI"))]
