from __future__ import annotations

import pytest

from slurmkit.errors import (
    AccountingOff,
    AnswerLost,
    JobUnknown,
    MissingRequirement,
    Refused,
    SlurmError,
    Unreachable,
)
from slurmkit.slurm.refusals import REFUSALS, classify, to_error

FAILED = "sbatch: error: Batch job submission failed:"
POLICY = f"{FAILED} Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("said", "passing"),
    [
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}", True),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}", True),
        (f"sbatch: error: AssocGrpSubmitJobsLimit\n{POLICY}", True),
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}", False),
        (f"sbatch: error: QOSMaxGRESPerUser\n{POLICY}", False),
        (f"sbatch: error: AssocGrpGRES\n{POLICY}", False),
        (POLICY, False),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True),
        (f"{FAILED} Resource temporarily unavailable", True),
        (f"{FAILED} Invalid account or account/partition combination specified", False),
        (f"sbatch: error: invalid partition specified: x\n{FAILED} Invalid partition name specified", False),
        (f"{FAILED} Invalid qos specification", False),
        (f"{FAILED} Requested node configuration is not available", False),
        (f"{FAILED} Node count specification invalid", False),
        (f"{FAILED} Invalid job array specification", False),
        (f"{FAILED} Invalid generic resource (gres) specification", False),
        (f"{FAILED} Job dependency problem", False),
        (f"{FAILED} Requested time limit is invalid (missing or exceeds some limit)", False),
        (f"{FAILED} Required partition not available (inactive or drain)", True),
        ("sbatch: unrecognized option '--nonsense'", False),
        ("something that nobody has seen before", False),
    ],
)
def test_trap_147_limit_errors_are_permanent_or_passing(said: str, passing: bool) -> None:
    error = to_error("sbatch", said, repeatable=False)
    assert isinstance(error, Refused)
    assert error.passing is passing
    assert error.where
    assert error.where in said


@pytest.mark.parametrize(
    ("said", "changing", "reading"),
    [
        ("Unable to contact slurm controller (connect failure)", Unreachable, Unreachable),
        ("Socket timed out on send/recv operation", AnswerLost, Unreachable),
        ("Unable to contact slurm controller (receive failure)", AnswerLost, Unreachable),
        ("Zero Bytes were transmitted or received", AnswerLost, Unreachable),
        ("sbatch: no answer within 60 s", AnswerLost, Unreachable),
        ("sacct: error: Problem talking to the database: Connection refused", Unreachable, Unreachable),
        ("Slurm accounting storage is disabled", AccountingOff, AccountingOff),
        ("fatal: Could not establish a configuration source", MissingRequirement, MissingRequirement),
        ("scontrol: error: Invalid job id specified", JobUnknown, JobUnknown),
    ],
)
def test_trap_154_a_daemon_that_is_away_is_not_a_refusal(
    said: str, changing: type[Exception], reading: type[Exception]
) -> None:
    assert type(to_error("x", said, repeatable=False)) is changing
    assert type(to_error("x", said, repeatable=True)) is reading


def test_a_lost_answer_outweighs_what_was_said_beside_it() -> None:
    said = "sbatch: error: Invalid qos specification\nsbatch: error: Socket timed out on send/recv operation"
    assert type(to_error("sbatch", said, repeatable=False)) is AnswerLost


def test_accounting_that_is_off_is_told_from_accounting_that_is_away() -> None:
    assert AccountingOff.reference != Unreachable.reference
    assert issubclass(AccountingOff, SlurmError)


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.text)
def test_every_row_of_the_table_is_reached(row: tuple[str, str, str, str | None]) -> None:
    found = classify(f"sbatch: error: {row[0]} x")
    assert found == row


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.text)
def test_every_sentence_is_one_and_carries_no_end_mark(row: tuple[str, str, str, str | None]) -> None:
    assert row[2][0].isupper() or row[2].startswith(("slurm", "munge"))
    assert not row[2].endswith(".")
