"""What the name of a checkpoint tells: its step, and whether it is a temporary one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SUFFIX = re.compile(r"\.(?:pt|pth|bin|ckpt|safetensors|tar|pkl)(?:\.tar)?$", re.IGNORECASE)
_VERSION = re.compile(r"-v\d+$")
_STEP = re.compile(
    r"(?:step|iter|iteration|update|(?<![a-z])it|(?<![a-z])ba)s?[-_= ]?(\d+)(?![\d.]*\d)", re.IGNORECASE
)
_BEFORE_WORD = re.compile(r"(?<![\d.])(\d+)[-_ ]?(?:step|iter|iteration|update)s?(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])|(?<=_)(\d+)(?![\w.])|(?<![\w.])(\d+)(?=_)|(?<=_)(\d+)(?=_)")
_NO_STEP = re.compile(r"(?:rank|part|shard|worker|seed|node|fold|split|of)[-_= ]?$", re.IGNORECASE)
_TEMPORARY = re.compile(
    r"^\.|^te?mp[-_.]|~$|[-_.](?:te?mp|part|partial|dirty|unfinished|incomplete)\b", re.IGNORECASE
)


def step_in(name: str) -> int | None:
    """The step that a name carries: 100 of `step_100`, `iter-0000100.pt`, `epoch=3-step=100.ckpt`, `c_100`.

    Where it names no step and holds one number alone, that is taken: of `epoch_5.pt`, 5.
    """
    stem = _VERSION.sub("", _SUFFIX.sub("", name))
    for pattern in (_STEP, _BEFORE_WORD):
        if found := pattern.findall(stem):
            return int(found[-1])
    numbers = list(_NUMBER.finditer(stem))
    if len(numbers) != 1 or _NO_STEP.search(stem[: numbers[0].start()]):
        return None
    return int(numbers[0].group())


def numbered(pattern: str) -> Callable[[str], int | None]:
    """Reads the step out of names of one form, as the pattern's first group; other names tell none."""
    form = re.compile(pattern)

    def step_of(name: str) -> int | None:
        found = form.fullmatch(name)
        return int(found[1]) if found else None

    return step_of


def is_temporary(name: str) -> bool:
    """Whether a name is one that writers give to what is not finished: `.x`, `x.tmp`, `tmp-x`, `x.part`."""
    return _TEMPORARY.search(name) is not None
