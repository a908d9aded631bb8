"""What a job says in its own log where its environment cannot be prepared, on a real Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.script.preparation import FAILED
from slurmkit.spec.model import Environment
from tests.cluster.batch import Batch

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def batch(slurm_testbed: Testbed, tmp_path: Path) -> Batch:
    return Batch(slurm_testbed, tmp_path)


@pytest.mark.parametrize("template", ["managed", "plain"])
@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (Environment(venv="gone"), "there is no virtual environment"),
        (Environment(modules=("cuda/99",)), "modul"),
        (Environment(conda="gone"), "conda"),
        (Environment(setup=("cd /nowhere",)), "status 1 of: cd /nowhere"),
    ],
)
def test_the_job_ends_at_once_with_one_clear_line(
    batch: Batch, template: str, environment: Environment, says: str
) -> None:
    job = batch.run(batch.spec(environment=environment), template)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", f"{FAILED}:0"), batch.log()
    last = batch.log().splitlines()[-1]
    assert last.startswith(f"slurmkit: {job['BatchHost']}: ")
    assert says in last
    assert not batch.told()


def test_a_node_that_does_not_see_the_agent_says_so(batch: Batch) -> None:
    job = batch.run(batch.spec(), "managed", python="/opt/only on login/python3")
    assert job["ExitCode"] == f"{FAILED}:0"
    assert "/opt/only on login/python3, which submitted this job, is not there" in batch.log()
    assert "--template plain" in batch.log()


def test_a_node_that_does_not_see_the_run_directory_says_so(batch: Batch) -> None:
    spec = batch.spec(resources={"output": "seen.out"})
    rendered = batch.render(spec, "managed", run_directory=batch.directory / "gone")
    job = batch.wait(batch.submit(rendered))
    assert job["ExitCode"] == f"{FAILED}:0"
    assert "is it on a shared file system?" in (batch.directory / "seen.out").read_text()


def test_a_venv_is_what_the_program_runs_in(batch: Batch) -> None:
    venv = batch.directory / "my venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "activate").write_text(f'export VIRTUAL_ENV="{venv.name}" PATH="$venv/bin:$PATH"\n')
    (venv / "bin" / "python").symlink_to("/usr/bin/python3")
    job = batch.run(batch.spec(command="command -v python", environment=Environment(venv="my venv")))
    assert job["JobState"] == "COMPLETED", batch.log()
    assert batch.log() == f"{venv}/bin/python\n"
