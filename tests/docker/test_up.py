"""A cluster of containers that is up is ready, and keeps its secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed.starting import node_states
from tests.docker.user import User

if TYPE_CHECKING:
    from slurmkit.testbed.compose import ComposeTestbed

pytestmark = pytest.mark.docker

ASK_REST = """
import json, subprocess, urllib.error, urllib.request
told = subprocess.run(["scontrol", "token"], capture_output=True, text=True, check=True).stdout
token = told.strip().split("=", 1)[1]
def get(path, token):
    headers = {"X-SLURM-USER-NAME": "alice", "X-SLURM-USER-TOKEN": token}
    return urllib.request.urlopen(urllib.request.Request("http://slurmrestd:6820" + path, headers=headers))
paths = json.load(get("/openapi/v3", token))["paths"]
# Not /ping, which does not look at the token.
jobs = sorted(path for path in paths if path.startswith("/slurm/") and path.rstrip("/").endswith("/jobs"))[-1]
print(get(jobs, token).status)
try:
    print(get(jobs, token[:-9] + "x" * 9).status)
except urllib.error.HTTPError as error:
    print("refused" if error.code >= 400 else error.code)
"""


def test_every_node_is_idle(cluster: ComposeTestbed) -> None:
    assert node_states(cluster) == dict.fromkeys(cluster.nodes, "idle")


def test_it_is_the_slurm_that_was_asked_for(cluster: ComposeTestbed) -> None:
    assert cluster.command(["sinfo", "--version"]).stdout.split()[1].startswith(cluster.slurm)


def test_each_rank_runs_on_a_host_of_its_own(cluster: ComposeTestbed) -> None:
    done = cluster.command(["srun", f"--nodes={len(cluster.nodes)}", "--gpus-per-node=1", "hostname"])
    assert sorted(done.stdout.split()) == list(cluster.nodes), done.stderr


def test_alice_and_bob_have_accounts_of_their_own(cluster: ComposeTestbed) -> None:
    done = cluster.command(["sacctmgr", "-nP", "list", "associations", "format=account,user"])
    assert {"research|root", "research|alice", "teaching|bob"} <= set(done.stdout.split())


def test_accounting_knows_a_job_that_ended(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    job = alice.run("sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap=true").strip()
    assert alice.run("sacct", "-XnP", "--jobs", job, "--format=State,Account") == "COMPLETED|research\n"


def test_a_job_has_the_login_environment_where_it_asks_for_it(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    words = ("--wait", "--export=NONE", "--output=environment", "--wrap=echo $HOME $USER")
    alice.run("sbatch", *words)
    assert alice.run("cat", "environment") == "/shared/home/alice alice\n"


def test_slurmrestd_answers_a_token_and_refuses_a_wrong_one(cluster: ComposeTestbed) -> None:
    alice = User(cluster, "alice")
    assert alice.run("/opt/slurmkit/bin/python", "-c", ASK_REST).split() == ["200", "refused"]


def test_no_user_can_read_a_key(cluster: ComposeTestbed) -> None:
    secrets = r"find /cluster/etc \( -name '*.key' -o -name slurmdbd.conf \) -printf '%m %f\n'"
    modes = cluster.command(["sh", "-c", secrets]).stdout.splitlines()
    assert len(modes) == 3
    assert all(line.startswith("600 ") for line in modes), modes
    _, said = User(cluster, "bob").call("sh", "-c", "cat /cluster/etc/*.key /cluster/etc/slurmdbd.conf")
    assert said.count("Permission denied") == 3


def test_the_image_has_no_key(cluster: ComposeTestbed) -> None:
    done = cluster.compose(
        *("run", "--rm", "--no-deps", "--volume=/cluster", "--entrypoint=find", "-T"),
        *("login", "/etc", "/opt", "/var", "/root", "-xdev", "-name", "*.key"),
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_no_container_is_privileged(cluster: ComposeTestbed) -> None:
    services = json.loads(cluster.compose("config", "--format=json").stdout)["services"]
    assert all(
        service["cap_drop"] == ["ALL"] and not service.get("privileged") for service in services.values()
    )
    assert not any(service.get("ports") for service in services.values())
