"""The public names of `slurmkit`, and runs as Python code holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slurmkit
from slurmkit.run.index import register
from slurmkit.run.paths import RunPaths
from tests.unit.run.conftest import FakeClock, FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PUBLIC = {"Run", "Slurm", "costs", "load", "render", "submit"}


def test_the_public_names_are_these_and_all_can_be_had() -> None:
    assert set(slurmkit.__all__) == PUBLIC
    assert all(callable(getattr(slurmkit, name)) for name in PUBLIC)
    assert set(dir(slurmkit)) >= PUBLIC
    with pytest.raises(AttributeError, match="submitt"):
        slurmkit.submitt  # noqa: B018


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert getattr(slurmkit, name).__doc__


def test_a_run_is_a_handle(make_run: Callable[..., RunPaths], slurm: FakeSlurm, clock: FakeClock) -> None:
    paths = make_run()
    run = slurmkit.Run(paths, slurm=slurm, clock=clock)
    assert (run.id, repr(run)) == (paths.run_id, f"Run('{paths.run_id}')")
    slurm.live = [make_job()]
    assert run.status().state == "running"
    run.cancel()
    assert [str(job) for job in slurm.cancelled] == ["12"]
    slurm.live = [make_job(state="CANCELLED")]
    assert run.wait().state == "cancelled"
    paths.all_logs.mkdir()
    paths.batch_log("12").write_text("x")
    assert run.logs() == [paths.batch_log("12")]


def test_a_run_is_found_by_name(
    make_run: Callable[..., RunPaths], slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    paths = make_run()
    register(tmp_path / "slurmkit" / "runs", paths)
    assert slurmkit.Run("last", slurm=slurm).paths == paths
    assert slurmkit.Run(paths.root, slurm=slurm).paths == paths


def test_submit_takes_a_path_or_what_was_loaded(
    slurm: FakeSlurm, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text('name = "x"\ncommand = ["true"]\n')
    first = slurmkit.submit("job.toml", ["name=y"], slurm=slurm, clock=clock)
    second = slurmkit.submit(slurmkit.load("job.toml"), template="plain", slurm=slurm, clock=clock)
    assert (first.id[:2], second.id[:2]) == ("y-", "x-")
    assert first.paths.root.parent == tmp_path / "runs"
