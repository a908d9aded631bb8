"""Names of log files, as sbatch spells them: `logs/%x-%j.out`.

Facts from sbatch's manual and slurmd's naming of batch files. Where releases differ, that is said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIELDS: Final = {
    "A": "id of the job array, or of the job",
    "a": "index in the job array",
    "b": "index in the job array, modulo 10 (from 24.11)",
    "J": "job id, with the step id for a step",
    "j": "job id",
    "N": "short host name",
    "n": "number of the node in the job",
    "r": "restart count (from 25.11)",
    "S": "SLUID of the job (from 25.11)",
    "s": "step id; `batch` for the script",
    "t": "rank",
    "u": "user name",
    "x": "job name",
}
"""Letters after a `%`, and what stands in their place."""

KNOWN_BEFORE_SUBMIT: Final = frozenset("ux")
_NUMBERS: Final = frozenset("AabJjnrst")
_WIDEST: Final = 10
_FIELD: Final = re.compile(r"%(?:(?P<percent>%)|(?P<width>[0-9]*)(?P<letter>[A-Za-z]?))", re.ASCII)


def fields(pattern: str) -> tuple[str, ...]:
    """The letters of the fields in `pattern`, in order; none where a backslash switches them off."""
    if "\\" in pattern:
        return ()
    return tuple(match["letter"] for match in _FIELD.finditer(pattern) if match["percent"] is None)


def expand(pattern: str, values: Mapping[str, str | int]) -> str:
    """The file name that sbatch makes of `pattern`; `values` maps letters to what stands in their place.

    A number between `%` and the letter pads numbers with zeros, to 10 places at most. A backslash anywhere
    switches all fields off and goes itself. A field without a value stays as it stands; what `check` refuses,
    releases of Slurm expand differently.
    """
    return _replaced(pattern, values, lambda text: text, unknown=None)


def as_glob(pattern: str, values: Mapping[str, str | int]) -> str:
    """A glob that matches the file that sbatch makes of `pattern`: `*` for what is not known."""
    import glob

    return _replaced(pattern, values, glob.escape, unknown="*")


def _replaced(
    pattern: str, values: Mapping[str, str | int], escape: Callable[[str], str], unknown: str | None
) -> str:
    if "\\" in pattern:
        return escape(re.sub(r"\\(.?)", lambda match: match[1], pattern))
    made = []
    end = 0
    for match in _FIELD.finditer(pattern):
        made += [escape(pattern[end : match.start()]), _one(match, values, escape, unknown)]
        end = match.end()
    return "".join((*made, escape(pattern[end:])))


def _one(
    match: re.Match[str], values: Mapping[str, str | int], escape: Callable[[str], str], unknown: str | None
) -> str:
    letter = match["letter"]
    if match["percent"]:
        return "%"
    if letter not in values:
        return match[0] if unknown is None or letter not in FIELDS else unknown
    text = str(values[letter])
    return escape(
        text.zfill(min(int(match["width"] or 0), _WIDEST)) if letter in _NUMBERS and text.isdigit() else text
    )


def check(pattern: str, *, name: str = "", array: bool = False) -> str | None:
    """What is wrong with an output pattern of a job of that name; None where it is sound."""
    if not pattern or pattern.endswith("/"):
        return "the pattern names a directory; add a file name such as `%x-%j.out`"
    if "\\" in pattern:
        lost = "a backslash switches all fields off, and Slurm 22.05 loses the directory; write `%%` for `%`"
        return None if pattern.startswith("/") else lost
    return _bad_field(pattern) or _bad_place(pattern, name=name, array=array)


def _bad_field(pattern: str) -> str | None:
    for match in _FIELD.finditer(pattern):
        if match["percent"] is None and match["letter"] not in FIELDS:
            return f"`{match[0]}` is not a field of sbatch's; write `%%` for a percent sign"
    return None


def _bad_place(pattern: str, *, name: str, array: bool) -> str | None:
    for letter in fields(pattern.rpartition("/")[0]):
        if letter not in KNOWN_BEFORE_SUBMIT:
            return (
                f"the directory part contains `%{letter}`, which is known only once the job runs: "
                "the directory cannot be made before, and the log would be lost; use it in the file name"
            )
    used = set(fields(pattern))
    if "x" in used and "/" in name:
        return (
            f"`%x` becomes `{name}`, whose `/` makes a directory that does not exist; take `/` out of `name`"
        )
    if array and not used & {"a", "A", "j", "J"}:
        return "all tasks of the array would write to the same file; add `%A_%a`"
    return None
