"""What the tests of one testbed share: a client for it, and jobs of one script each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from slurmkit.slurm.commands import Commands
from slurmkit.slurm.request import Submission

if TYPE_CHECKING:
    from slurmkit.slurm.ids import JobId
    from slurmkit.testbed.testbed import Testbed

Submit = Callable[..., "JobId"]


@pytest.fixture(scope="module")
def slurm(slurm_testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    kept = {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("kept"))}
    return Commands(environment={**os.environ, **slurm_testbed.environment, **kept})


@pytest.fixture(scope="module")
def submit(slurm: Commands, tmp_path_factory: pytest.TempPathFactory) -> Submit:
    """Submits a batch script with some options, as Submission has it."""
    folder = tmp_path_factory.mktemp("jobs of 'x' $y")

    def submit_body(body: str, *options: str) -> JobId:
        script = folder / f"job {len(list(folder.iterdir()))}.sh"
        script.write_text(f"#!/bin/bash\n{body}\n")
        submission = Submission(
            script=script,
            tag="none",
            directory=folder,
            arguments=("--output=/dev/null", *options),
            environment={"PATH": os.environ["PATH"]},
        )
        return slurm.submit(submission).id

    return submit_body
