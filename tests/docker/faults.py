"""What happens to hosts and networks, for as long as a `with` block lasts."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.compose import ComposeTestbed


UNTOLD = "batch job complete failure"
"""Why slurmd drains its node where it could tell nobody that a batch script had ended."""


def give_back(cluster: ComposeTestbed) -> None:
    """Let nodes take jobs again that were drained because their network was gone."""
    told = cluster.command(["sinfo", "--noheader", "--Node", "--states=drain", "--format=%n|%E"]).stdout
    for line in dict.fromkeys(told.splitlines()):
        node, _, reason = line.partition("|")
        if reason == UNTOLD:
            cluster.command(["scontrol", "update", f"nodename={node}", "state=resume"])


@contextmanager
def vanished(cluster: ComposeTestbed, *nodes: str) -> Iterator[None]:
    """Nodes that stand still: nothing on them answers, and no connection is closed."""
    with ExitStack() as undone:
        # Of itself slurmctld asks a node that is down to register at every twentieth ping: for minutes not.
        undone.callback(cluster.command, ["scontrol", "reconfigure"], timeout=120)
        for node in nodes:
            cluster.pause(node)
            undone.callback(cluster.unpause, node)
        yield


@contextmanager
def cut_off(cluster: ComposeTestbed, *nodes: str) -> Iterator[None]:
    """Nodes whose network is gone, while all that runs on them goes on."""
    cluster.disconnect(*nodes)
    try:
        yield
    finally:
        cluster.connect(*nodes)
