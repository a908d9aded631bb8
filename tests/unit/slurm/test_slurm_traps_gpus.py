"""GPUs as Slurm's commands and variables have them: the kinds of report that counted them wrongly."""

from __future__ import annotations

import pytest

from slurmkit.slurm.environment import strip
from slurmkit.slurm.gres import count
from slurmkit.slurm.squeue import COLUMNS, arguments
from slurmkit.slurm.tres import Tres


def test_trap_051_gpus_are_counted_from_what_was_allocated() -> None:
    """squeue's %b knows --gres alone, and says N/A of --gpus and --gpus-per-node."""
    assert "tres-alloc" in COLUMNS
    assert not [column for column in COLUMNS if "per-node" in column.lower()]
    assert Tres.parse("cpu=4,mem=32G,node=1,gres/gpu=1").gpus == 1
    assert Tres.parse("cpu=4,mem=32G,node=1").gpus == 0


def test_trap_051_every_column_of_squeue_is_printed_whole() -> None:
    """A column without a width of its own is cut after 20 characters: `cpu=2,mem=512M,node=`."""
    (layout,) = [word for word in arguments() if word.startswith("--Format=")]
    words = layout.removeprefix("--Format=").split(",")
    assert len(words) == len(COLUMNS)
    assert all(len(word.split(":", 1)[1]) > 0 for word in words)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:turing:1,gpu:ampere:3", 4),
        ("gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)", 34),
        ("gpu:h100:3(IDX:0,4-5)", 3),
        ("gpu:h100:3(IDX:0,4-5),gpu:a100:0(IDX:N/A)", 3),
        ("gpu:8", 8),
        ("gpu", 1),
        ("gpu:a100", 1),
        ("(null)", 0),
        ("", 0),
        (None, 0),
        ("gpu:tesla:no_consume:2", 2),
        ("nic:2,gpu:a100:4(S:0,1),craynetwork:4", 4),
    ],
)
def test_trap_053_the_gpus_of_a_node(text: str | None, gpus: int) -> None:
    assert count(text) == gpus


def test_trap_066_a_binding_to_cpus_of_an_outer_step_does_not_reach_the_job() -> None:
    outer = {
        "SLURM_CPU_BIND": "quiet,mask_cpu:0xF",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_LIST": "0xF",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
        "SBATCH_CPU_BIND": "mask_cpu:0xF",
        "PATH": "/bin",
    }
    clean, gone = strip(outer)
    assert clean == {"PATH": "/bin"}
    assert len(gone) == 5


@pytest.mark.parametrize(
    ("text", "gpus", "shards"),
    [
        ("cpu=2,gres/gpu=1,gres/shard=4,mem=8G", 1, 4),
        ("cpu=2,gres/shard=4,mem=8G", 0, 4),
        ("cpu=2,gres/shard:a100=4,gres/shard=4", 0, 4),
        ("cpu=2,gres/gpu:a100=2,gres/mps=50", 2, 0),
    ],
)
def test_trap_070_shards_are_no_gpus(text: str, gpus: int, shards: int) -> None:
    tres = Tres.parse(text)
    assert (tres.gpus, tres["gres/shard"]) == (gpus, shards)
    assert count("shard:a100:32,gpu:a100:8") == 8
    assert count("shard:a100:32,gpu:a100:8", "shard") == 32
