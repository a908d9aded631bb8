"""Rank 0's host, in the kinds of step whose list of hosts does not begin with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.environment import rank_variables
from slurmkit.launch.rendezvous import first_host, master_address

if TYPE_CHECKING:
    from pathlib import Path

HET = {
    "SLURM_JOB_ID": "9",
    "SLURM_STEP_ID": "1",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "n3",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "n[1-2]",
    "SLURM_STEP_NODELIST": "n[1-3]",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2,1,2",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_GTIDS": "2,3",
    "SLURMD_NODENAME": "n1",
}
"""As 22.05.8 has it: the hosts and their counts sorted by name, ranks and node numbers by component."""


def test_a_heterogeneous_step_is_one_world_that_meets_on_its_first_component() -> None:
    variables = rank_variables(HET)
    assert variables["MASTER_ADDR"] == "n3"
    assert (variables["WORLD_SIZE"], variables["LOCAL_WORLD_SIZE"]) == ("5", "2")
    assert (variables["NODE_RANK"], variables["GROUP_WORLD_SIZE"]) == ("1", "3")


def test_a_step_of_the_second_component_alone_meets_there() -> None:
    assert first_host(HET | {"SLURM_STEP_NODELIST": "n[1-2]"}) == "n1"


def test_all_components_have_the_same_port_untold() -> None:
    ports = {rank_variables(HET | {"SLURM_NODEID": str(node)})["MASTER_PORT"] for node in range(3)}
    assert len(ports) == 1


def test_a_heterogeneous_job_of_srun_itself_needs_an_address() -> None:
    """Slurm then tells the sorted hosts only, of which any may be rank 0's."""
    environ = {name: value for name, value in HET.items() if "HET_GROUP" not in name}
    with pytest.raises(ValueError, match="inside of salloc or sbatch, or set MASTER_ADDR"):
        master_address(environ)
    assert master_address(environ | {"MASTER_ADDR": "n3"}) == "n3"
    assert master_address(environ | {"SLURM_STEP_NODELIST": "n2"}) == "n2"


ARBITRARY = {"SLURM_DISTRIBUTION": "arbitrary", "SLURM_STEP_NODELIST": "n[1-2]"}


@pytest.mark.parametrize("text", ["n2\nn1\nn2\n", "# order\n\n  n2*4  # fast\nn1\n", "n[2-3]\nn1", "n2,n1"])
def test_in_an_arbitrary_distribution_the_file_says_where_rank_0_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hosts of é"
    file.write_text(text)
    environ = ARBITRARY | {"SLURM_HOSTFILE": str(file)}
    assert first_host(environ) == "n2"
    chosen = {"MASTER_ADDR": "10.0.0.1", "SLURMKIT_MASTER_NODE": "n1"}
    assert master_address(environ | chosen) == "n2", "chosen for another host"
    assert master_address(environ | chosen | {"SLURMKIT_MASTER_NODE": "n2"}) == "10.0.0.1"


def test_a_file_of_hosts_that_cannot_be_read_is_an_error_unless_the_agent_chose(tmp_path: Path) -> None:
    environ = ARBITRARY | {"SLURM_HOSTFILE": str(tmp_path / "none")}
    with pytest.raises(ValueError, match="SLURM_HOSTFILE cannot be read here"):
        master_address(environ)
    assert master_address(environ | {"MASTER_ADDR": "n2", "SLURMKIT_MASTER_NODE": "n2"}) == "n2"
    (tmp_path / "none").write_text("\n# nothing\n")
    with pytest.raises(ValueError, match="names no host"):
        master_address(environ)


def test_another_distribution_does_not_read_the_file_of_the_shell() -> None:
    environ = ARBITRARY | {"SLURM_DISTRIBUTION": "block", "SLURM_HOSTFILE": "/nonexistent"}
    assert first_host(environ) == "n1"


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("linux[1,2]", "linux1"),
        ("node[001-003,007],gpu[1-2]-ib[0-1]", "node001"),
        ("ml-16-n-[001-002,004],ml-17-n-[001-003]", "ml-16-n-001"),
        ("c1001a-s[11,17]", "c1001a-s11"),
        ("login", "login"),
    ],
)
def test_trap_071_the_first_host_of_a_compressed_list_is_where_the_ranks_meet(nodes: str, host: str) -> None:
    assert master_address({"SLURM_STEP_NODELIST": nodes}) == host
