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

TEXTS = frozenset({"cluster", "node", "partition", "gpu_type"})
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
    """pool, period, seconds, used, asked, idle_while_waiting, and slots_N for each of `slot_sizes`: the
    seconds of each slot of N GPUs that the idle ones together would have made."""


def timeline(ledger: Ledger, question: Question) -> Timeline:
    """The sweep. The question's jobs are those that wait; GPUs are held by anybody's.

    A job over several nodes holds its GPUs in equal parts, the first nodes one more where they do not divide.
    The answer stays in the ledger's database, for the next table of the same report.
    """
    connection = ledger.connection
    asked = repr(question)
    is_kept = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'timeline_of'").fetchall()
    if not is_kept or connection.execute("SELECT asked FROM timeline_of").fetchall() != [(asked,)]:
        _sweep(ledger, question)
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE timeline_of AS SELECT $asked AS asked", {"asked": asked}
        )
    pools, levels, cut = (connection.execute(f"FROM timeline_{name}").df() for name in Timeline._fields)
    return Timeline(with_none(pools, ("gpu_type",)), levels, cut)


def _sweep(ledger: Ledger, question: Question) -> None:
    """Make the tables `timeline_...`, one for each field of `Timeline`."""
    connection = ledger.connection
    span = _Span(*(micro(moment) // 1_000_000 for moment in window_of(ledger, question)))
    _hold(ledger, question, span)
    pools = _pools(connection)
    pools += _wait(ledger, question, pools, span)
    _levels(connection, span)
    table = _table(connection, pools)
    if question.partitions:
        wanted = [pool.number for pool in pools if not set(pool.partitions).isdisjoint(question.partitions)]
        table = table[table["pool"].isin(wanted)].reset_index(drop=True)
    _table_of(connection, "timeline_pools", table)
    _periods(ledger, question, table)
    for name in ("held", "waiting", "node_pools", "list_nodes"):
        connection.execute(f"DROP TABLE {name}")


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
    _table_of(connection, "node_pools", DataFrame(names, columns=["cluster", "node", "pool"]))
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
    _table_of(ledger.connection, "places", DataFrame(rows, columns=columns))
    ledger.connection.execute(
        "CREATE OR REPLACE TEMP TABLE waiting AS SELECT pool, begin, finish, gpus"
        f' FROM ({asked}) JOIN places USING (cluster, "partition", gpu_type)',
        values,
    )
    ledger.connection.execute("DROP TABLE places")
    return sorted({pool for pool in placed.values() if pool.gpu_type is None})


def _table_of(connection: DuckDBPyConnection, name: str, frame: DataFrame) -> None:
    """A temporary table of texts and numbers; a frame without rows has no types of its own."""
    connection.register("frame_of_it", frame.astype(object))
    columns = ", ".join(
        f'"{column}"::{"VARCHAR" if column in TEXTS else "BIGINT"} AS "{column}"' for column in frame.columns
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns} FROM frame_of_it")
    connection.unregister("frame_of_it")


def _levels(connection: DuckDBPyConnection, span: _Span) -> None:
    """`Timeline.levels`: each node by itself."""
    connection.execute(
        """
        CREATE OR REPLACE TEMP TABLE timeline_levels AS
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
    )


def _table(connection: DuckDBPyConnection, pools: Sequence[Pool]) -> DataFrame:
    """`Timeline.pools`: each node is once in the row of its capacity without any use."""
    from pandas import DataFrame

    sums = connection.execute(
        "SELECT pool, sum(nodes)::BIGINT, sum(nodes * capacity)::BIGINT, max(capacity) FROM timeline_levels"
        " GROUP BY pool"
    ).fetchall()
    counted = {number: row for number, *row in sums}
    rows = [
        (one.number, one.cluster, "+".join(one.partitions), one.gpu_type, *counted.get(one.number, [0, 0, 0]))
        for one in pools
    ]
    names = ["pool", "cluster", "partition", "gpu_type", "nodes", "gpus", "largest"]
    return DataFrame(rows, columns=names)


def _periods(ledger: Ledger, question: Question, pools: DataFrame) -> None:
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
        f", sum((gpus - used) // {size} * (next - moment))::BIGINT AS slots_{size}"
        for size in slot_sizes(pools["largest"].tolist())
    )
    ledger.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE timeline_periods AS
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
            sum(least(gpus - used, asked) * (next - moment))::BIGINT AS idle_while_waiting{slots}
        FROM (SELECT spans.*, known.gpus, named.period FROM spans JOIN known USING (pool)
            ASOF JOIN named ON spans.moment >= named.moment)
        GROUP BY pool, period ORDER BY pool, min(moment)""",
        values,
    )
