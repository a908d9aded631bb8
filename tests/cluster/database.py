"""The database of a testbed, written to directly: jobs that never ran, in a past that never was."""

from __future__ import annotations

import subprocess
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.testbed.database import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slurmkit.testbed.testbed import Testbed

NONE = 4_294_967_294
"""NO_VAL of slurm.h."""
STATES = {
    "PENDING": 0, "RUNNING": 1, "COMPLETED": 3, "CANCELLED": 4, "FAILED": 5, "TIMEOUT": 6, "NODE_FAIL": 7,
    "PREEMPTED": 8, "OUT_OF_MEMORY": 11, "REQUEUED": 1024,
}  # fmt: skip
"""Of slurm.h, as 22.05 stores them; REQUEUED is a flag."""
BATCH = 10_000


class Past(NamedTuple):
    """A job as slurmdbd has it. Times in seconds since 1970, 0 for none; memory in MiB."""

    number: int
    association: int
    account: str
    name: str
    state: str
    submit: int
    start: int
    end: int
    nodes: int
    cpus: int
    gpus: int
    memory: int
    node_list: str = "n1"
    limit: int = 1440
    suspended: int = 0
    partition: str = "main"


def sql(testbed: Testbed, text: str) -> list[list[str]]:
    """What MariaDB answers, without headings."""
    argv = ["mariadb", f"--socket={testbed.layout.database_socket}", "--batch", "--skip-column-names", SCHEMA]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def associations(testbed: Testbed, users: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], int]:
    """Make accounts with their users; the number of each (account, user)."""
    for account, members in users.items():
        for words in (
            ["account", account, "Description=test", "Organization=test"],
            ["user", ",".join(members), f"Account={account}"],
        ):
            done = testbed.command(["sacctmgr", "--immediate", "--quiet", "add", *words])
            assert done.returncode == 0, done.stderr
    rows = sql(testbed, f"SELECT acct, user, id_assoc FROM `{testbed.cluster}_assoc_table` WHERE user != '';")
    return {(account, user): int(number) for account, user, number in rows}


def insert(testbed: Testbed, jobs: Iterable[Past]) -> None:
    """Write jobs into slurmdbd's table; a number that is there twice is an attempt more."""
    table = f"{testbed.cluster}_job_table"
    waiting = iter(jobs)
    while rows := [_row(job) for job in islice(waiting, BATCH)]:
        names = ", ".join(f"`{name}`" for name in rows[0])
        values = ",\n".join("(" + ",".join(map(_value, row.values())) + ")" for row in rows)
        sql(testbed, f"INSERT INTO `{table}` ({names}) VALUES\n{values};")


def _row(job: Past) -> dict[str, int | str]:
    """The columns that have no default, and those that say something."""
    started = job.start > 0
    gpus = f",1001={job.gpus},1002={job.gpus}" if job.gpus else ""
    tres = f"1={job.cpus},2={job.memory},4={job.nodes},5={job.cpus}{gpus}"
    return {
        "id_job": job.number,
        "id_assoc": job.association,
        "account": job.account,
        "job_name": job.name,
        "partition": job.partition,
        "state": STATES[job.state],
        "timelimit": job.limit,
        "time_submit": job.submit,
        "time_eligible": job.submit,
        "time_start": job.start,
        "time_end": job.end,
        "time_suspended": job.suspended,
        "nodelist": job.node_list if started else "None assigned",
        "nodes_alloc": job.nodes if started else 0,
        "cpus_req": job.cpus,
        "mem_req": job.memory,
        "tres_alloc": tres if started else "",
        "tres_req": tres,
        "mod_time": job.end or job.submit,
        "id_array_task": NONE,
        "het_job_offset": NONE,
        "het_job_id": 0,
        "id_qos": 1,
        "id_resv": 0,
        "id_wckey": 0,
        "id_user": 0,
        "id_group": 0,
        "state_reason_prev": 0,
        "priority": 1,
    }


def _value(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def roll_up(testbed: Testbed, since: int) -> None:
    """Have slurmdbd sum up all hours from `since` on, as it does at each full hour for the one before.

    What sreport tells comes from these sums. They begin when the cluster was first heard of: it is put back.
    """
    cluster = testbed.cluster
    spans = [f"usage_{span}_table" for span in ("hour", "day", "month")]
    statements = [f"DELETE FROM `{cluster}_{kind}{span}`" for kind in ("", "assoc_") for span in spans]
    statements += [
        f"UPDATE `{cluster}_event_table` SET time_start = {since} WHERE node_name = '' AND time_end = 0",
        f"DELETE FROM `{cluster}_last_ran_table`",
        f"INSERT INTO `{cluster}_last_ran_table` VALUES ({since}, {since}, {since})",
    ]
    sql(testbed, ";\n".join(statements) + ";")
    done = testbed.command(["sacctmgr", "--immediate", "rollup"], timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
