"""Is this node fit? `python3 -I -S launch.pyz fitness`, once on each node before the first rank starts.

What to look at stands in SLURMKIT_FITNESS as JSON; what was found is written as a file of the node's name.
All run at the same time, and none longer than it may. A problem makes the node unfit, a warning does not.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

from slurmkit.launch.devices import VISIBLE_DEVICES
from slurmkit.launch.files import write_atomically
from slurmkit.launch.meeting import answer, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WRITTEN = 16 << 20
CHUNK = 1 << 20
WRITING = 2.0
SLOW_DISK = 10e6
LITTLE_SPACE = 1 << 30
SKEW_WARNED, SKEW_UNFIT = 1.0, 60.0
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140})
"""Xid errors after which a GPU needs a reset or a repair (NVIDIA, "XID Errors", r570)."""
QUERY = "index,ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active"
THROTTLED = {
    0x08: "slowed down by the hardware",
    0x20: "slowed down for its temperature",
    0x40: "slowed down by the hardware for its temperature",
    0x80: "slowed down by the power supply",
}
"""Bits of clocks_throttle_reasons.active that tell of a fault (NVML, nvmlClocksThrottleReasons)."""


class Found:
    """What the checks of a node have found so far."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.facts: dict[str, Any] = {}


def main(argv: list[str]) -> None:  # noqa: ARG001 - what all programs of the archive are given
    """Check this node and write down what was found."""
    wanted = json.loads(os.environ["SLURMKIT_FITNESS"])
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    began = time.time()
    found = run(checks(wanted, node), wanted["within"])
    record = {
        "node": node,
        "problems": found.problems,
        "warnings": found.warnings,
        "facts": found.facts,
        "topology": os.environ.get("SLURM_TOPOLOGY_ADDR"),
        "time": began,
        "seconds": round(time.time() - began, 3),
    }
    write_atomically(os.path.join(wanted["output"], f"{node}.json"), json.dumps(record).encode() + b"\n")
    sys.stdout.flush()
    os._exit(0)  # a check that hangs in the kernel must not keep the node from answering


def checks(wanted: dict[str, Any], node: str) -> dict[str, Callable[[Found], None]]:
    """The checks to make, each with the name under which its silence is told."""
    made: dict[str, Callable[[Found], None]] = {
        "the GPUs": partial(gpus, expected=wanted.get("gpus"), environ=dict(os.environ)),
        "the kernel's log": xid_errors,
        "the memory": partial(memory, asked=wanted.get("memory")),
    }
    for what, path in wanted.get("directories", {}).items():
        made[f"{what} {path}"] = partial(directory, what=what, path=path)
    if wanted.get("meeting"):
        made[f"{wanted['first']} at {wanted['meeting']}"] = partial(meeting, wanted=wanted, node=node)
    for program in wanted.get("programs", ()):
        made[program] = partial(site, command=program, within=wanted["within"] * 0.9)
    return made


def run(made: dict[str, Callable[[Found], None]], within: float) -> Found:
    """Make all checks at the same time; one that does not end within so many seconds is a problem."""
    deadline = time.monotonic() + within
    results = {name: Found() for name in made}
    running = {
        name: threading.Thread(target=_guarded, args=(check, results[name]), daemon=True)
        for name, check in made.items()
    }
    for thread in running.values():
        thread.start()
    whole = Found()
    for name, thread in running.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            whole.problems.append(f"{name} did not answer within {within:g} s")
            continue
        whole.problems += results[name].problems
        whole.warnings += results[name].warnings
        whole.facts.update(results[name].facts)
    return whole


