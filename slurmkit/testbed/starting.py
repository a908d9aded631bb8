"""Starting what does not run of a testbed, each daemon as soon as those it needs serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.errors import Unreachable
from slurmkit.testbed import cgroup, database, namespace
from slurmkit.testbed.configuration import write_configuration
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.leftovers import end_strays

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed
    from slurmkit.testbed.testbed import Testbed

PATIENCE = 120.0
UNUSABLE = frozenset({"down", "unknown", "error", "future", "fail"})


def start(testbed: Testbed) -> None:
    """Start the daemons that do not run, and wait until every node is usable and sacct answers.

    Raises:
        SlurmError: a daemon does not come up; the message ends with its log.
    """
    end_strays(testbed)
    layout = testbed.layout
    layout.make_directories(testbed.nodes)
    if testbed.cgroup:
        cgroup.make(layout, testbed.cluster)
    if testbed.named:
        namespace.write_hosts(layout, testbed.nodes)
    write_configuration(testbed)
    daemons = testbed.daemons()
    daemons["munged"].start()
    if testbed.options.accounting:
        _start_accounting(testbed)
    left = testbed.missing()
    if "slurmrestd" in left:
        layout.rest_socket.unlink(missing_ok=True)  # of one that was killed: it would not listen again
    for name in left:
        daemons[name].start()
    for name in ("munged", *left):
        daemons[name].wait_until_serving(PATIENCE)
    if not wait_for(lambda: _is_ready(testbed), PATIENCE, 0.1):
        raise daemons["slurmctld"].failure(f"is up, but not every node is: {node_states(testbed)}")


def _start_accounting(testbed: Testbed) -> None:
    database.install(testbed)
    daemons = testbed.daemons()
    daemons["mariadbd"].start()
    for name in ("mariadbd", "munged"):
        daemons[name].wait_until_serving(PATIENCE)
    daemons["slurmdbd"].start()
    daemons["slurmdbd"].wait_until_serving(PATIENCE)
    # A slurmctld that starts before its cluster has accounts would have to be told of them.
    database.make_accounts(testbed)


def answers(testbed: Testbed) -> bool:
    """Whether slurmctld and, with accounting, slurmdbd answer."""
    questions = [["scontrol", "ping"], *([["sacct", "--noheader"]] if testbed.options.accounting else [])]
    try:
        return all(testbed.command(question).returncode == 0 for question in questions)
    except Unreachable:
        return False


def node_states(testbed: Testbed | ComposeTestbed) -> dict[str, str]:
    """The state of each node as sinfo has it; empty where the controller does not answer."""
    answer = testbed.command(["sinfo", "--noheader", "--Node", "--format=%N %T"]).stdout
    return dict(words for line in answer.splitlines() if len(words := line.split()) == 2)


def _is_ready(testbed: Testbed) -> bool:
    states = node_states(testbed)
    usable = all(states.get(node, "*")[-1] != "*" and states[node] not in UNUSABLE for node in testbed.nodes)
    return usable and answers(testbed)
