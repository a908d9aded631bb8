from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from slurmkit.cli import watch
from slurmkit.run import events
from tests.unit.cli.conftest import own_job
from tests.unit.cli.test_cli_startup import JOB_FILE, NEVER, SLURM, STUBS, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.run.paths import RunPaths
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm

DONE = ("run-ended", {"exit_code": 0})
STARTED = ("attempt-started", {"attempt": "12-0", "job_id": "12", "nodes": ["n1"]})
SLURMKIT = Path(sys.executable).with_name("slurmkit")
BOUND = 20


def tell(paths: RunPaths, step: int, **fields: object) -> None:
    """Write what an agent would, and a log of rank 0 that tries to steer the terminal."""
    now = datetime.now(UTC).timestamp()
    paths.logs("12-0").mkdir(parents=True, exist_ok=True)
    paths.progress("12-0").write_text(json.dumps({"updated": now, "step": step, "total": 10, **fields}))
    paths.rank_log("12-0", 0).write_bytes(b"\x1b[31mhello\x1b[0m\x07 from rank 0\n")


@pytest.fixture
def paths(add_run: Make) -> RunPaths:
    paths = add_run("r", STARTED)
    tell(paths, 3)
    return paths


class Steps:
    """A clock whose sleeps carry out what happens next to the run, and are counted."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self.acts:
            raise KeyboardInterrupt
        self.acts.pop(0)()


@pytest.fixture
def happens(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Steps]:
    def use(*acts: Callable[[], object]) -> Steps:
        steps = Steps(*acts)
        for module in (watch, sys.modules["slurmkit.cli.context"]):
            monkeypatch.setattr(module, "system_clock", lambda: steps)
        return steps

    return use


def test_in_a_pipe_each_change_is_a_line_and_the_end_is_that_of_wait(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm, happens: Callable[..., Steps]
) -> None:
    slurm.live = [own_job()]
    slow: dict[str, Any] = {"rank": 3, "host": "n2", "phase": "data", "own": 0.3, "median": 0.2}
    steps = happens(
        lambda: None,
        lambda: tell(paths, 4, steps_per_second=2.0, seconds_left=3),
        lambda: events.append(paths, "straggler", attempt="12-0", **slow),
        lambda: events.append(paths, "run-ended", exit_code=0),
    )
    done = slurmkit("watch", "r", "--interval", "3")
    assert [line[21:] for line in done.out.splitlines()] == [
        "running, step 3/10 (30 %)",
        "running, step 4/10 (40 %), 2 steps/s, 3s left",
        "rank 3 on n2 is slow in data: 300 ms a step of its own, the others 200 ms (+50 %)",
        "completed, step 4/10 (40 %)",
    ]
    assert (done.err, done.code, steps.slept) == ("", 0, [3.0] * 4)


def test_slurm_is_not_asked_more_often_for_a_short_interval(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm, happens: Callable[..., Steps]
) -> None:
    slurm.live = [own_job()]
    end = [lambda: None] * 299 + [lambda: events.append(paths, "run-ended", exit_code=0)]
    happens(*end)
    assert slurmkit("watch", "r", "--interval", "0.2").code == 0
    assert len(slurm.calls) <= 10  # in a minute, the first pauses being 2, 3, 4.5 ... seconds


def test_a_failure_is_exit_code_1_and_is_told(slurmkit: Slurmkit, add_run: Make, slurm: FakeSlurm) -> None:
    failure = {"rank": 0, "host": "n1", "exit_code": 7, "stderr_tail": ["last words"]}
    add_run("r", STARTED, ("step-ended", {"attempt": "12-0", "exit_code": 7, "first_failure": failure}))
    slurm.live = [own_job(state="FAILED", exit_code="7:0")]
    done = slurmkit("watch", "r")
    assert done.code == 1
    assert done.out.splitlines()[0][21:] == "failed (exit code 7; rank 0 on n1 failed first)"
    assert done.err.splitlines() == [
        "rank 0 on n1 failed first: exit code 7",
        "  the end of its stderr:",
        "    last words",
    ]


def test_ctrl_c_in_a_pipe_is_130_and_says_how_to_go_on(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm, happens: Callable[..., Steps]
) -> None:
    slurm.live = [own_job()]
    happens()
    done = slurmkit("watch", "r")
    assert done.code == 130
    assert "slurmkit cancel r" in done.err


def test_json_is_one_object_a_line_at_each_change(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm, happens: Callable[..., Steps]
) -> None:
    slurm.live = [own_job()]
    happens(lambda: None, lambda: tell(paths, 4), lambda: events.append(paths, "run-ended", exit_code=0))
    rows = [json.loads(line) for line in slurmkit("watch", "r", "--json").out.splitlines()]
    assert [(row["state"], row["step"], row["progress"]["step"]) for row in rows] == [
        ("running", 3, 3),
        ("running", 4, 4),
        ("completed", 4, 4),
    ]
    assert all(datetime.fromisoformat(row["time"]).utcoffset() is not None for row in rows)
    words = set(re.findall(r"[a-z_]+", slurmkit("watch", "--help").out + slurmkit("status", "--help").out))
    assert set(rows[0]) - words == set()


def test_once_is_one_picture_without_colour_in_a_pipe(
    slurmkit: Slurmkit, paths: RunPaths, slurm: FakeSlurm
) -> None:
    slurm.live = [own_job()]
    done = slurmkit("watch", "r", "--once")
    assert (done.err, done.code) == ("", 0)
    lines = done.out.splitlines()
    assert lines[0].startswith("r  running  job 12")
    assert lines[1].startswith("step     3/10 ━")
    assert lines[-1] == "hello\\x07 from rank 0"
    assert "\x1b" not in done.out
    assert len(slurmkit("watch", "r", "--once", "--json").out.splitlines()) == 1


def test_the_batch_log_stands_in_for_the_ranks(slurmkit: Slurmkit, add_run: Make) -> None:
    paths = add_run("r", DONE)
    paths.all_logs.mkdir()
    paths.batch_log("12").write_text("module not found\n")
    assert slurmkit("watch", "r", "--once").out.splitlines()[-2].startswith("── log of the batch script ─")


def test_an_interval_that_is_none_is_refused(slurmkit: Slurmkit, paths: RunPaths) -> None:
    assert slurmkit("watch", "r", "--interval", "0").code == 2


def test_a_pipe_imports_no_rich_and_has_no_colour(add_run: Make, tmp_path: Path) -> None:
    paths = add_run("over", STARTED, DONE)
    tell(paths, 10)
    for arguments in (["watch", "over"], ["watch", "over", "--once"], ["watch", "over", "--json"]):
        assert imported(arguments, stubs(tmp_path), FORCE_COLOR="1") & (NEVER | JOB_FILE | SLURM) == set()


def stubs(folder: Path) -> Path:
    """Commands of a Slurm that lists nothing."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    for name, body in STUBS.items():
        (binaries / name).write_text(f"#!/bin/sh\n{body}\n")
        (binaries / name).chmod(0o755)
    return binaries


