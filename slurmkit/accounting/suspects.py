"""Nodes on which jobs fail more often than chance explains.

A job that failed may have failed of itself. So a node is compared with other nodes on the same work: attempts
of one user, under one name but for its digits, and of one size. Work that fails everywhere, or ran on one
node only, then speaks against no node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.ends import FAILED, NODE_DIED
from slurmkit.accounting.moments import END, at_moment
from slurmkit.accounting.node_lists import expand_lists
from slurmkit.accounting.sizes import ALLOCATED, size_of
from slurmkit.accounting.statistics import Stratum, benjamini_hochberg, upper_tail

if TYPE_CHECKING:
    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger
    from slurmkit.accounting.question import Question

TEST = "exact one-sided test, stratified by work"
RATE = 0.05
"""Of the nodes that are called suspect, at most so many are not, on average."""

LISTED = 20
"""Nodes in the table where no limit is given; a suspect one is always there."""

WORK = f"""hash(cluster, "user", regexp_replace(name, '[0-9]+', '#', 'g'), {size_of(*ALLOCATED)})"""


class _Node(NamedTuple):
    cluster: str
    node: str
    jobs: int
    failed: int
    node_failures: int
    strata: tuple[Stratum, ...]


def suspects(ledger: Ledger, question: Question) -> DataFrame:
    """The table: nodes with failures, the least likely first, suspect ones and as many as the limit."""
    from pandas import DataFrame

    nodes = _nodes(ledger, question)
    chances = [_chance(node) for node in nodes]
    rows = [
        (*node[:5], _expected(node), chance, rate, "yes" if rate <= RATE else "")
        for node, chance, rate in zip(nodes, chances, benjamini_hochberg(chances), strict=True)
    ]
    rows.sort(key=lambda row: (row[6], -row[3], row[0], row[1]))
    kept = [row for row in rows if row[3]]
    most = max(question.limit or LISTED, sum(1 for row in kept if row[-1]))
    names = (
        "cluster",
        "node",
        "jobs",
        "failed",
        "node_failures",
        "expected",
        "p_value",
        "q_value",
        "suspect",
    )
    return DataFrame(kept[:most], columns=list(names))


def _expected(node: _Node) -> float:
    return sum(one.marked * one.drawn / one.total for one in node.strata)


def _chance(node: _Node) -> float:
    """The p-value; 1 where a node has no more failures than expected."""
    if node.failed <= _expected(node):
        return 1.0
    # Where all or none of the work failed, or it ran nowhere else, the count is what it must be.
    telling = [one for one in node.strata if _is_telling(one)]
    certain = sum(min(one.drawn, one.marked) for one in node.strata if not _is_telling(one))
    return upper_tail(telling, node.failed - certain)


def _is_telling(one: Stratum) -> bool:
    return 0 < one.marked < one.total and one.drawn < one.total


def _nodes(ledger: Ledger, question: Question) -> list[_Node]:
    """All nodes, with what ran there: `drawn` jobs of a work's `total`, of which `marked` failed."""
    jobs = at_moment(
        ledger, replace(question, by=()), END, "start_time IS NOT NULL AND is_final AND node_list IS NOT NULL"
    )
    expand_lists(ledger, jobs.sql, jobs.values)
    rows = ledger.connection.execute(
        f"""
        WITH ends AS (
            SELECT cluster, node_list, {WORK} AS work, count(*) AS jobs,
                count(*) FILTER ({FAILED} OR {NODE_DIED}) AS failed, count(*) FILTER ({NODE_DIED}) AS died
            FROM ({jobs.sql}) GROUP BY ALL),
        works AS (SELECT work, sum(jobs) AS total, sum(failed) AS marked FROM ends GROUP BY work),
        placed AS (
            SELECT cluster, node, work, sum(jobs) AS jobs, sum(failed) AS failed, sum(died) AS died
            FROM ends JOIN list_nodes USING (node_list) GROUP BY ALL)
        SELECT cluster, node, sum(jobs)::BIGINT, sum(failed)::BIGINT, sum(died)::BIGINT,
            list([total::BIGINT, marked::BIGINT, jobs::BIGINT] ORDER BY work) FILTER (marked > 0)
        FROM placed JOIN works USING (work) GROUP BY cluster, node ORDER BY cluster, node
        """,
        jobs.values,
    ).fetchall()
    ledger.connection.execute("DROP TABLE list_nodes")
    return [_Node._make((*row[:-1], tuple(map(Stratum._make, row[-1] or ())))) for row in rows]
