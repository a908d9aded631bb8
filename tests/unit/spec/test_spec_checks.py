"""What a text of the job file must be, beyond being text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from slurmkit.spec.checks import CHECKS
from slurmkit.spec.convert import section_of
from slurmkit.spec.model import JobSpec


@pytest.mark.parametrize(
    ("check", "text", "tidied"),
    [
        ("name", "größe ☃ (v2) #1 'a' \"b\" $c `d`", None),
        ("name", "-n", None),
        ("command", "a\r\nb\r\n", "a\nb\n"),
        ("bash", "", None),
        ("argument", "", None),
        ("argument", "a\nb\r\n", None),
        ("word", "two words", None),
        ("names", "SLURM_CONF", None),
        ("names", "SBATCH_*", None),
        ("duration", "90s", "1m30s"),
        ("duration", "1:30:00", "1h30m"),
        ("signal", "sigusr1", "USR1"),
        ("signal", "10", None),
        ("pattern", r"step (\d+)", None),
        ("axes", "tensor", None),
    ],
)
def test_a_sound_text_is_kept_or_tidied(check: str, text: str, tidied: str | None) -> None:
    assert CHECKS[check](text) == (text if tidied is None else tidied)


@pytest.mark.parametrize(
    ("check", "text", "told"),
    [
        ("name", "a\nb", "line break"),
        ("name", "a\0b", "NUL"),
        ("name", "", "is empty"),
        ("name", "  ", "is blank"),
        ("name", "a\x1b[31m", r"U\+001B"),
        ("name", "a\u202eb", r"U\+202E"),
        ("name", "x" * 201, "over 200 bytes"),
        ("name", "ä" * 101, "over 200 bytes"),
        ("command", " \n ", "is empty"),
        ("command", "a\0", "NUL"),
        ("bash", "\0", "NUL"),
        ("argument", "\0", "NUL"),
        ("variables", "\0", "NUL"),
        ("word", "a\nb", "line break"),
        ("path", "", "is empty"),
        ("names", "A-B", "not the name of a variable"),
        ("duration", "30", "is not a duration"),
        ("signal", "USR3", "is not a signal"),
        ("signal", "65", "is not a signal"),
        ("signal", "", "is not a signal"),
        ("pattern", "step (", "is not a regular expression"),
        ("pattern", "step", "has no group"),
        ("axes", "tp", "is not an axis"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_right(check: str, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        CHECKS[check](text)


def test_trap_125_line_breaks_of_a_bash_command_are_those_of_unix() -> None:
    assert CHECKS["command"]("set -x\r\npython t.py\r\n") == "set -x\npython t.py\n"


def metas(kind: Any) -> Iterator[msgspec.Meta]:
    yield from (one for one in getattr(kind, "__metadata__", ()) if isinstance(one, msgspec.Meta))
    for inner in get_args(kind):
        yield from metas(inner)


def test_the_model_names_every_check_and_no_other() -> None:
    kinds = [info.type for info in msgspec.structs.fields(JobSpec)]
    kinds += [
        info.type
        for kind in kinds
        if (section := section_of(kind))
        for info in msgspec.structs.fields(section)
    ]
    named = {meta.extra["check"] for kind in kinds for meta in metas(kind) if meta.extra}
    assert named == set(CHECKS)


def test_every_key_of_the_model_says_what_it_means() -> None:
    for info in msgspec.structs.fields(JobSpec):
        section = section_of(info.type)
        for one in msgspec.structs.fields(section) if section else (info,):
            assert any(meta.description for meta in metas(one.type)), one.name
