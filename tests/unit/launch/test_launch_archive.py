from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch import archive

if TYPE_CHECKING:
    from tests.unit.launch.conftest import Parent

DEAR = {
    "argparse",
    "collections.abc",
    "dataclasses",
    "enum",
    "json",
    "logging",
    "pathlib",
    "re",
    "signal",
    "socket",
    "subprocess",
    "typing",
    "zlib",
}
"""What would cost every rank milliseconds at its start."""


def test_the_same_sources_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))  # each is compiled, none is a kept copy
        archive.build(tmp_path / f"{name}.pyz")
        made.append((tmp_path / f"{name}.pyz").read_bytes())
    assert made[0] == made[1]


def test_a_kept_archive_that_is_cut_short_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive.build(tmp_path / "whole.pyz")
    (kept,) = (tmp_path / "cache" / "slurmkit").glob("launch-*.pyz")
    kept.write_bytes(kept.read_bytes()[:-100])
    archive.build(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == (tmp_path / "whole.pyz").read_bytes()


def test_every_module_is_there_as_source_and_compiled(launch_archive: Path) -> None:
    with zipfile.ZipFile(launch_archive) as file:
        names = set(file.namelist())
        assert {name for name in names if name.endswith(".pyc")} == {
            f"{name}c" for name in names if name[-3:] == ".py"
        }
        assert "slurmkit/launch/parent.py" in names
        # Only the launch room, and its public name for programs: nothing of it may need more.
        assert {name for name in names if not name.startswith("slurmkit/launch/")} == {
            "__main__.py",
            "__main__.pyc",
            "slurmkit/__init__.py",
            "slurmkit/__init__.pyc",
            "slurmkit/checkpoint/__init__.py",
            "slurmkit/checkpoint/__init__.pyc",
            "slurmkit/progress.py",
            "slurmkit/progress.pyc",
        }


def test_a_rank_loads_none_of_the_dear_modules(parent: Parent) -> None:
    """Compared with what Python itself loads to run an archive, so that the versions may differ."""
    code = (
        "import runpy, sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]); "
        "from slurmkit.launch import parent; parent._end = lambda fields: None; "
        "parent.main(['--', 'true']); print(*(set(sys.modules) - before))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(parent.archive)]
    environ = {name: value for name, value in parent.environ.items() if name != "SLURMKIT_EXIT_DIRECTORY"}
    loaded = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout.split()
    assert "slurmkit.launch.parent" in loaded
    assert not DEAR & set(loaded)


def test_the_compiled_modules_are_those_that_run(parent: Parent, tmp_path: Path) -> None:
    """With the sources blanked the archive still works: a rank compiles nothing."""
    blank = tmp_path / "blank.pyz"
    with zipfile.ZipFile(parent.archive) as whole, zipfile.ZipFile(blank, "w") as file:
        for name in whole.namelist():
            file.writestr(name, whole.read(name) if name.endswith(".pyc") else b"raise SystemExit(1)")
    parent.archive = blank
    assert parent.run("echo", "runs") == (0, "runs\n", "")


def find_python(version: str) -> str:
    """A Python of that version: on the PATH, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    known = [str(path) for path in pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    for python in [shutil.which(f"python{version}") or "", *known]:
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"there is no python{version} here")


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_any_python_from_3_8_on_runs_it(parent: Parent, version: str) -> None:
    parent.python = find_python(version)
    program = [
        "sh",
        "-c",
        "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE; echo words >&2; exit 3",
    ]
    assert parent.run(*program) == (3, "3 of 4, 1 of 2\n", "words\n")
    assert parent.record()["stderr_tail"] == ["words"]


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_programs_can_ask_for_their_rank_from_the_archive_alone(parent: Parent, version: str) -> None:
    """In a container there is no slurmkit: launch.pyz on PYTHONPATH will do."""
    python = find_python(version)
    code = "from slurmkit.launch import rank_from_env; print(rank_from_env().rank)"
    environ = parent.environ | {"PYTHONPATH": str(parent.archive)}
    done = subprocess.run(
        [python, "-S", "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
