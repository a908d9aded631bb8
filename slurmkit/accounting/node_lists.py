"""Node lists of job records, expanded: each distinct one once, and in numbers, as there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmkit.launch.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurmkit.accounting.ledger import Ledger

PORTION = 10_000


def expand_lists(ledger: Ledger, jobs: str, values: Mapping[str, Any]) -> None:
    """Make the tables `list_nodes` (node_list, node, place from 0, places) of the node lists of `jobs`.

    `jobs` is a SELECT that has `node_list`. A list that cannot be read stands for one node of that name.
    """
    import numpy as np
    from pandas import DataFrame

    connection = ledger.connection
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE list_nodes"
        " (node_list VARCHAR, node VARCHAR, place INTEGER, places INTEGER)"
    )
    asked = f"SELECT DISTINCT node_list FROM ({jobs}) WHERE node_list IS NOT NULL ORDER BY node_list"
    lists = [text for (text,) in connection.execute(asked, dict(values)).fetchall()]
    for begin in range(0, len(lists), PORTION):
        portion = lists[begin : begin + PORTION]
        nodes = [_nodes(text) for text in portion]
        names = DataFrame({"node": [name for one in nodes for name in one]})
        names["node_list"] = np.repeat(np.array(portion, dtype=object), [len(one) for one in nodes])
        names["place"] = [place for one in nodes for place in range(len(one))]
        names["places"] = np.repeat([len(one) for one in nodes], [len(one) for one in nodes])
        connection.register("expanded", names)
        connection.execute("INSERT INTO list_nodes SELECT node_list, node, place, places FROM expanded")
        connection.unregister("expanded")


def _nodes(text: str) -> list[str]:
    try:
        return list(expand(text)) or [text]
    except ValueError:
        return [text]
