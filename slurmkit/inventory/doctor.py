"""Is all well here? What slurmkit needs of a login node, looked at piece by piece."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmError, SlurmkitError
from slurmkit.spec.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from slurmkit.slurm.client import Choice
    from slurmkit.slurm.protocol import Slurm

EXTRAS = {
    "reports": ("pandas", "duckdb", "plotly"),
    "top": ("textual",),
    "rest": ("httpx2",),
    "gpu": ("pynvml",),
    "pyslurm": ("pyslurm",),
}
OF_ONE_HOST = frozenset(
    {"tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "squashfs"}
)
"""File systems that other hosts do not see, unless somebody exports them."""
VIRTUAL = re.compile(r"lo|docker\d*|br-.*|virbr\d*|veth.*|cni.*|flannel.*|tun\d*|tap\d*|dummy\d*")
SKEW = 2.0
"""Seconds; slurmctld tells its time to the second."""


class Line(NamedTuple):
    """One thing that was looked at. `verdict` is "ok", "warning", "problem" or "unreachable"."""

    what: str
    verdict: str
    text: str
    advice: str = ""


def examine(
    slurm: Slurm,
    environ: Mapping[str, str],
    directory: Path,
    *,
    controller_time: Callable[[], float | None],
    now: Callable[[], float],
    choice: Choice | None = None,
) -> Iterator[Line]:
    """Everything about this host, one line after the other; `directory` is where runs would be made."""
    yield python(environ)
    conf = environ.get("SLURM_CONF")
    if conf and not Path(conf).exists():
        # Slurm's commands would go on looking for it for a minute.
        yield Line(
            "Slurm", "unreachable", f"SLURM_CONF={conf} is not there", "unset it, or name the right file"
        )
    else:
        yield from slurm_itself(slurm, controller_time, now)
    if choice is not None:
        yield Line("client", "ok", f"{choice.client}: {choice.reason}")
    yield shared(directory)
    yield inside_a_step(environ)
    yield interfaces(environ)
    yield extras()


def slurm_itself(
    slurm: Slurm, controller_time: Callable[[], float | None], now: Callable[[], float]
) -> Iterator[Line]:
    """Slurm's commands, its controller and its accounting."""
    try:
        version = slurm.version()
    except SlurmkitError as error:
        yield Line("Slurm", "unreachable", error.what, error.hint or "")
        return
    yield Line("Slurm", "ok", what_it_can_do(version))
    try:
        config = slurm.config()
    except SlurmError as error:
        yield Line(
            "slurmctld", "unreachable", error.what, error.hint or "is it running, is SLURM_CONF right?"
        )
        return
    yield Line("slurmctld", "ok", f"{config.get('ClusterName', 'the cluster')} answers")
    yield clock(controller_time(), now())
    yield accounting(slurm, config)
    yield requeue_wait(config)


def what_it_can_do(version: tuple[int, int, int]) -> str:
    """A version, with the options of sbatch that it lacks."""
    lacking = [
        f"{option.flag_text} ({option.since[0]}.{option.since[1]:02d})"
        for option in OPTIONS
        if option.since is not None and not option.refused and not option.exists_in(version)
    ]
    text = f"{version[0]}.{version[1]:02d}.{version[2]}"
    return f"{text}, without {', '.join(lacking)}" if lacking else text


def clock(theirs: float | None, ours: float) -> Line:
    """This host's clock beside slurmctld's."""
    if theirs is None:
        return Line("clock", "warning", "slurmctld does not tell its time (sdiag is not allowed here)")
    skew = ours - theirs
    if -SKEW <= skew <= SKEW + 1:
        return Line("clock", "ok", "agrees with slurmctld's")
    side = "ahead of" if skew > 0 else "behind"
    return Line(
        "clock",
        "problem" if abs(skew) > 60 else "warning",
        f"is {abs(skew):.0f} s {side} slurmctld's",
        "have it synchronised (chrony, ntpd): times in reports and munge depend on it",
    )


def accounting(slurm: Slurm, config: Mapping[str, str]) -> Line:
    """Whether finished jobs can be asked for."""
    kind = config.get("AccountingStorageType", "")
    if kind in {"", "(null)", "accounting_storage/none"}:
        return Line(
            "accounting",
            "warning",
            "the site keeps none",
            "how a job ended is known only while slurmctld remembers it; reports need slurmdbd",
        )
    try:
        slurm.accounting(user=str(os.getuid()), steps=False)
    except SlurmError as error:
        return Line(
            "accounting", "problem", error.what, error.hint or "tell the admins: slurmdbd does not answer"
        )
    tracked = config.get("AccountingStorageTRES", "")
    if "gres/gpu" not in tracked:
        return Line(
            "accounting",
            "warning",
            "answers, but GPUs are not accounted for",
            "admins: AccountingStorageTRES=gres/gpu (and by type: gres/gpu:a100)",
        )
    return Line("accounting", "ok", "answers; GPUs are accounted for")


