from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import RunNotFound
from slurmkit.run import events
from slurmkit.run.index import all_runs, forget, index_of, names, register, resolve
from slurmkit.run.paths import RunPaths

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def two(make_run: Callable[..., RunPaths], runs: Path) -> list[RunPaths]:
    made = [make_run("ddp-20261201-aaaaaa", job_id="12"), make_run("ddp-20261202-bbbbbb", job_id="34")]
    for second, paths in enumerate(made):
        register(runs, paths)
        os.utime(runs / paths.run_id, (second, second), follow_symlinks=False)
    return made


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("ddp-20261201-aaaaaa", 0),
        ("ddp-20261201", 0),
        ("ddp-20261202-b", 1),
        ("last", 1),
        ("12", 0),
        ("34", 1),
        ("34_7", 1),
    ],
)
def test_a_run_is_found_by(two: list[RunPaths], runs: Path, name: str, which: int) -> None:
    assert resolve(name, runs) == two[which]


def test_a_run_is_found_by_its_path(two: list[RunPaths], runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(str(two[0].root), runs) == two[0]
    assert resolve(f"{two[0].root}/", runs) == two[0]
    monkeypatch.chdir(two[0].root.parent)
    assert resolve(f"./{two[0].run_id}", Path("/nowhere")) == two[0]
    monkeypatch.chdir(two[0].root)
    assert resolve(".", Path("/nowhere")) == two[0]


def test_a_job_id_means_the_newest_run_that_had_it(two: list[RunPaths], runs: Path) -> None:
    events.append(two[1], "submitted", job_id="12")
    assert resolve("12", runs) == two[1]


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("ddp-2026", "'ddp-2026' fits 2 runs", "ddp-20261202-bbbbbb, ddp-20261201-aaaaaa"),
        ("", "no run is called ''", "`slurmkit runs` lists them; the last is ddp-20261202-bbbbbb"),
        ("ddp-20261203-aaaaaa", "no run is called 'ddp-20261203-aaaaaa'", "did you mean ddp-20261201-aaaaaa"),
        ("99", "no run is called '99'", "`slurmkit runs` lists them; the last is ddp-20261202-bbbbbb"),
    ],
)
def test_what_is_not_found_is_answered_with_what_comes_close(
    two: list[RunPaths], runs: Path, name: str, what: str, hint: str
) -> None:
    with pytest.raises(RunNotFound) as error:
        resolve(name, runs)
    assert error.value.what == what
    assert (error.value.hint or "").startswith(hint)


@pytest.mark.parametrize("name", ["last", "x", "12", "../x", "a\nb", "$HOME", "-x"])
def test_without_any_run_the_hint_says_how_to_make_one(runs: Path, name: str) -> None:
    with pytest.raises(RunNotFound, match=r"slurmkit submit job\.toml"):
        resolve(name, runs)


def test_a_run_whose_directory_is_gone_is_said_to_be_gone(two: list[RunPaths], runs: Path) -> None:
    two[0].root.rename(two[0].root.with_name("elsewhere"))
    with pytest.raises(RunNotFound, match="the directory of run ddp-20261201-aaaaaa is gone"):
        resolve("ddp-20261201-aaaaaa", runs)
    assert all_runs(runs) == [two[1]]
    assert len(names(runs)) == 2


def test_an_id_that_starts_another_is_no_ambiguity(make_run: Callable[..., RunPaths], runs: Path) -> None:
    short, long = make_run("a"), make_run("ab")
    register(runs, short)
    register(runs, long)
    assert resolve("a", runs) == short


def test_runs_are_listed_newest_first_and_can_be_forgotten(two: list[RunPaths], runs: Path) -> None:
    assert all_runs(runs) == [two[1], two[0]]
    forget(runs, two[1].run_id)
    forget(runs, "never there")
    assert all_runs(runs) == [two[0]]
    assert two[1].root.is_dir()


def test_registering_again_is_no_error_and_moves_the_link(
    two: list[RunPaths], runs: Path, tmp_path: Path
) -> None:
    moved = RunPaths(tmp_path / "moved" / two[0].run_id)
    moved.root.parent.mkdir()
    two[0].root.rename(moved.root)
    register(runs, moved)
    assert resolve(two[0].run_id, runs) == moved
    assert len(list(runs.iterdir())) == 2


@pytest.mark.parametrize(
    ("environ", "index"),
    [
        ({"XDG_STATE_HOME": "/s t", "HOME": "/h"}, "/s t/slurmkit/runs"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/slurmkit/runs"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/slurmkit/runs"),
        ({"HOME": "/h"}, "/h/.local/state/slurmkit/runs"),
    ],
)
def test_the_index_is_in_the_users_state_directory(environ: dict[str, str], index: str) -> None:
    assert index_of(environ) == Path(index)
