"""A testbed runs real jobs, and knows of them afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.daemons import wait_for

if TYPE_CHECKING:
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

ALLOCATE_200_MIB = "import os; data = bytearray(200 << 20); print(len(data))"
# slurmctld tells slurmdbd of a job's start in bundles, every five seconds.
ACCOUNTED = 30


def run(testbed: Testbed, *argv: str) -> str:
    done = testbed.command(argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sacct(testbed: Testbed, job: str, fields: str) -> list[list[str]]:
    text = run(testbed, "sacct", "-j", job, "--noheader", "--parsable2", f"--format={fields}")
    return [line.split("|") for line in text.splitlines()]


def test_a_gpu_job_sees_its_gpus(slurm_testbed: Testbed) -> None:
    text = run(
        slurm_testbed,
        *("srun", "-N2", "--gpus-per-node=2", "sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"),
    )
    assert sorted(text.splitlines()) == ["n1 0,1", "n2 0,1"]


def test_node_names_resolve_inside_jobs_and_are_the_host_names(slurm_testbed: Testbed) -> None:
    if not slurm_testbed.named:
        pytest.skip("this machine lets nobody make namespaces")
    code = (
        "import os, socket\n"
        "host = socket.gethostname()\n"
        "print(host == os.environ['SLURMD_NODENAME'], socket.gethostbyname(host), socket.gethostbyname('n4'))"
    )
    text = run(slurm_testbed, "srun", "-N2", "python3", "-c", code)
    assert text.splitlines() == ["True 127.0.0.1 127.0.0.1"] * 2


def test_a_job_gets_the_signals_that_its_submitter_would(slurm_testbed: Testbed) -> None:
    _, ignored = run(slurm_testbed, "srun", "grep", "SigIgn", "/proc/self/status").split()
    # 32 and 33 are glibc's own: whoever ignores them, no program can change that.
    assert int(ignored, 16) & ~(0b11 << 31) == 0


def test_accounting_keeps_state_comment_script_and_gpus(slurm_testbed: Testbed) -> None:
    script = ['--comment=it\'s "q"', "--gpus-per-node=a100:3", "--output=/dev/null", "--wrap", "exit 3"]
    job = run(slurm_testbed, "sbatch", "--parsable", *script).strip()

    def is_over() -> bool:
        rows = sacct(slurm_testbed, job, "State")
        return bool(rows) and rows[0][0] == "FAILED"

    assert wait_for(is_over, ACCOUNTED, 0.2)
    [row, *_] = sacct(slurm_testbed, job, "ExitCode,Comment,Account,AllocTRES%100")
    assert row[:3] == ["3:0", 'it\'s "q"', "research"]
    assert "gres/gpu:a100=3" in row[3]
    script_of = ("sacct", "-j", job, "--batch-script")
    assert wait_for(lambda: "exit 3" in run(slurm_testbed, *script_of), ACCOUNTED, 0.2)


def test_a_job_cannot_open_the_gpus_of_another(slurm_testbed: Testbed) -> None:
    if not slurm_testbed.cgroup:
        pytest.skip("this machine has no cgroups to give")
    devices = slurm_testbed.layout.base / "dev" / "n1"
    code = (
        "import errno, os\n"
        "for number in range(8):\n"
        f"    try: os.open(f'{devices}/nvidia{{number}}', os.O_RDONLY)\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
    )
    text = run(slurm_testbed, "srun", "--nodelist=n1", "--gpus-per-node=3", "python3", "-c", code)
    # No driver stands behind the files: a device that may be opened answers ENXIO.
    assert text.split() == ["ENXIO"] * 3 + ["EPERM"] * 5


def test_a_step_over_its_memory_is_killed_and_says_so(slurm_testbed: Testbed) -> None:
    if not slurm_testbed.cgroup:
        pytest.skip("this machine has no cgroups to give")
    wrapped = f'srun python3 -c "{ALLOCATE_200_MIB}"'
    job = run(
        slurm_testbed, "sbatch", "--parsable", "--mem=50", "--output=/dev/null", "--wrap", wrapped
    ).strip()

    def step_state() -> str:
        rows = sacct(slurm_testbed, job, "JobID,State")
        return dict(row[:2] for row in rows).get(f"{job}.0", "")

    assert wait_for(lambda: step_state() == "OUT_OF_MEMORY", ACCOUNTED, 0.2), step_state()
    assert ["0:125"] in sacct(slurm_testbed, f"{job}.0", "ExitCode")


def test_a_small_job_leaves_room_for_another(slurm_testbed: Testbed) -> None:
    jobs = [
        run(
            slurm_testbed,
            *("sbatch", "--parsable", "--nodelist=n1", "--output=/dev/null", "--wrap", "exec sleep 100"),
        ).strip()
        for _ in range(2)
    ]
    try:
        ids = ",".join(jobs)
        assert wait_for(
            lambda: run(slurm_testbed, "squeue", "-h", "-j", ids, "-o", "%T").split() == ["RUNNING"] * 2, 30
        )
    finally:
        run(slurm_testbed, "scancel", *jobs)
