"""What the parent tells the agent while the step runs."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.launch.conftest import Parent

TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(30)
        yield agent


TAKEN = "until grep -q '^ShdPnd:[[:space:]]*0000000000000000$' /proc/$PPID/status; do :; done"
"""The parent has received what was sent to it: no signal waits any more."""


def told(parent: Parent, agent: socket.socket) -> dict[str, str]:
    return {"SLURMKIT_PROGRESS": f"127.0.0.1:{agent.getsockname()[1]}", "SLURMKIT_TOKEN": TOKEN}


def test_the_agent_is_told_of_the_start_and_of_the_end(parent: Parent, agent: socket.socket) -> None:
    before = time.time()
    parent.run("bash", "-c", f"kill -USR1 $PPID; {TAKEN}; exit 7", environ=told(parent, agent))
    started, ended = (json.loads(agent.recv(2048)) for _ in range(2))
    common = {"token": TOKEN, "rank": 3, "host": "n2"}
    assert before <= started.pop("time") <= ended["time"] == parent.record()["ended"]
    assert started == {**common, "kind": "rank-started"}
    del ended["time"]
    assert ended.pop("pid") == parent.record()["pid"]
    assert ended == {**common, "kind": "rank-ended", "signal": 10, "received": [10]}


def test_a_program_that_does_not_start_has_ended_too(parent: Parent, agent: socket.socket) -> None:
    parent.run("no-such-program", environ=told(parent, agent))
    ended = json.loads(agent.recv(2048))
    assert (ended["kind"], ended["exit_code"]) == ("rank-ended", 127)


@pytest.mark.parametrize(
    "place",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        ":5",
        "no.such.host:5",
        "[::1:5",
        "[]:5",
    ],
)
def test_an_address_that_is_none_is_no_matter(place: str) -> None:
    notice.send("rank-started", {"SLURMKIT_PROGRESS": place, "SLURMKIT_TOKEN": TOKEN}, 1.0)


def test_without_a_token_nothing_is_sent(agent: socket.socket) -> None:
    place = f"127.0.0.1:{agent.getsockname()[1]}"
    notice.send("rank-started", {"SLURMKIT_PROGRESS": place}, 1.0)
    agent.setblocking(False)
    with pytest.raises(BlockingIOError):
        agent.recv(2048)


def test_an_agent_that_is_gone_is_no_matter(parent: Parent, agent: socket.socket) -> None:
    environ = told(parent, agent)
    agent.close()
    assert parent.run("bash", "-c", "exit 5", environ=environ) == (5, "", "")


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_an_ipv6_address_stands_in_brackets() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as agent:
        try:
            agent.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        agent.settimeout(30)
        place = f"[::1]:{agent.getsockname()[1]}"
        notice.send("rank-started", {"SLURMKIT_PROGRESS": place, "SLURMKIT_TOKEN": TOKEN}, 1.0)
        assert json.loads(agent.recv(2048))["kind"] == "rank-started"


@pytest.mark.parametrize(
    "fields",
    [{}, {"exit_code": 0}, {"signal": 9, "received": [15, 10], "oom_killed": True}, {"port_taken": False}],
)
def test_a_notice_is_json(fields: dict[str, Any]) -> None:
    text = notice.text("rank-ended", {"SLURMKIT_TOKEN": TOKEN, "SLURM_PROCID": "511"}, 1764000000.25, fields)
    assert json.loads(text) == {
        "token": TOKEN,
        "kind": "rank-ended",
        "rank": 511,
        "host": os.uname().nodename,
        "time": 1764000000.25,
        **fields,
    }
