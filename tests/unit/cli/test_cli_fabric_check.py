from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slurmkit.inventory.fabric import check_job
from tests.unit.inventory.test_fabric_verdict import even, measured, node_at

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Make, Slurmkit


def test_an_earlier_check_is_shown_and_drawn(slurmkit: Slurmkit, add_run: Make, place: Path) -> None:
    paths = add_run("r-1")
    (paths.root / "fabric.json").write_text(json.dumps(measured(4, even)))
    done = slurmkit("fabric-check", "--run", "r-1", "--html", "it's <é>.html")
    assert (done.code, done.out.splitlines()[-1]) == (0, "no node and no path stands out among 6 pairs")
    assert "Fabric check" in (place / "it's <é>.html").read_text()


def test_what_stands_out_is_exit_code_1_and_a_finding(slurmkit: Slurmkit, add_run: Make) -> None:
    (add_run("r-1").root / "fabric.json").write_text(json.dumps(measured(4, node_at(3))))
    done = slurmkit("fabric-check", "--run", "r-1", "--json")
    assert done.code == 1
    assert [(one["kind"], one["nodes"]) for one in done.json["findings"]] == [("slow-node", ["n3"])]
    assert len(done.json["links"]) == 6


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, 1, "the check has no result"),
        ("{}", 2, "cannot be read"),
        ('{"format": 9}', 2, "format 9 is none that this version knows"),
        ("no json", 2, "cannot be read"),
    ],
)
def test_a_run_without_a_result_says_so(
    slurmkit: Slurmkit, add_run: Make, text: str | None, code: int, said: str
) -> None:
    paths = add_run("r-1")
    if text is not None:
        (paths.root / "fabric.json").write_text(text)
    done = slurmkit("fabric-check", "--run", "r-1")
    assert done.code == code
    assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "r-1", "--no-wait"], "--no-wait submits one"),
        (["--nodelist", "n[1-"], "--nodelist"),
        (["--timeout", "soon"], "soon"),
        (["--size", "0"], "more than nothing"),
        (["--time", "nonsense"], "resources.time"),
        (["--set", "resources.nodez=3"], "nodez"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_told(
    slurmkit: Slurmkit, add_run: Make, arguments: list[str], said: str
) -> None:
    add_run("r-1")
    done = slurmkit("fabric-check", *arguments)
    assert done.code == 2
    assert said in done.err


def test_the_job_asks_for_what_was_said(slurmkit: Slurmkit, place: Path) -> None:
    done = slurmkit("fabric-check", "-w", "n[1-8],m3", "-A", "it's", "--no-wait", "--json")
    assert done.code == 0, done.err
    script = (place / "runs" / done.json["id"] / "job.sbatch").read_text()
    assert "#SBATCH --nodes=9" in script
    assert done.json["job_id"] == "12"


def test_with_gpus_every_gpu_has_a_rank_and_set_has_the_last_word(place: Path) -> None:
    spec = check_job({"nodes": 4, "gpus_per_node": "a100:8", "time": None}, ["resources.nodes=6"]).spec
    assert (spec.launch.ntasks_per_node, spec.resources["nodes"]) == ("gpu", 6)
    assert check_job({}).spec.launch.ntasks_per_node == 1


def test_the_job_starts_where_it_was_asked_for_and_its_python_is_the_users(place: Path) -> None:
    loaded = check_job({}, python="/opt/it's mine/python", arguments=["--timeout=60"])
    assert loaded.directory == place
    assert loaded.spec.command[0] == "/opt/it's mine/python"
    assert loaded.spec.command[-1] == "--timeout=60"
