"""Why a rank failed, recognised by its end, its last words and what srun said. Pure."""

from __future__ import annotations

import re
import signal
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.recovery.cause_kinds import KINDS
from slurmkit.recovery.cause_table import ROWS, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.recovery.exits import RankExit

LAST_LINES = 3
"""So many lines from the end, a phrase counts that programs also print in passing."""

OF_SRUN: tuple[Row, ...] = (
    Row(
        "host-out-of-memory",
        r"[Oo]ut [Oo]f [Mm]emory|oom[-_ ]kill|OOM Killed",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have "
        "been OOM Killed.",
    ),
    Row(
        "node-failed",
        r"Node failure on (?P<node>[\w.-]+)|DUE TO NODE (?P<named>[\w.-]+) FAILURE",
        "srun: error: Node failure on n2",
        sentence="node {node}{named} failed under the step",
    ),
    Row(
        "launch-failed",
        r"execve\(\): (?P<program>.+?): (?P<why>.+)",
        "slurmstepd: error: execve(): /opt/python/bin/python3: No such file or directory",
        sentence="{program} cannot be started on the node: {why}",
        advice="the Python that submits must be there under the same path on every node",
    ),
    Row(
        "launch-failed",
        r"(?:Task launch for .* failed on node (?P<node>[\w.-]+)): (?P<why>.+)",
        "srun: error: Task launch for StepId=42.0 failed on node n2: Communication connection failure",
        sentence="Slurm could not start the tasks on {node}: {why}",
        advice="start again; if it comes back, exclude that node and tell the site",
    ),
    Row(
        "launch-failed",
        r"Unable to create step for job \d+: (?P<why>.+)",
        "srun: error: Unable to create step for job 42: Requested node configuration is not available",
        sentence="Slurm did not create the step: {why}",
        advice="compare [resources] and [launch] srun with what the job was given",
    ),
    Row(
        "launch-failed",
        r"srun: (?:fatal|error): (?P<why>.*(?:[Ii]nvalid|[Uu]nrecognized|[Uu]nable to).+)",
        "srun: error: Invalid --distribution specification",
        sentence="srun refused: {why}",
        advice="look at [launch] srun in the job file",
    ),
)
"""What srun and slurmstepd say of a step that did not start, or ended by Slurm's hand."""

OF_AN_EXIT_CODE: Mapping[int, str] = dict.fromkeys((125, 126, 127), "launch-failed")
OF_A_SIGNAL: Mapping[int, str] = {
    signal.SIGBUS: "bus-error",
    signal.SIGSEGV: "segmentation-fault",
    signal.SIGILL: "illegal-instruction",
    signal.SIGFPE: "arithmetic-error",
    signal.SIGXCPU: "processor-time",
    signal.SIGXFSZ: "file-size",
    signal.SIGABRT: "aborted",
    signal.SIGKILL: "killed",
}
FRAMES = ("frame #", '  File "')
"""Lines of a stack: they are most of what a thousand ranks say, and name no cause."""

SAYS_LITTLE = frozenset({"aborted", "killed"})
"""Ends that any line explains better, even one that is often an echo."""


class Cause(NamedTuple):
    """Why something failed, and what to do about it."""

    kind: str
    sentence: str
    advice: str

    @property
    def is_echo(self) -> bool:
        """Whether it is often only what another rank's failure looks like from here."""
        return KINDS[self.kind].is_echo


def recognise(end: RankExit | None, srun_lines: Sequence[str] = ()) -> Cause | None:
    """The cause of a rank's failure; None: not known.

    Without a record, `end` is None and only the last lines of srun's stderr can tell.
    """
    of_srun = _of_lines(srun_lines, OF_SRUN)
    if end is None:
        return of_srun
    number = end.signal or (end.exit_code or 0) - 128
    is_counted = bool(of_srun and of_srun.kind == "host-out-of-memory" and number == signal.SIGKILL)
    if end.oom_killed or is_counted:
        return of_kind("host-out-of-memory")
    kind = OF_A_SIGNAL.get(number) or OF_AN_EXIT_CODE.get(end.exit_code or 0)
    by_itself = of_kind(kind) if kind else None
    said = _of_lines(end.last_words, ROWS)
    if of_srun and of_srun.kind == "node-failed" and (said is None or said.is_echo):
        return of_srun
    if said and (not said.is_echo or kind is None or kind in SAYS_LITTLE):
        return said
    return by_itself


def of_kind(kind: str) -> Cause:
    """A cause by its kind alone, as where the agent itself has found it."""
    return Cause(kind, KINDS[kind].sentence, KINDS[kind].advice)


def _of_lines(lines: Sequence[str], rows: Sequence[Row]) -> Cause | None:
    """The last line that names a cause; one that is often an echo counts only where there is no other."""
    echo: Cause | None = None
    for distance, line in enumerate(reversed(lines)):
        if line.startswith(FRAMES):
            continue
        cause = _of_line(line, rows, is_last=distance < LAST_LINES)
        if cause and not cause.is_echo:
            return cause
        echo = echo or cause
    return echo


def _of_line(line: str, rows: Sequence[Row], *, is_last: bool) -> Cause | None:
    for row in rows:
        found = _compiled(row.pattern).search(line) if is_last or not row.at_end else None
        if found:
            kind = KINDS[row.kind]
            # Only these braces are ours: what was found in the line is put in last.
            sentence = (row.sentence or kind.sentence).format_map(found.groupdict(""))
            return Cause(row.kind, sentence, row.advice or kind.advice)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
