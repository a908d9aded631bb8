"""GPUs of a node. No test here has a GPU: a script stands for nvidia-smi, its lines are as the real one's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmkit.launch import fitness_gpus as gpus
from slurmkit.launch.fitness_gpus import Gpu, check_gpus, judge, judge_xids, parse, recent_xids

LINES = """\
0, GPU-11111111-aaaa, 00000000:3B:00.0, 0, No, 0x0000000000000001
1, GPU-22222222-bbbb, 00000000:5E:00.0, [N/A], [N/A], [Not Supported]
"""
ALSO = "0, GPU-11111111-aaaa, 00000000:3B:00.0"


@pytest.fixture
def smi(tmp_path: Path) -> dict[str, str]:
    """An environment with 2 GPUs and a stand-in for nvidia-smi that prints what FAKE says."""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "$*" >> "$LOG"\nprintf "%s" "$FAKE"\nexit "${CODE:-0}"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "FAKE": LINES,
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "2 GPUs are given by Slurm, 4 were asked for"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-aa"}, "1 GPU is given by Slurm, 4 were asked for"),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "no GPU is given by Slurm, 4 were asked for"),
        ({"SLURM_STEP_GPUS": "4,5,6,7"}, None),
        ({}, "no GPU is given by Slurm, 4 were asked for"),
    ],
)
def test_as_many_gpus_as_were_asked_for(variables: dict[str, str], problem: str | None) -> None:
    found = check_gpus(4, {"PATH": "/nowhere", **variables}, 5)
    assert list(found.problems) == ([problem] if problem else [])
    if problem is None:
        assert found.facts["gpus"]["seen"] == "no nvidia-smi here to ask"


def test_a_job_without_gpus_asks_for_none(smi: dict[str, str]) -> None:
    assert check_gpus(None, smi, 5) == ((), (), {})
    assert not Path(smi["LOG"]).exists()


def test_what_nvidia_smi_does_not_know_is_no_fault(smi: dict[str, str]) -> None:
    found = check_gpus(2, smi, 5)
    assert (list(found.problems), list(found.warnings)) == ([], [])
    assert found.facts["gpus"]["uuids"] == ["GPU-11111111-aaaa", "GPU-22222222-bbbb"]


def test_a_gpu_that_the_driver_has_lost_makes_the_node_unfit(smi: dict[str, str]) -> None:
    found = check_gpus(2, {**smi, "FAKE": ALSO}, 5)
    assert found.problems == ["1 GPU is seen by nvidia-smi, 2 were asked for"]


def test_a_driver_that_does_not_answer_makes_the_node_unfit(smi: dict[str, str]) -> None:
    failed = {**smi, "FAKE": "Unable to determine the device handle for GPU1\n", "CODE": "15"}
    assert check_gpus(2, failed, 5).problems == ["nvidia-smi: Unable to determine the device handle for GPU1"]
    program = Path(smi["PATH"].split(":")[0], "nvidia-smi")
    program.write_text("#!/bin/sh\nsleep 30\n")
    assert check_gpus(2, smi, 0.3).problems == ["nvidia-smi: did not answer within 0.3 s"]


def test_an_older_driver_is_asked_for_what_it_knows(smi: dict[str, str]) -> None:
    refused = 'Field "remapped_rows.failure" is not a valid field to query.\n'
    found = check_gpus(2, {**smi, "FAKE": refused, "CODE": "2"}, 5)
    assert len(found.problems) == 1
    asked = [line.split()[0].split("=")[1] for line in Path(smi["LOG"]).read_text().splitlines()]
    assert asked == [gpus.FIELDS, gpus.FEWER_FIELDS]


def test_the_lines_of_nvidia_smi() -> None:
    assert parse(f"Warning: infoROM is corrupted\n{LINES}") == [
        Gpu("0", "GPU-11111111-aaaa", "00000000:3B:00.0", 0, False, 1),
        Gpu("1", "GPU-22222222-bbbb", "00000000:5E:00.0", None, False, 0),
    ]


@pytest.mark.parametrize(
    ("gpu", "problems", "warnings"),
    [
        (Gpu("0", "u", "b", 0, False, 0x1 | 0x4), [], []),
        (Gpu("3", "u", "b", 1), ["GPU 3 has had 1 uncorrected memory error since its last reset"], []),
        (Gpu("3", "u", "b", 2), ["GPU 3 has had 2 uncorrected memory errors since its last reset"], []),
        (Gpu("1", "u", "b", 0, True), ["GPU 1 could not replace broken rows of its memory"], []),
        (Gpu("7", "u", "b", 0, False, 0x20 | 0x80), [], ["GPU 7 is throttled by heat and the power supply"]),
    ],
)
def test_broken_memory_is_hard_and_throttling_is_soft(
    gpu: Gpu, problems: list[str], warnings: list[str]
) -> None:
    assert judge([gpu]) == (problems, warnings)


def record(seconds: float, text: str) -> str:
    return f"4,1234,{int(seconds * 1e6)},-;{text}\n SUBSYSTEM=pci\n"


XID = "NVRM: Xid (PCI:0000:{bus}:00): {number}, pid=4711, name=python, text"


def test_xids_of_the_last_hour_are_read_from_the_kernels_log() -> None:
    records = [
        record(1000.0, XID.format(bus="3b", number=79)),
        record(5000.0, XID.format(bus="5e", number=31)),
        record(9000.0, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"),
        "garbage",
        "4,1;NVRM: Xid (PCI:0000:3b:00): 79, cut short",
    ]
    assert recent_xids(records, 8000.0) == [("0000:5e:00", 31)]


@pytest.mark.parametrize(
    ("bus", "number", "problems", "warnings"),
    [
        ("0000:3b:00", 79, ["GPU 0 had Xid 79 in the last hour"], []),
        ("0000:3b:00", 63, [], ["GPU 0 had Xid 63 in the last hour"]),
        ("0000:3b:00", 31, [], []),
        ("0000:99:00", 79, [], []),
    ],
)
def test_an_xid_counts_by_its_number_and_only_of_the_jobs_own_gpus(
    bus: str, number: int, problems: list[str], warnings: list[str]
) -> None:
    assert judge_xids([(bus, number)] * 2, parse(LINES)) == (problems, warnings)


def test_a_kernels_log_that_may_not_be_read_tells_nothing(tmp_path: Path) -> None:
    assert gpus.kernel_log(str(tmp_path / "absent")) == []
