"""The fields that `scontrol update` knows, as the options of sbatch that ask for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTION_OF = {
    "account": "account", "comment": "comment", "deadline": "deadline", "delayboot": "delay-boot",
    "dependency": "dependency", "eligibletime": "begin", "excnodelist": "exclude", "features": "constraint",
    "gres": "gres", "jobname": "job-name", "licenses": "licenses", "mailtype": "mail-type",
    "mailuser": "mail-user", "mincpusnode": "mincpus", "minmemorycpu": "mem-per-cpu", "minmemorynode": "mem",
    "name": "job-name", "nice": "nice", "nodelist": "nodelist", "numnodes": "nodes", "numtasks": "ntasks",
    "partition": "partition", "prefer": "prefer", "priority": "priority", "qos": "qos",
    "reqnodelist": "nodelist", "reservationname": "reservation", "starttime": "begin",
    "timelimit": "time", "timemin": "time-min", "wckey": "wckey",
}  # fmt: skip


def as_options(changes: Mapping[str, str]) -> dict[str, str | None]:
    """The changes as options of sbatch.

    Raises:
        Refused: there is no option for a field.
    """
    made: dict[str, str | None] = {}
    for name, value in changes.items():
        if name.lower() == "requeue":
            made["no-requeue" if value == "0" else "requeue"] = None
        elif name.lower() in OPTION_OF:
            made[OPTION_OF[name.lower()]] = value
        else:
            raise Refused(
                f"slurmrestd cannot change {name} of a job", hint="scontrol update on the cluster can"
            )
    return made
