"""A dump of sacct, as somebody made it: any fields in any order, any delimiter, plain or compressed.

DuckDB reads it. Lines that do not have the header's number of fields go through `repair`; what is lost there
is counted in the ledger's notes.
"""

from __future__ import annotations

import codecs
import gzip
import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting.broken_lines import Line, repair
from slurmkit.accounting.ledger import Ledger, connect
from slurmkit.accounting.periods import local_zone
from slurmkit.accounting.sacct_fields import KNOWN, canonical
from slurmkit.accounting.typing_sql import typed_jobs, typed_steps
from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from duckdb import DuckDBPyConnection

    from slurmkit.accounting.broken_lines import Repaired

CHUNK = 1 << 24
HEADER_LINES = 1
HEAD_LINES = 200
MOST_BROKEN = 200_000
"""Lines that are repaired; a dump with more is read with a wrong delimiter."""
SHOWN = 5
"""Line numbers that a note names."""
HOW = "sacct --parsable2 --format=JobID,JobIDRaw,State,... > FILE"
STRIDE = 1 << 20
"""Between the places of two whole lines there is room for that many repaired ones."""
END = "end_of_line"
"""The column after a delimiter at the end of lines, as `sacct --parsable` prints it."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_FIRST = re.compile(r"\s*(\w+)(\W+)(?=\w)")
_PATTERN = re.compile(r"[*?\[\]{}]")


class Source(NamedTuple):
    """The file that DuckDB reads for a dump, and the name that the user knows it by."""

    path: Path
    compression: str
    name: str


class Header(NamedTuple):
    """How the lines of a dump are made."""

    columns: tuple[str, ...]
    """Canonical names; fields that nobody knows keep their own."""
    delimiter: str
    unknown: tuple[str, ...] = ()


def open_dump(path: Path, *, delimiter: str | None = None, zone: tzinfo | None = None) -> Ledger:
    """A dump as the views `jobs` and `steps`. `zone` is that of times without an offset; by default, local.

    Raises:
        UsageError: it cannot be read, or is no dump of sacct; says the file and the line.
        MissingRequirement: DuckDB is not installed.
    """
    import duckdb

    with ExitStack() as held:
        connection = connect()
        held.callback(connection.close)
        try:
            source = _source(path, held)
            header = read_header(_head(connection, source), str(path), delimiter)
            fixed = _broken(connection, source, header)
            if fixed is None:
                source = _in_utf8(source, held)
                fixed = _broken(connection, source, header)
            _make_views(connection, source, header, fixed or repair([], (), ""), zone or local_zone())
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"the dump cannot be read: {reason}", where=str(path)) from error
        except (OSError, EOFError) as error:
            raise UsageError(
                f"the dump cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)
            ) from error
        kept = held.pop_all()
    return Ledger(connection, None, tuple(_notes(header, fixed)), kept)


def _source(path: Path, held: ExitStack) -> Source:
    """The file as DuckDB can read it: text that is no UTF-8 is written anew first."""
    with path.open("rb") as file:
        compression = _MAGIC.get(file.read(2), "none")
    readable = path.absolute()
    if _PATTERN.search(str(readable)):
        # DuckDB would look for every file that fits.
        readable = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-"))) / "dump"
        readable.symlink_to(path.absolute())
    source = Source(readable, compression, str(path))
    return source if compression != "none" or _is_utf8(path) else _in_utf8(source, held)


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _in_utf8(source: Source, held: ExitStack) -> Source:
    """A copy in which a mark stands for each byte that is no text."""
    if source.compression == "zstd":
        raise UsageError(
            "the dump holds bytes that are no UTF-8", where=source.name, hint="unpack it with unzstd"
        )
    copy = Path(held.enter_context(TemporaryDirectory(prefix="slurmkit-"))) / "dump"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    opener = gzip.open if source.compression == "gzip" else open
    with opener(source.path, "rb") as file, copy.open("wb") as out:
        while chunk := file.read(CHUNK):
            out.write(decoder.decode(chunk).encode())
        out.write(decoder.decode(b"", final=True).encode())
    return source._replace(path=copy, compression="none")


def _head(connection: DuckDBPyConnection, source: Source) -> list[str]:
    """The first lines."""
    options = "header=false, columns={'line': 'VARCHAR'}, delim='\x02', ignore_errors=true"
    rows = connection.execute(f"FROM {_csv(source, options)} LIMIT {HEAD_LINES}").fetchall()
    return [line for (line,) in rows if line is not None]


def read_header(head: Sequence[str], name: str, delimiter: str | None = None) -> Header:
    """The fields and the delimiter of a dump, from its first lines.

    Raises:
        UsageError: it has no header, or one that cannot be; or its texts were cut to a width.
    """
    first = head[0].lstrip("\ufeff") if head else ""
    found = _FIRST.match(first)
    name_of_first = (found[1] if found else first.strip()).lower()
    if canonical(name_of_first) not in KNOWN:
        raise UsageError(
            "the first line does not name sacct's fields" if first else "the dump is empty",
            where=f"{name}:1",
            hint=f"make it with its header: {HOW}",
        )
    if len(head) > 1 and re.fullmatch(r"[-\s]+", head[1]):
        raise UsageError("the texts were cut to the width of columns", where=f"{name}:2", hint=HOW)
    between = delimiter or (found[2] if found else "|")
    if delimiter and delimiter not in first and found:
        raise UsageError(f"the delimiter {delimiter!r} is not in the header", where=f"{name}:1")
    names = first.split(between)
    names[-1] = names[-1] or END
    columns, unknown = _columns(names, name)
    _refuse_cut_words(head, columns, between, name)
    return Header(columns, between, unknown)


def _columns(names: Sequence[str], where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    columns: list[str] = []
    for given in names:
        own, known = given.strip().lower().partition("%")[0], canonical(given)
        if own in columns:
            raise UsageError(f"the header has the column {given.strip()} twice", where=f"{where}:1")
        columns.append(own if known in columns else known)
    if "jobid" not in columns:
        if "jobidraw" not in columns:
            raise UsageError("the dump has no column JobID", where=f"{where}:1", hint=HOW)
        columns[columns.index("jobidraw")] = "jobid"
    unknown = tuple(name for name in columns if name not in KNOWN and name != END)
    return tuple(columns), unknown


def _refuse_cut_words(head: Sequence[str], columns: Sequence[str], delimiter: str, name: str) -> None:
    """A `+` at the end of a state is where sacct cut it: what it was, nobody knows."""
    if "state" not in columns:
        return
    at = columns.index("state")
    for number, line in enumerate(head[1:], 2):
        cells = line.split(delimiter)
        if len(cells) == len(columns) and cells[at].endswith("+"):
            raise UsageError(
                f"the state {cells[at]!r} was cut to the width of a column",
                where=f"{name}:{number}",
                hint=HOW,
            )


def _csv(source: Source, options: str) -> str:
    return (
        f"read_csv({_quoted(str(source.path))}, auto_detect=false, quote='', escape='',"
        f" compression='{source.compression}', {options})"
    )


def _rows(source: Source, header: Header, options: str) -> str:
    """The lines of a dump as a relation of texts."""
    columns = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in header.columns)
    return _csv(
        source,
        f"header=false, skip=1, delim={_quoted(header.delimiter)}, columns={{{columns}}}, {options}",
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _broken(connection: DuckDBPyConnection, source: Source, header: Header) -> Repaired | None:
    """The lines that do not have the header's fields, repaired; None where there is text that is no UTF-8."""
    # Of plain text it is known that it is UTF-8: only what is decoded is checked for it.
    counted = (
        "*" if source.compression == "none" else "), count(".join(f'"{name}"' for name in header.columns)
    )
    scan = _rows(source, header, "store_rejects=true")
    whole = connection.execute(f"SELECT count({counted}) FROM {scan}").fetchall()[0][0]
    rejects = "FROM reject_errors WHERE error_type <> 'INVALID ENCODING'"
    is_text, broken = connection.execute(
        "SELECT count(*) FILTER (error_type = 'INVALID ENCODING') = 0, count(DISTINCT line)"
        " FROM reject_errors"
    ).fetchall()[0]
    if broken > MOST_BROKEN or (broken > HEAD_LINES and broken > whole):
        (first,) = connection.execute(f"SELECT min(line) {rejects}").fetchall()[0]
        raise UsageError(
            f"{broken} lines do not have the {len(header.columns)} fields of the header",
            where=f"{source.name}:{first}",
            hint="a delimiter that nobody types helps: --delimiter=$'\\x1f'",
        )
    lines = connection.execute(f"SELECT line, any_value(csv_line) {rejects} GROUP BY line ORDER BY line")
    found = [Line(number, text or "") for number, text in lines.fetchall()]
    connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
    return repair(found, header.columns, header.delimiter) if is_text else None


