"""The options of a batch script and its command line, which sbatch would read and slurmrestd does not."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from slurmkit.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus",
    "H": "hold", "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit",
    "Q": "quiet", "S": "core-spec", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks",
    "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose",
    "w": "nodelist", "x": "exclude",
}  # fmt: skip
WITHOUT_VALUE = frozenset(
    {
        "contiguous", "hold", "ignore-pbs", "no-requeue", "overcommit", "oversubscribe", "parsable", "quiet",
        "reboot", "spread-job", "stepmgr", "use-min-nodes", "verbose", "wait", "test-only",
        "spread-segments", "consolidate-segments",
    }
)  # fmt: skip
MAYBE_VALUE = frozenset(
    {"exclusive", "get-user-env", "nice", "no-kill", "oom-kill-step", "propagate", "requeue", "resv-ports"}
)
"""Those that take a value after `=` alone."""
ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}


def options(script: str, arguments: Sequence[str]) -> dict[str, str | None]:
    """Long names without dashes to values, None where there is none; the command line beats the script.

    Raises:
        Refused: a line cannot be taken apart.
    """
    found: dict[str, str | None] = {}
    for line in directives(script):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise Refused(f"a #SBATCH line cannot be read: {error}", where=line) from error
        found |= dict(_pairs(words))
    return found | dict(_pairs(arguments))


def directives(script: str) -> Iterator[str]:
    """What stands after `#SBATCH`, up to the first command."""
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            yield line.removeprefix("#SBATCH").strip()


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and word[1:2] in SHORT:
            name, value = SHORT[word[1]], word[2:]
            equals = value
        else:
            raise Refused("this is no option of sbatch", where=word)
        name = ALIASES.get(name, name)
        if equals:
            yield name, value
        elif name in WITHOUT_VALUE | MAYBE_VALUE:
            yield name, None
        elif rest:
            yield name, rest.pop(0)
        else:
            raise Refused(f"--{name} needs a value", where=word)
