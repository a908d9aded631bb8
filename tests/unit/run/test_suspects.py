"""Nodes on which runs failed again and again: over one run, and over all."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmkit.cli.nodes import command
from slurmkit.run import events
from slurmkit.run.events import Event
from slurmkit.run.index import index_of, register
from slurmkit.run.paths import RunPaths
from slurmkit.run.suspects import (
    DAY,
    MOST_EXCLUDED,
    Blame,
    bad_nodes,
    blames,
    is_suspect,
    of_all_runs,
    suspects,
)

NOW = 1_000_000.0


def failed(node: str, kind: str = "crashed", at: float = NOW, **fields: object) -> Event:
    told = {"attempt": "7-0", "kind": kind, "signature": f"{kind}: e", "host": node, **fields}
    return Event(datetime.fromtimestamp(at, UTC), "diagnosed", told)


def decided(*nodes: str, action: str = "requeue", at: float = NOW) -> Event:
    fields = {"attempt": "7-0", "action": action, "without": list(nodes)}
    return Event(datetime.fromtimestamp(at, UTC), "decided", fields)


def test_a_node_that_died_is_left_out_at_once_and_a_crash_only_where_it_comes_back() -> None:
    assert bad_nodes([failed("n1", "node-died", nodes=["n3"])]) == ("n3",)
    assert bad_nodes([failed("n1")]) == ()
    assert bad_nodes([failed("n1"), failed("n1", signature="other")]) == ()
    assert bad_nodes([failed("n1"), failed("n1")]) == ("n1",)
    assert bad_nodes([failed("n1", "killed"), failed("n1", "killed")]) == ()


def test_failures_count_for_a_day() -> None:
    assert bad_nodes([failed("n1", "node-died")], now=NOW + DAY) == ("n1",)
    assert bad_nodes([failed("n1", "node-died")], now=NOW + DAY + 1) == ()
    assert bad_nodes([failed("n1"), failed("n1", at=NOW + DAY + 1)]) == ()


def test_what_a_run_has_left_out_stays_out_that_failed_last_first() -> None:
    told = [decided("n5", at=NOW - 9), failed("n1", "node-died"), decided("n6", action="restart")]
    assert bad_nodes(told) == ("n1", "n5")


def test_never_more_than_a_bound_are_left_out() -> None:
    assert len(bad_nodes([failed(f"n{number}", "node-died") for number in range(100)])) == MOST_EXCLUDED


def test_a_reason_that_strikes_everywhere_is_no_node_s_fault() -> None:
    found = blames([failed(node) for node in ("n1", "n2", "n1", "n2")])
    assert not is_suspect("n1", found[0].reason, found)
    assert is_suspect("n1", found[0].reason, [*found, Blame("n1", NOW, "crashed", "crashed: e")])


def test_a_suspect_tells_how_often_for_what_and_where() -> None:
    found = [
        Blame("n1", NOW - 5, "node-died", run="r-1"),
        Blame("n1", NOW - 3, "node-died", run="r-2"),
        Blame("n1", NOW - 1, "disk-full", run="r-2"),
        Blame("n2", NOW - 1, "node-died", run="r-2"),
        Blame("n3", NOW - 2 * DAY, "node-died"),
        Blame("n3", NOW, "node-died"),
    ]
    (one,) = suspects(found, now=NOW, left_out=["n1"])
    assert one == ("n1", 3, ("node-died",), ("r-2", "r-1"), NOW - 1, True)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one node that died under both, and one that cannot be read."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    index = index_of(os.environ)
    for name in ("r-1", "r-2", "r-3"):
        paths = RunPaths(tmp_path / "it's $HOME" / name)
        paths.root.mkdir(parents=True)
        register(index, paths)
        if name == "r-3":
            paths.events.mkdir()
            continue
        events.append(
            paths, "diagnosed", attempt="7-0", kind="node-died", signature="node-died", nodes=["n1"]
        )
    events.append(
        RunPaths(tmp_path / "it's $HOME" / "r-1"), "decided", attempt="7-0", action="requeue", without=["n1"]
    )
    return index


def test_the_suspects_of_all_runs(runs: Path) -> None:
    now = datetime.now(UTC).timestamp()
    (one,) = of_all_runs(runs, now=now)
    assert (one.node, one.times, set(one.runs), one.is_excluded) == ("n1", 2, {"r-1", "r-2"}, True)
    assert of_all_runs(runs, now=now + 2 * DAY) == ()


@pytest.mark.usefixtures("runs")
def test_the_command_shows_them() -> None:
    text = CliRunner().invoke(command, ["--suspects"])
    assert text.exit_code == 0
    head, line = text.stdout.splitlines()
    assert head.split() == ["NODE", "FAILURES", "REASONS", "RUNS", "LAST", "EXCLUDED"]
    assert line.startswith("n1")
    assert line.endswith("yes")
    (row,) = json.loads(CliRunner().invoke(command, ["--suspects", "--json"]).stdout)
    assert (row["node"], row["failures"], row["reasons"], row["excluded"]) == ("n1", 2, ["node-died"], True)


def test_without_suspects_nothing_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert CliRunner().invoke(command, ["--suspects"]).stderr == "no node is suspect\n"