def _make_views(
    connection: DuckDBPyConnection, source: Source, header: Header, fixed: Repaired, zone: tzinfo
) -> None:
    is_whole = not fixed.records and not fixed.lost
    rows = _rows(source, header, "ignore_errors=" + ("false" if is_whole else "true"))
    raw, numbered = f"SELECT * FROM {rows}", f"SELECT *, row_number() OVER () * {STRIDE} AS line FROM {rows}"
    if fixed.records:
        columns = ", ".join(f'"{name}" VARCHAR' for name in header.columns)
        marks = ", ".join("?" * (len(header.columns) + 1))
        connection.execute(f"CREATE TEMP TABLE repaired ({columns}, line BIGINT)")
        connection.executemany(
            f"INSERT INTO repaired VALUES ({marks})",
            [(*record.cells, place) for record, place in zip(fixed.records, _places(fixed), strict=True)],
        )
        raw += " UNION ALL SELECT * EXCLUDE (line) FROM repaired"
        numbered += " UNION ALL SELECT * FROM repaired"
    connection.execute(f"CREATE TEMP VIEW raw AS {raw}; CREATE TEMP VIEW numbered AS {numbered}")
    connection.execute(f"CREATE TEMP VIEW jobs AS {typed_jobs('raw', header.columns, zone=zone)}")
    connection.execute(f"CREATE TEMP VIEW steps AS {typed_steps('numbered', header.columns, zone=zone)}")


def _places(fixed: Repaired) -> Iterator[int]:
    """Where repaired records stand among the whole lines, of which the first has the place STRIDE."""
    for record, before in zip(fixed.records, fixed.before, strict=True):
        whole = record.line - HEADER_LINES - 1 - before
        yield whole * STRIDE + min(before + 1, STRIDE - 1)


def _notes(header: Header, fixed: Repaired | None) -> Iterator[str]:
    if header.unknown:
        yield f"columns that sacct does not have were passed over: {', '.join(header.unknown)}"
    if fixed and fixed.lost:
        numbers = ", ".join(str(line.number) for line in fixed.lost[:SHOWN])
        more = "" if len(fixed.lost) <= SHOWN else " and further ones"
        lines = "1 line was" if len(fixed.lost) == 1 else f"{len(fixed.lost)} lines were"
        yield f"{lines} no whole record and could not be read: line {numbers}{more}"
