"""A strict reader of Prometheus' text format, and promtool's word where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Found:
    """Samples by name and labels. Fails where the format, or the conventions for names, are not kept."""
    assert text.endswith("\n")
    found: Found = {}
    seen: set[str] = set()
    current = ""
    lines = text.split("\n")[:-1]
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert re.fullmatch(_NAME, current), line
            assert current not in seen, f"{current} stands there twice"
            seen.add(current)
            assert len(line.split(" ", 3)[3]) > 10, line
        elif line.startswith("# TYPE "):
            assert before.startswith(f"# HELP {current} "), line
            assert line == f"# TYPE {current} gauge"
            assert not current.endswith(("_total", "_count", "_sum", "_bucket", "_info")), "of gauges"
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == current, line
            labels = _labels(sample[2])
            assert not {"le", "quantile"} & labels.keys(), line
            key = current, frozenset(labels.items())
            assert key not in found, f"twice: {line}"
            found[key] = float(sample[3])
    return found


def promtool_says(text: str) -> str:
    """What promtool finds wrong; nothing where it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        return ""
    done = subprocess.run(
        [program, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def value(found: Found, name: str, **labels: str) -> float:
    """The value of the one sample that has these labels among its own."""
    (only,) = [
        one for (key, has), one in found.items() if key == name and labels.items() <= dict(has).items()
    ]
    return only


def _labels(text: str | None) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while text and at < len(text):
        part = _LABEL.match(text, at)
        assert part, text
        assert part[1] not in labels, text
        labels[part[1]] = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], part[2])
        at = part.end()
        assert at == len(text) or text[at] == ",", text
        at += 1
    return labels
