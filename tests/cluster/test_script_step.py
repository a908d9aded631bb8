"""The step of a plain script: its ranks, CPUs and GPUs, whatever way the job file counts them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.port import ephemeral_range
from slurmkit.spec.model import Environment, Launch, Parallel
from tests.cluster.batch import Batch, Told
from tests.cluster.site import until

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")


@pytest.fixture
def batch(slurm_testbed: Testbed, tmp_path: Path) -> Batch:
    return Batch(slurm_testbed, tmp_path)


def ran(batch: Batch, **sections: Any) -> list[Told]:
    job = batch.run(batch.spec(**sections))
    assert job["JobState"] == "COMPLETED", batch.log()
    return batch.told()


def numbers(ranks: list[Told]) -> list[tuple[int, ...]]:
    return [tuple(int(rank.text(name)) for name in RANKS) for rank in ranks]


def test_ranks_of_two_nodes_with_four_tasks_each(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": 2, "ntasks_per_node": 4})
    assert numbers(ranks) == [(rank, rank % 4, 8, 4, rank // 4) for rank in range(8)]
    assert [rank.text("RANK") for rank in ranks] == [rank.text("SLURM_PROCID") for rank in ranks]
    (address,) = {rank.text("MASTER_ADDR") for rank in ranks}
    (port,) = {int(rank.text("MASTER_PORT")) for rank in ranks}
    assert address in {ranks[0].text("SLURMD_NODENAME"), "127.0.0.1"}
    low, high = ephemeral_range()
    assert 1024 < port < 65536
    assert not low <= port <= high


def test_trap_082_uneven_nodes_each_say_how_many_ranks_they_have(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": 2, "ntasks": 5, "distribution": "block"})
    on_first = sum(rank.text("NODE_RANK") == "0" for rank in ranks)
    assert len(ranks) == 5
    assert on_first != 5 - on_first
    for rank in ranks:
        here = on_first if rank.text("NODE_RANK") == "0" else 5 - on_first
        assert rank.text("LOCAL_WORLD_SIZE") == str(here)


def test_trap_085_a_cyclic_distribution_has_its_own_local_ranks(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": 2, "ntasks_per_node": 2, "distribution": "cyclic"})
    assert numbers(ranks) == [(0, 0, 4, 2, 0), (1, 0, 4, 2, 1), (2, 1, 4, 2, 0), (3, 1, 4, 2, 1)]


def test_trap_085_a_mesh_is_laid_out_in_blocks(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": 2, "ntasks_per_node": 2}, parallel=Parallel(tensor=2))
    assert [rank.text("NODE_RANK") for rank in ranks] == ["0", "0", "1", "1"]


def test_cpus_per_task_reaches_every_task(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": 2, "ntasks_per_node": 2, "cpus_per_task": 3})
    assert [rank.text("SLURM_CPUS_PER_TASK") for rank in ranks] == ["3"] * 4
    assert {rank.text("SLURM_CPUS_ON_NODE") for rank in ranks} == {"6"}


def test_another_srun_of_the_script_gets_the_cpus_of_a_task_too(batch: Batch) -> None:
    spec = batch.spec(
        command=("true",),
        resources={"cpus_per_task": 3},
        environment=Environment(setup=("srun --ntasks=1 printenv SLURM_CPUS_PER_TASK",)),
    )
    assert batch.run(spec)["JobState"] == "COMPLETED"
    assert batch.log() == "3\n"


@pytest.mark.parametrize(
    ("resources", "tasks", "visible"),
    [
        ({"gpus_per_node": "a100:4"}, 8, 4),
        ({"gpus_per_node": 2}, 4, 2),
        ({"gres": "gpu:a100:3"}, 6, 3),
        ({"gpus": 4}, 4, None),
        ({"gpus_per_task": 2, "ntasks_per_node": 2}, 4, 2),
        ({"gpus_per_node": 4, "ntasks_per_node": 1}, 2, 4),
        ({"gpus_per_node": 2, "ntasks_per_gpu": 2}, 8, None),
        ({"gpus_per_node": 4, "ntasks": 2}, 2, 4),
    ],
)
def test_one_task_for_each_gpu_unless_the_job_file_counts_tasks(
    batch: Batch, resources: dict[str, Any], tasks: int, visible: int | None
) -> None:
    ranks = ran(batch, resources={"nodes": 2, **resources})
    assert len(ranks) == tasks
    seen = {len(rank.text("CUDA_VISIBLE_DEVICES").split(",")) for rank in ranks}
    if visible is not None:
        assert seen == {visible}


def test_spare_nodes_stay_idle(batch: Batch) -> None:
    spec = batch.spec(resources={"nodes": 2, "gpus_per_node": 2}, spare_nodes=1)
    job = batch.run(spec)
    assert (job["JobState"], job["NumNodes"]) == ("COMPLETED", "3"), batch.log()
    ranks = batch.told()
    assert len(ranks) == 4
    assert {rank.text("SLURM_STEP_NUM_NODES") for rank in ranks} == {"2"}
    first = ranks[0].text("SLURMD_NODENAME")
    assert {rank.text("MASTER_ADDR") for rank in ranks} <= {first, "127.0.0.1"}


@pytest.mark.parametrize("resources", [{"ntasks": 4}, {"ntasks": 3}, {"gpus": 4}], ids=str)
def test_what_is_counted_in_all_is_there_with_spare_nodes_too(
    batch: Batch, resources: dict[str, Any]
) -> None:
    ranks = ran(batch, resources={"nodes": 2, **resources}, spare_nodes=1)
    assert len(ranks) == resources.get("ntasks", 4)


def test_a_range_of_nodes_runs_on_all_that_were_given(batch: Batch) -> None:
    ranks = ran(batch, resources={"nodes": "2-3", "ntasks_per_node": 2})
    nodes = {rank.text("NODE_RANK") for rank in ranks}
    assert len(nodes) in {2, 3}
    assert len(ranks) == 2 * len(nodes)


@pytest.mark.parametrize("export", ["NONE", "FOO", "ALL"])
def test_trap_138_steps_run_whatever_the_job_exports(
    batch: Batch, export: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOO", "1")
    monkeypatch.setenv("BAR", "2")
    ranks = ran(batch, resources={"ntasks": 2, "export": export})
    assert len(ranks) == 2
    assert ranks[0].text("FOO") == ("" if export == "NONE" else "1")
    assert ranks[0].text("BAR") == ("2" if export == "ALL" else "")


def test_trap_138_secrets_arrive_where_the_job_exports_nothing(batch: Batch) -> None:
    secret = Environment(variables={"HF_TOKEN": "s", "A": "b"})
    ranks = ran(batch, resources={"export": "NONE"}, environment=secret)
    assert (ranks[0].text("HF_TOKEN"), ranks[0].text("A")) == ("s", "b")


def test_trap_090_one_crashed_rank_ends_the_others(batch: Batch) -> None:
    line = "if [[ $RANK = 1 ]]; then exit 7; fi; exec sleep 300"
    job = batch.run(batch.spec(command=line, resources={"ntasks": 3}))
    assert job["JobState"] == "FAILED"
    assert job["RunTime"] < "00:01:00"


def test_a_cancel_leaves_the_ranks_their_time_to_save(batch: Batch) -> None:
    ready, saved = batch.directory / "ready", batch.directory / "saved"
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        f"    time.sleep(1.5); open({str(saved)!r}, 'w').close(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, save)\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "time.sleep(300)\n"
    )
    job = batch.submit(batch.render(batch.spec(command=("python3", "-c", code))))
    until(ready.exists, "the rank runs")
    batch.testbed.command(["scancel", job])
    assert batch.wait(job)["JobState"] == "CANCELLED"
    until(saved.exists, "the rank has saved", 10)


def test_the_users_own_options_for_srun_come_last(batch: Batch) -> None:
    ranks = ran(
        batch,
        resources={"nodes": 2, "ntasks_per_node": 2},
        launch=Launch(srun=("--ntasks=3", "--ntasks-per-node=2")),
    )
    assert len(ranks) == 3


def test_trap_086_torchrun_is_started_once_on_each_node(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = batch.directory / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text(f'#!/bin/bash\nexec python3 {shlex.quote(str(batch.program))} "$@"\n')
    (programs / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    ranks = ran(
        batch,
        command=("python", "train.py", "a b"),
        resources={"nodes": 2, "gpus_per_node": 4},
        launch=Launch(launcher="torchrun"),
    )
    assert len(ranks) == 2
    for number, rank in enumerate(ranks):
        address, port = rank.text("MASTER_ADDR"), rank.text("MASTER_PORT")
        assert [word.decode() for word in rank.argv] == [
            *("--nnodes=2", f"--node-rank={number}", f"--master-addr={address}", f"--master-port={port}"),
            *("--nproc-per-node=4", "--no-python", "python", "train.py", "a b"),
        ]
