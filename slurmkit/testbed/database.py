"""The private MariaDB of a testbed and the accounts in its slurmdbd."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.process import user_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import CompletedProcess

    from slurmkit.testbed.testbed import Testbed

ACCOUNT = "research"
SCHEMA = "slurm_acct_db"
"""StorageLoc of slurmdbd.conf."""
PATIENCE = 120.0


def install(testbed: Testbed) -> None:
    """Make the database's system tables, once; what an interrupted start left is made anew."""
    layout, user = testbed.layout, user_name()
    if layout.database_complete.exists():
        return
    shutil.rmtree(layout.database, ignore_errors=True)
    done = testbed.command(
        [
            "mariadb-install-db",
            f"--defaults-file={layout.conf.with_name('my.cnf')}",
            f"--datadir={layout.database}",
            f"--user={user}",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={user}",
            "--force",  # it would insist on looking up this host's name, which nobody here needs
            "--skip-test-db",
            "--skip-name-resolve",
        ],
        timeout=PATIENCE,
    )
    if done.returncode:
        raise SlurmError(f"the database could not be made:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    # slurmdbd would make its schema itself, but connects a second time on the handle whose first try failed,
    # which libmariadb 11.8.9 answers with an error. To MariaDB a schema is a folder.
    schema = layout.database / SCHEMA
    schema.mkdir()
    shutil.chown(schema, user)
    layout.database_complete.touch()


def make_accounts(testbed: Testbed, members: Mapping[str, Sequence[str]] | None = None) -> None:
    """The cluster and each account with its users, unless slurmdbd has them; `research` without `members`."""
    members = members or {ACCOUNT: list(dict.fromkeys((user_name(), "root")))}

    def sacctmgr(*words: str) -> CompletedProcess[str]:
        return testbed.command(["sacctmgr", "--immediate", "--quiet", *words], timeout=PATIENCE)

    def make(row: str, entity: str, columns: str, *words: str) -> None:
        def is_there() -> bool:
            done = sacctmgr("--noheader", "--parsable2", "list", entity, f"format={columns}")
            return row in done.stdout.splitlines()

        if is_there():
            return
        done = sacctmgr("add", *words)
        # A sacctmgr that outlives an `up` that was killed may add it between our look and our turn.
        if done.returncode and not wait_for(is_there, 10):
            raise SlurmError(f"sacctmgr add {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")

    make(testbed.cluster, "cluster", "cluster", "cluster", testbed.cluster)
    for account, users in members.items():
        words = ("account", account, "Description=testbed", "Organization=testbed")
        make(f"{account}|", "associations", "account,user", *words)
        for user in users:
            association = ("user", user, f"Account={account}", f"DefaultAccount={account}")
            make(f"{account}|{user}", "associations", "account,user", *association)
