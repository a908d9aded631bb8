"""Runs of several ranks on a testbed: their job files, what each rank printed, what the run wrote down."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.cluster.site import Site

TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
"""A program that says what reached it."""


def write_job(
    site: Site,
    command: Sequence[str] | str,
    *,
    launch: Mapping[str, object] | None = None,
    variables: Mapping[str, str] | None = None,
    setup: Sequence[str] = (),
    **resources: object,
) -> str:
    """A job file in the site's directory; JSON's strings, numbers and lists are TOML's."""
    options = {"mem": "100M", "time": "10m", **resources}
    tables: dict[str, Mapping[str, object]] = {
        "resources": options,
        "launch": launch or {},
        "environment": {"setup": list(setup)},
        "environment.variables": variables or {},
    }
    lines = ['name = "ranks"', f"command = {json.dumps(command)}"]
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    file = site.work / "ranks.toml"
    file.write_text("\n".join(lines) + "\n")
    return file.name


def python(program: str, *arguments: str) -> list[str]:
    """The command that runs a program given as text."""
    return [sys.executable, "-c", program, *arguments]


def run(site: Site, job: str, *, code: int = 0) -> str:
    """Submit, wait for the end with this exit code; the run id."""
    return site.run("submit", job, "--wait", code=code).splitlines()[0]


def directory(site: Site, run_id: str) -> Path:
    """The run's directory."""
    return site.work / "runs" / run_id


def printed(site: Site, run_id: str) -> list[str]:
    """What each rank printed, by rank."""
    return [path.read_text() for path in sorted(directory(site, run_id).glob("logs/*/rank-*.out"))]


def told(site: Site, run_id: str) -> list[tuple[list[str], dict[str, str]]]:
    """What reached each rank that ran `TELL`: its arguments and its environment."""
    lines = (text.splitlines()[-1] for text in printed(site, run_id))
    return [(argv, environ) for argv, environ in map(json.loads, lines)]


def said(site: Site, run_id: str) -> str:
    """What the agent said."""
    return "".join(path.read_text() for path in directory(site, run_id).glob("logs/*.out"))


def events(site: Site, run_id: str, kind: str) -> list[dict[str, Any]]:
    """The events of a kind."""
    lines = (directory(site, run_id) / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def records(site: Site, run_id: str) -> list[dict[str, Any]]:
    """The exit records, by step start and rank."""
    return [json.loads(path.read_bytes()) for path in sorted(directory(site, run_id).glob("exit/*/*/*.json"))]
