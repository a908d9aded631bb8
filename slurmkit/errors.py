"""Every error that a user may see, and the exit code that each ends in.

SlurmkitError
 ├─ UsageError (2)            what was typed, or a file that was named, cannot be used
 │   ├─ JobFileError          a job file or a profile: one or more problems, each with its place
 │   ├─ RunNotFound           no run, or more than one, fits the name
 │   └─ MissingRequirement    a program or an optional package that is not installed
 ├─ JobFailed (1)             the job, or the check that was asked for, failed
 └─ SlurmError (3)
     ├─ Unreachable           slurmctld or slurmdbd did not answer; trying later may help
     │   └─ AccountingOff     the cluster keeps no accounting: trying later will not help
     ├─ AnswerLost            a request may or may not have been carried out: ask before doing it again
     └─ Refused               Slurm understood and said no
         └─ JobUnknown        Slurm has no job of that id (any more)

Only this tree reaches a user as a message; anything else is a bug of slurmkit's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class SlurmkitError(Exception):
    """Base of all errors shown to users: what is wrong, where, and what to do.

    `reference` is the kebab-case name under which docs/reference/errors.md explains the error.
    """

    reference: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """The message as it is printed, without colour: what, where and hint, one line each."""
        lines = [self.what]
        if self.where:
            lines.append(f"  at: {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


class UsageError(SlurmkitError):
    """What was typed, or a file that was named, cannot be used."""

    reference = "usage"
    exit_code = 2


class JobFileError(UsageError):
    """A job file or profile with one or more problems.

    `problems` are complete texts, each with file:line:column, the line, a caret and what is right.
    """

    reference = "job-file"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n\n".join(problems))
        self.problems = tuple(problems)


class RunNotFound(UsageError):
    """No run, or more than one, fits the name that was given."""

    reference = "run-not-found"


class MissingRequirement(UsageError):
    """A program or an optional package that this needs is not installed."""

    reference = "missing-requirement"


class JobFailed(SlurmkitError):
    """The job, or the check that was asked for, failed."""

    reference = "job-failed"
    exit_code = 1


class SlurmError(SlurmkitError):
    """Slurm could not be reached, or refused."""

    reference = "slurm"
    exit_code = 3


class Unreachable(SlurmError):
    """The controller or the accounting daemon did not answer."""

    reference = "slurm-unreachable"


class AccountingOff(Unreachable):
    """The cluster keeps no accounting, so there is nothing to ask: a supported kind of site."""

    reference = "slurm-accounting-off"


class AnswerLost(SlurmError):
    """The request was sent and no answer came: it may have been carried out.

    Never repeat the request on this error: ask Slurm first.
    """

    reference = "slurm-answer-lost"


class Refused(SlurmError):
    """Slurm understood the request and said no.

    `passing` tells whether the same request may be accepted later (a limit that others fill) or never.
    """

    reference = "slurm-refused"

    def __init__(
        self, what: str, *, passing: bool = False, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.passing = passing


class JobUnknown(Refused):
    """Slurm has no job of that id, or has it no more."""

    reference = "job-unknown"
