from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.errors import JobFailed
from slurmkit.launch.mesh import Mesh
from slurmkit.recovery import step
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.placing import Placement, choose, place
from slurmkit.recovery.setting import Setting
from slurmkit.run import events
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands
from slurmkit.spec.model import JobSpec, Launch, Parallel

NODES = ("n1", "n2", "n3", "n4")
TREE = {"n1": "core.leaf1.n1", "n2": "core.leaf2.n2", "n3": "core.leaf1.n3", "n4": "core.leaf2.n4"}


def setting(
    root: Path, *, nodes: str = "n[1-4]", environ: dict[str, str] | None = None, **more: object
) -> Setting:
    resources = more.pop("resources", {"nodes": 4, "gpus_per_node": "a100:2"})
    return Setting(
        paths=RunPaths(root),
        spec=JobSpec(name="job", command=("python",), resources=resources, **more),  # type: ignore[arg-type]
        attempt=current_attempt({"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": nodes}),
        environ=environ or {},
        mask=(),
        srun="srun",
        clock=SystemClock(),
        connect=Commands,
        began=0.0,
    )


@pytest.mark.parametrize(
    ("spares", "unfit", "chosen"),
    [
        (0, {}, NODES),
        (1, {}, ("n1", "n2", "n3")),
        (1, {"n2": ["no GPU"]}, ("n1", "n3", "n4")),
        (2, {"n1": ["no GPU"], "n4": ["full"]}, ("n2", "n3")),
    ],
)
def test_a_spare_stands_in_for_a_node_that_is_unfit(
    spares: int, unfit: dict[str, list[str]], chosen: tuple[str, ...]
) -> None:
    assert choose(NODES, spares, unfit) == chosen


def test_too_few_fit_nodes_are_named_with_their_reasons() -> None:
    with pytest.raises(
        JobFailed, match="4 nodes are needed, and 3 of 4 are fit: n2: 7 of 8 GPUs, /tmp is full"
    ):
        choose(NODES, 0, {"n2": ["7 of 8 GPUs", "/tmp is full"]})


def test_the_order_of_nodes_follows_the_network_where_there_is_a_mesh(tmp_path: Path) -> None:
    this = setting(tmp_path, parallel=Parallel(tensor=2))
    placement = place(this, NODES, TREE)
    assert placement.nodes == ("n1", "n3", "n2", "n4")
    assert placement.hostfile is not None
    assert placement.hostfile.read_text().split() == ["n1", "n1", "n3", "n3", "n2", "n2", "n4", "n4"]
    assert placement.mesh == str(Mesh({"tensor": 2, "data": 4}))
    assert [event.kind for event in events.read(this.paths)] == ["nodes-ordered"]
    argv = step.srun_command(this.spec, this.paths, "12-0", placement)
    assert {"--distribution=arbitrary", "--ntasks=8"} < set(argv)
    environ = step.step_environment(
        {}, this.paths, this.attempt, 0, address="n1", port="1", placement=placement
    )
    assert environ["SLURM_HOSTFILE"] == str(placement.hostfile)
    assert environ["SLURMKIT_PARALLEL"] == placement.mesh


def test_without_a_mesh_the_order_is_slurms(tmp_path: Path) -> None:
    assert place(setting(tmp_path), NODES, TREE) == Placement(NODES)


def test_where_not_all_nodes_are_used_srun_is_told_which(tmp_path: Path) -> None:
    this = setting(tmp_path, resources={"nodes": 2, "gpus_per_node": "a100:2"}, spare_nodes=2)
    placement = place(this, ("n1", "n3"), {})
    assert "--nodelist=n1,n3" in step.srun_command(this.spec, this.paths, "12-0", placement)


def test_a_mesh_that_does_not_come_out_on_what_slurm_gave_ends_the_attempt(tmp_path: Path) -> None:
    resources = {"nodes": "1-4", "ntasks": 6}
    with pytest.raises(JobFailed, match="tensor 4 does not divide the 6 ranks"):
        place(setting(tmp_path, resources=resources, parallel=Parallel(tensor=4)), NODES, {})


def test_a_tensor_group_that_uneven_nodes_take_apart_ends_the_attempt(tmp_path: Path) -> None:
    this = setting(
        tmp_path,
        nodes="n[1-2]",
        resources={"nodes": "2-3", "ntasks": 8},
        launch=Launch(),
        parallel=Parallel(tensor=4),
        environ={"SLURM_TASKS_PER_NODE": "6,2"},
    )
    with pytest.raises(JobFailed, match="ranks 4 to 7 is spread over 2 nodes"):
        place(this, ("n1", "n2"), {})


def test_under_torchrun_the_mesh_is_of_its_workers_and_the_file_of_its_tasks(tmp_path: Path) -> None:
    this = setting(tmp_path, parallel=Parallel(tensor=2), launch=Launch(launcher="torchrun"))
    placement = place(this, NODES, TREE)
    assert placement.mesh == str(Mesh({"tensor": 2, "data": 4}))
    assert placement.hostfile is not None
    assert placement.hostfile.read_text().split() == ["n1", "n3", "n2", "n4"]
