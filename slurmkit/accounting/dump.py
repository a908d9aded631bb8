"""A dump of sacct, as somebody made it: any fields in any order, any delimiter, plain or compressed.

DuckDB reads it. Lines that do not have the header's number of fields go through `repair`; what is lost there
is counted in the ledger's notes.
"""

from __future__ import annotations

from contextlib import ExitStack
from os import SEEK_END
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.dump_file import as_utf8, head_of, mended_copy, read_csv, source_of
from slurmkit.accounting.header import END, HOW, read_header
from slurmkit.accounting.ledger import Ledger, connect, quoted
from slurmkit.accounting.periods import local_zone
from slurmkit.accounting.repair import Line, repair
from slurmkit.accounting.schema import JOBS
from slurmkit.accounting.sql_stages import resources_once
from slurmkit.accounting.typing_sql import typed_jobs, typed_steps
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from slurmkit.accounting.dump_file import Source
    from slurmkit.accounting.header import Header
    from slurmkit.accounting.repair import Repaired

MOST_BROKEN = 200_000
"""Lines that are repaired; a dump with more is read with a wrong delimiter."""
HEADER_LINES = 1
STRIDE = 1 << 20
"""Between the places of two whole lines there is room for that many repaired ones."""
SAMPLE = 100_000
"""Lines whose AllocTRES is read before all others."""
SHOWN = 5
"""Line numbers that a note names."""
IS_TEXT = "error_type <> 'INVALID ENCODING'"


class NeedsMending(Exception):
    """DuckDB cannot read the file as it is: there are texts in it that only its lines in a row explain."""


def open_dump(
    path: Path,
    *,
    delimiter: str | None = None,
    zone: tzinfo | None = None,
    columns: Collection[str] | None = None,
) -> Ledger:
    """A dump as the views `jobs` and `steps`. `zone` is that of times without an offset; by default, local.

    Every query reads the file. With `columns`, names of columns of JOBS, it is read once, into a temporary
    database: `jobs` has these, `state`, `is_runaway` and `problems` then, and there are no steps.

    Raises:
        UsageError: it cannot be read, or is no dump of sacct; says the file and the line.
        MissingRequirement: DuckDB is not installed, or the program that unpacks the file.
    """
    import duckdb

    with ExitStack() as held:
        connection = connect()
        held.callback(connection.close)
        try:
            source = source_of(path, held)
            header = read_header(head_of(source, connection), str(path), delimiter)
            load = _Load(connection, header, zone or local_zone(), columns)
            lost: Sequence[Line]
            if columns is not None:
                # On disk a table is packed: 10^7 records are 350 MB there, and would be 1.3 GB in memory.
                folder = held.enter_context(TemporaryDirectory(prefix="slurmkit-dump-"))
                connection.execute(f"ATTACH {quoted(folder + '/kept')} AS kept; USE kept")
            try:
                # Read at once, each text is decoded now, and what is no text is found.
                lost = load(source if columns is not None else as_utf8(source, held))
            except NeedsMending:
                copy, lost = mended_copy(source, header, held)
                load(copy)
        except (duckdb.InvalidInputException, duckdb.IOException, OSError, EOFError) as error:
            said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise UsageError(f"the dump cannot be read: {said}", where=str(path)) from error
        kept = held.pop_all()
    return Ledger(connection, None, tuple(_notes(header, lost)), kept)


