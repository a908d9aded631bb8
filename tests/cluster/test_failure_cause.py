"""A step fails for one cause, and the run names it: the rank, its end in words, the reason, the advice."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import ranks
from tests.cluster.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def first_failure(site: Site, program: str, *, code: int, **options: Any) -> tuple[str, dict[str, Any]]:
    """Run the program in every rank; the run id, and what its end says about the first that failed."""
    resources = {"nodes": 1, "ntasks": 2, **options}
    run = ranks.run(site, ranks.write_job(site, ranks.python(program), **resources), code=code)
    (end,) = ranks.events(site, run, "step-ended")
    failure: dict[str, Any] = end["first_failure"]
    return run, failure


def in_rank(rank: int, statement: str, otherwise: str = "time.sleep(600)") -> str:
    return (
        "import os, signal, sys, time\n"
        f"if os.environ['RANK'] == '{rank}':\n    {statement}\nelse:\n    {otherwise}\n"
    )


def test_a_rank_that_the_kernel_kills_for_its_memory_is_named_with_the_reason(site: Site) -> None:
    if not site.testbed.cgroup:
        pytest.skip("this testbed cannot limit memory")
    program = in_rank(1, "hold = [bytes([1]) * 2**24 for _ in range(64)]")
    run, failure = first_failure(site, program, code=137, mem="200M")
    assert (failure["rank"], failure["signal"], failure["oom_killed"]) == (1, 9, True)
    assert failure["cause"]["kind"] == "host-out-of-memory"
    said = ranks.said(site, run)
    assert ": killed by the kernel: out of memory\n" in said
    assert f"slurmkit: {failure['cause']['sentence']}\n  {failure['cause']['advice']}\n" in said


def test_a_module_that_is_not_there_is_named(site: Site) -> None:
    run, failure = first_failure(site, "import no_such_module", code=1)
    assert failure["cause"]["kind"] == "missing-module"
    assert "the Python module no_such_module is not installed where the job runs" in ranks.said(site, run)
    assert abs(failure["at"] - time.time()) < 60


def test_a_segmentation_fault_leaves_a_stack_and_a_word(site: Site) -> None:
    program = in_rank(0, "os.kill(os.getpid(), signal.SIGSEGV)")
    run, failure = first_failure(site, program, code=128 + 11)
    assert failure["cause"]["kind"] == "segmentation-fault"
    assert "Fatal Python error: Segmentation fault" in failure["stderr_tail"]
    assert "killed by SIGSEGV (segmentation fault)\n" in ranks.said(site, run)


def test_of_two_ranks_that_fail_100_ms_apart_the_first_is_named(site: Site) -> None:
    start = site.work / "start"
    meet = f"open({str(start)!r} + os.environ['RANK'], 'w').close()\n"
    meet += (
        f"while not all(os.path.exists({str(start)!r} + str(rank)) for rank in (0, 1)): time.sleep(0.001)\n"
    )
    program = f"import os, sys, time\n{meet}time.sleep(0.1 * (1 - int(os.environ['RANK'])))\nsys.exit(7)"
    run, failure = first_failure(site, program, code=7, nodes=2, launch={"kill_on_bad_exit": False})
    assert (failure["rank"], failure["host"]) == (1, "n2")
    assert "1 other rank failed after it\n" in ranks.said(site, run)


def test_ranks_that_will_not_end_are_ended_within_the_grace(site: Site) -> None:
    stay = "signal.signal(signal.SIGTERM, signal.SIG_IGN); open('stays', 'w').close(); time.sleep(600)"
    wait = "exec('while not os.path.exists(\"stays\"): time.sleep(0.01)'); sys.exit(7)"
    begun = time.monotonic()
    run, failure = first_failure(site, in_rank(1, wait, stay), code=7, launch={"grace": "2s"})
    assert time.monotonic() - begun < 20, "Slurm itself would have waited for half a minute"
    assert failure["rank"] == 1
    assert "failed first" in ranks.said(site, run)
