"""`sacct --json` of every release gives the rows that sacct's text has; damaged JSON is an error."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.accounting import json_dump
from slurmkit.accounting.json_dump import FIELDS, convert, jobs, number, rows
from slurmkit.errors import UsageError
from slurmkit.slurm.rows import DELIMITER

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = ("22.05", "23.02", "23.11", "26.05")
"""Releases whose shapes differ; those between have the shape of the one before."""


def num(version: str, value: int | None, *, infinite: bool = False) -> Any:
    """A number that may be open, as a release writes it."""
    if version == "22.05":
        return None if infinite else value
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def words(version: str, *names: str) -> Any:
    return list(names) if version >= "23.11" else names[-1]


def code(version: str, returned: int | None, signal: int | None = None) -> Any:
    if version < "23.11":
        one: dict[str, Any] = {"status": "ERROR", "return_code": returned}
        return one | ({"signal": {"signal_id": signal, "name": "Killed"}} if signal else {})
    return {
        "status": ["ERROR"],
        "return_code": num(version, returned),
        "signal": {"id": num(version, signal), "name": ""},
    }


def tres(**counts: int | None) -> list[dict[str, Any]]:
    found = []
    for number_of, (name, count) in enumerate(counts.items(), 1):
        kind, _, which = name.partition("__")
        found.append({"type": kind, "name": which.replace("_", ":") or None, "id": number_of, "count": count})
    return found


def of_version(version: str, **changes: Any) -> dict[str, Any]:
    """A job with a step, killed by signal 9 after two minutes."""
    step = {
        "time": {
            "elapsed": 120,
            "start": num(version, 1700000100) if version >= "23.11" else 1700000100,
            "end": num(version, 1700000220) if version >= "23.11" else 1700000220,
            "suspended": 0,
            "total": {"seconds": 61, "microseconds": 20741},
        },
        "exit_code": code(version, None, 9),
        "nodes": {"count": 2, "range": "n[1-2]", "list": ["n1", "n2"]},
        "tasks": {"count": 4},
        "state": words(version, "FAILED"),
        "statistics": {"energy": {"consumed": num(version, 7) if version >= "23.11" else 7}},
        "step": {"id": "5.0" if version >= "23.11" else 0, "name": "python"},
        "tres": {
            "requested": {
                "max": tres(cpu=1000, mem=3 * 2**20, energy=0),
                "total": tres(cpu=3600_000, mem=2**30, fs__disk=11),
            },
            "allocated": tres(cpu=8, mem=4000, gres__gpu_a100=2),
        },
    }
    job: dict[str, Any] = {
        "account": "research",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task": "", "task_id": num(version, None)},
        "association": {"user": "ada"},
        "cluster": "aurora",
        "comment": {"administrator": "", "job": "a|b", "system": ""},
        "exit_code": code(version, None, 9),
        "het": {"job_id": 0, "job_offset": num(version, None)},
        "job_id": 5,
        "kill_request_user": None if version == "22.05" else "",
        "name": "two\nlines",
        "nodes": "n[1-2]",
        "partition": "main",
        "qos": "normal",
        "required": {"CPUs": 8},
        "state": {"current": words(version, "FAILED"), "reason": "None"},
        "steps": [step],
        "submit_line": "sbatch x",
        "time": {
            "elapsed": 120,
            "eligible": 1700000000,
            "end": 1700000220,
            "limit": num(version, 10),
            "start": 1700000100,
            "submission": 1700000000,
            "suspended": 3,
            "total": {"seconds": 0, "microseconds": 0},
        },
        "tres": {
            "allocated": tres(cpu=8, mem=8000, energy=None, node=2, billing=8, gres__gpu=4, gres__gpu_a100=4),
            "requested": tres(cpu=8, mem=8000, node=2),
        },
        "user": "ada",
        "working_directory": "/home/ada",
    }
    return job | changes


@pytest.mark.parametrize("version", VERSIONS)
def test_trap_022_every_release_gives_the_same_row(version: str) -> None:
    job, step = rows(of_version(version))
    assert job == {
        "JobID": "5", "JobIDRaw": "5", "Cluster": "aurora", "User": "ada", "Account": "research",
        "Partition": "main", "QOS": "normal", "State": "FAILED", "ExitCode": "0:9", "Submit": "1700000000",
        "Eligible": "1700000000", "Start": "1700000100", "End": "1700000220", "ElapsedRaw": "120",
        "Suspended": "00:00:03", "TimelimitRaw": "10", "NNodes": "2", "NodeList": "n[1-2]", "AllocCPUS": "8",
        "AllocTRES": "cpu=8,mem=8000M,node=2,billing=8,gres/gpu=4,gres/gpu:a100=4", "ReqNodes": "2",
        "ReqCPUS": "8", "ReqMem": "8000M", "ReqTRES": "cpu=8,mem=8000M,node=2", "TotalCPU": "01:01.020",
        "ConsumedEnergyRaw": "", "Restarts": "", "Reason": "None", "WorkDir": "/home/ada",
        "SubmitLine": "sbatch x", "Comment": "a|b", "JobName": "two\nlines",
    }  # fmt: skip
    assert step == {
        "JobID": "5.0", "JobIDRaw": "5.0", "Cluster": "aurora", "Account": "research", "State": "FAILED",
        "Submit": "1700000000", "ExitCode": "0:9", "Start": "1700000100", "End": "1700000220",
        "ElapsedRaw": "120", "Suspended": "00:00:00", "NNodes": "2", "NodeList": "n[1-2]", "NTasks": "4",
        "AllocCPUS": "8", "AllocTRES": "cpu=8,mem=4000M,gres/gpu:a100=2", "MaxRSS": "3072K",
        "TRESUsageInTot": "cpu=01:00:00,mem=1048576K,fs/disk=11", "TotalCPU": "01:01.020",
        "ConsumedEnergyRaw": "7", "JobName": "python",
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_of_arrays_and_het_jobs_are_those_of_the_text(version: str) -> None:
    def shown(**changes: Any) -> str:
        return next(rows(of_version(version, **changes)))["JobID"]

    limit = {"limits": {"max": {"running": {"tasks": 4}}}}
    assert shown(array={"job_id": 12, "task_id": num(version, 3), "task": ""}) == "12_3"
    assert shown(array={"job_id": 12, "task_id": num(version, 0), "task": None}) == "12_0"
    assert (
        shown(array={"job_id": 12, "task_id": num(version, None), "task": "3-99", **limit}) == "12_[3-99%4]"
    )
    assert shown(array={"job_id": 12, "task_id": None, "task": "0xC1"}) == "12_[0,6-7]"
    assert shown(het={"job_id": 159, "job_offset": num(version, 1)}) == "159+1"
    assert shown(het={"job_id": 159, "job_offset": num(version, 0)}) == "159+0"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_open_is_written_as_the_text_does(version: str) -> None:
    time = of_version(version)["time"] | {"end": 0, "start": 0, "limit": num(version, None)}
    job = next(rows(of_version(version, time=time, steps=[], nodes="None assigned", tres={})))
    assert (job["Start"], job["End"], job["TimelimitRaw"], job["NodeList"]) == (
        "Unknown", "Unknown", "", "None assigned",
    )  # fmt: skip
    assert (job["AllocTRES"], job["AllocCPUS"], job["TotalCPU"]) == ("", "", "00:00.000")


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_trap_009_no_time_limit_is_unlimited(version: str) -> None:
    time = of_version(version)["time"] | {"limit": num(version, None, infinite=True)}
    assert next(rows(of_version(version, time=time)))["TimelimitRaw"] == "UNLIMITED"


@pytest.mark.parametrize(
    ("state", "killer", "text"),
    [
        ("CANCELLED", "root", "CANCELLED by root"),
        (["CANCELLED"], "ada", "CANCELLED by ada"),
        (["CANCELLED"], "", "CANCELLED"),
        (["PENDING", "REQUEUED"], "", "REQUEUED"),
        (["RUNNING", "COMPLETING"], "", "COMPLETING"),
        (["WHATEVER"], None, "WHATEVER"),
        ([], None, ""),
    ],
)
def test_trap_001_states_are_words(state: Any, killer: str | None, text: str) -> None:
    job = of_version("26.05", state={"current": state}, kill_request_user=killer)
    assert next(rows(job))["State"] == text


def test_trap_046_sentinels_are_no_numbers() -> None:
    nothing: list[Any] = [2**32 - 2, 2**64 - 1, True, [], {"set": False, "number": 0}]
    assert [number(value) for value in nothing] == [""] * 5
    some: list[Any] = [0, 1.5, {"number": 0}, "7"]
    assert [number(value) for value in some] == ["0", "1.5", "0", "7"]


def read(text: str, chunk: int = 1 << 20) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_dump, "CHUNK", chunk)
        return list(jobs(io.StringIO(text), "dump.json"))


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5)), max_size=5), st.integers(1, 40))
def test_jobs_are_found_however_the_text_is_cut(entries: list[Any], chunk: int) -> None:
    indent = chunk % 3 or None
    text = json.dumps({"meta": {"plugin": "x" * 99}, "jobs": entries, "errors": []}, indent=indent)
    assert read(text, chunk) == entries


def test_an_answer_without_jobs_is_one() -> None:
    assert read('{"jobs": [], "warnings": []}') == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"meta": {}}', "no list of jobs"),
        ("", "no list of jobs"),
        ('{"jobs": [\n{"job_id": 1},\n{"job_id": ', "dump.json:3"),
        ('{"jobs": [\n{"job_id": 1}\n', "dump.json:3"),
        ('{"jobs": [\n\n{"a" 3}]}', "dump.json:3"),
        ('{"jobs": [7]}', "no JSON object"),
    ],
)
def test_damaged_json_is_an_error_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_a_dump_becomes_text_with_a_header(tmp_path: Path, packed: bool) -> None:
    source, target = tmp_path / "dump.json", tmp_path / "out.txt"
    data = json.dumps({"jobs": [of_version("23.02"), of_version("26.05", job_id=6)]}).encode()
    source.write_bytes(gzip.compress(data) if packed else data)
    assert convert(source, target) == 2
    lines = target.read_text().split(DELIMITER + "\n")
    assert lines[0].split(DELIMITER) == list(FIELDS)
    assert [line.split(DELIMITER)[0] for line in lines[1:]] == ["5", "5.0", "6", "6.0", ""]
    assert {line.count(DELIMITER) for line in lines[:-1]} == {len(FIELDS) - 1}
