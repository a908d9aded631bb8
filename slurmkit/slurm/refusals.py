"""What Slurm's commands say when they fail: what it means, whether it passes, and what to do.

One table serves the typed errors, the retries and the manual. The first row whose text stands in the
output decides, so rows are ordered: a lost answer before all else, a reason before the general sentence that
follows it (`Job violates accounting/QOS policy` ends both passing and permanent refusals).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmkit.errors import (
    AccountingOff,
    AnswerLost,
    JobUnknown,
    MissingRequirement,
    Refused,
    SlurmkitError,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal[
    "answer lost",  # the request may have been carried out
    "unreachable",  # the request surely did not arrive
    "passing",  # refused now, perhaps not later
    "permanent",  # refused, whenever it is asked again
    "no such job",
    "already ended",
    "accounting off",
    "not set up",
]

_PASSING: frozenset[Kind] = frozenset({"answer lost", "unreachable", "passing"})

STOPPED = "no answer within"
"""What `process.run` itself says of a command that it had to stop."""


class Refusal(NamedTuple):
    """One row: text in Slurm's output, its kind, the sentence for the user, and what to do."""

    text: str
    kind: Kind
    sentence: str
    hint: str | None


def _rows(kind: Kind, hint: str | None, sentences: Mapping[str, str]) -> Iterator[Refusal]:
    return (Refusal(text, kind, sentence, hint) for text, sentence in sentences.items())


_SLURMCTLD = "scontrol ping shows whether slurmctld is up"
_LIMITS = "sacctmgr show qos,associations shows the limits; ask for less, or use another QOS"
_ACCOUNTS = "sacctmgr show associations user=$USER format=account,partition,qos lists what you may use"
_PARTITIONS = "sinfo -s lists the partitions, scontrol show partition their limits"
_NODES = "sinfo -N -o '%N %c %m %G %f' shows what each node has"

