"""Steps of real frameworks' programs: two nodes with two tasks each, each rank's parent being launch.pyz."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.launch import archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.testbed.testbed import Testbed

BINARIES = Path(sys.executable).parent
FOUR_RANKS = ("--nodes=2", "--ntasks-per-node=2")
FORKED = """
def forked(function, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return pid
"""
"""For programs that write checkpoints with several ranks, and are killed."""
HEAD = """\
import json, os
def tell(rank, *found):
    with open(f"told-{rank}.json", "x") as file:
        json.dump([*found], file)
"""


def needs(*modules: str, why: str) -> pytest.MarkDecorator:
    """Skip where a framework is not installed, with the reason."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed: {why}")


def run(
    testbed: Testbed,
    directory: Path,
    program: str,
    *,
    srun: Sequence[str] = FOUR_RANKS,
    before: Sequence[str] = (sys.executable,),
    variables: Sequence[str] = (),
    prefix: Sequence[str] = (),
) -> list[Any]:
    """Start `before` and the program as a step of 4 GiB; what its ranks told, by rank.

    `variables` are added to srun's environment, `prefix` goes before srun: salloc and its options.
    """
    launcher, text = directory / "launch.pyz", directory / "program.py"
    archive.build(launcher)
    text.write_text(HEAD + program)
    path = f"PATH={BINARIES}:{os.environ['PATH']}"
    step = ["srun", "--mem=4G", f"--chdir={directory}", *srun]
    parent = [sys.executable, "-I", "-S", str(launcher), "--", *before, str(text)]
    done = testbed.command(["env", path, *variables, *prefix, *step, *parent], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = sorted(directory.glob("told-*.json"), key=lambda path: int(path.stem[5:]))
    return [json.loads(path.read_text()) for path in found]
