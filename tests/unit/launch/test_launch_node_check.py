"""All checks of a node together, the meeting of nodes, and the program that a node runs, from launch.pyz."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch.fitness import run_all
from slurmkit.launch.fitness_found import Found
from slurmkit.launch.fitness_meeting import Listener, check_rendezvous
from slurmkit.launch.port import is_free

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOSTILE = 'it\'s $HOME `id` "é"'


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return path


def test_all_checks_run_at_once_and_the_one_that_hangs_is_named() -> None:
    begun, never = time.monotonic(), threading.Event()

    def hangs(_: float) -> Found:
        never.wait(60)
        return Found()

    made = {
        "good": lambda _: Found(facts={"good": 1}),
        "scratch /dead": hangs,
        "/another": hangs,
        "bad": lambda _: Found(["bad"], ["odd"], {"bad": 2}),
    }
    found = run_all(made, begun + 1.0)
    never.set()
    assert time.monotonic() - begun < 20
    assert [one.partition(" within ")[0] for one in found.problems] == [
        "scratch /dead did not answer",
        "/another did not answer",
        "bad",
    ]
    assert (found.warnings, found.facts) == (["odd"], {"good": 1, "bad": 2})


def test_a_check_that_fails_by_itself_is_no_fault_of_the_node() -> None:
    def wrong(_: float) -> Found:
        raise ZeroDivisionError("oh")

    found = run_all({"the GPUs": wrong}, time.monotonic() + 20)
    assert list(found.problems) == []
    assert found.warnings == ["the GPUs could not be checked: ZeroDivisionError('oh')"]


@pytest.fixture
def port() -> int:
    """One that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
    return number


def place(port: int, peers: int = 1) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": str(port), "first": "n1", "peers": peers, "token": "ours"}


def test_a_first_node_that_starts_later_is_still_reached(port: int) -> None:
    with ThreadPoolExecutor() as pool:
        reaching = pool.submit(check_rendezvous, place(port), "n2", 20.0)
        threading.Event().wait(0.3)
        listener = Listener(place(port), "n1")
        assert reaching.result() == Found()
    listener.close(time.monotonic() + 20)


def test_a_first_node_that_nobody_reaches_is_said_by_the_other(port: int) -> None:
    begun = time.monotonic()
    assert check_rendezvous(place(port), "n2", 0.3).facts == {
        "unreached": f"127.0.0.1:{port}: Connection refused"
    }
    assert time.monotonic() - begun < 10


def test_another_jobs_first_node_is_not_this_ones(port: int) -> None:
    listener = Listener({**place(port), "token": "theirs"}, "n1")
    found = check_rendezvous(place(port), "n2", 0.3)
    assert found.facts == {"unreached": f"127.0.0.1:{port}: something else answers there"}
    listener.close(time.monotonic())


def test_a_port_that_is_taken_is_told_by_the_first_node() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        taken = server.getsockname()[1]
        listener = Listener(place(taken), "n1")
        listener.close(time.monotonic())
    assert listener.problem == f"the rendezvous port {taken} cannot be used: Address already in use"


def test_nobody_is_waited_for_longer_than_allowed(port: int) -> None:
    begun = time.monotonic()
    Listener(place(port, peers=3), "n1").close(begun + 0.3)
    assert 0.2 < time.monotonic() - begun < 10


def checked(archive: Path, folder: Path, environ: Mapping[str, str], **asked: object) -> list[dict[str, Any]]:
    """The lines that the check of a node prints."""
    wanted = {"token": "ours", "seconds": 10.0, "output": str(folder), **asked}
    done = subprocess.run(
        [sys.executable, "-I", "-S", archive, "fitness"],
        env={"PATH": os.environ["PATH"], "SLURMKIT_FITNESS": json.dumps(wanted), **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return [json.loads(one) for one in done.stdout.splitlines()]


def test_a_node_tells_its_time_and_then_what_it_found(launch_archive: Path, tmp_path: Path) -> None:
    check = script(tmp_path / HOSTILE, "[[ $SLURMD_NODENAME = n1 ]] || exit 1; [[ -v SLURMKIT_FITNESS ]]")
    folder = tmp_path / "out"
    folder.mkdir()
    environ = {"SLURMD_NODENAME": "n1", "SLURM_TOPOLOGY_ADDR": "s1.n1", "SLURM_STEP_ID": "0"}
    hello, record = checked(
        launch_archive, folder, environ, programs=[str(check)], memory=1 << 40, directories=[]
    )
    assert abs(hello["hello"] - time.time()) < 60
    assert (hello["token"], hello["node"]) == ("ours", "n1")
    assert record["problems"] == [f"{check}: exit code 1"]
    assert "of memory" in " ".join(record["warnings"] + record["problems"])
    assert (record["token"], record["topology"]) == ("ours", "s1.n1")
    assert set(record["facts"]) >= {"memory", "scratch"}
    assert json.loads((folder / "n1.json").read_bytes()) == record


def test_a_node_answers_in_time_whatever_hangs_and_though_nothing_can_be_kept(
    launch_archive: Path, tmp_path: Path
) -> None:
    check = script(tmp_path / "check", "exec sleep 600")
    begun = time.monotonic()
    _, record = checked(
        launch_archive, tmp_path / "none", {"SLURMD_NODENAME": "n1"}, programs=[str(check)], seconds=1.5
    )
    assert time.monotonic() - begun < 20
    (found,) = record["problems"]
    assert found.startswith(f"{check} did not answer within 1 s")


def test_of_several_tasks_on_a_node_only_the_first_speaks(launch_archive: Path, tmp_path: Path) -> None:
    assert checked(launch_archive, tmp_path, {"SLURM_LOCALID": "1"}) == []
    assert list(tmp_path.iterdir()) == []


def test_the_other_nodes_reach_the_first_and_its_port_is_free_when_it_has_ended(
    launch_archive: Path, tmp_path: Path, port: int
) -> None:
    meeting = place(port, peers=4)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(
            checked, launch_archive, tmp_path, {"SLURMD_NODENAME": "n1"}, rendezvous=meeting, seconds=20.0
        )
        others = [pool.submit(check_rendezvous, meeting, f"n{number}", 20.0) for number in range(2, 6)]
        assert [one.result() for one in others] == [Found()] * 4
        _, record = first.result()
    assert is_free(port)
    assert record["problems"] == record["warnings"] == []


def test_a_first_node_whose_port_is_taken_warns_and_says_so(launch_archive: Path, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        taken = server.getsockname()[1]
        _, record = checked(
            launch_archive, tmp_path, {"SLURMD_NODENAME": "n1"}, rendezvous=place(taken), seconds=2.0
        )
    assert record["facts"]["port_taken"] is True
    assert record["problems"] == []
    assert record["warnings"] == [f"the rendezvous port {taken} cannot be used: Address already in use"]
