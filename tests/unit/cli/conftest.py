"""The commands in this process, on a Slurm of one screen."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner

from slurmkit.cli import context
from slurmkit.cli.main import group
from slurmkit.errors import SlurmkitError
from slurmkit.run import events, index, record
from slurmkit.run.paths import RunPaths
from tests.unit.run.conftest import FakeSlurm, make_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.slurm.records import Job

    Slurmkit = Callable[..., "Done"]
    Make = Callable[..., RunPaths]

JOB = """\
name = "a tiny job"
command = ["python", "train.py", "--text", "it's $HOME"]

[resources]
time = "10m"
"""


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def json(self) -> Any:
        """What was printed, read as JSON."""
        return json.loads(self.out)


def own_job(text: str = "12", state: str = "RUNNING", **fields: Any) -> Job:
    """A job of the user who runs the tests, submitted now."""
    return make_job(text, state, user=getpass.getuser(), submit_time=datetime.now(UTC), **fields)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    fake = FakeSlurm()
    monkeypatch.setattr("slurmkit.slurm.commands.Commands", lambda **_: fake)
    for cached in (context.connect, context.connect_to_watch, context.profile):
        cached.cache_clear()
    yield fake
    for cached in (context.connect, context.connect_to_watch, context.profile):
        cached.cache_clear()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a hostile name."""
    folder = tmp_path / "work of 'ada' $HOME `id` é"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


@pytest.fixture
def slurmkit(slurm: FakeSlurm, place: Path) -> Slurmkit:
    """Run a command as `slurmkit` would."""

    def run(*arguments: str, input: str | None = None) -> Done:  # noqa: A002
        result = CliRunner().invoke(group, arguments, input=input)
        if isinstance(result.exception, SlurmkitError):
            return Done(
                result.stdout, f"{result.stderr}error: {result.exception}\n", result.exception.exit_code
            )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.stdout, result.stderr, result.exit_code)

    return run


@pytest.fixture
def job(place: Path) -> Path:
    file = place / "job.toml"
    file.write_text(JOB)
    return file


@pytest.fixture
def add_run(place: Path, tmp_path: Path) -> Make:
    """Make a run that is in the index; (kind, fields) are further events."""

    def add(
        run_id: str,
        *log: tuple[str, dict[str, Any]],
        job_id: str | None = "12",
        days: float = 0,
        **fields: Any,
    ) -> RunPaths:
        root = place / "runs" / run_id
        root.mkdir(parents=True)
        paths = RunPaths(root)
        created = datetime.now(UTC) - timedelta(days=days)
        for name, value in {
            "name": "a name",
            "user": getpass.getuser(),
            "host": "h",
            "directory": str(place),
        }.items():
            fields.setdefault(name, value)
        record.save(paths, record.RunRecord(id=run_id, created=created, **fields))
        events.append(paths, "submitting", at=created)
        if job_id:
            events.append(paths, "submitted", at=created, job_id=job_id)
        for kind, more in log:
            events.append(paths, kind, at=created, **more)
        index.register(tmp_path / "state" / "slurmkit" / "runs", paths)
        return paths

    return add
