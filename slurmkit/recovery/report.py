"""What the agent says in the batch log, in plain sentences."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from slurmkit.recovery.causes import of_kind, recognise
from slurmkit.recovery.exits import in_words, others
from slurmkit.recovery.monitor import Hung, Straggler, StragglerGone
from slurmkit.spec.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from slurmkit.recovery.attempt import Attempt
    from slurmkit.recovery.causes import Cause
    from slurmkit.recovery.diagnosis import Diagnosis
    from slurmkit.recovery.exits import Others, RankExit
    from slurmkit.recovery.monitor import Finding
    from slurmkit.recovery.policy import Decision
    from slurmkit.run.fitness import Fitness
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


def nodes_checked(fitness: Fitness) -> None:
    """What the check of the nodes found; nothing where all are well."""
    if fitness.why_not:
        say(f"the nodes could not be checked: {fitness.why_not}")
    for node, reasons in fitness.unfit.items():
        say(f"{node} is unfit: {'; '.join(reasons)}")
    for node, reasons in fitness.warnings.items():
        say(f"{node}: {'; '.join(reasons)}")


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
    status: int,
    failure: RankExit | None,
    exits: Sequence[RankExit],
    log_of: Callable[[int], Path],
    srun_lines: Sequence[str] = (),
    *,
    is_hung: bool = False,
) -> None:
    """How the step ended; which rank failed first, its last words, why, and what became of the others."""
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
        _say_cause(of_kind("hung") if is_hung else recognise(None, srun_lines))
        return
    at = "" if failure.at is None else f" at {datetime.fromtimestamp(failure.at):%H:%M:%S}"
    say(f"rank {failure.rank} on {failure.host} failed first{at}: {in_words(failure)}")
    if failure.log_tail and not failure.stderr_tail:
        write("  (nothing on stderr; the end of its log:)")
    for line in failure.last_words:
        write(f"  {line}")
    _say_cause(recognise(failure, srun_lines))
    say(f"its whole log is {log_of(failure.rank)}{_of_others(others(exits, failure))}")


def _say_cause(cause: Cause | None) -> None:
    if cause:
        say(f"{cause.sentence}\n  {cause.advice}")


def _of_others(count: Others) -> str:
    words = []
    if count.ended:
        words.append(f"{count.ended} other rank{'s were' if count.ended > 1 else ' was'} ended because of it")
    if count.failed:
        words.append(f"{count.failed} other rank{'s' if count.failed > 1 else ''} failed after it")
    return "".join(f"; {text}" for text in words)


def decided(diagnosis: Diagnosis, decision: Decision) -> None:
    """What follows and why; by what the end is known where no rank has said so already."""
    if diagnosis.rank is None:
        say(f"{diagnosis.kind}: {diagnosis.sentence}")
        for line in diagnosis.evidence:
            write(f"  {line}")
    when = f" in {decision.delay:.0f} s" if decision.delay >= 1 else ""
    say(f"what follows: {decision.action}{when}; {decision.reason}")


def attempt_ended(exit_code: int, *, was_told: bool, outcome: str | None, follows: str) -> None:
    """The last line of the batch log."""
    if outcome is None and not was_told:
        say(f"this attempt is over, the run goes on: {follows} (exit code {exit_code})")
    elif was_told:
        say(f"Slurm ended this attempt{f': {outcome}' if outcome else ''} (exit code {exit_code})")
    else:
        say(f"{outcome} (exit code {exit_code})")


def as_fields(end: RankExit | None, srun_lines: Sequence[str] = ()) -> dict[str, Any] | None:
    """What the event of a step's end says about the rank that failed first."""
    if end is None:
        return None
    how = {"exit_code": end.exit_code} if end.signal is None else {"signal": end.signal}
    fields: dict[str, Any] = {"rank": end.rank, "host": end.host, **how, "stderr_tail": list(end.stderr_tail)}
    if end.log_tail and not end.stderr_tail:
        fields["log_tail"] = list(end.log_tail)
    if end.oom_killed:
        fields["oom_killed"] = True
    if end.at is not None:
        fields["at"] = end.at
    cause = recognise(end, srun_lines)
    return fields | {"cause": cause._asdict()} if cause else fields
