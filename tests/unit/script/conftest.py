"""What the tests of scripts share: a render with fixed places, and shellcheck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.script import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurmkit.script import Rendered
    from slurmkit.spec.model import JobSpec

SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def rendered(spec: JobSpec, template: str = "plain", **options: Any) -> Rendered:
    """The script of a job in a run whose places are always the same."""
    places = {"run_directory": Path("/data/runs/r-1"), "run_id": "r-1", "python": "/opt/python/bin/python3"}
    return render(spec, template=template, directory=Path("/data"), **{**places, **options})


def complaints(scripts: Iterable[str], directory: Path) -> str:
    """What shellcheck has to say about scripts."""
    paths = []
    for number, text in enumerate(scripts):
        paths.append(directory / f"{number}.sh")
        paths[-1].write_bytes(text.encode("utf-8", "surrogateescape"))
    done = subprocess.run([SHELLCHECK, *paths], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
