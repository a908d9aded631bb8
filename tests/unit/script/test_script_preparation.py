"""The lines that prepare the environment, run by bash, with module systems and conda of a screen each."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slurmkit.errors import UsageError
from slurmkit.script.preparation import FAILED, is_secret, preparation
from slurmkit.spec.model import Environment

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {
    # Lmod, and Environment Modules from 5 on: a module that is not there is an error.
    "lmod": """
module() {
  case $2 in
    missing*) echo "Lmod has detected the following error: $2 is unknown" >&2; return 1 ;;
    alias) LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}real/1.0 ;;
    *) LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$2/1.0 ;;
  esac
  export LOADEDMODULES; echo "loaded $2" $UNSET
}
""",
    # Environment Modules 3.2: the status is that of the eval of nothing.
    "tcl": """
module() {
  case $2 in
    missing*) echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$2'" >&2 ;;
    alias) LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}real/1.0 ;;
    *) [[ :$LOADEDMODULES: = *":$2"[:/]* ]] || LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$2 ;;
  esac
  export LOADEDMODULES
}
""",
}
CONDA = """#!/bin/bash
if [[ $* = "shell.bash hook" ]]; then
  echo 'conda() {'
  echo '  if [[ $2 = missing ]]; then echo "EnvironmentNameNotFound" >&2; return 1; fi'
  echo '  export CONDA_PREFIX=$2 $UNSET; }'
fi
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


