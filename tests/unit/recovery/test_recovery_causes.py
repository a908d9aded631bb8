"""Why a rank failed, by what it said and how it ended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slurmkit.recovery.cause_kinds import KINDS
from slurmkit.recovery.cause_table import ROWS, Row
from slurmkit.recovery.causes import OF_A_SIGNAL, OF_AN_EXIT_CODE, OF_SRUN, of_kind, recognise
from slurmkit.recovery.exits import RankExit

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "failures.md"
OOM_OF_SRUN = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
)
GPU = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 79 GiB"
RESET = "RuntimeError: [../transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:31245"


def ended(*lines: str, **more: Any) -> RankExit:
    how = more if {"exit_code", "signal"} & more.keys() else {"exit_code": 1, **more}
    return RankExit(rank=0, host="n1", stderr_tail=lines, **how)


def kind(end: RankExit | None, *srun: str) -> str | None:
    cause = recognise(end, srun)
    return cause.kind if cause else None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.example[:60])
def test_every_example_is_recognised_by_its_own_row(row: Row) -> None:
    cause = recognise(ended("before", row.example))
    assert cause is not None
    found = re.search(row.pattern, row.example)
    assert found is not None
    meaning = KINDS[row.kind]
    sentence = (row.sentence or meaning.sentence).format_map(found.groupdict(""))
    assert cause == (row.kind, sentence, row.advice or meaning.advice)


@pytest.mark.parametrize("row", OF_SRUN, ids=lambda row: row.example[:60])
def test_every_example_of_srun_is_recognised(row: Row) -> None:
    cause = recognise(None, ["srun: something", row.example])
    assert cause is not None
    assert (cause.kind, cause.advice) == (row.kind, row.advice or KINDS[row.kind].advice)


def test_every_kind_can_be_found() -> None:
    found = {row.kind for row in (*ROWS, *OF_SRUN)} | {*OF_A_SIGNAL.values()} | {*OF_AN_EXIT_CODE.values()}
    assert found | {"hung"} == KINDS.keys()


def test_sentences_read_as_the_end_of_a_line_and_advice_as_one() -> None:
    for text in [text for one in KINDS.values() for text in (one.sentence, one.advice)] + [
        text for row in (*ROWS, *OF_SRUN) for text in (row.sentence, row.advice) if text
    ]:
        assert not text.endswith((".", " ", "\n")), text
        assert "  " not in text, text


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (ended(), None),
        (ended("ValueError: bad batch"), None),
        # What comes last counts, noise behind it does not.
        (ended("MemoryError", "ModuleNotFoundError: No module named 'x'"), "missing-module"),
        (ended(GPU, "terminate called", "frame #3: 0x7f", signal=6), "gpu-out-of-memory"),
        # An echo counts only where nothing else is there.
        (ended(GPU, RESET), "gpu-out-of-memory"),
        (ended(RESET), "connection-lost"),
        (ended(RESET, signal=6), "connection-lost"),
        (ended(RESET, signal=11), "segmentation-fault"),
        (ended(GPU, signal=11), "gpu-out-of-memory"),
        # PyTorch's prefix, and CUDA's words in the middle of a line.
        (ended(f"[rank3]: {GPU}"), "gpu-out-of-memory"),
        (ended("frame #0: std::bad_alloc + 0x7f", '  File "MemoryError", line 1'), None),
        # A word in passing is no cause, the same word at the end is.
        (ended("rm: old: No such file or directory", *"abc"), None),
        (ended("bash: ./run: Permission denied", exit_code=126), "permission"),
        (ended("slurmkit: RANK is 3 here; the environment had 4"), None),
        # The end alone.
        (ended(signal=11), "segmentation-fault"),
        (ended(exit_code=139), "segmentation-fault"),
        (ended(signal=7), "bus-error"),
        (ended(signal=4), "illegal-instruction"),
        (ended(signal=6), "aborted"),
        (ended(exit_code=127), "launch-failed"),
        (ended("bash: line 1: trian: command not found", exit_code=127), "launch-failed"),
        (ended(signal=15), None),
        # Killed is no proof of memory.
        (ended(signal=9), "killed"),
        (ended(exit_code=137), "killed"),
        (ended(signal=9, oom_killed=True), "host-out-of-memory"),
        (ended("worker died", exit_code=1, oom_killed=True), "host-out-of-memory"),
    ],
)
def test_the_end_and_the_last_words_tell(end: RankExit, expected: str | None) -> None:
    assert kind(end) == expected


def test_trap_019_slurms_count_of_kills_explains_a_killed_rank() -> None:
    assert kind(ended(signal=9), OOM_OF_SRUN) == "host-out-of-memory"
    assert kind(ended(exit_code=137), "srun: error: n1: task 0: Out Of Memory") == "host-out-of-memory"
    assert kind(None, OOM_OF_SRUN) == "host-out-of-memory"
    assert kind(ended("ModuleNotFoundError: No module named 'x'"), OOM_OF_SRUN) == "missing-module"


def test_a_node_that_failed_explains_what_its_peers_say() -> None:
    of_slurm = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-12-02 DUE TO NODE n2 FAILURE, SEE ***"
    assert kind(None, of_slurm) == "node-failed"
    assert kind(ended(RESET), of_slurm) == "node-failed"
    assert kind(ended(signal=9), "srun: error: Node failure on n2") == "node-failed"
    assert kind(ended(GPU), of_slurm) == "gpu-out-of-memory"


def test_without_stderr_the_log_tells() -> None:
    end = RankExit(rank=0, host="n1", exit_code=1, log_tail=("MemoryError",))
    assert kind(end) == "host-out-of-memory"


@pytest.mark.parametrize(
    "text", ["'{0}'", "'{path}'", "'{'", "'}'", "'%s'", "'\\g<1>'", "'{__class__.__mro__}'"]
)
def test_what_a_line_names_is_text_and_no_more(text: str) -> None:
    cause = recognise(ended(f"FileNotFoundError: [Errno 2] No such file or directory: {text}"))
    assert cause is not None
    assert cause.sentence == f"{text[1:-1]} does not exist on this node"


def test_a_long_line_takes_no_long_time() -> None:
    """Every pattern against lines made to make it try everything."""
    for line in ("CUDA error: " * 40, "x: " * 170, "[" * 500, "host='" * 80, "a/" * 250, ":29500" * 80):
        recognise(ended(*[line[:500]] * 20))


def test_the_agent_can_name_a_kind_itself() -> None:
    assert of_kind("hung").kind == "hung"


def test_the_manual_has_every_kind_with_its_sentence_and_its_advice() -> None:
    page = PAGE.read_text()
    for name, one in KINDS.items():
        assert f"| `{name}` | {one.sentence} | {one.advice} |\n" in page
    assert len(re.findall(r"^\| `", page, re.MULTILINE)) == len(KINDS)
