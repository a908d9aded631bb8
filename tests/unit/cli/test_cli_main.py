from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import slurmkit
from slurmkit import errors
from slurmkit.cli import main
from slurmkit.cli.table import COMMANDS, GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable

SLURMKIT = Path(sys.executable).with_name("slurmkit")


@pytest.fixture
def slurmkit_run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SLURMKIT, *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_help_shows_every_command_under_the_life_cycle(
    slurmkit_run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = slurmkit_run("--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    for command in COMMANDS:
        line = next(line for line in lines if line.split()[:1] == [command.name])
        assert line.endswith(command.summary)
    assert [line[:-1] for line in lines if line.endswith(":")] == ["Options", *GROUPS]


def test_the_version_is_told(slurmkit_run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert slurmkit_run("--version").stdout == f"slurmkit {slurmkit.__version__}\n"


def test_a_wrong_command_is_answered_with_the_right_one(
    slurmkit_run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = slurmkit_run("statsu")
    assert done.returncode == 2
    assert "Did you mean 'status'?" in done.stderr


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("slurmkit s", 1, {"schema", "submit", "supervise", "status", "show"}),
        ("slurmkit ", 1, {command.name for command in COMMANDS}),
        ("slurmkit --v", 1, {"--version"}),
        ("slurmkit logs --ra", 2, {"--rank"}),
    ],
)
def test_the_shell_completes(
    slurmkit_run: Callable[..., subprocess.CompletedProcess[str]], words: str, number: int, expected: set[str]
) -> None:
    done = slurmkit_run(_SLURMKIT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number))
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


def test_the_shell_completes_runs_from_the_index(
    slurmkit_run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    index = tmp_path / ".local/state/slurmkit/runs"
    index.mkdir(parents=True)
    (index / "ddp-20261201-aaaaaa").symlink_to(tmp_path)
    done = slurmkit_run(_SLURMKIT_COMPLETE="bash_complete", COMP_WORDS="slurmkit show ", COMP_CWORD="2")
    assert done.stdout == "plain,last\nplain,ddp-20261201-aaaaaa\n"


def failing(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("fail", callback=fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.JobFailed("it failed"), 1),
        (errors.UsageError("wrong"), 2),
        (errors.JobFileError(["job.toml:1:2: wrong"]), 2),
        (errors.RunNotFound("no run"), 2),
        (errors.MissingRequirement("no sbatch"), 2),
        (errors.SlurmError("no"), 3),
        (errors.Unreachable("silent"), 3),
        (errors.AnswerLost("lost"), 3),
        (errors.Refused("refused"), 3),
        (errors.JobUnknown("unknown"), 3),
        (click.UsageError("bad"), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_each_kind_of_error_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.group.commands, "status", failing(error))
    assert main.run(["status"]) == code
    if isinstance(error, errors.SlurmkitError):
        assert capfd.readouterr().err == f"error: {error}\n"


def test_an_error_says_what_where_and_what_to_try_without_colour_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main.print_error(errors.Refused("Slurm said no", where="sbatch: error: no", hint="ask for less"))
    assert capsys.readouterr().err == "error: Slurm said no\n  at: sbatch: error: no\n  try: ask for less\n"


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colour_unless_it_asks_for_none(
    environment: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    main.print_error(errors.UsageError("no"))
    assert ("\x1b[" in capsys.readouterr().err) == coloured


def python(code: str, *, tmp_path: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


BROKEN = """
import sys, click
from slurmkit.cli import main
def fail(): {body}
main.group.commands["status"] = click.Command("status", callback=fail)
sys.argv = ["slurmkit", "status"]
main.main()
"""


def test_a_bug_leaves_a_file_with_its_traceback_and_two_lines_on_the_terminal(tmp_path: Path) -> None:
    process = python(BROKEN.format(body="{}['key of a bug']"), tmp_path=tmp_path)
    out, err = process.communicate()
    assert (process.returncode, out) == (70, "")
    assert "error: a bug in slurmkit: KeyError: 'key of a bug'" in err
    assert "Traceback" not in err
    (file,) = tmp_path.glob("slurmkit-bug-*.txt")
    assert str(file) in err
    assert "Traceback" in file.read_text()
    assert slurmkit.__version__ in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_ctrl_c_is_130_and_no_traceback(tmp_path: Path) -> None:
    body = "import time; print('ready', flush=True); time.sleep(60)"
    process = python(BROKEN.format(body=body), tmp_path=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_went_away_is_silence(tmp_path: Path) -> None:
    body = "[click.echo('x' * 1000) for _ in range(1000)]"
    process = python(BROKEN.format(body=body), tmp_path=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate()
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_a_stream_that_is_closed_is_no_error(tmp_path: Path, redirection: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" runs --json {redirection}', SLURMKIT],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, list(tmp_path.glob("slurmkit-bug*"))) == (0, [])


def test_all_that_was_printed_arrives_in_a_pipe(tmp_path: Path) -> None:
    process = python(BROKEN.format(body="sys.stdout.write('x' * 100_000)"), tmp_path=tmp_path)
    out, _ = process.communicate()
    assert (process.returncode, len(out)) == (0, 100_000)
