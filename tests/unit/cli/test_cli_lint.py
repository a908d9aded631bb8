"""`slurmkit lint`: its exit codes and what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit

SOUND = "#!/bin/bash\n#SBATCH -t 5\n./x\n"
UNWISE = "#!/bin/bash\n#SBATCH -t 4:00\n./x\n"
WRONG = "#!/bin/bash\n# SBATCH -t 5\n./x\n"


@pytest.mark.parametrize(
    ("text", "strict", "code"),
    [(SOUND, False, 0), (SOUND, True, 0), (UNWISE, False, 0), (UNWISE, True, 1), (WRONG, False, 1)],
)
def test_errors_and_with_strict_warnings_are_the_exit_code(
    slurmkit: Slurmkit, place: Path, text: str, strict: bool, code: int
) -> None:
    (place / "a.sbatch").write_text(text)
    assert slurmkit("lint", "a.sbatch", *(["--strict"] if strict else [])).code == code


def test_findings_name_file_line_rule_and_what_to_do(slurmkit: Slurmkit, place: Path) -> None:
    (place / "a.sbatch").write_text(WRONG)
    first, second = slurmkit("lint", "a.sbatch").out.splitlines()
    assert first.startswith("a.sbatch:2: error: ")
    assert first.endswith("[directive-ignored]")
    assert second.startswith("  try: ")


def test_findings_are_json_too(slurmkit: Slurmkit, place: Path) -> None:
    (place / "a.sbatch").write_text(WRONG)
    (row,) = slurmkit("lint", "a.sbatch", "--json").json
    assert row.keys() == {"file", "line", "reference", "severity", "what", "fix"}


def test_a_sound_file_prints_nothing_on_stdout(slurmkit: Slurmkit, job: Path) -> None:
    done = slurmkit("lint", str(job))
    assert (done.out, done.code) == ("", 0)


def test_a_wrong_job_file_is_a_finding_and_no_traceback(slurmkit: Slurmkit, place: Path) -> None:
    (place / "job.toml").write_text('name = "x"\n[resources]\nfoo = 1\n')
    done = slurmkit("lint", "job.toml")
    assert done.code == 1
    assert "job.toml:3: error: unknown key `foo`" in done.out


@pytest.mark.parametrize("version", ["x", "24", "24.11.0.1"])
def test_a_version_that_is_none_is_an_error(slurmkit: Slurmkit, job: Path, version: str) -> None:
    assert slurmkit("lint", str(job), "--slurm", version).code == 2


def test_a_missing_script_is_an_error_with_its_name(slurmkit: Slurmkit) -> None:
    done = slurmkit("lint", "missing.sbatch")
    assert done.code == 2
    assert "at: missing.sbatch" in done.err
