from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import record
from slurmkit.recovery.exits import RankExit, first_failure, read_exits
from slurmkit.run.paths import RunPaths

if TYPE_CHECKING:
    from pathlib import Path

TERM = 15


def ended(rank: int, at: float, **more: Any) -> RankExit:
    return RankExit(
        rank=rank, host="n1", ended=at, **({"exit_code": 0} | more if "signal" not in more else more)
    )


def test_records_are_found_under_the_names_that_ranks_give_them(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    folder = paths.exit("12-0", 3)
    folder.mkdir(parents=True)
    environ = {"SLURM_PROCID": "100000", "SLURMD_NODENAME": "n7", "SLURMKIT_EXIT_DIRECTORY": str(folder)}
    stderr = record.Tail()
    stderr.add(b"why\n")
    fields = {"pid": 5, "signal": 9, "received": [TERM], "started": 1.0, "ended": 2.5}
    record.write(environ, fields, stderr)
    assert paths.exit_record("12-0", 3, 100000).exists()
    (found,) = read_exits(folder)
    assert found == RankExit(
        rank=100000, host="n7", signal=9, received=(TERM,), ended=2.5, stderr_tail=("why",)
    )


def test_records_come_by_rank(tmp_path: Path) -> None:
    for rank in (10, 2, 100000):
        (tmp_path / record.file_name(rank)).write_text(
            json.dumps({"rank": rank, "host": "n1", "exit_code": 0})
        )
    assert [one.rank for one in read_exits(tmp_path)] == [2, 10, 100000]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"host": "n1"}', "\x00\x00"])
def test_a_damaged_record_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / record.file_name(0)).write_text(content)
    assert read_exits(tmp_path) == []


def test_without_a_directory_there_are_no_records(tmp_path: Path) -> None:
    assert read_exits(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("exits", "rank"),
    [
        ([], None),
        ([ended(0, 1.0)], None),
        ([ended(0, 3.0, exit_code=1), ended(1, 2.0, exit_code=7), ended(2, 4.0, signal=11)], 1),
        ([ended(0, 2.0, exit_code=1), ended(1, 1.0)], 0),
        # A clock that is behind does not make an echo the cause.
        ([ended(0, 1.0, signal=TERM, received=(TERM,)), ended(1, 2.0, exit_code=7)], 1),
        # Told to end, some programs end with a code of their own.
        ([ended(0, 1.0, exit_code=1, received=(TERM,)), ended(1, 2.0, exit_code=7)], 1),
        # A signal that asks for a checkpoint tells nobody to end.
        ([ended(0, 1.0, exit_code=7, received=(10,)), ended(1, 2.0, exit_code=8)], 0),
        # All were told: the step was cancelled.
        ([ended(0, 1.0, signal=TERM, received=(TERM,)), ended(1, 2.0, signal=TERM, received=(TERM,))], None),
        ([ended(0, 1.0, exit_code=98, port_taken=True), ended(1, 2.0, signal=TERM, received=(TERM,))], None),
    ],
)
def test_trap_090_the_first_failure_is_the_cause_and_not_an_echo(
    exits: list[RankExit], rank: int | None
) -> None:
    failure = first_failure(exits)
    assert (failure.rank if failure else None) == rank


@pytest.mark.parametrize(
    ("fields", "status"), [({"exit_code": 7}, 7), ({"signal": 9}, 137), ({"exit_code": 0}, 0)]
)
def test_a_signal_counts_as_a_shell_counts_it(fields: dict[str, int], status: int) -> None:
    assert ended(0, 0.0, **fields).status == status
