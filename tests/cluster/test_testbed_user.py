"""An ordinary user has a testbed of their own, without root's help."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slurmkit

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

CHECK = """
import json, os, sys
from pathlib import Path
from slurmkit.testbed.leftovers import belonging
from slurmkit.testbed.native import down, up
from slurmkit.testbed.options import Options

testbed = up(Options(nodes=2), Path(sys.argv[1]))
try:
    done = testbed.command(
        ["srun", "-N2", "--gpus-per-node=a100:2", "sh", "-c", "echo $(id -u) $CUDA_VISIBLE_DEVICES"]
    )
    assert done.returncode == 0, done.stderr
    job = testbed.command(["sbatch", "-o", "/dev/null", "--wrap", "env -i sleep 1000 & srun sleep 1000"])
    assert job.returncode == 0, job.stderr
    owners = {os.stat(f"/proc/{testbed.pid(name)}").st_uid for name in testbed.daemons()}
finally:
    down(testbed.root)
print(json.dumps({
    "tasks": sorted(done.stdout.splitlines()),
    "owners": sorted(owners),
    "cgroup": testbed.cgroup,
    "left": len(belonging(testbed)),
    "files": testbed.root.exists(),
}))
"""


@pytest.fixture
def user() -> Iterator[tuple[pwd.struct_passwd, Path]]:
    """An ordinary user with a directory: whoever runs the tests, or for root one made for the test."""
    if os.geteuid() != 0:
        directory = Path(tempfile.mkdtemp())
        yield pwd.getpwuid(os.geteuid()), directory
        shutil.rmtree(directory)
        return
    name = f"tb{secrets.token_hex(4)}"
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    subprocess.run(["useradd", "--no-create-home", "--home-dir", str(directory), name], check=True)
    try:
        entry = pwd.getpwnam(name)
        os.chown(directory, entry.pw_uid, entry.pw_gid)
        yield entry, directory
    finally:
        subprocess.run(["userdel", name], check=True)
        shutil.rmtree(directory)


def interpreter(entry: pwd.struct_passwd) -> tuple[str, str]:
    """A Python that this user can start, with the PYTHONPATH that leads it to slurmkit and its libraries."""
    path = os.pathsep.join([str(Path(slurmkit.__file__).parents[1]), sysconfig.get_path("purelib")])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [candidate, "-c", "import jinja2, slurmkit.testbed.native"],
                env={"PATH": os.defpath, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                user=entry.pw_uid,
                group=entry.pw_gid,
                extra_groups=[],
                cwd="/",
                check=True,
                capture_output=True,
            )
            return candidate, path
    pytest.fail(f"no {version} that an ordinary user can start: put the checkout where others can read it")


def test_an_ordinary_user_runs_a_gpu_job_on_their_own_cluster(user: tuple[pwd.struct_passwd, Path]) -> None:
    entry, directory = user
    python, path = interpreter(entry)
    done = subprocess.run(
        [python, "-c", CHECK, str(directory / "t")],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        cwd="/",
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "tasks": [f"{entry.pw_uid} 0,1"] * 2,
        "owners": [entry.pw_uid],
        "cgroup": False,
        "left": 0,
        "files": False,
    }
