"""The program of the check, as its ranks run it: several of them on this host, without Slurm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.inventory import fabric_program
from slurmkit.inventory.fabric import from_json
from slurmkit.inventory.fabric_program import choose, plain_address
from slurmkit.inventory.fabric_transport import Member, connect
from slurmkit.inventory.fabric_verdict import findings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SMALL = ("--largest", "4096", "--pair-bytes", "65536", "--timeout", "3", "--transport", "sockets")
NO_NETWORK = """\
import socket
class Deaf(socket.socket):
    def send(self, *arguments):
        raise OSError(101, "Network is unreachable")
socket.socket = Deaf
"""


def start(
    rank: int, world: int, port: int, directory: Path, *arguments: str, **environ: str
) -> subprocess.Popen[str]:
    variables = {
        "RANK": str(rank),
        "NODE_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "SLURMD_NODENAME": f"n{rank}",
        "SLURMKIT_RUN_DIRECTORY": str(directory),
        "SLURMKIT_TOKEN": "f" * 32,
    }
    return subprocess.Popen(
        [sys.executable, fabric_program.__file__, *arguments],
        env={**os.environ, **variables, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def finish(ranks: list[subprocess.Popen[str]]) -> list[str]:
    """What each said; all must have ended well."""
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), said
    return said


def run(world: int, directory: Path, special: Mapping[int, dict[str, str]]) -> dict[str, Any]:
    port = free_port()
    finish([start(rank, world, port, directory, *SMALL, **special.get(rank, {})) for rank in range(world)])
    result: dict[str, Any] = json.loads((directory / fabric_program.RESULT).read_text())
    return result


@pytest.mark.parametrize("world", [1, 2, 5])
def test_all_pairs_and_the_world_are_measured(world: int, tmp_path: Path) -> None:
    data = run(world, tmp_path, {})
    assert data["complete"] is True
    assert data["nodes"] == [f"n{rank}" for rank in range(world)]
    assert len(data["pairs"]) == world * (world - 1) // 2
    assert len(data["world"]) == (2 if world > 1 else 0)
    from_json(data)


def test_ranks_of_one_node_measure_side_by_side(tmp_path: Path) -> None:
    nodes = {rank: {"NODE_RANK": str(rank // 2), "SLURMD_NODENAME": f"n{rank // 2}"} for rank in range(4)}
    data = run(4, tmp_path, nodes)
    assert (data["nodes"], data["ranks"], data["lanes"]) == (["n0", "n1"], 4, 2)
    assert [one["nodes"] for one in data["pairs"]] == [[0, 1]]


def test_a_node_that_cannot_send_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    fabric = from_json(run(4, tmp_path, {2: {"PYTHONPATH": str(tmp_path)}}))
    kinds = {one.kind: one.nodes for one in findings(fabric) if not one.kind.startswith("slow")}
    assert kinds == {"all-reduce": (), "dead-node": ("n2",)}
    assert all(one.bandwidth for one in fabric.links if "n2" not in one.nodes)


def test_strangers_at_the_door_are_turned_away(tmp_path: Path) -> None:
    port = free_port()
    first = start(0, 2, port, tmp_path, *SMALL)
    for words in (b"GET / HTTP/1.0\r\n\r\n", b'{"0": {"rank": 1}}\n', b"[]\n", b"\xff\n", b""):
        with connect("127.0.0.1", port, 30.0) as stranger:
            stranger.sendall(words)
    finish([first, start(1, 2, port, tmp_path, *SMALL)])
    assert json.loads((tmp_path / fabric_program.RESULT).read_text())["complete"] is True


def test_a_transport_that_is_not_there_is_refused_with_the_reason(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--transport", "nccl")
    ranks = [start(rank, 2, port, tmp_path, *arguments) for rank in range(2)]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert all(rank.returncode == 1 for rank in ranks)
    assert all("no nccl on n0, n1: " in text for text in said)
    assert not (tmp_path / fabric_program.RESULT).exists()


def member(rank: int, torch: str | None = None, *, nccl: bool = False, why: str = "") -> Member:
    return Member(rank, rank, f"n{rank}", 1, None, torch, nccl, why)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member(0, "2", nccl=True), member(1, "2", nccl=True)], ("nccl", "")),
        (
            [member(0, "2", nccl=True), member(1, "2", why="torch sees no GPU")],
            ("gloo", "no nccl on n1: torch sees no GPU"),
        ),
        (
            [member(0, "2", why="no GPU"), member(1, why="no torch")],
            ("sockets", "no gloo on n1: no torch"),
        ),
    ],
)
def test_the_best_that_all_have_is_chosen_and_why_no_better_is_said(
    members: list[Member], expected: tuple[str, str]
) -> None:
    assert choose(members, "auto") == expected
    assert choose(members, "sockets") == ("sockets", "")


def test_many_nodes_without_are_counted_not_listed() -> None:
    members = [member(rank, why="no torch") for rank in range(20)]
    with pytest.raises(ValueError, match="n7 and 12 more: no torch"):
        choose(members, "gloo")


@pytest.mark.parametrize(
    ("address", "expected"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("fe80::1", "fe80::1")],
)
def test_addresses_are_those_that_others_can_dial(address: str, expected: str) -> None:
    assert plain_address(address) == expected