REFUSALS: tuple[Refusal, ...] = (
    *_rows(
        "answer lost",
        _SLURMCTLD,
        {
            "Socket timed out on send/recv": "Slurm did not answer in time",
            STOPPED: "The command did not end in time and was stopped",
            "Zero Bytes were transmitted": "Slurm closed the connection unanswered",
            "slurm controller (send failure)": "The connection to slurmctld broke",
            "slurm controller (receive failure)": "The connection to slurmctld broke",
            "slurm controller (shutdown failure)": "The connection to slurmctld broke",
            "Connection reset by peer": "The connection to Slurm broke",
            "Transport endpoint is not connected": "The connection to Slurm broke",
        },
    ),
    *_rows(
        "not set up",
        "set SLURM_CONF, or run this where Slurm's commands work, such as a login node",
        {
            "Could not establish a configuration source": "No slurm.conf was found on this machine",
            "Unable to process configuration file": "The slurm.conf of this machine cannot be read",
        },
    ),
    *_rows("accounting off", None, {"accounting storage is disabled": "This cluster keeps no accounting"}),
    *_rows(
        "permanent", "ask for a shorter time", {"Too wide of a date range": "slurmdbd refuses so long a time"}
    ),
    *_rows(
        "unreachable",
        "sacctmgr show cluster shows whether slurmdbd is up",
        {
            "Problem talking to the database": "slurmdbd does not answer",
            "failed to open persistent connection": "slurmdbd does not answer",
            "Sending PersistInit msg": "slurmdbd does not answer",
            "No response to persist_init": "slurmdbd does not answer",
            "Database is busy": "slurmdbd is busy",
        },
    ),
    # Limits on how many jobs there are pass as jobs end; those on the size of this one do not.
    *_rows(
        "passing",
        _LIMITS,
        {
            "MaxSubmitJob": "Too many of your jobs are in the queue",
            "GrpSubmitJob": "Too many jobs of the account or QOS are in the queue",
            "MaxJobs": "Too many of your jobs are running",
            "GrpJobs": "Too many jobs of the account or QOS are running",
        },
    ),
    *_rows(
        "permanent",
        _LIMITS,
        {
            "MaxWall": "The time limit is over what the QOS or account allows",
            "QOSMin": "The QOS demands more than the job asks for",
            "QOSMax": "The job asks for more than the QOS allows",
            "QOSGrp": "The job asks for more than the QOS may have in all",
            "AssocMax": "The job asks for more than the account allows",
            "AssocGrp": "The job asks for more than the account may have in all",
            "MaxTRES": "The job asks for more than the account or QOS allows",
            "Job violates accounting/QOS policy": "The job breaks a limit of its account or QOS",
        },
    ),
    *_rows(
        "permanent",
        _ACCOUNTS,
        {
            "Invalid account or account/partition": "The account may not be used here",
            "not permitted to use this partition": "The partition is not open to you",
            "Invalid qos": "The QOS may not be used here",
            "Access denied to requested reservation": "The reservation is not open to you",
        },
    ),
    *_rows(
        "passing",
        _PARTITIONS,
        {
            "partition not available (inactive": "The partition is closed at present",
            "partition configuration not available now": "The partition is closed at present",
            "Required node not available": "A node that the job needs is down or reserved",
            "reservation not usable now": "The reservation has not begun or is over",
        },
    ),
    *_rows(
        "permanent",
        _PARTITIONS,
        {
            "Invalid partition name": "There is no such partition",
            "No partition specified": "No partition was named and there is no default",
            "Requested nodes not in this partition": "A node named is not in the partition",
            "Node count specification invalid": "The partition never gives that many nodes",
            "Requested time limit is invalid": "The time limit is missing or over the partition's",
            "Time limit specification required": "This cluster demands a time limit",
        },
    ),
    *_rows(
        "permanent",
        _NODES,
        {
            "Memory specification can not be satisfied": "No node has that much memory",
            "CPU count per node can not be satisfied": "No node has that many CPUs",
            "Requested node configuration is not available": "No node can ever give what is asked for",
            "Memory required by task is not available": "No node has that much memory",
            "More processors requested than permitted": "Too many CPUs are asked for",
            "CPU count specification invalid": "The number of CPUs does not fit the nodes",
            "Task count specification invalid": "The number of tasks does not fit the nodes",
            "generic resource (gres) spec": "There is no such GPU or other resource",
            "Invalid GRES specification": "GPUs are asked for both with and without a type",
            "Invalid feature specification": "No node has that feature",
            "Invalid node name": "There is no such node",
        },
    ),
    *_rows(
        "permanent",
        None,
        {
            "reservation is invalid": "There is no such reservation",
            "Invalid Trackable RESource": "There is no such trackable resource",
            "Invalid license": "There is no such licence, or not so many",
            "Circular job dependency": "The jobs wait for each other",
            "Batch script contains DOS line breaks": "The script has Windows line ends",
            "does not look like a batch script": "The script does not begin with #!",
            "Invalid directive found in batch script": "A #SBATCH line of the script is wrong",
            "Incompatible versions of client and server": "The client does not fit slurmctld's version",
            "Only batch jobs are accepted": "Only a batch job can be requeued",
            "Job is no longer pending execution": "That can only be changed while the job is pending",
            "Access/permission denied": "Slurm does not let you do that",
        },
    ),
    *_rows(
        "permanent",
        "scontrol show config | grep MaxArraySize: the highest index is one less",
        {"Invalid job array specification": "The array goes beyond what this cluster allows"},
    ),
    *_rows(
        "permanent",
        "a job is known for MinJobAge seconds after its end; drop the dependency if it is met",
        {"Job dependency problem": "The dependency names a job that Slurm does not know"},
    ),
    *_rows(
        "permanent",
        "scontrol update JobId=... Requeue=1 allows it",
        {"Requested operation is presently disabled": "The job was submitted as one not to requeue"},
    ),
    *_rows(
        "already ended",
        None,
        {
            "already completing or completed": "The job has already ended",
            "Job has already finished": "The job has already ended",
        },
    ),
    *_rows(
        "no such job", "sacct -j shows past jobs", {"Invalid job id": "Slurm has no such job, or no more"}
    ),
    *_rows(
        "passing",
        "ask again in a minute",
        {
            "temporarily unable to accept job": "slurmctld takes no jobs at present",
            "job queue full": "The queue of the cluster is full",
            "Unable to create job record, try again": "slurmctld takes no jobs at present",
            "Job creation temporarily disabled": "slurmctld takes no jobs at present",
            "can not be altered now": "The job cannot be changed at this moment",
            "Job update not available right now": "The job cannot be changed at this moment",
            "Rate limit exceeded": "slurmctld asks for fewer requests",
            "Resource temporarily unavailable": "A resource of this machine or of slurmctld ran out",
        },
    ),
    *_rows(
        "unreachable",
        "systemctl status munge",
        {
            "authentication agent": "munge does not answer on this machine",
            "Munge encode failed": "munge does not answer on this machine",
            "munge.socket": "munge does not answer on this machine",
        },
    ),
    *_rows(
        "unreachable",
        _SLURMCTLD,
        {
            "Unable to contact slurm controller": "slurmctld does not answer",
            "in standby mode": "No slurmctld is in charge at present",
            "Connection refused": "Slurm does not answer",
        },
    ),
)

_ERRORS: dict[Kind, type[SlurmkitError]] = {
    "answer lost": AnswerLost,
    "unreachable": Unreachable,
    "permanent": Refused,
    "no such job": JobUnknown,
    "already ended": JobUnknown,
    "accounting off": AccountingOff,
    "not set up": MissingRequirement,
}


def classify(said: str) -> Refusal | None:
    """The first row of the table whose text stands in what a command said; None where none does."""
    return next((row for row in REFUSALS if row.text in said), None)


def is_passing_fault(said: str) -> bool:
    """Whether a request that changes nothing is worth another try."""
    row = classify(said)
    return row is not None and row.kind in _PASSING


def is_fault(said: str) -> bool:
    """Whether a command speaks of a daemon that is away, or of accounting that is off."""
    row = classify(said)
    return row is not None and row.kind in {*_PASSING, "accounting off"}


def to_error(program: str, said: str, *, repeatable: bool) -> SlurmkitError:
    """The typed error for a failed command, with Slurm's own line.

    `repeatable` says that the request changes nothing, so that a lost answer is merely none.
    """
    row = classify(said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if row is None:
        return Refused(f"{program} failed", where=lines[-1] if lines else f"{program} said nothing")
    line = next((line for line in lines if row.text in line), row.text)
    if row.kind == "passing":
        return Refused(row.sentence, passing=True, where=line, hint=row.hint)
    error = Unreachable if repeatable and row.kind == "answer lost" else _ERRORS[row.kind]
    return error(row.sentence, where=line, hint=row.hint)
