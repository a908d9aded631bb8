"""The README's commands are run as they stand there, and what they print is what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import slurmkit
from slurmkit.testbed.options import Options
from slurmkit.testbed.testbed import Testbed

ROOT = Path(slurmkit.__file__).parents[1]
BIN = Path(sys.executable).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.cluster

VARYING = {
    r"\b(hello-ranks|ddp-tiny)-\d{8}-[0-9a-f]{6}\b": r"\1-ID",
    r"\bdefault-[0-9a-f]{6}\b": "default-ID",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "TIME",
    r"\b\d\d:\d\d:\d\d\b": "CLOCK",
    r"(?m)^\S+: (pending|running).*\n": "",  # a short job may be seen in every state, or in none
}
"""What differs from run to run."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The lines of a block of bash without their comments."""
    return [line.partition("  #")[0].strip() for line in text.splitlines() if line.strip()]


def same(text: str) -> str:
    for pattern, replacement in VARYING.items():
        text = re.sub(pattern, replacement, text)
    return text


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Runs a script in a folder of its own, as a user of this checkout would; returns all that it printed."""
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }

    def run(script: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    yield run
    subprocess.run([BIN / "slurmkit", "testbed", "down"], env=environment, capture_output=True, check=False)


def test_the_30_seconds_print_what_they_show(shell: Callable[[str], str], tmp_path: Path) -> None:
    [session] = blocks("console")
    shutil.copytree(ROOT / "examples" / "hello-ranks", tmp_path, dirs_exist_ok=True)
    lines = [line.removeprefix("$ ") for line in session.splitlines() if line.startswith("$ ")]
    # Each command is echoed as the session shows it; evaluated in one shell, so that `eval` lasts.
    script = "\n".join(f"printf '$ %s\\n' {_quoted(line)}\n{line}" for line in lines)
    assert same(shell(script)) == same(session)


def test_the_job_for_a_cluster_goes_through_its_commands(
    shell: Callable[[str], str], make_testbed: Callable[[Options], Testbed], tmp_path: Path
) -> None:
    testbed = make_testbed(Options(nodes=2, gpus="a100:4", partitions=("train=n[1-2]",)))
    job, recovery = blocks("toml")
    (tmp_path / "job.toml").write_text(job + recovery)
    (tmp_path / "train.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    [session] = [text for text in blocks("bash") if "slurmkit submit" in text]
    printed = shell(f"export SLURM_CONF={testbed.conf}\n" + "\n".join(commands(session)))
    assert re.search(r"ddp-tiny-\d{8}-[0-9a-f]{6}: completed", printed)
    [reports] = [text for text in blocks("bash") if "slurmkit report" in text]
    dump = "sacct --parsable2 --allusers --starttime=now-1day --format=ALL | gzip > dump.gz"
    printed = shell(f"export SLURM_CONF={testbed.conf}\n{dump}\n" + "\n".join(commands(reports)))
    assert "usage by account and user" in printed
    assert (tmp_path / "failures.html").read_text().startswith("<!DOCTYPE html>")


def test_what_pip_installs_has_the_command_and_the_templates(
    shell: Callable[[str], str], tmp_path: Path
) -> None:
    assert "pip install slurmkit-hpc" in [command for text in blocks("bash") for command in commands(text)]
    (tmp_path / "job.toml").write_text('name = "one"\ncommand = "true"\n')
    printed = shell(
        f"python -m build --wheel --no-isolation --outdir dist {ROOT} >/dev/null\n"
        "python -m pip install --quiet --disable-pip-version-check --no-deps --target site dist/*.whl\n"
        "PYTHONPATH=site python -c 'import slurmkit; print(slurmkit.__file__)'\n"
        "PYTHONPATH=site python -m slurmkit render job.toml"
    )
    assert str(tmp_path / "site") in printed
    assert "#SBATCH --job-name=one" in printed


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_knows_the_two_targets(target: str) -> None:
    assert f"make {target}" in [command for text in blocks("bash") for command in commands(text)]
    subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
