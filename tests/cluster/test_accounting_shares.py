"""Shares as a real slurmctld has them: what sshare prints is read, and follows what sacctmgr sets."""

from __future__ import annotations

import os
from math import isclose
from typing import TYPE_CHECKING

import pytest

from slurmkit.slurm.shares import Targets, read_targets
from tests.cluster.site import until

if TYPE_CHECKING:
    from slurmkit.slurm.commands import Commands
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


def test_targets_follow_the_shares_that_sacctmgr_sets(slurm: Commands, slurm_testbed: Testbed) -> None:
    def read() -> Targets:
        return read_targets({**os.environ, **slurm_testbed.environment})

    cluster = slurm.config()["ClusterName"]
    before = read()
    assert {name for name, _ in before.of_accounts} == {cluster}
    assert isclose(sum(before.of_accounts.values()), 1.0)
    user = next(iter(before.of_users))[2]
    for change in (
        ["add", "account", "biology", "Fairshare=6"],
        ["add", "account", "genes", "Parent=biology", "Fairshare=3"],
        ["add", "account", "cells", "Parent=biology", "Fairshare=1"],
        ["add", "user", user, "Account=genes"],
    ):
        slurm_testbed.command(["sacctmgr", "--immediate", *change])
    until(lambda: (cluster, "genes", user) in read().of_users, "sshare has the new account")
    after = read()
    assert isclose(sum(after.of_accounts.values()), 1.0)
    genes, cells = (after.of_accounts[cluster, name] for name in ("genes", "cells"))
    assert isclose(genes / cells, 3.0)
    # What stood on the highest level keeps its shares against the new six.
    assert isclose((1 - genes - cells) / (genes + cells), _highest(slurm_testbed) / 6)


def _highest(testbed: Testbed) -> int:
    """The shares on the highest level but those of the new account, from sacctmgr."""
    text = testbed.command(
        ["sacctmgr", "--noheader", "--parsable2", "show", "assoc", "format=Account,ParentName,User,Fairshare"]
    ).stdout
    rows = [line.split("|") for line in text.splitlines()]
    return sum(
        int(shares)
        for account, parent, user, shares in rows
        if account != "biology" and (parent == "root" or (account == "root" and user))
    )