def run(environment: Environment, directory: Path, **variables: str) -> Done:
    """Prepare, then print what `AFTER` says."""
    text = preparation(environment, directory=directory) + 'eval "${AFTER:-}"\necho ready\n'
    script = directory / "script"
    script.write_text(text)
    done = subprocess.run(
        ["bash", script],
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "SLURMD_NODENAME": "n1", **variables},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(params=MODULES)
def init(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """MODULESHOME of a module system, which the shell has not met yet."""
    (tmp_path / "home" / "init").mkdir(parents=True)
    (tmp_path / "home" / "init" / "bash").write_text(MODULES[request.param])
    return str(tmp_path / "home")


@pytest.mark.parametrize(
    "modules", [("cuda/12.4",), ("cuda",), ("cuda/12.4", "cuda/12.4"), ("alias",), ("a b'$HOME",)], ids=str
)
def test_modules_are_loaded(init: str, modules: tuple[str, ...], tmp_path: Path) -> None:
    done = run(Environment(modules=modules), tmp_path, MODULESHOME=init)
    assert done.code == 0, done.err
    assert done.out.endswith("ready\n")


@pytest.mark.parametrize("modules", [("missing/1",), ("cuda/12.4", "missing/1")], ids=str)
def test_a_missing_module_ends_the_script_with_a_clear_line(
    init: str, modules: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(Environment(modules=modules), tmp_path, MODULESHOME=init)
    assert done.code == FAILED
    assert done.err.splitlines()[-1] == "slurmkit: n1: module missing/1 could not be loaded"
    assert "ready" not in done.out


def test_a_module_of_the_submitting_shell_counts_as_loaded(tmp_path: Path) -> None:
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "bash").write_text(MODULES["tcl"])
    inherited = {"MODULESHOME": str(tmp_path), "LOADEDMODULES": "gcc/13:cuda/12.4"}
    assert run(Environment(modules=("cuda",)), tmp_path, **inherited).code == 0


def test_a_function_that_the_shell_exported_is_used(tmp_path: Path) -> None:
    exported = {"BASH_FUNC_module%%": "() { export LOADEDMODULES=x; echo own $2; }"}
    assert run(Environment(modules=("cuda",)), tmp_path, **exported).out == "own cuda\nready\n"


def test_no_module_system_is_said(tmp_path: Path) -> None:
    done = run(Environment(modules=("cuda",)), tmp_path, MODULESHOME=str(tmp_path / "none"))
    assert (done.code, done.err) == (FAILED, "slurmkit: n1: there is no module command\n")


def make_venv(venv: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "activate").write_text(f"export VIRTUAL_ENV={str(venv)!r} $UNSET\n")
    (venv / "bin" / "python").symlink_to("/bin/true")


@pytest.mark.parametrize("name", [".venv", "my venv's $HOME", "-v"])
def test_a_venv_is_entered_by_its_path_from_the_job_file(name: str, tmp_path: Path) -> None:
    make_venv(tmp_path / name)
    done = run(Environment(venv=name), tmp_path, AFTER='basename -- "$VIRTUAL_ENV"')
    assert (done.code, done.err) == (0, "")


def test_a_venv_in_the_home_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make_venv(tmp_path / "env")
    assert run(Environment(venv="~/env"), tmp_path).code == 0


def test_a_missing_venv_ends_the_script_with_a_clear_line(tmp_path: Path) -> None:
    done = run(Environment(venv="gone"), tmp_path)
    assert done.code == FAILED
    assert done.err == f"slurmkit: n1: there is no virtual environment {tmp_path}/gone\n"


def test_a_venv_whose_python_is_elsewhere_ends_the_script_with_a_clear_line(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv")
    (tmp_path / "venv" / "bin" / "python").unlink()
    (tmp_path / "venv" / "bin" / "python").symlink_to("/opt/only/here/python3")
    done = run(Environment(venv="venv"), tmp_path)
    assert done.code == FAILED
    assert "/opt/only/here/python3" in done.err


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    program = tmp_path / "conda home" / "bin" / "conda"
    program.parent.mkdir(parents=True)
    program.write_text(CONDA)
    program.chmod(0o755)
    return program


def test_conda_is_found_by_its_variable_on_the_path_and_in_the_home(conda: Path, tmp_path: Path) -> None:
    wanted = Environment(conda="train")
    say = 'echo "$CONDA_PREFIX"'
    by_variable = run(wanted, tmp_path, CONDA_EXE=str(conda), AFTER=say)
    on_path = run(wanted, tmp_path, PATH=f"{conda.parent}:{os.environ['PATH']}", AFTER=say)
    (tmp_path / "miniforge3").symlink_to(conda.parents[1])
    assert {by_variable, on_path, run(wanted, tmp_path, AFTER=say)} == {Done(0, "train\nready\n", "")}


def test_a_conda_environment_by_path_counts_from_the_job_file(conda: Path, tmp_path: Path) -> None:
    done = run(Environment(conda="./env s"), tmp_path, CONDA_EXE=str(conda), AFTER='echo "$CONDA_PREFIX"')
    assert done.out == f"{tmp_path}/env s\nready\n"


def test_a_missing_conda_environment_ends_the_script_with_a_clear_line(conda: Path, tmp_path: Path) -> None:
    done = run(Environment(conda="missing"), tmp_path, CONDA_EXE=str(conda))
    assert done.code == FAILED
    assert done.err.splitlines()[-1] == "slurmkit: n1: the conda environment missing could not be entered"


@pytest.mark.parametrize(
    ("lines", "code", "says"),
    [
        (("cd /nowhere/at/all",), FAILED, "slurmkit: n1: status 1 of: cd /nowhere/at/all"),
        (("false | cat",), FAILED, "slurmkit: n1: status 1 of: "),
        (("echo $UNSET",), 0, ""),
        (("exit 3",), 3, ""),
        (("set +e", "false"), 0, ""),
        (("false || true",), 0, ""),
        (("if true; then", "  echo a", "fi"), 0, ""),
        (("cat <<E", "$HOME", "E"), 0, ""),
        (("echo a\r\necho b",), 0, ""),
    ],
)
def test_setup_lines_run_as_they_stand_and_one_that_fails_says_so(
    lines: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    done = run(Environment(setup=lines), tmp_path)
    assert done.code == code, done.err
    assert says in done.err
    assert ("ready" in done.out) is (code == 0)
    assert "\r" not in (tmp_path / "script").read_bytes().decode()


def test_what_follows_the_setup_lines_is_strict_again(tmp_path: Path) -> None:
    done = run(Environment(setup=("set +e; set +o pipefail",)), tmp_path, AFTER="false | cat")
    assert (done.code, done.out) == (1, "")


def test_variables_come_after_modules_and_before_setup(init: str, tmp_path: Path) -> None:
    environment = Environment(
        modules=("cuda",), variables={"LOADEDMODULES": "mine"}, setup=('echo "$LOADEDMODULES"',)
    )
    assert "mine" in run(environment, tmp_path, MODULESHOME=init).out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HF_TOKEN", True),
        ("GITHUB_TOKEN", True),
        ("ACCESSTOKEN", True),
        ("WANDB_API_KEY", True),
        ("OPENAI_APIKEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("AWS_SESSION_TOKEN", True),
        ("CLIENT_SECRET_FILE", True),
        ("PGPASSWORD", True),
        ("MYSQL_PWD", True),
        ("db_passwd", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("MAX_TOKENS", False),
        ("NCCL_DEBUG", False),
        ("COMPASS", False),
        ("KEYBOARD", False),
        ("AUTHOR", False),
    ],
)
def test_secrets_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


def test_a_secret_that_is_there_is_left_alone(tmp_path: Path) -> None:
    wanted = Environment(variables={"HF_TOKEN": "of the job file"})
    done = run(wanted, tmp_path, HF_TOKEN="given", AFTER='echo "$HF_TOKEN"')
    assert done.out == "given\nready\n"
    assert run(wanted, tmp_path).code == FAILED


@pytest.mark.parametrize("name", ["UID", "IFS", "SECONDS", "BASHOPTS"])
def test_a_variable_that_bash_sets_itself_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"bash sets {name} itself"):
        preparation(Environment(variables={name: "1"}), directory=tmp_path)
