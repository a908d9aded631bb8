"""GPUs held and asked for at every second of a window: a sweep over starts and ends, in the database.

Accounting does not say how many GPUs a node has. Its capacity is the most that jobs held there at once, in
the window or up to `MARGIN` before and after it; a node that ran no job with GPUs then is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.frames import with_none
from slurmkit.accounting.moments import READY
from slurmkit.accounting.node_lists import expand_lists
from slurmkit.accounting.parts import chosen, micro, window_of
from slurmkit.accounting.periods import GROUPED_BY_TIME, periods
from slurmkit.accounting.pools import Pool, pools_of_nodes, pools_of_places
from slurmkit.accounting.question import Question
from slurmkit.accounting.sizes import ASKED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection
    from pandas import DataFrame

    from slurmkit.accounting.ledger import Ledger

MARGIN = 7 * 86400
"""Seconds: what runs jobs at all runs one in a week."""


class _Span(NamedTuple):
    """The window, in seconds since 1970."""

    begin: int
    end: int


class Timeline(NamedTuple):
    """A window, by pools and periods; all sums are of whole seconds."""

    pools: DataFrame
    """pool, cluster, partition, gpu_type, nodes, gpus, largest: the GPUs of the largest node."""
    levels: DataFrame
    """pool, capacity, used, seconds: how long nodes of that capacity had so many GPUs in use, summed."""
    periods: DataFrame
    """pool, period, seconds, used, asked, idle_while_waiting, seconds_short, and slots_N for each of `sizes`:
    the seconds of each slot of N GPUs that the idle ones together would have made."""
    sizes: tuple[int, ...]


def timeline(ledger: Ledger, question: Question) -> Timeline:
    """The sweep. The question's jobs are those that wait; GPUs are held by anybody's.

    A job over several nodes holds its GPUs in equal parts, the first nodes one more where they do not divide.
    """
    connection = ledger.connection
    span = _Span(*(micro(moment) // 1_000_000 for moment in window_of(ledger, question)))
    _hold(ledger, question, span)
    pools = _pools(connection)
    pools += _wait(ledger, question, pools, span)
    levels = _levels(connection, span)
    table = _table(pools, levels)
    if question.partitions:
        wanted = [pool.number for pool in pools if not set(pool.partitions).isdisjoint(question.partitions)]
        table = table[table["pool"].isin(wanted)].reset_index(drop=True)
    sizes = slot_sizes(table["largest"].tolist())
    cut = _periods(ledger, question, table, sizes)
    for name in ("held", "waiting", "node_pools", "list_nodes"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    return Timeline(table, levels, cut, sizes)


def slot_sizes(largest: Sequence[int]) -> tuple[int, ...]:
    """GPUs of the slots that are counted: those of whole nodes, and powers of two below."""
    powers = {2**power for power in range(1, max(largest, default=0).bit_length())}
    return tuple(sorted({size for size in (*powers, *largest) if size}))


def _hold(ledger: Ledger, question: Question, span: _Span) -> None:
    """The table `held`: what each job held on each node, `MARGIN` around the window included."""
    jobs = chosen(Question(zone=question.zone, clusters=question.clusters))
    sql = f"""
        SELECT cluster, coalesce("partition", '') AS "partition", coalesce(gpu_type, '') AS gpu_type, gpus,
            node_list, epoch_us(start_time) // 1000000 AS begin, epoch_us(until_time) // 1000000 AS finish
        FROM jobs WHERE {jobs.sql} AND gpus > 0 AND node_list IS NOT NULL
            AND start_time < make_timestamptz($wide_until) AND until_time > make_timestamptz($wide_since)"""
    wide = {
        "wide_since": (span.begin - MARGIN) * 1_000_000,
        "wide_until": (span.end + MARGIN) * 1_000_000,
    }
    values = jobs.values | wide
    expand_lists(ledger, sql, values)
    ledger.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE held AS
        SELECT * FROM (
            SELECT cluster, node, "partition", gpu_type, begin, finish,
                gpus // places + (place < gpus % places)::INTEGER AS gpus
            FROM ({sql}) JOIN list_nodes USING (node_list) WHERE finish > begin)
        WHERE gpus > 0""",
        values,
    )