def spawn(folder: Path, *arguments: str, term: str = "xterm-256color") -> pexpect.spawn:
    """The command on a terminal of 80 columns and 20 lines."""
    path = f"{stubs(folder)}:/usr/bin:/bin"
    return pexpect.spawn(
        str(SLURMKIT),
        ["watch", "r", *arguments],
        env={**os.environ, "PATH": path, "TERM": term, "LC_ALL": "C.UTF-8"},
        dimensions=(20, 80),
        encoding="utf-8",
        timeout=BOUND,
    )


@pytest.fixture
def terminal(paths: RunPaths, tmp_path: Path) -> Iterator[pexpect.spawn]:
    """The command once it has drawn its first picture."""
    process = spawn(tmp_path, "--interval", "0.2")
    process.expect(r"\x1b\[\?1049h")
    process.expect("hello.*q leaves")
    yield process
    process.close(force=True)


def left(process: pexpect.spawn) -> tuple[str, int | None]:
    """What came after the terminal was given back, and the exit code."""
    process.expect(r"\x1b\[\?1049l")
    process.expect(pexpect.EOF)
    process.wait()
    return process.before or "", process.exitstatus


def test_on_a_terminal_q_leaves_with_0(terminal: pexpect.spawn) -> None:
    terminal.send("q")
    rest, code = left(terminal)
    assert code == 0
    assert "slurmkit watch r" in rest


def test_on_a_terminal_ctrl_c_leaves_with_130(terminal: pexpect.spawn) -> None:
    terminal.sendintr()
    rest, code = left(terminal)
    assert code == 130
    assert "slurmkit cancel r" in rest
    assert "Traceback" not in rest


def test_on_a_terminal_a_new_size_is_drawn_at_once(terminal: pexpect.spawn) -> None:
    terminal.setwinsize(12, 40)
    terminal.expect(r"log of rank 0 ─{20,24}[^─]")
    terminal.send("q")
    assert left(terminal)[1] == 0


def test_on_a_terminal_it_ends_with_the_run_and_leaves_the_last_picture(
    terminal: pexpect.spawn, paths: RunPaths
) -> None:
    tell(paths, 10)
    terminal.expect("10/10")
    events.append(paths, "run-ended", exit_code=0)
    rest, code = left(terminal)
    assert code == 0
    assert "completed" in rest
    assert "hello" in rest


@pytest.mark.parametrize(("arguments", "term"), [((), "dumb"), (("--once",), "xterm")])
def test_a_terminal_that_can_nothing_gets_lines_and_once_no_other_screen(
    paths: RunPaths, tmp_path: Path, arguments: tuple[str, ...], term: str
) -> None:
    events.append(paths, "run-ended", exit_code=0)
    process = spawn(tmp_path, *arguments, term=term)
    process.expect(pexpect.EOF)
    assert process.wait() == 0
    shown = process.before or ""
    assert "completed" in shown
    assert "3/10" in shown
    assert "1049" not in shown
    assert ("\x1b" in shown) == (term != "dumb")