def gpus(found: Found, expected: int | None, environ: dict[str, str]) -> None:
    """As many as were asked for, and none that reports a fault."""
    count = visible(environ)
    found.facts["gpus"] = count
    if expected and count is not None and count < expected:
        found.problems.append(f"{count} of {expected} GPUs are visible")
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return
    done = subprocess.run(
        [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode:
        if expected:
            found.problems.append(f"nvidia-smi fails: {lines[-1] if lines else done.returncode}")
        return
    found.facts["nvidia_smi"] = len(lines)
    if expected and len(lines) < expected:
        found.problems.append(f"nvidia-smi sees {len(lines)} of {expected} GPUs")
    for line in lines:
        gpu(found, [word.strip() for word in line.split(",")])


def visible(environ: dict[str, str]) -> int | None:
    """How many GPUs Slurm lets this step see; None where nothing tells."""
    for name in VISIBLE_DEVICES:
        text = environ.get(name)
        if text is not None:
            devices = [word for word in text.split(",") if word.strip()]
            return 0 if devices == ["NoDevFiles"] else len(devices)
    return None


def gpu(found: Found, fields: list[str]) -> None:
    """One line of nvidia-smi's answer to `QUERY`."""
    index, errors, reasons = [*fields, "", "", ""][:3]
    if errors.isdigit() and int(errors):
        found.problems.append(f"GPU {index} has had {errors} uncorrectable memory errors since it was reset")
    try:
        bits = int(reasons, 16)
    except ValueError:
        return  # "[N/A]", where the GPU or the driver does not say
    found.warnings += [f"GPU {index} is {why}" for bit, why in THROTTLED.items() if bits & bit]


def xid_errors(found: Found, path: str = "/dev/kmsg") -> None:
    """GPU errors that the kernel logged within the last hour, where its log may be read."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    seen: dict[str, int] = {}
    try:
        for entry in _entries(log):
            number, device = xid(entry, time.clock_gettime(time.CLOCK_MONOTONIC))
            if number is not None:
                seen[f"Xid {number} of GPU {device} in the last hour"] = number
    finally:
        os.close(log)
    for text, number in seen.items():
        (found.problems if number in FATAL_XIDS else found.warnings).append(text)


def _entries(log: int) -> list[str]:
    entries: list[str] = []
    while True:
        try:
            data = os.read(log, 8192)
        except BlockingIOError:
            return entries
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten while it was read: the next read goes on
                continue
            return entries
        if not data:
            return entries
        entries += data.decode("utf-8", "replace").splitlines()


def xid(entry: str, now: float) -> tuple[int | None, str]:
    """Number and device of a GPU error in one entry of /dev/kmsg, if it is one of the last hour."""
    head, _, text = entry.partition(";")
    if "NVRM: Xid (" not in text:
        return None, ""
    stamp = [*head.split(","), "", "", ""][2]
    device, _, rest = text.partition("NVRM: Xid (")[2].partition("):")
    number = rest.strip().partition(",")[0]
    if not (stamp.isdigit() and number.isdigit()) or now - int(stamp) / 1e6 > 3600:
        return None, ""
    return int(number), device.replace("PCI:", "")


def memory(found: Found, asked: int | None, path: str = "/proc/meminfo") -> None:
    """As much as was asked for, in MiB: the node has it, and nothing outside of Slurm holds it."""
    sizes: dict[str, int] = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, size = line.partition(":")
                sizes[name] = int(size.split()[0]) // 1024
    except (OSError, ValueError, IndexError):
        return
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    found.facts["memory"] = {"total": total, "available": free}
    if not asked or total is None or free is None:
        return
    if total < asked:
        found.problems.append(f"the node has {total} MiB of memory, {asked} were asked for")
    elif free < asked:
        found.warnings.append(
            f"{free} MiB of memory are free, {asked} were asked for: something else uses it"
        )


def directory(found: Found, what: str, path: str) -> None:
    """It, or what it will be made in, has room and can be written, at a speed worth having."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        status = os.statvfs(path)
        found.facts[what] = {"free": status.f_bavail * status.f_frsize}
        speed = writing_speed(path)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        found.problems.append(f"{what} {path}: {'no space is left' if full else error.strerror}")
        return
    found.facts[what]["bytes_per_second"] = round(speed)
    if found.facts[what]["free"] < LITTLE_SPACE:
        found.warnings.append(f"{what} {path}: {found.facts[what]['free'] >> 20} MiB are free")
    if speed < SLOW_DISK:
        found.warnings.append(f"{what} {path}: writes {speed / 1e6:.1f} MB/s")


def writing_speed(path: str) -> float:
    """Bytes a second that reach the disk under this directory; nothing stays there.

    Raises:
        OSError: it cannot be written.
    """
    chunk = os.urandom(CHUNK)
    with tempfile.TemporaryFile(prefix=".slurmkit-", dir=path) as file:
        began = time.monotonic()
        written = 0
        while written < WRITTEN and time.monotonic() - began < WRITING:
            written += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return written / max(time.monotonic() - began, 1e-6)


def meeting(found: Found, wanted: dict[str, Any], node: str) -> None:
    """The first node can be reached at the rendezvous port, and its clock is this one's."""
    host, _, port = wanted["meeting"].rpartition(":")
    within = wanted["within"] * 0.9  # the reason is to be told before the node itself counts as silent
    if node == wanted["first"]:
        try:
            answer(int(port), wanted["others"], within)
        except OSError as error:
            found.problems.append(f"port {port} cannot be listened at: {error.strerror}")
        return
    try:
        skew, uncertain = reach(host.strip("[]"), int(port), within)
    except OSError as error:
        found.problems.append(f"{wanted['first']} cannot be reached at {wanted['meeting']}: {error}")
        return
    found.facts["skew"] = round(skew, 6)
    text = f"the clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} that of {wanted['first']}"
    if abs(skew) - uncertain > SKEW_UNFIT:
        found.problems.append(text)
    elif abs(skew) - uncertain > SKEW_WARNED:
        found.warnings.append(text)


def site(found: Found, command: str, within: float) -> None:
    """A check of the site's own: exit code 0 says that the node is fit."""
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found.problems.append(f"{command} did not answer within {within:g} s")
        return
    except (OSError, ValueError) as error:
        found.problems.append(f"{command} cannot be run: {error}")
        return
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        why = f": {lines[-1]}" if lines else ""
        found.problems.append(f"{command} says no (exit code {done.returncode}){why}")


def _guarded(check: Callable[[Found], None], found: Found) -> None:
    try:
        check(found)
    except Exception as error:  # noqa: BLE001 - a check that fails by itself is told, and says nothing of the node
        found.warnings.append(f"a check failed by itself: {type(error).__name__}: {error}")
