"""sshare: which part of a cluster is meant for whom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.slurm import process
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.environment import for_reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLUMNS = ("Cluster", "Account", "User", "RawShares")
PARENT = "parent"
"""In the place of shares: nothing of its own (sacctmgr man page, Fairshare=parent)."""


class Association(NamedTuple):
    """A row of sshare. An account's depth in the tree is by how much sshare indents it."""

    cluster: str
    account: str
    depth: int
    user: str | None
    shares: int | None
    """None: `parent`."""


class Targets(NamedTuple):
    """Parts of a cluster, which add up to 1 over all accounts that jobs can run in."""

    of_accounts: Mapping[tuple[str, str], float]
    """By cluster and account: for jobs in that account itself, without those below it."""
    of_users: Mapping[tuple[str, str, str], float]
    """By cluster, account and user; not those with Fairshare=parent, who have no part of their own."""


class _Account(NamedTuple):
    name: str
    shares: int | None
    accounts: list[_Account]
    users: dict[str, int | None]


def read_targets(environment: Mapping[str, str] | None = None, *, timeout: float = 30.0) -> Targets:
    """The targets as slurmctld has them now, of its own cluster.

    Raises:
        SlurmkitError: sshare is not here, or has no answer.
        ValueError: its answer is not understood.
    """
    argv = ["sshare", "--all", "--noheader", "--parsable2", f"--format={','.join(COLUMNS)}"]
    answer = process.run(
        argv,
        environment=for_reading(os.environ if environment is None else environment),
        clock=SystemClock(),
        timeout=timeout,
    )
    return targets(parse(process.check(argv[0], answer).stdout))


def parse(text: str) -> list[Association]:
    """The answer to `sshare --all --noheader --parsable2` with `COLUMNS`, in its order.

    Raises:
        ValueError: the text is not what sshare prints; names the line.
    """
    return [_association(line) for line in text.splitlines() if line.strip()]


def _association(line: str) -> Association:
    cells = line.split("|")
    if len(cells) != len(COLUMNS):
        raise ValueError(f"a row of {len(cells)} columns instead of {len(COLUMNS)}: {line!r}")
    cluster, account, user, shares = cells
    name = account.strip()
    number = None if shares.strip() == PARENT else int(shares.strip() or 1)
    return Association(
        cluster.strip(), name, len(account) - len(account.lstrip()), user.strip() or None, number
    )


def targets(associations: Sequence[Association]) -> Targets:
    """What the shares of all levels together make of each account and user.

    A part is divided by shares among the users and accounts below it; those below an account with
    Fairshare=parent stand among its own neighbours (Slurm's documentation, Fair Tree).
    """
    of_users: dict[tuple[str, str, str], float] = {}
    of_accounts: dict[tuple[str, str], float] = {}
    for cluster, root in _trees(associations):
        for account, user, part in _divided(root, 1.0):
            if user is not None:
                of_users[cluster, account, user] = of_users.get((cluster, account, user), 0.0) + part
            of_accounts[cluster, account] = of_accounts.get((cluster, account), 0.0) + part
    return Targets(of_accounts, of_users)


def _trees(associations: Sequence[Association]) -> list[tuple[str, _Account]]:
    """Each cluster and its root account."""
    roots: list[tuple[str, _Account]] = []
    above: list[tuple[int, _Account]] = []
    for one in associations:
        if one.user is not None:
            for users in (account.users for _, account in above if account.name == one.account):
                # A user has several where partitions have associations of their own.
                known = users.get(one.user, 0)
                users[one.user] = None if known is None or one.shares is None else known + one.shares
            continue
        account = _Account(one.account, one.shares, [], {})
        while above and above[-1][0] >= one.depth:
            above.pop()
        if above:
            above[-1][1].accounts.append(account)
        else:
            roots.append((one.cluster, account))
        above.append((one.depth, account))
    return roots


def _divided(account: _Account, part: float) -> Iterator[tuple[str, str | None, float]]:
    level = list(_level(account))
    whole = sum(shares for _, _, shares in level)
    if not whole:
        yield account.name, None, part
        return
    for owner, member, shares in level:
        if isinstance(member, _Account):
            yield from _divided(member, part * shares / whole)
        else:
            yield owner, member, part * shares / whole


def _level(account: _Account) -> Iterator[tuple[str, _Account | str, int]]:
    """Who divides an account's part: the account that each belongs to, and its shares."""
    for user, shares in account.users.items():
        if shares is not None:
            yield account.name, user, shares
    for below in account.accounts:
        if below.shares is None:
            yield from _level(below)
        else:
            yield account.name, below, below.shares
