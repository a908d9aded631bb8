"""Which rank failed first, by the batch host's clock, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.recovery import report
from slurmkit.recovery.exits import RankExit, first_failure, in_words, others, with_log

if TYPE_CHECKING:
    from collections.abc import Sequence

TERM = 15
RESET = ("RuntimeError: Connection closed by peer [10.0.0.2]:31245",)
GPU = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",)


def ended(rank: int, time: float, host: str = "n1", **more: Any) -> RankExit:
    how = more if "signal" in more else {"exit_code": 1, **more}
    return RankExit(rank=rank, host=host, ended=time, **how)


FIVE_MINUTES = 300.0


def test_arrivals_order_failures_whatever_the_clocks_say() -> None:
    """n2's clock is 5 minutes ahead; its rank failed first."""
    exits = [ended(0, 1000.4), ended(1, 1000.0 + FIVE_MINUTES, "n2", exit_code=7)]
    assert first_failure(exits) == ended(0, 1000.4, at=1000.4), "without notices only the clocks are known"
    first = first_failure(exits, {0: 1000.5, 1: 1000.1})
    assert first is not None
    assert (first.rank, first.exit_code, first.at) == (1, 7, 1000.1)


@pytest.mark.parametrize("ahead", [FIVE_MINUTES, -FIVE_MINUTES])
def test_without_a_notice_the_hosts_offset_counts(ahead: float) -> None:
    exits = [ended(0, 1000.4), ended(1, 1000.0 + ahead, "n2"), ended(2, 999.0 + ahead, "n2", exit_code=0)]
    first = first_failure(exits, {0: 1000.5}, {"n2": ahead})
    assert first is not None
    assert (first.rank, first.at) == (1, 1000.0)


def test_notices_that_were_taken_in_together_are_told_apart_by_their_own_times() -> None:
    exits = [ended(0, 5.2), ended(1, 5.1), ended(2, 305.0, "n2")]
    first = first_failure(exits, dict.fromkeys(range(3), 20.0), {"n2": 300.0})
    assert first is not None
    assert first.rank == 2


@pytest.mark.parametrize(
    ("exits", "rank"),
    [
        # The one whose memory was full took a second to end; the other noticed before.
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, stderr_tail=GPU)], 1),
        # By then it had been told to end.
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, stderr_tail=GPU, received=(TERM,))], 1),
        (
            [ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, signal=TERM, stderr_tail=GPU, received=(TERM,))],
            1,
        ),
        # Its reason is none that slurmkit knows, but no echo.
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, stderr_tail=("ValueError: bad",))], 1),
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, signal=11)], 1),
        # Ended by Slurm, without a word: that says nothing.
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, signal=TERM, received=(TERM,))], 0),
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 2.0, signal=11, received=(TERM,))], 0),
        # Too late to be the reason.
        ([ended(0, 1.0, stderr_tail=RESET), ended(1, 60.0, stderr_tail=GPU)], 0),
        # All are echoes: the first of them.
        ([ended(0, 2.0, stderr_tail=RESET), ended(1, 1.0, stderr_tail=RESET)], 1),
        # The first has a reason of its own.
        ([ended(0, 1.0, stderr_tail=("ValueError",)), ended(1, 2.0, stderr_tail=GPU)], 0),
        # A cancel: nobody failed, whatever they say.
        ([ended(0, 1.0, stderr_tail=GPU, received=(TERM,))], None),
    ],
)
def test_a_rank_with_a_reason_goes_before_one_with_an_echo(
    exits: Sequence[RankExit], rank: int | None
) -> None:
    first = first_failure(exits)
    assert (first.rank if first else None) == rank


def test_the_others_are_counted_by_what_became_of_them() -> None:
    first = ended(0, 1.0)
    rest = [
        ended(1, 1.1),
        ended(2, 1.2, signal=TERM, received=(TERM,)),
        ended(3, 1.3, received=(10, TERM)),
        ended(4, 0.1, exit_code=0),
    ]
    assert others([first, *rest], first) == (2, 1)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (ended(0, 0), "exit code 1"),
        (ended(0, 0, signal=11), "killed by SIGSEGV (segmentation fault)"),
        (ended(0, 0, signal=9, oom_killed=True), "killed by the kernel: out of memory"),
        (ended(0, 0, exit_code=137, oom_killed=True), "killed by the kernel: out of memory"),
        (ended(0, 0, exit_code=3, oom_killed=True), "exit code 3"),
        (ended(0, 0, signal=40), "killed by SIGRTMIN+6"),
    ],
)
def test_an_end_in_words(end: RankExit, words: str) -> None:
    assert in_words(end).replace("signal 40", "SIGRTMIN+6") == words


