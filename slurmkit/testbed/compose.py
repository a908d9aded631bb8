"""A testbed of containers: docker/compose.yaml of a checkout, with the nodes that are asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.errors import MissingRequirement, SlurmError, Unreachable, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.layout import cluster_name
from slurmkit.testbed.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}
"""Debian's suites by the Slurm that they have."""
DEFAULT_SLURM = "24.11"
STATE_FILE = "compose.json"
NODES_FILE = "nodes.json"
SERVICES = ("mariadb", "slurmdbd", "slurmctld", "slurmrestd", "login")
DEFAULT_NODES = ("c1", "c2", "c3", "c4")
"""The nodes that compose.yaml itself has."""
PATIENCE = 1800.0
"""For a build and all that it downloads."""


@dataclass(frozen=True, slots=True)
class ComposeTestbed:
    """A testbed of containers. Its daemons are services: "slurmctld", "mariadb" ..., and the nodes."""

    __test__ = False  # pytest: not a class of tests

    root: Path
    options: Options
    slurm: str
    folder: Path
    """The docker/ folder that it is made of."""
    target: str = "slurm"
    """The stage of the Dockerfile; "tests" also has what tests import."""
    mounts: tuple[str, ...] = ()
    """More volumes for the nodes and for login, as compose writes them."""

    @property
    def cluster(self) -> str:
        """The cluster's name, which is the project's too."""
        return cluster_name(self.root)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names in order."""
        return self.options.node_names()

    @property
    def services(self) -> tuple[str, ...]:
        """All services, those of the nodes last."""
        return (*SERVICES, *self.nodes)

    def compose(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run `docker compose` on this testbed's project, whatever its exit code.

        Raises:
            Unreachable: it has not ended after `timeout` seconds.
        """
        return _call(self.compose_argv(*words), environment=self.variables(), timeout=timeout)

    def compose_argv(self, *words: str) -> list[str]:
        """The command line of `docker compose` for this project."""
        files = (self.folder / "compose.yaml", self.root / NODES_FILE)
        named = [word for file in files for word in ("--file", str(file))]
        return [docker(), "compose", "--project-name", self.cluster, *named, *words]

    def variables(self) -> dict[str, str]:
        """What compose.yaml takes from the environment."""
        tests = "-tests" if self.target == "tests" else ""
        return {
            **os.environ,
            "SLURMKIT_SUITE": SUITES[self.slurm],
            "SLURMKIT_IMAGE": f"slurmkit-testbed{tests}",
            "SLURMKIT_TARGET": self.target,
            "SLURMKIT_TESTBED_SHAPE": json.dumps(self.options.as_json()),
        }

    def exec_argv(self, argv: Sequence[str], *, user: str = "root", terminal: bool = False) -> list[str]:
        """The command line that runs a command on the login node."""
        folder = "/shared" if user == "root" else f"/shared/home/{user}"
        options = [*([] if terminal else ["-T"]), "--user", user, "--workdir", folder]
        return self.compose_argv("exec", *options, "login", *argv)

    def command(
        self, argv: Sequence[str], *, timeout: float = 60, user: str = "root"
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node and return what it printed, whatever its exit code."""
        return _call(self.exec_argv(argv, user=user), environment=self.variables(), timeout=timeout)

    def running(self) -> list[str]:
        """The services that run; one that is paused does not."""
        done = self.compose("ps", "--services", "--filter", "status=running")
        return [name for name in self.services if name in done.stdout.split()]

    def missing(self) -> list[str]:
        """The services that do not run."""
        running = self.running()
        return [name for name in self.services if name not in running]

    def start(self, name: str) -> None:
        """Start the service again and wait until it is ready."""
        self._do("up", "--detach", "--wait", "--no-recreate", "--no-deps", self._known(name))

    def stop(self, name: str) -> None:
        """End the service in its orderly way."""
        self._do("stop", self._known(name))

    def kill(self, name: str) -> None:
        """End all processes of the service at once."""
        self._do("kill", self._known(name))

    def pause(self, name: str) -> None:
        """Halt the service where it stands: its connections stay, and nothing answers."""
        self._do("pause", self._known(name))

    def unpause(self, name: str) -> None:
        """Let a service go on that was paused."""
        self._do("unpause", self._known(name))

    def disconnect(self, *names: str) -> None:
        """Take services off the cluster's network; their names do not resolve then."""
        for name in names:
            self._engine("network", "disconnect", f"{self.cluster}_cluster", self._container(name))

    def connect(self, *names: str) -> None:
        """Put services back on the cluster's network, under their names.

        They may have other addresses then, which slurmctld is told to look up.
        """
        network = f"{self.cluster}_cluster"
        for name in names:
            self._engine("network", "connect", "--alias", name, network, self._container(name))
        # A slurmctld that is at nodes that were away is slow to answer.
        if not wait_for(lambda: self.command(["scontrol", "reconfigure"]).returncode == 0, 120, 1):
            raise SlurmError("slurmctld does not take its nodes' addresses anew (scontrol reconfigure)")

    def save(self) -> None:
        """Write down what `load` reads, and the nodes for compose."""
        self.root.mkdir(parents=True, exist_ok=True)
        state = {
            "options": self.options.as_json(),
            "slurm": self.slurm,
            "folder": str(self.folder),
            "target": self.target,
            "mounts": list(self.mounts),
        }
        nodes = json.dumps(override(self), indent=1)
        write_atomically(self.root / NODES_FILE, nodes.encode())
        write_atomically(self.root / STATE_FILE, json.dumps(state, indent=1).encode())

    def _known(self, name: str) -> str:
        if name not in self.services:
            raise UsageError(f"the testbed has no service {name!r}", hint=", ".join(self.services))
        return name

    def _container(self, name: str) -> str:
        return self.compose("ps", "--all", "--quiet", self._known(name)).stdout.strip()

    def _do(self, *words: str) -> None:
        _insist(self.compose(*words), f"docker compose {words[0]} {words[-1]}")

    def _engine(self, *words: str) -> None:
        _insist(_call([docker(), *words], environment=os.environ, timeout=60), f"docker {' '.join(words)}")


def override(testbed: ComposeTestbed) -> dict[str, Any]:
    """The second file of the project: the nodes that are wanted, and none of compose.yaml's that is not."""
    base = str(testbed.folder / "compose.yaml")
    more = {"volumes": list(testbed.mounts)} if testbed.mounts else {}
    nodes = {
        node: {
            **({} if node in DEFAULT_NODES else {"extends": {"file": base, "service": DEFAULT_NODES[0]}}),
            "hostname": node,
            **more,
        }
        for node in testbed.nodes
    }
    absent = {node: {"profiles": ["absent"]} for node in DEFAULT_NODES if node not in nodes}
    return {"services": {**nodes, **absent, **({"login": more} if more else {})}}


def up(
    options: Options,
    root: Path,
    *,
    slurm: str = DEFAULT_SLURM,
    target: str = "slurm",
    mounts: tuple[str, ...] = (),
) -> ComposeTestbed:
    """Build the image where the tree has changed, start all containers, and wait until each is healthy.

    Raises:
        UsageError: there is one with other options, or the version of Slurm is none that Debian has.
        MissingRequirement: there is no docker, or no checkout.
        SlurmError: it does not come up; the message ends with what compose said.
    """
    if slurm not in SUITES:
        raise UsageError(f"there is no image with Slurm {slurm!r}", hint=", ".join(SUITES))
    if not options.accounting:
        raise UsageError("a testbed of containers always has accounting")
    wanted = ComposeTestbed(root, options, slurm, docker_folder(), target, mounts)
    there = load(root)
    if there is None and root.exists() and any(root.iterdir()):
        raise UsageError("this directory is not empty, and not a testbed of containers", where=str(root))
    if there is not None and there != wanted:
        differences = [*([f"Slurm {slurm}, not {there.slurm}"] if slurm != there.slurm else [])]
        differences += options.differences(there.options)
        raise UsageError(
            f"a testbed with other options is there: {'; '.join(differences) or 'its image'}",
            where=str(root),
            hint="take it down first (slurmkit testbed down), or choose another name",
        )
    wanted.save()
    done = wanted.compose("up", "--build", "--detach", "--wait", timeout=PATIENCE)
    if done.returncode:
        log = wanted.compose("logs", "--no-color", "--tail=8").stdout
        raise SlurmError(f"the containers do not come up:\n{done.stderr[-3000:]}\n{log[-4000:]}")
    return wanted


def down(root: Path) -> bool:
    """Remove the containers, their volumes and network, and the testbed's files; False if there was none."""
    testbed = load(root)
    if testbed is None:
        return False
    _insist(
        testbed.compose("--profile=absent", "down", "--volumes", "--timeout=5", timeout=300), "compose down"
    )
    shutil.rmtree(root)
    return True


def load(root: Path) -> ComposeTestbed | None:
    """The testbed of containers whose root this is, up or down; None if there is none."""
    try:
        state: dict[str, Any] = json.loads((root / STATE_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ComposeTestbed(
        root=root,
        options=Options.from_json(state["options"]),
        slurm=state["slurm"],
        folder=Path(state["folder"]),
        target=state["target"],
        mounts=tuple(state["mounts"]),
    )


def docker_folder() -> Path:
    """The docker/ folder of the checkout that slurmkit runs from, or of the one in the working directory.

    Raises:
        MissingRequirement: neither is one.
    """
    for checkout in (Path(__file__).parents[2], Path.cwd()):
        if (checkout / "docker" / "compose.yaml").is_file():
            return checkout / "docker"
    raise MissingRequirement(
        "a testbed of containers is built from a checkout of slurmkit, and this is none",
        where=str(Path.cwd()),
        hint="run it in a clone of slurmkit's repository",
    )


def docker() -> str:
    """The docker command.

    Raises:
        MissingRequirement: there is none.
    """
    found = shutil.which("docker")
    if found is None:
        raise MissingRequirement(
            "a testbed of containers needs docker, with its compose plugin",
            hint="apt-get install docker.io docker-compose, or Docker's own packages",
        )
    return found


def _call(
    argv: Sequence[str], *, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"{' '.join(argv[:2])} has not ended after {timeout:.0f} s") from error


def _insist(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode:
        raise SlurmError(f"{what}: {done.stderr.strip() or done.stdout.strip()}")
