"""Slurm's texts as SQL: each function takes an expression of text and gives one of its value.

A text that says there is nothing, and one that cannot be read, are NULL; `is_unread` tells them apart.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

NOTHING = ("", "Unknown", "None", "N/A", "(null)", "None assigned", "NONE", "INVALID", "Partition_Limit")
"""Words for "there is none" or "not yet"."""
NOTHINGS = "('" + "', '".join(NOTHING) + "')"

NO_NUMBERS = "(0, 4294967294, 4294967295, 18446744073709551614, 18446744073709551615)"
"""NO_VAL and INFINITE of 32 and 64 bits (slurm.h): no count of anything. Zero is no time."""
_SMALL = "(4294967294, 4294967295)"
_LARGE = "('18446744073709551614', '18446744073709551615')"

SHORT = 7
"""Characters of a size that cannot be too large for a BIGINT."""
LETTERS = (("G", 30), ("M", 20), ("K", 10), ("T", 40))
"""Powers of two, the likeliest first."""


def _digits(text: str) -> str:
    """Whether a text is a whole number; the cheapest test first, as it is made ten times for each record."""
    return f"(try_cast({text} AS UBIGINT) IS NOT NULL AND NOT contains({text}, '.'))"


def word(text: str) -> str:
    """A name; NULL where Slurm says that there is none."""
    return f"(CASE WHEN {text} IN ('', 'N/A', '(null)', 'None') THEN NULL ELSE {text} END)"


def free(text: str) -> str:
    """What a user wrote, whatever it is; NULL where it is empty."""
    return f"nullif({text}, '')"


def count(text: str) -> str:
    """A number of things, as BIGINT; `2K` is 2048, as sacct writes it without `--noconvert`."""
    number = f"try_cast({text} AS BIGINT)"
    return (
        f"(CASE WHEN {number} >= 0 AND NOT contains({text}, '.') THEN"
        f" CASE WHEN {number} IN {_SMALL} THEN NULL ELSE {number} END"
        f" WHEN {text} = '' OR {text} IN {_LARGE} THEN NULL ELSE {memory(text, 'B')} END)"
    )


def moment(text: str, zone: tzinfo = UTC) -> str:
    """A time as TIMESTAMPTZ: epoch seconds, or ISO 8601, which is read in `zone` where it has no offset.

    Of an hour that comes twice, as a clock goes back, it is the first one.
    """
    local = f"try_cast({text} AS TIMESTAMP)"
    if isinstance(zone, ZoneInfo) and zone.key and zone.key != "UTC":
        local = f"timezone('{zone.key}', {local})"
    else:
        offset = zone.utcoffset(datetime.now(UTC).replace(tzinfo=None))
        seconds = int(offset.total_seconds()) if offset else 0
        local = f"make_timestamptz(epoch_us({local}) - {seconds * 1_000_000})"
    number = f"try_cast({text} AS BIGINT)"
    epoch = (
        f"CASE WHEN {number} > 0 AND {number} NOT IN {_SMALL} AND {number} <= 253402300799"
        f" THEN make_timestamptz({number} * 1000000) END"
    )
    return (
        f"(CASE WHEN length({text}) = 19 THEN {local}"
        f" WHEN {text} IN {NOTHINGS} THEN NULL WHEN {_digits(text)} THEN {epoch}"
        f" WHEN {text} LIKE '____-__-__T__:__:__%' THEN try_cast({text} AS TIMESTAMPTZ) END)"
    )


def seconds(text: str) -> str:
    """Seconds as DOUBLE: `1-02:03:04`, `12:25:02`, `45:10.500`, or a plain number of them."""
    days = f"try_cast(regexp_extract({text}, '^(\\d+)-', 1) AS DOUBLE)"
    parts = f"string_split(regexp_replace({text}, '^\\d+-', ''), ':')"
    clock = (
        f"CASE WHEN regexp_full_match({text}, '(\\d+-)?(\\d+:)?\\d+:\\d+(\\.\\d+)?') THEN"
        f" coalesce({days}, 0) * 86400 + list_reduce(list_transform({parts},"
        f" lambda part: part::DOUBLE), lambda high, low: high * 60 + low) END"
    )
    number = f"try_cast({text} AS DOUBLE)"
    return (
        f"(CASE WHEN {text} IN ('00:00:00', '0') THEN 0 WHEN {text} IN {NOTHINGS} THEN NULL"
        f" WHEN {text} LIKE '__:__:__' AND try_cast({text} AS TIME) IS NOT NULL"
        f" THEN epoch(try_cast({text} AS TIME))"
        f" WHEN {_digits(text)} THEN CASE WHEN {number} IN {_SMALL} OR {text} IN {_LARGE} THEN NULL"
        f" ELSE {number} END ELSE {clock} END)"
    )


def limit(text: str) -> str:
    """A time limit in seconds; infinite where there is none. A plain number counts minutes."""
    number = f"try_cast({text} AS BIGINT)"
    return (
        f"(CASE WHEN {number} IS NOT NULL AND {_digits(text)} THEN CASE {number}"
        f" WHEN 4294967295 THEN 'inf'::DOUBLE WHEN 4294967294 THEN NULL ELSE {number}::DOUBLE * 60 END"
        f" WHEN upper({text}) IN ('UNLIMITED', 'INFINITE') THEN 'inf'::DOUBLE ELSE {seconds(text)} END)"
    )


def memory(text: str, unit: str) -> str:
    """Bytes as BIGINT of `472K`, `16.5M`, `2P`; a bare number counts in `unit`."""
    shape = "'^(\\d+)(\\.\\d+)?([BKMGTPEbkmgtpe]?)[Bb]?$'"
    letter = f"coalesce(nullif(upper(regexp_extract({text}, {shape}, 3)), ''), '{unit}')"
    factor = f"(1::HUGEINT << (10 * (strpos('BKMGTPE', {letter}) - 1)))"
    number = f"regexp_extract({text}, '^[0-9.]+')"
    size = (
        f"CASE WHEN contains({text}, '.') THEN try_cast(round_even({number}::DOUBLE * {factor}::DOUBLE, 0)"
        f" AS BIGINT) ELSE try_cast(try_cast({number} AS HUGEINT) * {factor} AS BIGINT) END"
    )
    # Nearly all are a whole number and one letter: that is told without a regular expression.
    factors = " ".join(f"WHEN ends_with({text}, '{letter}') THEN {1 << power}" for letter, power in LETTERS)
    simple = f"try_cast(left({text}, -1) AS BIGINT) * CASE {factors} END"
    return (
        f"(CASE WHEN {text} = '' THEN NULL"
        f" WHEN length({text}) <= {SHORT} AND NOT contains({text}, '.')"
        f" AND right({text}, 1) IN ('K', 'M', 'G', 'T') THEN {simple}"
        f" WHEN {text} = '0' THEN 0 WHEN {text} IN {_LARGE} OR try_cast({text} AS BIGINT) IN {_SMALL}"
        f" THEN NULL WHEN regexp_matches({text}, {shape}) THEN {size} END)"
    )


def joules(text: str) -> str:
    """Joules as BIGINT; the letters of ConsumedEnergy are decimal: `101.63K` is 101630."""
    shape = "'^(\\d+(\\.\\d+)?)([KMGTP]?)$'"
    factor = f"pow(1000, strpos('KMGTP', regexp_extract({text}, {shape}, 3)))"
    decimal = f"round(try_cast(regexp_extract({text}, {shape}, 1) AS DOUBLE) * {factor})::BIGINT"
    lettered = f"regexp_extract({text}, {shape}, 3) <> ''"
    return (
        f"(CASE WHEN {text} IN {NOTHINGS} THEN NULL WHEN {_digits(text)} THEN {count(text)}"
        f" WHEN regexp_matches({text}, {shape}) THEN CASE WHEN {lettered} THEN {decimal}"
        f" ELSE round(try_cast({text} AS DOUBLE))::BIGINT END END)"
    )


def in_tres(text: str, name: str) -> str:
    """The text after `name=` in TRES, NULL where it is not named."""
    first = f"split_part(substr({text}, {len(name) + 2}), ',', 1)"
    later = f"split_part(substr({text}, strpos({text}, ',{name}=') + {len(name) + 2}), ',', 1)"
    return (
        f"(CASE WHEN contains({text}, ',{name}=') THEN {later}"
        f" WHEN starts_with({text}, '{name}=') THEN {first} END)"
    )


def tres_sum(text: str, resource: str, whole: str) -> str:
    """A generic resource in TRES: `whole`, the text of its own entry, or else the sum over its types."""
    typed = f"regexp_extract_all({text}, '(?:^|,)gres/{resource}:[^=,]+=(\\d+)', 1)"
    total = f"list_sum(list_transform({typed}, lambda one: try_cast(one AS BIGINT)))::BIGINT"
    return f"CASE WHEN {whole} IS NOT NULL THEN {count(whole)} ELSE {total} END"


def gres_gpus(text: str) -> str:
    """GPUs in a gres list of old Slurm: `gpu:4`, `gpu:a100:2,gpu:1`, `gpu`; NULL without any."""
    pieces = f"regexp_extract_all({text}, '(?:^|,)(?:gres[:/])?gpu(?:[:=][^,(]*)?')"
    number = "coalesce(try_cast(nullif(regexp_extract(piece, '[:=](\\d+)$', 1), '') AS BIGINT), 1)"
    return (
        f"(CASE WHEN contains({text}, 'gpu') THEN"
        f" list_sum(list_transform({pieces}, lambda piece: {number}))::BIGINT END)"
    )


def tres_types(text: str) -> str:
    """Types of GPUs: `a100`, or `a100=2,h100=1` in order; '' where they have none."""
    first = f"substr({text}, strpos({text}, 'gres/gpu:') + 9)"
    several = f"contains({first}, 'gres/gpu:')"
    names = f"regexp_extract_all({text}, '(?:^|,)gres/gpu:([^=,]+=\\d+)', 1)"
    return (
        f"(CASE WHEN NOT contains({text}, 'gres/gpu:') THEN '' WHEN {several} THEN {_types(names)}"
        f" ELSE split_part({first}, '=', 1) END)"
    )


def gres_types(text: str) -> str:
    """The same of a gres list of old Slurm."""
    pieces = f"regexp_extract_all({text}, '(?:^|,)(?:gres[:/])?gpu:([^,(:]*[^,(:\\d][^,(:]*(?::\\d+)?)', 1)"
    names = f"list_transform({pieces}, lambda piece: regexp_replace(piece, ':(\\d+)$', '=\\1'))"
    return f"(CASE WHEN regexp_matches({text}, 'gpu:[^,(:]*[^,(:0-9]') THEN {_types(names)} ELSE '' END)"


def array_tasks(text: str) -> str:
    """How many tasks `12_[3-99%4]` stands for; 1 for any other id, NULL where the list was cut (`...`)."""
    pieces = f"string_split(regexp_extract({text}, '\\[([^\\]%]*)', 1), ',')"
    begin = "regexp_extract(piece, '^(\\d+)', 1)::BIGINT"
    until = "coalesce(nullif(regexp_extract(piece, '-(\\d+)', 1), ''), regexp_extract(piece, '^(\\d+)', 1))"
    by = "coalesce(nullif(regexp_extract(piece, ':(\\d+)', 1), ''), '1')::BIGINT"
    tasks = f"list_sum(list_transform({pieces}, lambda piece: ({until}::BIGINT - {begin}) // {by} + 1))"
    listed = "'\\d+_\\[\\d+(-\\d+(:[1-9]\\d*)?)?(,\\d+(-\\d+(:[1-9]\\d*)?)?)*(%\\d+)?\\]'"
    return (
        f"(CASE WHEN NOT contains({text}, '[') THEN 1"
        f" WHEN regexp_full_match({text}, {listed}) THEN {tasks}::BIGINT END)"
    )


def is_unread(value: str, text: str) -> str:
    """Whether the text says something that is not in the value. Never NULL."""
    is_no_number = f"{_digits(text)} AND try_cast({text} AS HUGEINT) IN {NO_NUMBERS}"
    # A CASE looks at the rows that are left; of an AND, DuckDB works out every part for every row.
    return (
        f"(CASE WHEN {value} IS NOT NULL OR {text} IS NULL OR {text} = '' THEN FALSE"
        f" WHEN {text} IN {NOTHINGS} THEN FALSE ELSE NOT ({is_no_number}) END)"
    )


def _types(names: str) -> str:
    one = f"regexp_replace({names}[1], '=\\d+$', '')"
    return f"(CASE WHEN len({names}) = 1 THEN {one} ELSE array_to_string(list_sort({names}), ',') END)"
