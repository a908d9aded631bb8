"""Every rank knows who it is, whatever the shape of the step."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import archive
from slurmkit.launch.port import ephemeral_range
from tests.cluster import ranks
from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

HELLO = Path(__file__).parents[2] / "examples" / "hello-ranks"
HOSTILE = [
    "two words",
    'it\'s "quoted"',
    "$HOME ${PATH} $(id)",
    "`id`",
    "line\nbreak",
    "tab\tand\\back",
    "naïve 名",
    "-leading",
    "--",
    "",
    "%t %%",
    "*",
    "a,b=c",
]


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def check_world(told: list[dict[str, str]], size: int) -> None:
    """The ranks' numbers are those of one world, and agree with where each of them says that it is."""
    hosts = Counter(one["SLURMD_NODENAME"] for one in told)
    assert [int(one["RANK"]) for one in told] == list(range(size))
    for one in told:
        here = [other for other in told if other["SLURMD_NODENAME"] == one["SLURMD_NODENAME"]]
        assert int(one["WORLD_SIZE"]) == size
        assert int(one["LOCAL_WORLD_SIZE"]) == hosts[one["SLURMD_NODENAME"]] == len(here)
        assert sorted(int(other["LOCAL_RANK"]) for other in here) == list(range(len(here)))
        assert {other["NODE_RANK"] for other in here} == {one["GROUP_RANK"]}
    assert {int(one["NODE_RANK"]) for one in told} == set(range(len(hosts)))
    assert len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in told}) == 1


def worlds(site: Site, run: str) -> list[dict[str, str]]:
    return [environ for _, environ in ranks.told(site, run)]


def test_the_example_runs_as_it_stands(site: Site) -> None:
    shutil.copytree(HELLO, site.work, dirs_exist_ok=True)
    run = ranks.run(site, "job.toml")
    lines = "".join(ranks.printed(site, run)).splitlines()
    assert lines == [
        f"rank {rank} of 8 on n{1 + rank // 4}, local rank {local} of 4, GPU {local}: the ranks sum to 28"
        for rank, local in enumerate([0, 1, 2, 3] * 2)
    ]


def test_eight_ranks_on_two_nodes(site: Site) -> None:
    run = ranks.run(site, ranks.write_job(site, ranks.python(ranks.TELL), nodes=2, ntasks_per_node=4))
    told = worlds(site, run)
    check_world(told, 8)
    assert [one["SLURMD_NODENAME"] for one in told] == ["n1"] * 4 + ["n2"] * 4
    assert told[0]["MASTER_ADDR"] == "n1"
    low, high = ephemeral_range()
    assert not low <= int(told[0]["MASTER_PORT"]) <= high
    assert {one["SLURMKIT_RUN_ID"] for one in told} == {run}
    assert len({one["SLURMKIT_ATTEMPT"] for one in told}) == 1


@pytest.mark.parametrize(
    ("resources", "counts"),
    [
        ({"nodes": 3, "ntasks": 10, "distribution": "plane=4", "exclusive": True}, ["4", "2"]),
        ({"nodes": 2, "ntasks": 3}, ["2", "1"]),
    ],
)
def test_trap_082_uneven_tasks_per_node(site: Site, resources: dict[str, Any], counts: list[str]) -> None:
    run = ranks.run(site, ranks.write_job(site, ranks.python(ranks.TELL), **resources))
    told = worlds(site, run)
    check_world(told, resources["ntasks"])
    assert list(dict.fromkeys(one["LOCAL_WORLD_SIZE"] for one in told)) == counts


@pytest.mark.parametrize(
    ("distribution", "hosts"),
    [("cyclic", "n1 n2 n1 n2 n1 n2 n1 n2"), ("plane=2", "n1 n1 n2 n2 n1 n1 n2 n2")],
)
def test_trap_085_ranks_are_right_in_any_distribution(site: Site, distribution: str, hosts: str) -> None:
    job = ranks.write_job(
        site, ranks.python(ranks.TELL), nodes=2, ntasks_per_node=4, distribution=distribution
    )
    told = worlds(site, ranks.run(site, job))
    check_world(told, 8)
    assert [one["SLURMD_NODENAME"] for one in told] == hosts.split()


@pytest.mark.parametrize(
    ("resources", "devices"),
    [({"gpus_per_node": 2}, ["0", "1"]), ({"ntasks": 2, "gpus_per_task": 1}, ["0", "0"])],
)
def test_trap_059_each_rank_knows_its_gpu_among_those_that_it_sees(
    site: Site, resources: dict[str, Any], devices: list[str]
) -> None:
    run = ranks.run(site, ranks.write_job(site, ranks.python(ranks.TELL), nodes=1, **resources))
    told = worlds(site, run)
    assert [one["SLURMKIT_DEVICE"] for one in told] == devices
    assert [one["LOCAL_RANK"] for one in told] == ["0", "1"]


