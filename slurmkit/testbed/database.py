"""The private MariaDB of a testbed and the accounts in its slurmdbd."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError
from slurmkit.testbed.process import user_name

if TYPE_CHECKING:
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


def make_accounts(testbed: Testbed) -> None:
    """The cluster, the account `research` and its users, unless slurmdbd has them."""

    def call(*words: str) -> str:
        done = testbed.command(["sacctmgr", "--immediate", "--quiet", *words], timeout=PATIENCE)
        # A sacctmgr that outlives an `up` that was killed may add it between our look and our turn.
        if done.returncode and "already exist" not in done.stdout + done.stderr:
            raise SlurmError(f"sacctmgr {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    if (
        testbed.cluster
        not in call("--noheader", "--parsable2", "list", "cluster", "format=cluster").splitlines()
    ):
        call("add", "cluster", testbed.cluster)
    rows = call("--noheader", "--parsable2", "list", "associations", "format=account,user").splitlines()
    if f"{ACCOUNT}|" not in rows:
        call("add", "account", ACCOUNT, "Description=testbed", "Organization=testbed")
    missing = [name for name in dict.fromkeys((user_name(), "root")) if f"{ACCOUNT}|{name}" not in rows]
    if missing:
        call("add", "user", ",".join(missing), f"Account={ACCOUNT}", f"DefaultAccount={ACCOUNT}")
