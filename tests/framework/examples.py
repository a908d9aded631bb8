"""The examples that need a framework, on a testbed. Ranks that all import PyTorch at once take a while."""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurmkit.testbed.testbed import Testbed

EXAMPLES = Path(__file__).parents[2] / "examples"
BOUND = 240.0


@contextmanager
def site_of(testbed: Testbed, directory: Path, example: str) -> Iterator[Site]:
    """A user in a copy of the example's folder."""
    with closing(Site(testbed, directory)) as site:
        left_behind = shutil.ignore_patterns("runs", "checkpoints")
        shutil.copytree(EXAMPLES / example, site.work, dirs_exist_ok=True, ignore=left_behind)
        yield site


def run(site: Site, *options: str) -> str:
    """Submit the job file and wait for its end, which must be a good one; the run id."""
    process = site.start("submit", "job.toml", "--wait", *options)
    out, err = process.communicate(timeout=BOUND)
    assert process.returncode == 0, f"{out}\n{err}"
    return out.splitlines()[0]
