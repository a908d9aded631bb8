"""`slurmkit testbed`, as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.native import down, root_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

NAME = "two words"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("state")
    done = slurmkit(directory, "up", "--name", NAME, "--nodes", "1", "--gpus", "none", "--no-accounting")
    assert done.returncode == 0, done.stderr
    yield directory
    down(directory / "slurmkit" / "testbeds" / NAME)


def slurmkit(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "from slurmkit.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "testbed", *words],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_up_again_is_no_error(home: Path) -> None:
    done = slurmkit(home, "up", "--name", NAME, "--nodes", "1", "--gpus", "none", "--no-accounting")
    assert done.returncode == 0
    assert "eval \"$(slurmkit testbed env --name 'two words')\"" in done.stderr


def test_up_with_other_options_is_an_error(home: Path) -> None:
    done = slurmkit(home, "up", "--name", NAME)
    assert done.returncode == 2
    assert "a testbed with other options is there" in done.stderr


def test_status_shows_daemons_and_nodes(home: Path) -> None:
    done = slurmkit(home, "status", "--name", NAME)
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["munged", "up,"],
        ["slurmctld", "up,"],
        ["slurmd-n1", "up,"],
        ["n1", "idle"],
    ]


def test_status_in_json_has_every_key(home: Path) -> None:
    status = json.loads(slurmkit(home, "status", "--name", NAME, "--json").stdout)
    assert list(status) == ["root", "cluster", "slurm_conf", "up", "cgroups", "daemons", "nodes"]
    assert status["up"] is True
    assert status["nodes"] == [{"name": "n1", "state": "idle"}]
    assert [daemon["name"] for daemon in status["daemons"]] == ["munged", "slurmctld", "slurmd-n1"]


def test_env_can_be_evaluated_by_a_shell(home: Path) -> None:
    text = slurmkit(home, "env", "--name", NAME).stdout
    done = subprocess.run(
        ["sh", "-c", 'eval "$1"; sinfo -h -o %D', "sh", text], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1"], done.stderr


@pytest.mark.parametrize("code", [0, 3, 126])
def test_exec_passes_the_exit_code_on(home: Path, code: int) -> None:
    assert slurmkit(home, "exec", "--name", NAME, "--", "srun", "sh", "-c", f"exit {code}").returncode == code


def test_exec_needs_no_dashes(home: Path) -> None:
    done = slurmkit(home, "exec", "--name", NAME, "sinfo", "-h", "-o", "%N")
    assert done.stdout.split() == ["n1"]


@pytest.mark.parametrize(("program", "code"), [("no such program", 127), ("/", 126)])
def test_exec_of_what_cannot_be_executed(home: Path, program: str, code: int) -> None:
    done = slurmkit(home, "exec", "--name", NAME, "--", program)
    assert done.returncode == code
    assert program in done.stderr


@pytest.mark.parametrize("command", [("status",), ("env",), ("exec", "true")])
def test_a_testbed_that_does_not_exist_is_an_error(home: Path, command: tuple[str, ...]) -> None:
    done = slurmkit(home, *command)
    assert done.returncode == 2
    assert "there is no testbed 'default'" in done.stderr


def test_down_of_nothing_is_no_error(home: Path) -> None:
    assert slurmkit(home, "down", "--name", "never").returncode == 0


def test_status_of_a_broken_testbed_is_exit_code_1(home: Path) -> None:
    from slurmkit.testbed.testbed import load

    testbed = load(home / "slurmkit" / "testbeds" / NAME)
    assert testbed
    testbed.kill("slurmctld")
    try:
        done = slurmkit(home, "status", "--name", NAME)
        assert done.returncode == 1
        assert "slurmctld  down" in done.stdout
        assert "n1         unknown" in done.stdout
        assert "is down" in slurmkit(home, "env", "--name", NAME).stderr
    finally:
        testbed.start("slurmctld")


def test_root_of_a_name_is_under_the_state_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    assert root_of(NAME).is_dir()
