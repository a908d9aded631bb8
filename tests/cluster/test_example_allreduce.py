"""The example that needs no framework, as it stands, on two nodes with four ranks each."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import ranks
from tests.cluster.site import Site

if TYPE_CHECKING:
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "allreduce"
LINE = re.compile(
    r"rank (\d+) of 8 on (n\d): 10 all-reduces of 1 MiB, the last sums to (\d+), [\d.]+ ms each, (\d+) MB/s\n"
)


def test_allreduce_runs_as_it_stands(slurm_testbed: Testbed, tmp_path: Path) -> None:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        shutil.copytree(EXAMPLE, site.work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
        run = ranks.run(site, "job.toml")
        lines = [LINE.fullmatch(text) for text in ranks.printed(site, run)]
        assert [line and (line[1], line[2], line[3]) for line in lines] == [
            (str(rank), f"n{1 + rank // 4}", str(sum(range(8)) + 8 * 10)) for rank in range(8)
        ]
        assert all(int(line[4]) > 0 for line in lines if line)
        (written,) = ranks.directory(site, run).glob("logs/*/progress.json")
        progress = json.loads(written.read_text())
        assert (progress["step"], progress["total"], progress["ranks_heard"]) == (10, 10, 8)
