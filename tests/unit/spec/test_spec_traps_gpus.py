"""Requests for GPUs and memory that Slurm would misread or refuse: the job file is refused first."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.errors import JobFileError
from slurmkit.script import render
from slurmkit.spec.gres import gpu_count
from slurmkit.spec.loading import load
from slurmkit.spec.model import JobSpec


def loaded(tmp_path: Path, resources: str) -> JobSpec:
    path = tmp_path / "job.toml"
    path.write_text(f'name = "x"\ncommand = "true"\n[resources]\n{resources}\n')
    return load(path, site=None, user=None).spec


def refusal(tmp_path: Path, resources: str) -> str:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, resources)
    return "\n".join(caught.value.problems)


def test_trap_054_memory_is_asked_for_in_one_way(tmp_path: Path) -> None:
    both = refusal(tmp_path, 'gpus_per_node = 1\nmem = "64G"\nmem_per_gpu = "40G"')
    assert "resources.mem_per_gpu contradicts resources.mem" in both


def test_trap_054_memory_by_gpu_needs_a_gpu(tmp_path: Path) -> None:
    assert "mem_per_gpu counts by GPU, and no GPUs are asked for" in refusal(tmp_path, 'mem_per_gpu = "40G"')


def test_trap_054_memory_that_is_not_asked_for_is_not_in_the_script(tmp_path: Path) -> None:
    spec = loaded(tmp_path, "gpus_per_node = 1")
    rendered = render(spec, run_directory=tmp_path, run_id="r-1", directory=tmp_path, template="plain")
    assert "--mem" not in rendered.text
    assert not [word for word in rendered.arguments if "mem" in word]


@pytest.mark.parametrize(
    ("resources", "per_node", "total"),
    [
        ('nodes = 4\ngres = "gpu:2"', 2, 8),
        ("nodes = 4\ngpus_per_node = 2", 2, 8),
        ("nodes = 4\ngpus = 8", None, 8),
        ("nodes = 1\ngpus = 8", 8, 8),
    ],
)
def test_trap_058_gres_counts_by_node_and_gpus_in_all(
    tmp_path: Path, resources: str, per_node: int | None, total: int
) -> None:
    count = gpu_count(loaded(tmp_path, resources))
    assert (count.per_node, count.total) == (per_node, total)


def test_trap_058_a_total_that_does_not_come_out_is_refused(tmp_path: Path) -> None:
    assert "8 on each of 4 nodes makes 32 GPUs, not 8" in refusal(
        tmp_path, 'nodes = 4\ngres = "gpu:8"\ngpus = 8'
    )


def test_trap_062_tasks_by_gpu_and_cpus_by_task_make_srun_fail(tmp_path: Path) -> None:
    """From 23.11 on: `set by two different environment variables`."""
    text = refusal(tmp_path, "gpus_per_node = 1\nntasks_per_gpu = 1\ncpus_per_task = 1")
    assert "resources.ntasks_per_gpu contradicts resources.cpus_per_task" in text
