"""sacct into a file: how it is asked, and what is made of each way in which it fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import AccountingOff, MissingRequirement, Refused, Unreachable
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.dumping import FIELDS, Asked, Query, arguments, dump, known_fields

if TYPE_CHECKING:
    from pathlib import Path

ASKED = Asked(("JobID", "JobName"), timeout=60)
SINCE, UNTIL = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)


def sacct(tmp_path: Path, body: str) -> dict[str, str]:
    """An environment in which sacct is this script."""
    program = tmp_path / "sacct"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "SACCT_FORMAT": "User", "TZ": "America/New_York"}


def test_a_window_is_asked_for_in_utc_with_all_users_and_attempts() -> None:
    words = arguments(Query(SINCE, UNTIL), ASKED._replace(cluster="aurora"))
    assert words[0] == "sacct"
    assert {"--allusers", "--duplicates", "--parsable", "--noconvert", "--clusters=aurora"} <= set(words)
    assert {"--starttime=2026-11-01T00:00:00", "--endtime=2026-11-02T00:00:00"} <= set(words)
    assert "--array" not in words


def test_jobs_are_asked_for_by_their_ids_at_any_time() -> None:
    words = arguments(Query(ids=[12, 3]), ASKED)
    assert "--jobs=3,12" in words
    assert not [word for word in words if word.startswith(("--starttime", "--endtime", "--clusters"))]


def test_only_fields_that_sacct_knows_are_asked_for(tmp_path: Path) -> None:
    environ = sacct(tmp_path, 'echo "JOBID  Jobname   State Unheard"')
    assert known_fields(environ, SystemClock()) == ("JobID", "State", "JobName")
    assert FIELDS[-1] == "JobName"


def test_what_sacct_prints_is_in_the_file_as_it_is(tmp_path: Path) -> None:
    environ = sacct(
        tmp_path, 'printf "12\\000\\377 "; echo "$SLURM_TIME_FORMAT $TZ $SACCT_FORMAT"; echo aside >&2'
    )
    target = tmp_path / "out.txt"
    assert dump(Query(SINCE, UNTIL), ASKED, target, environ=environ)
    assert target.read_bytes() == b"12\0\xff %s UTC \n"


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    environ = sacct(tmp_path, "exec sleep 100")
    assert not dump(Query(SINCE, UNTIL), ASKED._replace(timeout=0.2), tmp_path / "out", environ=environ)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo x; kill -9 $$", Refused),
        ("echo x; echo 'sacct: fatal: Invalid time range' >&2; exit 1", Refused),
        ("echo 'sacct: error: slurmdbd: failed to open persistent connection' >&2; exit 1", Unreachable),
        ("echo x; echo 'sacct: error: slurmdbd: Getting response to message type' >&2", Refused),
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", AccountingOff),
    ],
)
def test_a_failure_is_an_error_of_its_kind(tmp_path: Path, body: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        dump(Query(SINCE, UNTIL), ASKED, tmp_path / "out", environ=sacct(tmp_path, body))
    assert type(caught.value) is error


def test_without_sacct_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match="sacct"):
        dump(Query(SINCE, UNTIL), ASKED, tmp_path / "out", environ={"PATH": str(tmp_path)})