def test_an_exit_code_beyond_128_is_said_to_be_a_shells_word_for_a_signal() -> None:
    assert in_words(ended(0, 0, exit_code=137)).startswith("exit code 137")
    assert "SIGKILL" in in_words(ended(0, 0, exit_code=137))


def test_without_stderr_the_end_of_the_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "rank-00000.out"
    log.write_bytes(b"x" * 200_000 + b"\nstep 1\nfatal: no data\n")
    assert with_log(ended(0, 0), log).log_tail[1:] == ("step 1", "fatal: no data")
    spoke = ended(0, 0, stderr_tail=("why",))
    assert with_log(spoke, log) is spoke
    assert with_log(ended(0, 0), tmp_path / "none") == ended(0, 0)


def said(
    capfdbinary: pytest.CaptureFixture[bytes], failure: RankExit | None, exits: Sequence[RankExit], *srun: str
) -> str:
    report.step_ended(1, failure, exits, lambda rank: Path(f"/logs/{rank}"), srun)
    return capfdbinary.readouterr().out.decode()


def test_the_batch_log_says_who_when_how_why_and_what_became_of_the_others(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    failure = ended(3, 0.0, "n2", signal=6, stderr_tail=GPU, at=1764000000.5)
    exits = [
        failure,
        ended(0, 1),
        ended(1, 1, signal=TERM, received=(TERM,)),
        ended(2, 1, signal=TERM, received=(TERM,)),
    ]
    text = said(capfdbinary, failure, exits)
    assert text.startswith("slurmkit: rank 3 on n2 failed first at ")
    assert text.partition(" at ")[2].split(": ", 1)[1].splitlines() == [
        "killed by SIGABRT (the program aborted itself)",
        "  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "slurmkit: the GPU's memory is full: 2.00 GiB more did not fit",
        "  use a smaller batch per rank, activation checkpointing or sharding; or GPUs with more memory",
        "slurmkit: its whole log is /logs/3; "
        "2 other ranks were ended because of it; 1 other rank failed after it",
    ]


def test_the_batch_log_says_what_a_silent_program_wrote_to_stdout(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    failure = ended(0, 0.0, log_tail=("MemoryError",))
    text = said(capfdbinary, failure, [failure])
    assert "  (nothing on stderr; the end of its log:)\n  MemoryError\n" in text
    assert "the program asked for more host memory than it got" in text


def test_the_batch_log_says_why_slurm_did_not_start_the_step(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    text = said(capfdbinary, None, [], "srun: error: Unable to create step for job 42: No room")
    assert "no rank left a record\nslurmkit: Slurm did not create the step: No room\n  compare" in text


def test_the_batch_log_says_what_to_do_about_a_hang(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    report.step_ended(1, None, [], lambda _: Path("none"), is_hung=True)
    assert b"\n  read the stacks in the run directory" in capfdbinary.readouterr().out


def test_the_event_has_when_and_why() -> None:
    end = ended(3, 0.0, "n2", exit_code=1, stderr_tail=GPU, at=1764000000.5)
    fields = report.as_fields(end)
    assert fields is not None
    cause = fields.pop("cause")
    assert fields == {
        "rank": 3,
        "host": "n2",
        "exit_code": 1,
        "stderr_tail": list(GPU),
        "at": 1764000000.5,
    }
    assert cause.keys() == {"kind", "sentence", "advice"}
    assert cause["kind"] == "gpu-out-of-memory"
    assert report.as_fields(None) is None
    assert report.as_fields(ended(0, 0.0, exit_code=3)) == {
        "rank": 0,
        "host": "n1",
        "exit_code": 3,
        "stderr_tail": [],
    }