def _pools(connection: DuckDBPyConnection) -> list[Pool]:
    """The pools, and the table `node_pools` (cluster, node, pool)."""
    from pandas import DataFrame

    nodes = connection.execute(
        """
        SELECT cluster, node, list_sort(list_distinct(flatten(list(partitions)))),
            list(gpu_type ORDER BY contains(gpu_type, '='), jobs DESC, gpu_type)[1]
        FROM (SELECT cluster, node, gpu_type, list(DISTINCT "partition") AS partitions, count(*) AS jobs
            FROM held GROUP BY cluster, node, gpu_type)
        GROUP BY cluster, node ORDER BY cluster, node"""
    ).fetchall()
    pools, numbers = pools_of_nodes([(cluster, seen, kind) for cluster, _, seen, kind in nodes])
    names = [(cluster, node, number) for (cluster, node, *_), number in zip(nodes, numbers, strict=True)]
    _table_of(connection, "node_pools", DataFrame(names, columns=["cluster", "node", "pool"]), "pool")
    return pools


def _wait(ledger: Ledger, question: Question, pools: Sequence[Pool], span: _Span) -> list[Pool]:
    """The table `waiting`: what jobs asked of which pool, from when to when. The pools without nodes."""
    from pandas import DataFrame

    jobs = chosen(question)
    known = min(micro(ledger.as_of) // 1_000_000 if ledger.as_of else span.end, span.end)
    values = jobs.values | {"since": span.begin, "until": span.end, "known": known}
    asked = f"""
        SELECT * FROM (
            SELECT cluster, split_part(coalesce("partition", ''), ',', 1) AS "partition",
                coalesce(regexp_extract(gpu_type, '^[^=,]*'), '') AS gpu_type,
                {ASKED[0]} * coalesce(array_tasks, 1) AS gpus, {READY} // 1000000 AS begin,
                coalesce(epoch_us(coalesce(start_time, end_time)) // 1000000, $known) AS finish
            FROM jobs WHERE {jobs.sql} AND (start_time IS NOT NULL OR eligible_time IS NOT NULL))
        WHERE gpus > 0 AND begin < finish AND begin < $until AND finish > $since"""
    places = ledger.connection.execute(
        f'SELECT DISTINCT cluster, "partition", gpu_type FROM ({asked}) ORDER BY ALL', values
    ).fetchall()
    placed = pools_of_places(pools, places)
    rows = [(*place, pool.number) for place, pool in placed.items()]
    columns = ["cluster", "partition", "gpu_type", "pool"]
    _table_of(ledger.connection, "places", DataFrame(rows, columns=columns), "pool")
    ledger.connection.execute(
        "CREATE OR REPLACE TEMP TABLE waiting AS SELECT pool, begin, finish, gpus"
        f' FROM ({asked}) JOIN places USING (cluster, "partition", gpu_type)',
        values,
    )
    ledger.connection.execute("DROP TABLE places")
    return sorted({pool for pool in placed.values() if pool.gpu_type is None})


def _table_of(connection: DuckDBPyConnection, name: str, frame: DataFrame, number: str) -> None:
    """A temporary table of texts and one number; a frame without rows has no types of its own."""
    connection.register("frame_of_it", frame.astype(object))
    columns = ", ".join(
        f'"{column}"::{"INTEGER" if column == number else "VARCHAR"} AS "{column}"'
        for column in frame.columns
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns} FROM frame_of_it")
    connection.unregister("frame_of_it")


def _levels(connection: DuckDBPyConnection, span: _Span) -> DataFrame:
    """`Timeline.levels`: a node by itself needs no other node's timeline."""
    return connection.execute(
        """
        WITH steps AS (
            SELECT cluster, node, moment, sum(change) AS change FROM (
                SELECT cluster, node, begin AS moment, gpus AS change FROM held
                UNION ALL SELECT cluster, node, finish, -gpus FROM held) GROUP BY ALL),
        spans AS (
            SELECT cluster, node, moment, sum(change) OVER sweep AS used, lead(moment) OVER sweep AS next
            FROM steps WINDOW sweep AS (PARTITION BY cluster, node ORDER BY moment)),
        used AS (
            SELECT cluster, node, used,
                coalesce(sum(greatest(least(next, $until) - greatest(moment, $since), 0)), 0) AS seconds
            FROM spans WHERE used > 0 GROUP BY ALL),
        nodes AS (
            SELECT cluster, node, max(used) AS capacity, sum(seconds) AS busy FROM used GROUP BY ALL)
        SELECT pool, capacity::BIGINT AS capacity, used::BIGINT AS used, sum(seconds)::BIGINT AS seconds,
            count(*) FILTER (used = 0) AS nodes FROM (
            SELECT cluster, node, capacity, used, seconds FROM used JOIN nodes USING (cluster, node)
            UNION ALL SELECT cluster, node, capacity, 0, $until - $since - busy FROM nodes)
        JOIN node_pools USING (cluster, node) GROUP BY pool, capacity, used ORDER BY pool, capacity, used""",
        {"since": span.begin, "until": span.end},
    ).df()


def _table(pools: Sequence[Pool], levels: DataFrame) -> DataFrame:
    """`Timeline.pools`: each node is once among those that had no GPU in use for some time, or none."""
    from pandas import DataFrame

    idle = levels[levels["used"] == 0]
    counted: dict[int, tuple[int, int, int]] = {}
    for pool, capacity, nodes in zip(idle["pool"], idle["capacity"], idle["nodes"], strict=True):
        before = counted.get(pool, (0, 0, 0))
        counted[pool] = (before[0] + nodes, before[1] + nodes * capacity, max(before[2], capacity))
    rows = [
        (one.number, one.cluster, "+".join(one.partitions), one.gpu_type, *counted.get(one.number, (0, 0, 0)))
        for one in pools
    ]
    names = ["pool", "cluster", "partition", "gpu_type", "nodes", "gpus", "largest"]
    return with_none(DataFrame(rows, columns=names), ("gpu_type",))


def _periods(ledger: Ledger, question: Question, pools: DataFrame, sizes: Sequence[int]) -> DataFrame:
    """`Timeline.periods`: the first kind of time of the question's groups, or days."""
    kind = next((name for name in question.by if name in GROUPED_BY_TIME), "day")
    window = window_of(ledger, question)
    since, until = (micro(moment) // 1_000_000 for moment in window)
    pieces = periods(kind, *window, question.zone)
    values: dict[str, Any] = {
        "since": since,
        "until": until,
        "names": [piece.name for piece in pieces],
        "begins": [max(micro(piece.since) // 1_000_000, since) for piece in pieces],
        "pools": pools["pool"].tolist(),
        "gpus": pools["gpus"].tolist(),
    }
    slots = "".join(
        f", sum((gpus - used) // {size} * (next - moment))::BIGINT AS slots_{size}" for size in sizes
    )
    return ledger.connection.execute(
        f"""
        WITH known AS (SELECT unnest($pools)::INTEGER AS pool, unnest($gpus)::BIGINT AS gpus),
        named AS (SELECT unnest($names)::VARCHAR AS period, unnest($begins)::BIGINT AS moment),
        changes AS (
            SELECT pool, greatest(begin, $since) AS moment, gpus AS used, 0 AS asked
                FROM held JOIN node_pools USING (cluster, node) WHERE begin < $until AND finish > $since
            UNION ALL SELECT pool, finish, -gpus, 0
                FROM held JOIN node_pools USING (cluster, node) WHERE begin < $until AND finish > $since
            UNION ALL SELECT pool, greatest(begin, $since), 0, gpus FROM waiting
            UNION ALL SELECT pool, finish, 0, -gpus FROM waiting
            UNION ALL SELECT pool, moment, 0, 0 FROM known, named),
        steps AS (
            SELECT pool, moment, sum(used)::BIGINT AS used, sum(asked)::BIGINT AS asked
            FROM changes SEMI JOIN known USING (pool) WHERE moment < $until GROUP BY pool, moment),
        spans AS (
            SELECT pool, moment, lead(moment, 1, $until::BIGINT) OVER sweep AS next,
                sum(used) OVER sweep AS used, sum(asked) OVER sweep AS asked
            FROM steps WINDOW sweep AS (PARTITION BY pool ORDER BY moment))
        SELECT pool, period, sum(next - moment)::BIGINT AS seconds,
            sum(used * (next - moment))::BIGINT AS used,
            sum(asked * (next - moment))::BIGINT AS asked,
            sum(least(gpus - used, asked) * (next - moment))::BIGINT AS idle_while_waiting,
            coalesce(sum(next - moment) FILTER (used < gpus AND asked > 0), 0)::BIGINT AS seconds_short{slots}
        FROM (SELECT spans.*, known.gpus, named.period FROM spans JOIN known USING (pool)
            ASOF JOIN named ON spans.moment >= named.moment)
        GROUP BY pool, period ORDER BY pool, min(moment)""",
        values,
    ).df()
