"""What a job file says arrives at the program byte for byte, through the script and a real Slurm."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import tomli_w

from slurmkit.spec.model import Environment
from tests.cluster.batch import DUMP, Batch, read_told
from tests.cluster.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

HOSTILE = (
    "a b",
    "",
    "  both ends  ",
    "it's",
    'say "no"',
    "$HOME ${PATH} $(id) `id`",
    "back\\slash \\n \\",
    "new\nline\n",
    "carriage\r\nreturn\r",
    "tab\tand\x01\x1b[31mcontrol\x7f",
    "é 日本 \U0001f600",
    "\udcff\udcfe",  # bytes that are no UTF-8
    "-n",
    "--help",
    "*",
    "~",
    "{a,b} [x] (y) #z ! & | ; < >",
    "%j %% %n",
    "!!",
    "x" * 100_000,
)


@pytest.fixture
def batch(slurm_testbed: Testbed, tmp_path: Path) -> Batch:
    return Batch(slurm_testbed, tmp_path)


def test_trap_126_arguments_arrive_byte_for_byte(batch: Batch) -> None:
    job = batch.run(batch.spec(*HOSTILE))
    assert job["JobState"] == "COMPLETED", batch.log()
    (rank,) = batch.told()
    assert rank.argv == [os.fsencode(word) for word in HOSTILE]


def test_trap_137_variables_arrive_byte_for_byte(batch: Batch) -> None:
    values = {f"V{number}": value for number, value in enumerate((*HOSTILE, "c,d", 'q"$`', "x\\ny"))}
    job = batch.run(batch.spec(environment=Environment(variables=values)))
    assert job["JobState"] == "COMPLETED", batch.log()
    (rank,) = batch.told()
    assert {name: rank.environ[name] for name in values} == {
        name: os.fsencode(value) for name, value in values.items()
    }


@pytest.mark.parametrize("name", ["big sim", "it's $HOME", '"q" `id` #1', "é 日本", "-x", "c(4,2*7+6)#1"])
def test_trap_120_names_arrive_as_they_are(batch: Batch, name: str) -> None:
    job = batch.run(batch.spec(name=name))
    assert (job["JobState"], job["JobName"]) == ("COMPLETED", name)
    (rank,) = batch.told()
    assert rank.text("SLURM_JOB_NAME") == name


def test_the_batch_log_is_where_the_run_directory_is(batch: Batch) -> None:
    job = batch.run(batch.spec(command="echo to the log"))
    assert batch.log() == "to the log\n"
    assert job["Comment"] == "slurmkit:r-1"


def test_a_line_of_bash_is_expanded_on_the_node(batch: Batch) -> None:
    batch.run(batch.spec(command='for word in "$SLURM_PROCID" a\\ b; do echo "<$word>"; done'))
    assert batch.log() == "<0>\n<a b>\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("false | tee x", 1),
        ("python3 -c 'exit(5)'; echo done", 5),
        ("exit 7", 7),
        ("true", 0),
    ],
)
def test_trap_128_the_status_is_that_of_what_failed(batch: Batch, line: str, code: int) -> None:
    job = batch.run(batch.spec(command=line))
    assert job["ExitCode"] == f"{code}:0", batch.log()


def test_secrets_arrive_and_stand_nowhere_in_the_script(batch: Batch) -> None:
    secret = "s3cret 'x'"
    rendered = batch.render(batch.spec(environment=Environment(variables={"HF_TOKEN": secret, "A": "b"})))
    job = batch.submit(rendered)
    assert batch.wait(job)["JobState"] == "COMPLETED", batch.log()
    assert batch.told()[0].text("HF_TOKEN") == secret
    kept = batch.testbed.command(["scontrol", "write", "batch_script", job, "-"]).stdout
    assert "HF_TOKEN" in kept
    assert "s3cret" not in kept


def test_a_secret_that_nobody_passed_on_ends_the_script(batch: Batch) -> None:
    job = batch.run(batch.spec(environment=Environment(variables={"HF_TOKEN": "x"})), environment={})
    assert job["ExitCode"] == "78:0"
    assert "HF_TOKEN is not in the environment" in batch.log()


def test_a_submitted_job_file_says_all_of_this_to_every_rank(slurm_testbed: Testbed, tmp_path: Path) -> None:
    words = [word for word in HOSTILE if word.isascii() or word.isprintable()]
    values = {f"V{number}": value for number, value in enumerate((*words, "c,d"))}
    with closing(Site(slurm_testbed, tmp_path)) as site:
        program = site.work / "dump it.py"
        program.write_text(DUMP)
        job = {
            "name": "it's $HOME",
            "command": [sys.executable, str(program), *words],
            "resources": {"nodes": 2, "ntasks_per_node": 2, "mem": "100M", "time": "10m"},
            "environment": {"variables": values},
        }
        (site.work / "job.toml").write_text(tomli_w.dumps(job))
        site.run("submit", "job.toml", "--wait")
        ranks = read_told(site.work)
    assert len(ranks) == 4
    for rank in ranks:
        assert rank.argv == [os.fsencode(word) for word in words]
        assert {name: os.fsdecode(rank.environ[name]) for name in values} == values
