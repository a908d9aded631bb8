"""Which client speaks to a cluster: one of those for the cluster here, or slurmrestd for one elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Retry
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.rest.token import Token
    from slurmkit.spec import Profile
    from slurmkit.spec.clusters import Cluster

ELSEWHERE = "@"
"""Before the name of a `[clusters.NAME]`, where a name of Slurm's own may stand as well."""


def elsewhere(name: str) -> str:
    """What stands for a cluster of the configuration."""
    return ELSEWHERE + name


def find(profile: Profile, name: str | None) -> Cluster | None:
    """The cluster of the configuration that is meant: by name, or the one of `client = "rest"`.

    Raises:
        UsageError: there is none of that name, or it is not said which.
    """
    known = ", ".join(profile.remotes) or "none is configured"
    if name is not None:
        if name not in profile.remotes:
            raise UsageError(
                f"there is no cluster {name!r} in the configuration",
                where=f"known: {known}",
                hint=f"write [clusters.{name}] with its url into the user's config.toml",
            )
        return profile.remotes[name]
    if profile.client != "rest":
        return None
    if profile.cluster is not None:
        return find(profile, profile.cluster)
    if len(profile.remotes) != 1:
        raise UsageError(
            '[slurm] client = "rest" needs to know of which cluster',
            where=f"known: {known}",
            hint='set cluster = "NAME" under [slurm]',
        )
    return next(iter(profile.remotes.values()))


def connect(profile: Profile, cluster: str | None, *, clock: Clock, retry: Retry | None = None) -> Slurm:
    """The client for a cluster: one of Slurm's names, `@NAME` of the configuration, or None for the usual.

    A `@NAME` that is not in the configuration stands on the cluster itself: its commands serve.

    Raises:
        UsageError: the configuration does not say which cluster.
        MissingRequirement: the client that it asks for cannot be used here.
    """
    name = cluster.removeprefix(ELSEWHERE) if cluster and cluster.startswith(ELSEWHERE) else None
    if name is not None and name not in profile.remotes:
        cluster = None
    elif remote := find(profile, name) if name or cluster is None else None:
        return _rest(remote, os.environ, clock, retry)
    from slurmkit.slurm.client import open_client

    return open_client(profile.client, clusters=cluster or profile.clusters, clock=clock, retry=retry)


def _rest(remote: Cluster, environ: Mapping[str, str], clock: Clock, retry: Retry | None) -> Slurm:
    from pathlib import Path

    from slurmkit.slurm.rest.client import Rest
    from slurmkit.slurm.rest.server import Server

    if not remote.url:
        raise UsageError(
            f"cluster {remote.name!r} has no url", hint=f"set url under [clusters.{remote.name}]"
        )
    server = Server(
        remote.url,
        ca_file=Path(remote.ca_file) if remote.ca_file else None,
        user=remote.user,
        allow_http=remote.allow_http,
    )
    return Rest(server, _tokens(remote, environ, clock), clock=clock, retry=retry)


def _tokens(remote: Cluster, environ: Mapping[str, str], clock: Clock) -> Callable[[], Token]:
    import shlex

    from slurmkit.slurm.rest import token

    if remote.token_command is not None:
        try:
            argv = shlex.split(remote.token_command)
        except ValueError as error:
            raise UsageError(f"token_command of {remote.name!r}: {error}") from error
        if not argv:
            raise UsageError(f"token_command of {remote.name!r} is empty")
        return token.from_command(argv, environ, clock)
    if remote.token_variable is not None:
        return token.from_variable(environ, remote.token_variable)
    return token.from_anywhere(environ, clock)