def test_without_gpus_no_rank_has_a_device(site: Site) -> None:
    run = ranks.run(site, ranks.write_job(site, ranks.python(ranks.TELL), nodes=1, ntasks=1))
    assert "SLURMKIT_DEVICE" not in worlds(site, run)[0]


def test_trap_126_argv_and_environment_arrive_byte_for_byte(site: Site) -> None:
    hostile = {f"HOSTILE_{number}": value for number, value in enumerate(HOSTILE)}
    job = ranks.write_job(site, ranks.python(ranks.TELL, *HOSTILE), variables=hostile, nodes=2, ntasks=2)
    for argv, environ in ranks.told(site, ranks.run(site, job)):
        assert argv == HOSTILE
        assert {name: environ.get(name) for name in hostile} == hostile


def test_a_line_of_bash_is_expanded_by_each_rank(site: Site) -> None:
    line = "for word in \"it's rank\" $RANK; do echo \"$word\"; done | tr '[:lower:]' '[:upper:]'"
    run = ranks.run(site, ranks.write_job(site, line, nodes=1, ntasks=2))
    assert ranks.printed(site, run) == ["IT'S RANK\n0\n", "IT'S RANK\n1\n"]


def test_what_the_user_set_stays_and_the_log_says_so(site: Site) -> None:
    users = {"MASTER_PORT": "29555", "LOCAL_RANK": "9"}
    job = ranks.write_job(site, ranks.python(ranks.TELL), variables=users, nodes=1, ntasks=1)
    run = ranks.run(site, job)
    assert "MASTER_PORT=29555 is the job's own and stays" in ranks.said(site, run)
    lines = ranks.printed(site, run)[0].splitlines()
    assert lines[0] == "slurmkit: LOCAL_RANK=9 is the job's own and stays; Slurm says 0"
    assert '"MASTER_PORT": "29555"' in lines[1]
    assert '"LOCAL_RANK": "9"' in lines[1]


def test_trap_074_without_scontrol_or_an_agent_the_ranks_still_agree(
    slurm_testbed: Testbed, tmp_path: Path
) -> None:
    launcher = tmp_path / "launch.pyz"
    archive.build(launcher)
    names = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
    program = ranks.python(f"import os; print(*map(os.environ.get, {names}))")
    argv = [sys.executable, "-I", "-S", str(launcher), "--", *program]
    options = ["--nodelist=n1,n2", "-n2", "--mem=100", "--export=PATH=/nonexistent"]
    done = slurm_testbed.command(["srun", *options, *argv])
    assert done.returncode == 0, done.stderr
    (rank_0, rank_1) = sorted(line.split() for line in done.stdout.splitlines())
    assert rank_0[:3] == ["0", "2", "n1"], done.stderr
    assert rank_1 == ["1", *rank_0[1:]]


def test_trap_081_a_program_in_the_batch_shell_is_told_to_use_srun(
    slurm_testbed: Testbed, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    script = f"{sys.executable} -c 'from slurmkit.launch import rank_from_env; rank_from_env()'"
    command = ["sbatch", "--wait", "-N2", "-n3", "--mem=100", f"--output={log}", f"--wrap={script}"]
    assert slurm_testbed.command(command).returncode == 1
    assert "start the program with srun" in log.read_text()


def test_a_step_that_begins_on_another_node_meets_there(site: Site) -> None:
    """The job's own options for srun may move the step off the node where the agent chose the address."""
    moved = {"srun": ["--nodes=1", "--ntasks=2", "--ntasks-per-node=2", "--nodelist=n2"]}
    job = ranks.write_job(site, ranks.python(ranks.TELL), nodes=2, ntasks_per_node=2, launch=moved)
    told = worlds(site, ranks.run(site, job))
    check_world(told, 2)
    assert {one["MASTER_ADDR"] for one in told} == {"n2"}


def test_the_tasks_of_an_array_share_a_directory_and_keep_apart(site: Site) -> None:
    job = ranks.write_job(
        site, "echo task $SLURM_ARRAY_TASK_ID rank $RANK of $WORLD_SIZE", nodes=1, ntasks=2, array="3,5"
    )
    run = ranks.run(site, job)
    (job_id,) = {event["array_job_id"] for event in ranks.events(site, run, "attempt-started")}
    logs = sorted(path for path in ranks.directory(site, run).glob("logs/*/*.out"))
    assert [(path.parent.name, path.read_text()) for path in logs] == [
        (f"{job_id}_{task}-0", f"task {task} rank {rank} of 2\n") for task in (3, 5) for rank in (0, 1)
    ]
    assert len(ranks.records(site, run)) == 4
    assert not ranks.events(site, run, "run-ended"), "one task does not know of the others"
