"""From a laptop: no Slurm command there is, another name for the shared folder, a token in a variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from slurmkit.testbed import namespace
from slurmkit.testbed.options import Options
from tests.cluster.site import BINARIES, BOUND, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

WORK = "work of 'ada' $HOME é"
TOKEN = "FARAWAY_TOKEN"
MOUNT = 'mount --bind "$1" "$2" && cd "$3" && shift 3 && PATH=$EMPTY exec "$@"'
"""The shared folder under its other name, in a namespace of the command's own."""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Laptop:
    """A user far away from the cluster; what is `cluster` there is mounted here as `mnt`."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self.testbed = testbed
        self.cluster, self.mnt, empty, home = (folder / name for name in ("cluster", "mnt", "empty", "home"))
        (self.cluster / WORK).mkdir(parents=True)
        for made in (self.mnt, empty, home):
            made.mkdir()
        if not namespace.is_usable():
            self.mnt = self.cluster  # nothing can be mounted: the folder has one name
        told = testbed.command(["scontrol", "token", "lifespan=3600"]).stdout
        self.token = told.strip().removeprefix("SLURM_JWT=")
        self.home = home
        self.environment = {
            "EMPTY": str(empty),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home),
            "LANG": "C.UTF-8",
            "SECRET_OF_THE_LAPTOP": "1",
            TOKEN: self.token,
        }
        self.said: list[str] = []
        self.configure()

    def configure(self, **changes: object) -> None:
        keys: dict[str, object] = {
            "url": self.testbed.rest_url,
            "token_variable": TOKEN,
            "local_path": str(self.mnt),
            "cluster_path": str(self.cluster),
            "python": sys.executable,
            **changes,
        }
        file = self.home / "config" / "slurmkit" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None]
        file.write_text("\n".join(["[clusters.faraway]", *lines, ""]))

    def job(self, command: str, *, name: str = "tiny", more: str = "", **resources: object) -> str:
        options = {"nodes": 1, "ntasks": 1, "mem": "100M", "time": "10m", **resources}
        lines = [
            f"name = {json.dumps(name)}",
            f'command = ["bash", "-c", {json.dumps(command)}]',
            "[resources]",
        ]
        lines += [f"{option} = {json.dumps(value)}" for option, value in options.items()]
        (self.cluster / WORK / f"{name}.toml").write_text("\n".join([*lines, more, ""]))
        return f"{name}.toml"

    def run(self, *arguments: str, code: int = 0, **variables: str) -> Done:
        command = [str(BINARIES / "slurmkit"), *arguments]
        here = str(self.mnt / WORK)
        if self.mnt != self.cluster:
            words = ["sh", str(self.cluster), str(self.mnt), here, *command]
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, *words]
        done = subprocess.run(
            command,
            cwd=self.cluster / WORK,
            env=self.environment | {"PATH": os.environ["PATH"]} | variables,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        self.said += [done.stdout, done.stderr]
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def submit(self, job: str, *more: str) -> str:
        return self.run("submit", "--cluster", "faraway", job, *more).out.strip()


@pytest.fixture(scope="module")
def testbed(make_testbed: Callable[[Options], Testbed]) -> Testbed:
    return make_testbed(Options(nodes=2, gpus="", rest=True))


@pytest.fixture
def laptop(testbed: Testbed, tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(testbed, tmp_path)
    yield made
    testbed.command(["scancel", "--user=root"])


def test_there_is_no_command_of_slurms_on_the_laptop(laptop: Laptop) -> None:
    said = laptop.run("submit", laptop.job("true"), code=2).err
    assert "Slurm's command sbatch is not on the PATH" in said


@pytest.mark.parametrize("template", ["managed", "plain"])
def test_a_job_is_submitted_waited_for_and_read(laptop: Laptop, template: str) -> None:
    job = laptop.job('echo "rank $RANK in $PWD of ${SECRET_OF_THE_LAPTOP-nobody} $HOME"', nodes=2, ntasks=2)
    run = laptop.submit(job, "--template", template)
    assert laptop.run("status", run, "--json").json[0]["state"] in {"pending", "running", "completed"}
    (row,) = laptop.run("wait", run, "--json").json
    assert (row["state"], row["exit_code"], len(row["nodes"])) == ("completed", 0, 2)
    out = laptop.run("logs", run, "--rank", "all").out
    for rank in range(2):
        assert f"rank {rank} in {laptop.cluster / WORK} of nobody /root" in out
    assert laptop.run("show", "last", "--json").json["state"] == "completed"
    assert row["directory"] == str(laptop.mnt / WORK / "runs" / run)


def test_the_exit_code_of_a_job_that_failed_is_passed_on(laptop: Laptop) -> None:
    job = laptop.job("echo the reason >&2; exit 7")
    laptop.run("submit", "--cluster", "faraway", job, "--wait", code=7)
    story = laptop.run("show", "last", "--json").json
    assert (story["state"], story["exit_code"]) == ("failed", 7)
    assert story["first_failure"]["stderr_tail"] == ["the reason"]


def test_a_run_is_cancelled(laptop: Laptop) -> None:
    run = laptop.submit(laptop.job("sleep 600"))
    until(lambda: laptop.run("status", run, "--json").json[0]["state"] == "running", "the run is running")
    assert laptop.run("cancel", run, "--json").json[0]["cancelled"] is True
    (row,) = laptop.run("wait", run, "--json", code=1).json
    assert row["state"] == "cancelled"


def test_a_run_goes_on_after_a_failure_and_is_resumed_from_the_laptop(laptop: Laptop) -> None:
    more = '[retry]\nwithout_progress = 1\nrestarts = 1\n[checkpoint]\npath = "checkpoints"'
    run = laptop.submit(laptop.job("[[ -e ready ]] || exit 3", more=more))
    laptop.run("wait", run, code=1)
    (laptop.cluster / WORK / "ready").touch()
    laptop.run("resume", run)
    (row,) = laptop.run("wait", run, "--json").json
    assert row["state"] == "completed"


def test_a_log_that_the_job_file_names_is_found_by_its_other_name(laptop: Laptop) -> None:
    run = laptop.submit(laptop.job("echo here", output="logs of mine/%j.txt"), "--template", "plain")
    laptop.run("wait", run)
    assert laptop.run("logs", run).out == "here\n"


def test_what_would_be_sent_is_shown(laptop: Laptop) -> None:
    done = laptop.run("submit", "--cluster", "faraway", laptop.job("true"), "--dry-run")
    assert f"would be sent to {laptop.testbed.rest_url}, to start in {laptop.cluster / WORK}" in done.err
    assert str(laptop.mnt) not in done.out or laptop.mnt == laptop.cluster
    assert not (laptop.cluster / WORK / "runs").exists()


def test_with_client_rest_every_command_means_the_cluster(laptop: Laptop) -> None:
    file = laptop.home / "config" / "slurmkit" / "config.toml"
    file.write_text('[slurm]\nclient = "rest"\n' + file.read_text())
    run = laptop.run("submit", laptop.job("true")).out.strip()
    laptop.run("wait", run)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"local_path": None}, "where its file system is mounted here is not known"),
        ({"local_path": "/elsewhere"}, "cluster 'faraway' does not see this folder"),
        ({"python": None}, "which Python there has slurmkit is not known"),
        ({"url": None}, "cluster 'faraway' has no url"),
        ({"url": "http://far.example:6820"}, "over http the token could be read on its way"),
        ({"token_variable": "NOT_SET"}, "$NOT_SET holds no token"),
        ({"token_variable": None}, "there is no token: $SLURM_JWT is not set, and there is no scontrol"),
    ],
)
def test_what_the_configuration_lacks_is_said_before_anything_is_sent(
    laptop: Laptop, changes: dict[str, object], words: str
) -> None:
    laptop.configure(**changes)
    said = laptop.run("submit", "--cluster", "faraway", laptop.job("true"), code=2).err
    assert words in said
    assert "Traceback" not in said


def test_a_cluster_that_is_not_configured_is_said_with_those_that_are(laptop: Laptop) -> None:
    said = laptop.run("submit", "--cluster", "far", laptop.job("true"), code=2).err
    assert "there is no cluster 'far' in the configuration" in said
    assert "known: faraway" in said


@pytest.mark.parametrize(
    ("value", "words"), [("junk", "this is no JSON Web Token"), ("e30.e30.junk", "does not accept the token")]
)
def test_a_wrong_token_is_said_and_not_shown(laptop: Laptop, value: str, words: str) -> None:
    said = laptop.run("submit", "--cluster", "faraway", laptop.job("true"), code=3, **{TOKEN: value}).err
    assert words in said
    assert value not in said.replace("Token", "")
    assert laptop.run("status", "last", "--json").json[0]["state"] == "not-submitted"


class Watcher(threading.Thread):
    """Looks at the command lines of all processes, as anybody on the machine can."""

    def __init__(self, token: str) -> None:
        super().__init__(daemon=True)
        self.token = token.encode()
        self.seen: list[bytes] = []
        self.looks = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = process.read_bytes()
                except OSError:
                    continue
                if self.token in line:
                    self.seen.append(line)
            self.looks += 1
            time.sleep(0.01)


def test_the_token_is_nowhere_but_in_its_variable(laptop: Laptop, testbed: Testbed, tmp_path: Path) -> None:
    """Whole lives of runs, well and ill; then every file, line and listing is searched for the token."""
    watcher = Watcher(laptop.token)
    watcher.start()
    run = laptop.submit(laptop.job("env > environment; sleep 1", more="[retry]\nrestarts = 1"))
    laptop.run("status", run)
    laptop.run("wait", run)
    laptop.run("logs", run, "--rank", "all")
    laptop.run("show", run)
    laptop.run("submit", "--cluster", "faraway", laptop.job("true"), "--dry-run")
    laptop.run("submit", "--cluster", "faraway", laptop.job("true", partition="nix"), code=3)
    laptop.configure(url="http://127.0.0.1:9")
    laptop.run("submit", "--cluster", "faraway", laptop.job("true"), code=3)
    laptop.configure(url="https" + testbed.rest_url.removeprefix("http"))
    laptop.run("submit", "--cluster", "faraway", laptop.job("true"), code=3)
    watcher.ended.set()
    watcher.join()
    job = laptop.run("status", run, "--json").json[0]["job_id"]
    listings = [
        testbed.command(argv).stdout
        for argv in (
            ["scontrol", "show", "job", "--details", job],
            ["scontrol", "write", "batch_script", job, "-"],
            ["sacct", "--jobs", job, "--parsable2", "--format=ALL"],
            ["sacct", "--jobs", job, "--batch-script"],
        )
    ]
    assert watcher.looks > 10
    assert watcher.seen == []
    assert not [text for text in (*laptop.said, *listings) if laptop.token in text]
    assert holding(laptop.token, tmp_path, testbed.root / "log", testbed.root / "spool") == []
    assert "PATH=" in (laptop.cluster / WORK / "environment").read_text()


def holding(token: str, *folders: Path) -> list[str]:
    """The files that hold the token."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in files if token.encode() in path.read_bytes()]