def requeue_wait(config: Mapping[str, str]) -> Line:
    """How long a requeued job waits before it may start."""
    found = re.search(r"cred_expire=(\d+)", config.get("AuthInfo", ""))
    seconds = int(found[1]) if found else 120
    return Line("requeue", "ok", f"a requeued job may start again after about {seconds + 1} s")


def shared(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> Line:
    """Whether compute nodes can see the run directories, as far as the file system's kind tells."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Line(
            "run directory", "problem", f"{existing} cannot be written", "submit from another directory"
        )
    kind = file_system(existing, mounts)
    if kind in OF_ONE_HOST:
        return Line(
            "run directory",
            "warning",
            f"{directory} is on {kind}, which other hosts do not see by themselves",
            "where nodes do not see it, submit from a shared directory, or set [run] directory",
        )
    return Line("run directory", "ok", f"{directory} is on {kind}")


def file_system(path: Path, mounts: Path) -> str:
    """The kind of file system that a path is on."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "an unknown file system"
    resolved = path.resolve()
    found = "an unknown file system"
    deepest = -1
    for line in lines:
        _, point, kind, *_ = [*line.split(" "), "", ""]
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), point)
        # Of two mounts on one point, the later one is seen.
        if resolved.is_relative_to(point) and len(Path(point).parts) >= deepest:
            deepest, found = len(Path(point).parts), kind
    return found


def inside_a_step(environ: Mapping[str, str]) -> Line:
    """A shell inside a job hands its limits on: pinned CPUs, a memory, a list of GPUs."""
    inherited = sorted(
        name for name in environ if name.startswith(("SLURM_CPU_BIND", "SLURM_MEM_", "SLURM_STEP_ID"))
    )
    if "SLURM_JOB_ID" not in environ and not inherited:
        return Line("shell", "ok", "is in no job")
    return Line(
        "shell",
        "warning",
        f"is inside of job {environ.get('SLURM_JOB_ID', 'unknown')}, or inherits from one: "
        f"{', '.join(inherited) or 'SLURM_JOB_ID'}",
        "slurmkit strips these from what it submits; a bare sbatch or srun from here would not",
    )


def interfaces(environ: Mapping[str, str], net: Path = Path("/sys/class/net")) -> Line:
    """Which network interfaces NCCL could use here; slurmkit itself sets none."""
    links = sorted(link.name for link in net.iterdir()) if net.is_dir() else []
    up = [name for name in links if not VIRTUAL.fullmatch(name) and _is_up(net / name)]
    text = f"interfaces for NCCL_SOCKET_IFNAME on this host: {', '.join(up) or 'none but virtual ones'}"
    chosen = environ.get("NCCL_SOCKET_IFNAME", "")
    names = [name for name in chosen.lstrip("^=").split(",") if name]
    if chosen.startswith("^") and not {"lo", "docker"} <= {name.rstrip("0") for name in names}:
        advice = "NCCL leaves out lo and docker only while the list is its own: name both, ^docker,lo"
        return Line("network", "warning", f"NCCL_SOCKET_IFNAME={chosen} lets NCCL use lo or docker", advice)
    # NCCL takes a name for the beginning of one, unless an = goes before.
    if names and not chosen.startswith("^") and not any(link.startswith(tuple(names)) for link in links):
        return Line("network", "warning", f"NCCL_SOCKET_IFNAME={chosen} is no interface of this host", text)
    advice = "set it only if NCCL picks a wrong one; to exclude, name docker and lo: ^docker,lo"
    return Line("network", "ok", text, advice if len(up) > 1 else "")


def _is_up(link: Path) -> bool:
    try:
        return (link / "operstate").read_text().strip() in {"up", "unknown"}
    except OSError:
        return False


def python(environ: Mapping[str, str]) -> Line:
    """The Python that starts ranks here, and a python3 for containers and other hosts."""
    running = ".".join(map(str, sys.version_info[:3]))
    if shutil.which("python3", path=environ.get("PATH")) is None:
        return Line("python", "warning", f"{running}; no python3 is on the PATH", "containers need their own")
    return Line("python", "ok", running)


def extras() -> Line:
    """Which optional parts are installed. None is imported: pyslurm's import may end the interpreter."""
    there = [name for name, modules in EXTRAS.items() if all(map(importlib.util.find_spec, modules))]
    missing = [name for name in EXTRAS if name not in there]
    text = f"installed: {', '.join(there) or 'none'}"
    return Line("extras", "ok", f"{text}; not installed: {', '.join(missing)}" if missing else text)