class _Load(NamedTuple):
    """How a file becomes tables."""

    connection: DuckDBPyConnection
    header: Header
    zone: tzinfo
    columns: Collection[str] | None

    def __call__(self, source: Source) -> Sequence[Line]:
        import duckdb

        try:
            if self.columns is not None:
                return self._at_once(source, self.columns)
            return self._as_it_is(source)
        except duckdb.InvalidInputException as error:
            if "invalid state" in str(error):
                raise NeedsMending from error
            raise

    def _as_it_is(self, source: Source) -> Sequence[Line]:
        """Views that read the file."""
        fields = self.header.columns
        # Of plain text it is known that it is UTF-8: only what is decoded is checked for it.
        all_texts = (
            "" if source.compression == "none" else ", " + ", ".join(f'count("{name}")' for name in fields)
        )
        rows = _rows(source, self.header, "store_rejects=true")
        whole, strangers, is_cut, *_ = self.connection.execute(
            f"SELECT count(*), count(*) FILTER ({self._is_stranger()}),"
            f" bool_or({self._is_cut()}){all_texts} FROM {rows}"
        ).fetchall()[0]
        if is_cut:
            raise self._cut(source)
        fixed = _repaired(self.connection, source, self.header, whole, strangers)
        is_whole = not fixed.records and not fixed.lost
        rows = _rows(source, self.header, "ignore_errors=" + ("false" if is_whole else "true"))
        numbered = f"SELECT *, row_number() OVER () * {STRIDE} AS line FROM {rows}"
        views = {
            "raw": f"SELECT * FROM {rows} UNION ALL SELECT * EXCLUDE (line) FROM repaired",
            "numbered": f"{numbered} UNION ALL SELECT * FROM repaired",
            "jobs": typed_jobs("raw", fields, zone=self.zone),
            "steps": typed_steps("numbered", fields, zone=self.zone),
        }
        for name, sql in views.items():
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")
        return fixed.lost

    def _at_once(self, source: Source, columns: Collection[str]) -> Sequence[Line]:
        """A table of the columns, made as the file is read."""
        fields = self.header.columns
        wanted = {*columns, "state", "is_runaway", "problems"}
        signs = {"is_stranger": self._is_stranger(), "is_cut": self._is_cut()}
        rows = _rows(source, self.header, "store_rejects=true")
        typed = typed_jobs(rows, fields, zone=self.zone, only=wanted, signs=signs, known=self._known(source))
        # How many lines a file has nobody knows: DuckDB would hold them all, to find in them what is known.
        self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self.connection.execute(f"CREATE OR REPLACE TABLE records AS {typed}")
        self.connection.execute("RESET disabled_optimizers")
        whole, strangers, is_cut = self.connection.execute(
            "SELECT count(*), count(*) FILTER (is_stranger), bool_or(is_cut) FROM records"
        ).fetchall()[0]
        if is_cut:
            raise self._cut(source)
        fixed = _repaired(self.connection, source, self.header, whole, strangers)
        if fixed.records:
            typed = typed_jobs("repaired", fields, zone=self.zone, only=wanted, signs=signs)
            self.connection.execute(f"INSERT INTO records {typed}")
        listed = ", ".join(f'"{column.name}"' for column in JOBS if column.name in wanted)
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW jobs AS SELECT {listed} FROM kept.records")
        return fixed.lost

    def _known(self, source: Source) -> str:
        """A table of what the first lines have in AllocTRES: the others have little else."""
        rows = _rows(source, self.header, "ignore_errors=true")
        made = resources_once(f"(SELECT * FROM {rows} LIMIT {SAMPLE})", self.header.columns)
        if made is None:
            return ""
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE known AS {made}")
        return "known"

    def _cut(self, source: Source) -> UsageError:
        rows = _rows(source, self.header, "ignore_errors=true")
        (line,) = self.connection.execute(
            f"SELECT min(line) FROM (SELECT *, row_number() OVER () AS line FROM {rows})"
            f" WHERE {self._is_cut()}"
        ).fetchall()[0]
        return UsageError(
            "the texts were cut to the width of columns: a state or a job id ends with +",
            where=f"{source.name}:{line + HEADER_LINES}",
            hint=HOW,
        )

    def _is_stranger(self) -> str:
        """The rest of a record that a newline cut, by chance with as many fields as a whole one."""
        ends = f" OR {END} <> ''" if END in self.header.columns else ""
        return f"(NOT (jobid >= '0' AND jobid < ':'){ends})"

    def _is_cut(self) -> str:
        state = "ends_with(state, '+') OR " if "state" in self.header.columns else ""
        return f"({state}ends_with(jobid, '+'))"


