"""Files that are no text, or no file: each is answered with one sentence, and none of them hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmkit.errors import JobFileError
from slurmkit.spec.loading import load

SOUND = 'name = "größe"\ncommand = "true"\n'


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("job.toml")


def told(path: str | Path) -> str:
    with pytest.raises(JobFileError) as caught:
        load(path, site=None, user=None)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        SOUND.encode(),
        SOUND.replace("\n", "\r\n").encode(),
        SOUND.encode("utf-8-sig"),
        SOUND.rstrip().encode(),
    ],
    ids=["plain", "CRLF", "byte order mark", "no last line feed"],
)
def test_every_way_that_editors_save_text_is_taken(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert load(path, site=None, user=None).spec.name == "größe"


def test_trap_125_crlf_within_a_command_becomes_lf(path: Path) -> None:
    path.write_bytes(b'name = "x"\r\ncommand = """\r\nmodule list\r\npython t.py"""\r\n')
    assert load(path, site=None, user=None).spec.command == "module list\npython t.py"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (SOUND.encode("latin-1"), "job.toml:1:11: not UTF-8: the byte 0xf6 here; save the file as UTF-8"),
        (SOUND.encode("utf-16"), "job.toml:1:1: not UTF-8: the byte 0xff here; save the file as UTF-8"),
        (b"x = 1\n\xc3\xa4 = \xff", "job.toml:2:5: not UTF-8: the byte 0xff here; save the file as UTF-8"),
        (b'name = "a\0b"\n', "job.toml:1:10: not TOML: Illegal character '\\x00'"),
        (b"a = " + b"[" * 5_000, "job.toml: tables or lists are nested too deeply to read"),
        (b"a" + b".a" * 40 + b" = 1", "job.toml: tables or lists are nested too deeply to read"),
        (b"a = " + b"9" * 5_000, "job.toml: a number in it has more digits than can be read"),
    ],
)
def test_what_is_no_text_of_a_job_file_is_told(path: Path, content: bytes, text: str) -> None:
    path.write_bytes(content)
    assert told(path).splitlines()[0] == text


def test_a_file_of_50_megabytes_is_no_job_file_and_is_not_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50_000_000)
    assert told(path) == "job.toml: this is no job file: it is larger than 1024 KiB"


def test_a_device_is_no_job_file() -> None:
    assert told("/dev/zero") == "/dev/zero: this is a pipe or a device, and a job file is a file"


def test_a_pipe_that_nobody_writes_to_does_not_hang(path: Path) -> None:
    os.mkfifo(path)
    assert told(path) == "job.toml: this is a pipe or a device, and a job file is a file"


def test_a_missing_file_is_told_with_the_one_that_was_likely_meant(path: Path) -> None:
    assert told(path) == "job.toml: there is no such file"
    Path("jobs.toml").touch()
    assert told(path) == "job.toml: there is no such file; did you mean `jobs.toml`?"
    assert told("jobs") == "jobs: there is no such file; did you mean `jobs.toml`?"


def test_a_directory_is_told_with_the_job_file_in_it(path: Path) -> None:
    path.mkdir()
    assert told(path) == "job.toml: this is a directory; name the job file in it"
    (path / "one.toml").touch()
    assert told(path) == "job.toml: this is a directory; did you mean `job.toml/one.toml`?"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("file/job.toml", "file/job.toml: part of the path is a file, not a directory"),
        ("a\nb.toml", "a\\nb.toml: there is no such file"),
        ("\x1b[31m.toml", "\\x1b[31m.toml: there is no such file"),
        ("a\0b", "a\\x00b: this is not the name of a file: it holds a NUL"),
        ("loop", "loop: Too many levels of symbolic links"),
        ("n" * 300, f"{'n' * 300}: File name too long"),
        ("-", "-: there is no such file"),
    ],
)
def test_a_path_that_leads_to_no_file_is_told(path: Path, name: str, text: str) -> None:
    Path("file").touch()
    Path("loop").symlink_to("loop")
    assert told(name) == text


LOAD_AS_NOBODY = """
import os
from slurmkit.errors import JobFileError
from slurmkit.spec.loading import load
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    load("job.toml", site=None, user=None)
except JobFileError as error:
    print(error)
"""


def test_a_file_that_one_may_not_read_is_told(path: Path) -> None:
    path.write_text(SOUND)
    path.chmod(0)
    Path.cwd().chmod(0o755)
    command = [sys.executable, "-c", LOAD_AS_NOBODY]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.stderr == ""
    assert ran.stdout == "job.toml: you may not read this file\n"
