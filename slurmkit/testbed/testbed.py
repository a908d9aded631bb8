"""A testbed as its users hold it: where it is, how to talk to it, and its daemons one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmkit.errors import Unreachable, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.testbed import warden
from slurmkit.testbed.layout import STATE_FILE, Layout
from slurmkit.testbed.options import Options
from slurmkit.testbed.plan import plan
from slurmkit.testbed.requirements import find_programs, search_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.testbed.daemons import Daemon

SERVING = 60.0


@dataclass(frozen=True, slots=True)
class Testbed:
    """One testbed. Its daemons are named "munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd-n1" ...

    `cgroup` tells whether jobs are held in cgroups, `named` whether node names resolve inside jobs,
    `elsewhere` whether this is one container of many: the daemons, without pids here, run in the others.
    """

    __test__ = False  # pytest: not a class of tests

    root: Path
    layout: Layout
    options: Options
    cluster: str
    ports: Mapping[str, int]
    cgroup: bool
    named: bool
    elsewhere: bool = False

    @property
    def conf(self) -> Path:
        """The testbed's slurm.conf."""
        return self.layout.conf

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Slurm's commands to this testbed."""
        return {"SLURM_CONF": str(self.conf)}

    @property
    def rest_url(self) -> str:
        """Where slurmrestd listens on the loopback address; `layout.rest_socket` is its other door."""
        return f"http://127.0.0.1:{self.ports['slurmrestd']}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names in order."""
        return self.options.node_names()

    def daemons(self) -> dict[str, Daemon]:
        """The daemons by name, in the order in which they are started."""
        if self.elsewhere:
            return {}
        return plan(self, find_programs(accounting=self.options.accounting, rest=self.options.rest))

    def daemon(self, name: str) -> Daemon:
        """One daemon by its name."""
        daemons = self.daemons()
        if name not in daemons:
            raise UsageError(f"the testbed has no daemon {name!r}", hint=", ".join(daemons))
        return daemons[name]

    def running(self) -> list[str]:
        """The daemons that run."""
        return [name for name, daemon in self.daemons().items() if daemon.process()]

    def missing(self) -> list[str]:
        """The daemons that do not run."""
        return [name for name, daemon in self.daemons().items() if not daemon.process()]

    def pid(self, name: str) -> int | None:
        """The daemon's pid while it runs."""
        process = self.daemon(name).process()
        return process.pid if process else None

    def start(self, name: str) -> None:
        """Start the daemon unless it runs, and wait until it listens."""
        if self.elsewhere:
            warden.ask(self.root, name, "start")
            return
        daemon = self.daemon(name)
        daemon.start()
        daemon.wait_until_serving(SERVING)

    def stop(self, name: str) -> None:
        """End the daemon in its orderly way and wait until it has ended."""
        if self.elsewhere:
            warden.ask(self.root, name, "stop")
            return
        self.daemon(name).stop()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to the daemon; after SIGKILL, wait until it is gone."""
        if self.elsewhere:
            warden.ask(self.root, name, str(int(number)))
            return
        process = self.daemon(name).process()
        if process and process.kill(number) and number == signal.SIGKILL:
            process.wait(SERVING)

    def command(self, argv: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command against this testbed and return what it printed, whatever its exit code.

        Raises:
            Unreachable: it has not ended after `timeout` seconds.
        """
        try:
            return subprocess.run(
                list(argv),
                env={**clean_environment(), "PATH": search_path(), **self.environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"{argv[0]} has not ended after {timeout:.0f} s") from error

    def save(self) -> None:
        """Write down what `load` reads."""
        state = {
            "base": str(self.layout.base),
            "options": self.options.as_json(),
            "cluster": self.cluster,
            "ports": dict(self.ports),
            "cgroup": self.cgroup,
            "named": self.named,
            "elsewhere": self.elsewhere,
        }
        write_atomically(self.root / STATE_FILE, json.dumps(state, indent=1).encode())


def load(root: Path) -> Testbed | None:
    """The testbed whose root this is, up or down; None if there is none."""
    try:
        state: dict[str, Any] = json.loads((root / STATE_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Testbed(
        root=root,
        layout=Layout(Path(state["base"])),
        options=Options.from_json(state["options"]),
        cluster=state["cluster"],
        ports=state["ports"],
        cgroup=state["cgroup"],
        named=state.get("named", False),
        elsewhere=state.get("elsewhere", False),
    )


def clean_environment() -> dict[str, str]:
    """This process's environment without what another Slurm, or a job of one, has set."""
    foreign = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SACCT_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
