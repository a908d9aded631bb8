"""The manual says what the code does: its pages are made from the code or compared with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import slurmkit
from slurmkit.run.paths import RunPaths
from slurmkit.slurm.rest.versions import APIS
from slurmkit.spec.clusters import KEYS
from slurmkit.spec.profile import CLIENTS
from tests.cluster.contract import CANNOT, FORCED

ROOT = Path(slurmkit.__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
VARIABLE = re.compile(r"\bSLURMKIT_[A-Z_]+\b")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_generated_reference_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_variable_that_the_code_names_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "slurmkit").rglob("*.py"), *(ROOT / "templates").rglob("*.j2")]
    used = {name for path in sources for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert sorted(used - set(VARIABLE.findall(manual))) == []


def test_every_key_of_a_cluster_and_every_version_of_the_api_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "howto" / "rest.md").read_text(encoding="utf-8")
    words = [*KEYS, *(api.name for api in APIS), *CLIENTS]
    assert [word for word in words if f"`{word}`" not in manual and f'"{word}"' not in manual] == []


def test_every_difference_between_the_clients_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "howto" / "rest.md").read_text(encoding="utf-8")
    assert [row for row in FORCED if row.record != "config" and f"`{row.field}`" not in manual] == []
    versions = re.findall(r"^\| `(v0\S+)` \| \d\d\.\d\d \| (.*) \|$", manual, re.MULTILINE)
    told = dict(versions)
    missing = [
        (api, what) for what, apis in CANNOT.items() for api in apis if what not in told[api].replace("`", "")
    ]
    assert missing == []


def test_every_file_of_a_run_directory_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "reference" / "run-directory.md").read_text(encoding="utf-8")
    paths = RunPaths(Path("/runs/r"))
    files = [paths.job_toml, paths.job_sbatch, paths.launch_archive, paths.run_json, paths.events]
    assert [path.name for path in files if path.name not in manual] == []


def test_every_difference_between_versions_of_slurm_is_shown_by_tests_that_there_are() -> None:
    manual = (ROOT / "docs" / "explanation" / "slurm-versions.md").read_text(encoding="utf-8")
    rows = [line for line in manual.splitlines() if line.startswith("| ") and not line.startswith("| **")][1:]
    tests = [re.findall(r"`(tests/\S+\.py)::(test_\w+)`", row) for row in rows]
    assert [row for row, named in zip(rows, tests, strict=True) if not named] == []
    missing = [
        f"{file}::{name}"
        for named in tests
        for file, name in named
        if not re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
