"""`slurmkit accounting` as it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Slurmkit

DUMP = """\
JobID|JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES
1|1|aurora|COMPLETED|1793260800|1793260900|1793264500|3600|n1|cpu=4,gres/gpu=2,node=1
1.batch|1.batch|aurora|COMPLETED|1793260900|1793260900|1793264500|3600|n1|cpu=4,node=1
2|2|aurora|RUNNING|1793260800|1793260900|Unknown|60|n1|cpu=4,node=1
"""


@pytest.fixture
def dump(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(place / "data"))
    file = place / "dump.txt"
    file.write_text(DUMP)
    return file


def test_a_dump_becomes_a_store_and_status_tells_what_it_holds(
    slurmkit: Slurmkit, place: Path, dump: Path
) -> None:
    done = slurmkit("accounting", "sync", "--from-file", str(dump))
    assert (done.code, done.err) == (0, "")
    assert done.out.split()[:8] == ["CLUSTER", "JOBS", "OPEN", "STEPS", "FIRST", "LAST", "SIZE", "AS"]
    again = slurmkit("accounting", "sync", "--from-file", str(dump), "--json")
    (row,) = again.json
    assert {name: row[name] for name in ("cluster", "jobs", "open", "steps", "first", "last", "until")} == {
        "cluster": "aurora", "jobs": 2, "open": 1, "steps": 1, "first": "2026-10-29", "last": "2026-10-29",
        "until": None,
    }  # fmt: skip
    assert row["size"] > 1000
    told = slurmkit("accounting", "status", "--json").json
    assert told["store"] == str(place / "data" / "slurmkit" / "accounting")
    assert told["clusters"] == [row]
    assert "aurora" in slurmkit("accounting", "status").out


def test_the_store_may_be_anywhere(slurmkit: Slurmkit, place: Path, dump: Path) -> None:
    store = place / "a store"
    assert slurmkit("accounting", "sync", "--from-file", str(dump), "--store", str(store)).code == 0
    assert slurmkit("accounting", "status", "--store", str(store), "--json").json["clusters"][0]["jobs"] == 2
    assert slurmkit("accounting", "status").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status"], "there is no store of job records"),
        (["sync", "--from-file", "none.txt"], "none.txt"),
        (["sync", "--from-file", "dump.txt", "--since", "7d"], "--since asks Slurm"),
        (["sync", "--since", "soon"], "not a time: 'soon'"),
    ],
)
def test_what_cannot_be_is_said_with_code_2(
    slurmkit: Slurmkit, dump: Path, words: list[str], said: str
) -> None:
    done = slurmkit("accounting", *words)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