def _rows(source: Source, header: Header, options: str) -> str:
    """The lines of a dump as a relation of texts."""
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in header.columns)
    return read_csv(
        source, f"header=false, skip=1, delim={quoted(header.delimiter)}, columns={{{columns}}}, {options}"
    )


def _wrong(source: Source, header: Header, lines: int, first: int) -> UsageError:
    return UsageError(
        f"{lines} {'line does' if lines == 1 else 'lines do'} not have the {len(header.columns)} fields"
        f" of the header, which {header.delimiter!r} divides",
        where=f"{source.name}:{first}",
        hint="a delimiter that nobody types helps: sacct --delimiter=$'\\x1f'",
    )


def _repaired(
    connection: DuckDBPyConnection, source: Source, header: Header, whole: int, strangers: int
) -> Repaired:
    """What becomes of the lines that DuckDB has put aside; the whole records are in the table `repaired`."""
    rows = connection.execute(
        f"SELECT line, line_byte_position - 1, any_value(csv_line), bool_and({IS_TEXT})"
        " FROM reject_errors GROUP BY ALL ORDER BY 2"
    ).fetchall()
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    if len(rows) > MOST_BROKEN:
        raise _wrong(source, header, len(rows), rows[0][0])
    if source.compression == "none":
        texts = _lines_at(source, [position for _, position, _, _ in rows])
    elif all(is_text for *_, is_text in rows):
        texts = [(text or "").encode() for _, _, text, _ in rows]
    else:
        raise NeedsMending
    fixed = repair(list(_broken(rows, texts)), header.columns, header.delimiter)
    if len(fixed.lost) > whole + len(fixed.records):
        raise _wrong(source, header, len(fixed.lost), fixed.lost[0].number)
    if strangers or (fixed.lost and not (len(fixed.lost) == 1 and _is_truncated(source))):
        raise NeedsMending
    columns = ", ".join(f'"{name}" VARCHAR' for name in header.columns)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE repaired ({columns}, line BIGINT)")
    if fixed.records:
        marks = ", ".join("?" * (len(header.columns) + 1))
        connection.executemany(
            f"INSERT INTO repaired VALUES ({marks})",
            [(*record.cells, place) for record, place in zip(fixed.records, _places(fixed), strict=True)],
        )
    return fixed


def _is_truncated(source: Source) -> bool:
    """Whether the last line has no end."""
    with source.path.open("rb") as file:
        file.seek(-1, SEEK_END)
        return source.compression == "none" and file.read() != b"\n"


def _lines_at(source: Source, positions: list[int]) -> list[bytes]:
    with source.path.open("rb") as file:
        texts = []
        for position in positions:
            file.seek(position)
            texts.append(file.readline().removesuffix(b"\n"))
    return texts


def _broken(rows: list[tuple[int, int, str, bool]], texts: list[bytes]) -> Iterator[Line]:
    """The lines, each with the number of newlines between it and the broken one before."""
    end = None
    for (number, position, _, _), text in zip(rows, texts, strict=True):
        yield Line(number, text.decode("utf-8", "replace"), 0 if end is None else position - end)
        end = position + len(text)


def _places(fixed: Repaired) -> Iterator[int]:
    """Where repaired records stand among the whole lines, of which the first has the place STRIDE."""
    for record, before in zip(fixed.records, fixed.before, strict=True):
        whole = record.line - HEADER_LINES - 1 - before
        yield whole * STRIDE + min(before + 1, STRIDE - 1)


def _notes(header: Header, lost: Sequence[Line]) -> Iterator[str]:
    if header.unknown:
        yield f"columns that sacct does not have were passed over: {', '.join(header.unknown)}"
    if lost:
        numbers = ", ".join(str(line.number) for line in lost[:SHOWN])
        more = "" if len(lost) <= SHOWN else " and further ones"
        lines = "1 line was" if len(lost) == 1 else f"{len(lost)} lines were"
        yield f"{lines} no whole record and could not be read: line {numbers}{more}"
