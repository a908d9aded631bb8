"""What the agent says in the batch log, in plain sentences."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

from slurmkit.recovery.monitor import Hung, Straggler, StragglerGone
from slurmkit.spec.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from slurmkit.recovery.attempt import Attempt
    from slurmkit.recovery.exits import RankExit
    from slurmkit.recovery.monitor import Finding
    from slurmkit.spec.model import JobSpec


def say(text: str) -> None:
    """One message, at once, for srun writes to the same log; in UTF-8, whatever the job's locale."""
    write(f"slurmkit: {text}")


def write(line: str) -> None:
    """One line as it is, with the bytes of names that are not UTF-8 as they were."""
    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def attempt_started(attempt: Attempt, spec: JobSpec) -> None:
    """Who starts what, where."""
    count = len(attempt.nodes)
    where = attempt.nodes[0] if count == 1 else f"{count} nodes, {attempt.nodes[0]} first"
    again = f" (restart {attempt.restart})" if attempt.restart else ""
    say(f"{spec.name}: job {attempt.job_id}{again} on {where}")


def step_started(number: int, meeting: str, logs: Path) -> None:
    """Where the ranks meet and where they write."""
    say(f"step {number} starts; the ranks meet at {meeting} and write to {logs}/rank-*.out")


def found(finding: Finding) -> None:
    """What the monitor of the ranks has found."""
    match finding:
        case Straggler(own=own, median=median, phase=phase):
            times = f"{own * 1000:.1f} ms a step, the median is {median * 1000:.1f} ms"
            say(f"{_whom(finding)} is slow in {phase}: {times}")
        case StragglerGone():
            say(f"{_whom(finding)} keeps up again")
        case Hung(step=step, after=after):
            last = "no step was ever reached" if step is None else f"the last step was {step}"
            say(f"no rank made progress for {format_duration(int(after))}; {last}")


def _whom(finding: Straggler | StragglerGone) -> str:
    return finding.host if finding.rank is None else f"rank {finding.rank} on {finding.host}"


def step_ended(
    status: int, failure: RankExit | None, exits: Sequence[RankExit], log_of: Callable[[int], Path]
) -> None:
    """How the step ended, and which rank is to blame, with its last words."""
    if not status:
        say("the step ended with exit code 0")
        return
    if failure is None:
        known = (
            f"{len(exits)} ranks left a record, none of a failure of its own"
            if exits
            else "no rank left a record"
        )
        say(f"the step ended with exit code {status}; {known}")
        return
    say(f"rank {failure.rank} on {failure.host} failed first, with {ending(failure)}")
    for line in failure.stderr_tail:
        write(f"  {line}")
    echoes = sum(one.has_failed for one in exits) - 1
    others = f"; {echoes} others failed after it" if echoes else ""
    say(f"its whole log is {log_of(failure.rank)}{others}")


def attempt_ended(exit_code: int, *, was_told: bool, outcome: str | None) -> None:
    """The last line of the batch log."""
    if was_told:
        say(f"Slurm ended this attempt{f': {outcome}' if outcome else ''} (exit code {exit_code})")
    else:
        say(f"{outcome} (exit code {exit_code})")


def ending(end: RankExit) -> str:
    """An end in words: an exit code, or a signal by its name."""
    if end.signal is None:
        return f"exit code {end.exit_code}"
    try:
        return signal.Signals(end.signal).name
    except ValueError:
        return f"signal {end.signal}"


def as_fields(end: RankExit | None) -> dict[str, Any] | None:
    """What the event of a step's end says about the rank that failed first."""
    if end is None:
        return None
    cause = {"exit_code": end.exit_code} if end.signal is None else {"signal": end.signal}
    return {"rank": end.rank, "host": end.host, **cause, "stderr_tail": list(end.stderr_tail)}
