"""What the containers of docker/compose.yaml do as they start; docker/entrypoint calls it.

All share one folder, which is a testbed's root: `prepare` fills it, once, whichever container comes first.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.errors import SlurmError, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.templating import environment
from slurmkit.testbed import warden
from slurmkit.testbed.configuration import shape, with_lines
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.database import PATIENCE, SCHEMA, make_accounts
from slurmkit.testbed.layout import STATE_FILE, Layout
from slurmkit.testbed.options import Options
from slurmkit.testbed.testbed import Testbed, load

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path("/cluster")
SHARED = Path("/shared")
PASSWORD = Path("/secrets/database.password")
PLUGINS = Path("/usr/lib")
PREFIX = "c"
NAMES_PATIENCE = 20.0
MEMBERS = {"research": ["root", "alice"], "teaching": ["bob"]}
"""The accounts, each with its users."""


def main() -> None:
    """Do the step that the command line names; `run NAME USER COMMAND...` is a daemon, to its end."""
    if sys.argv[1] == "run":
        name, user, *argv = sys.argv[2:]
        sys.exit(warden.run(ROOT, name, argv, user))
    steps = {"prepare": prepare, "slurmdbd": write_slurmdbd, "accounts": add_accounts, "names": await_names}
    steps[sys.argv[1]]()


def prepare() -> None:
    """Write the keys and the configuration, unless another container has."""
    descriptor = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not (ROOT / STATE_FILE).exists():
            _fill(_testbed(os.environ))
        _make_homes()
    finally:
        os.close(descriptor)


def _testbed(variables: Mapping[str, str]) -> Testbed:
    """The testbed that the environment asks for."""
    asked = json.loads(variables.get("CLUSTER_SHAPE") or "{}")
    return Testbed(
        root=ROOT,
        layout=Layout(ROOT),
        options=Options.from_json({"prefix": PREFIX, **asked}),
        cluster=variables.get("CLUSTER_NAME") or "slurmkit",
        ports={},
        cgroup=False,
        named=True,
        elsewhere=True,
    )


def _fill(testbed: Testbed) -> None:
    etc = testbed.layout.conf.parent
    for directory in (etc, ROOT / "dev"):
        directory.mkdir(parents=True, exist_ok=True)
    auth = _auth()
    keys = {f"{auth}.key": 128, "jwt_hs256.key": 32}
    for name, size in keys.items():
        write_atomically(etc / name, secrets.token_bytes(size), 0o600)
        shutil.chown(etc / name, "munge" if name == "munge.key" else "slurm")
    _write(testbed, "slurm.conf", auth=auth)
    # Before it knew how to do without, Slurm took no such line.
    if auth == "slurm":
        _write(testbed, "cgroup.conf")
    if testbed.options.gpus:
        _write(testbed, "gres.conf", folder="testbed")
    if testbed.options.topology:
        _write(testbed, "topology.conf", folder="testbed")
    testbed.save()


def _make_homes() -> None:
    """The users' homes, in the folder that is the cluster's file system."""
    for user in ("alice", "bob"):
        home = SHARED / "home" / user
        if not home.exists():
            home.mkdir(parents=True)
            home.chmod(0o700)
            shutil.chown(home, user, user)


def _write(testbed: Testbed, name: str, *, folder: str = "docker", mode: int = 0o644, **more: str) -> None:
    text = environment().get_template(f"{folder}/{name}.j2").render(**shape(testbed), **more)
    if name == "slurm.conf":
        text = with_lines(text, testbed.options.config)
    write_atomically(testbed.layout.conf.with_name(name), text.encode(), mode)


def _auth() -> str:
    """How the daemons of this version trust each other: Slurm's own way where it has one, else munge."""
    return "slurm" if any(PLUGINS.glob("*/slurm-wlm/auth_slurm.so")) else "munge"


def _prepared() -> Testbed:
    testbed = load(ROOT)
    if testbed is None:
        raise UsageError("the cluster's folder is not prepared", where=str(ROOT))
    return testbed


def write_slurmdbd() -> None:
    """Write slurmdbd.conf with the password of the database, for slurmdbd alone."""
    testbed = _prepared()
    password = PASSWORD.read_text(encoding="ascii")
    _write(testbed, "slurmdbd.conf", mode=0o600, auth=_auth(), password=password, schema=SCHEMA)
    shutil.chown(testbed.layout.conf.with_name("slurmdbd.conf"), "slurm")


def add_accounts() -> None:
    """Wait for slurmdbd, then add the accounts and their users."""
    testbed = _prepared()
    question = ["sacctmgr", "--noheader", "list", "cluster"]
    if not wait_for(lambda: testbed.command(question).returncode == 0, PATIENCE, 0.2):
        raise SlurmError(f"slurmdbd does not answer: {testbed.command(question).stderr.strip()}")
    make_accounts(testbed, MEMBERS)


def await_names() -> None:
    """Wait until every node has an address: slurmctld would spend ten seconds on each that has none.

    One whose container is gone for good is not waited for long: slurmctld finds it missing, and says so.
    """
    wait_for(lambda: all(map(_has_address, _prepared().nodes)), NAMES_PATIENCE, 0.2)


def _has_address(node: str) -> bool:
    try:
        socket.getaddrinfo(node, None)
    except socket.gaierror:
        return False
    return True


if __name__ == "__main__":
    main()
