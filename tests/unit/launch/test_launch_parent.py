"""The parent around a program: what goes in, what comes out, what is left behind."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.port import candidates, is_free

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.launch.conftest import Parent

HOSTILE = [
    "two words",
    'it\'s "quoted"',
    "$HOME ${PATH} $(id)",
    "`id`",
    "line\nbreak",
    "naïve 名",
    "-leading",
    "--",
    "",
    "back\\slash",
    "*",
]
TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def test_argv_and_environment_arrive_byte_for_byte(parent: Parent) -> None:
    hostile = {f"HOSTILE_{number}": value for number, value in enumerate(HOSTILE)}
    code, out, err = parent.run(sys.executable, "-I", "-c", TELL, *HOSTILE, environ=hostile)
    argv, environ = json.loads(out)
    assert (code, err) == (0, "")
    assert argv == HOSTILE
    assert {name: environ[name] for name in hostile} == hostile


def test_bytes_that_are_no_text_arrive_as_they_are(parent: Parent) -> None:
    tell = "import os, sys; print([os.fsencode(sys.argv[1]), os.environb[b'ODD']])"
    odd = {os.fsencode(name): os.fsencode(value) for name, value in parent.environ.items()} | {
        b"ODD": b"\xff\x80"
    }
    with parent.start([sys.executable, "-I", "-c", tell, b"\xfe\xff"], env=odd) as process:
        out, _ = process.communicate(timeout=60)
    assert out == b"[b'\\xfe\\xff', b'\\xff\\x80']\n"


def test_the_program_sees_no_variable_that_nobody_set(parent: Parent) -> None:
    """In a C locale Python sets LC_CTYPE for itself."""
    _, out, _ = parent.run("env", "-0")
    names = {entry.partition("=")[0] for entry in out.split("\0") if entry}
    ranks = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"}
    frameworks = {"GROUP_WORLD_SIZE", "JAX_COORDINATOR_ADDRESS", "SLURM_NTASKS_PER_NODE"}
    assert names - {"_"} == parent.environ.keys() | ranks | frameworks


def test_a_record_tells_who_ended_where_how_and_when(parent: Parent) -> None:
    before = time.time()
    code, _, _ = parent.run("bash", "-c", "echo last words >&2; exit 7")
    record = parent.record()
    assert code == 7
    assert before <= record.pop("started") <= record.pop("ended") <= time.time()
    assert record.pop("pid") > 1
    assert record == {"rank": 3, "host": "n2", "exit_code": 7, "stderr_tail": ["last words"]}


@pytest.mark.parametrize("number", [1, 6, 9, 11, 15])
def test_the_parent_dies_of_the_signal_that_the_program_died_of(
    parent: Parent, number: int, tmp_path: Path
) -> None:
    """So srun and sacct report the signal, not an exit code of 128 and more; and one core is enough."""
    code, _, _ = parent.run("bash", "-c", f"kill -{number} $$", cwd=tmp_path)
    assert code == -number
    assert parent.record()["signal"] == number
    assert "exit_code" not in parent.record()


def test_without_an_agent_no_record_is_written(parent: Parent) -> None:
    del parent.environ["SLURMKIT_EXIT_DIRECTORY"]
    assert parent.run("true") == (0, "", "")
    assert not list(parent.records.iterdir())


def test_a_record_that_cannot_be_written_is_said_and_changes_no_exit_code(parent: Parent) -> None:
    parent.environ["SLURMKIT_EXIT_DIRECTORY"] = "/nonexistent/records"
    code, _, err = parent.run("bash", "-c", "exit 5")
    assert code == 5
    assert err.startswith("slurmkit: no exit record: [Errno 2] No such file or directory")


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        ("no-such-program", 127, "'no-such-program' is not on the PATH of the job (modules, venv, conda?)"),
        ("./missing", 127, "'./missing' does not exist on this node"),
        ("./plain", 126, "'./plain' is not executable (chmod +x, or name its interpreter in the command)"),
        ("./folder", 126, "'./folder' is not executable (chmod +x, or name its interpreter in the command)"),
        ("./odd", 127, "'./odd' cannot start: the interpreter of its first line is not on this node"),
        ("./data", 126, "'./data' cannot start: Exec format error"),
    ],
)
def test_a_program_that_cannot_start_is_told_in_a_line_with_a_shells_exit_code(
    parent: Parent, tmp_path: Path, program: str, code: int, text: str
) -> None:
    (tmp_path / "folder").mkdir()
    for name, content, mode in (
        ("plain", "#!/bin/sh\n", 0o644),
        ("odd", "#!/nonexistent/python\n", 0o755),
        ("data", "no program\n", 0o755),
    ):
        path = tmp_path / name
        path.write_text(content)
        path.chmod(mode)
    assert parent.run(program, cwd=tmp_path) == (code, "", f"slurmkit: {text}\n")
    record = parent.record()
    assert (record["exit_code"], record["stderr_tail"]) == (code, [f"slurmkit: {text}"])


@pytest.mark.parametrize("program", [[], [""], ["", "argument"]])
def test_without_a_program_there_is_a_usage_line(parent: Parent, program: list[str]) -> None:
    assert parent.run(*program) == (125, "", "slurmkit: usage: launch.pyz -- PROGRAM [ARGUMENT...]\n")


def test_trap_080_a_task_that_is_none_starts_nothing_and_leaves_a_record(
    parent: Parent, tmp_path: Path
) -> None:
    del parent.environ["SLURM_LOCALID"]
    code, out, err = parent.run("echo", "started")
    assert (code, out) == (125, "")
    assert "SLURM_LOCALID missing: start the program with srun" in err
    assert parent.record()["exit_code"] == 125


def test_what_is_overwritten_is_said_in_the_ranks_log(parent: Parent) -> None:
    parent.environ["LOCAL_RANK"] = "9"
    _, out, err = parent.run("sh", "-c", "echo $LOCAL_RANK")
    assert (out, err) == ("1\n", "slurmkit: LOCAL_RANK is 1 here; the environment had 9\n")


def as_rank_0(parent: Parent, port: int) -> None:
    parent.environ |= {
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "MASTER_PORT": str(port),
    }


def test_rank_0_starts_nothing_where_its_port_is_taken(parent: Parent) -> None:
    with socket.create_server(("", 0)) as server:
        as_rank_0(parent, server.getsockname()[1])
        code, out, _ = parent.run("echo", "started")
    assert (code, out) == (98, "")
    assert (parent.record(0)["port_taken"], parent.record(0)["exit_code"]) == (True, 98)


def test_rank_0_leaves_a_free_port_to_its_program(parent: Parent) -> None:
    as_rank_0(parent, next(port for port in candidates(98, 0, 0) if is_free(port)))
    listen = "import os, socket; socket.create_server(('', int(os.environ['MASTER_PORT']))); print('listens')"
    assert parent.run(sys.executable, "-c", listen)[1] == "listens\n"


def test_a_port_of_the_users_own_is_their_business(parent: Parent) -> None:
    with socket.create_server(("", 0)) as server:
        as_rank_0(parent, server.getsockname()[1])
        parent.environ["SLURMKIT_USER_VARIABLES"] = "MASTER_PORT"
        assert parent.run("echo", "started")[:2] == (0, "started\n")


def test_stdin_and_stdout_are_the_programs_own(parent: Parent, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("in\n")
    with path.open() as file:
        assert parent.run("sh", "-c", "cat; readlink /proc/self/fd/0", stdin=file)[1] == f"in\n{path}\n"


def test_files_that_slurm_left_open_for_mpi_stay_open(parent: Parent) -> None:
    end, start = os.pipe()
    try:
        code, _, _ = parent.run("bash", "-c", f"echo from the rank >&{start}", pass_fds=[start])
        assert (code, os.read(end, 100)) == (0, b"from the rank\n")
    finally:
        os.close(end)
        os.close(start)
