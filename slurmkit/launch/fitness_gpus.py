"""The GPUs of this node: are they as many as were asked for, and what does the driver say of them."""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.launch.devices import visible
from slurmkit.launch.fitness_found import Found, in_seconds
from slurmkit.launch.fitness_programs import last_line, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


FIELDS = (
    "index,uuid,pci.bus_id,ecc.errors.uncorrected.volatile.total,remapped_rows.failure,"
    "clocks_throttle_reasons.active"
)
FEWER_FIELDS = "index,uuid,pci.bus_id"
"""For drivers that lack one of the others."""

THROTTLES = {
    0x8: "a slowdown by hardware",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "the power supply",
}
"""Reasons of a low clock that speak of the machine, not of the load. Source: nvml.h."""

FATAL_XIDS = frozenset({48, 64, 79, 95, 119, 120})
"""After these the GPU needs a reset or a new board. Source: NVIDIA's list of Xid errors."""
PROGRAMS_XIDS = frozenset({13, 31, 43, 45, 68, 69})
"""These a program brings about by itself."""
LAST_HOUR = 3600.0
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)")


class Gpu(NamedTuple):
    """What nvidia-smi says of one GPU; None where it does not know."""

    number: str
    uuid: str
    bus: str
    uncorrected: int | None = None
    remap_failed: bool = False
    throttled: int = 0


def check_gpus(expected: int | None, environ: Mapping[str, str], within: float) -> Found:
    """The number of GPUs, their memory errors, what the kernel noted of them in the last hour, throttling."""
    if not expected:
        return Found()
    given = visible(environ)
    if given is None:
        given = len([word for word in environ.get("SLURM_STEP_GPUS", "").split(",") if word])
    facts: dict[str, Any] = {"gpus": {"expected": expected, "given": given}}
    if given < expected:
        return Found([too_few(given, "given by Slurm", expected)], facts=facts)
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        facts["gpus"]["seen"] = "no nvidia-smi here to ask"
        return Found(facts=facts)
    try:
        gpus = ask(program, environ, within)
    except (OSError, ValueError) as error:
        return Found(["nvidia-smi: %s" % (getattr(error, "strerror", None) or error)], facts=facts)
    facts["gpus"].update(seen=len(gpus), uuids=[one.uuid for one in gpus])
    if len(gpus) < expected:
        return Found([too_few(len(gpus), "seen by nvidia-smi", expected)], facts=facts)
    problems, warnings = judge(gpus)
    more = judge_xids(recent_xids(kernel_log(), time.clock_gettime(time.CLOCK_BOOTTIME)), gpus)
    return Found(problems + more[0], warnings + more[1], facts)


def too_few(count: int, how: str, expected: int) -> str:
    """A number of GPUs beside the one asked for, in words."""
    counted = {0: "no GPU is", 1: "1 GPU is"}.get(count, "%d GPUs are" % count)
    return "%s %s, %d %s asked for" % (counted, how, expected, "was" if expected == 1 else "were")


def ask(program: str, environ: Mapping[str, str], within: float) -> list[Gpu]:
    """What nvidia-smi says of the GPUs that it sees.

    Raises:
        ValueError: it fails, or does not answer in time.
    """
    until = time.monotonic() + within
    text = ""
    for fields in (FIELDS, FEWER_FIELDS):
        argv = [program, "--query-gpu=" + fields, "--format=csv,noheader,nounits"]
        ran = run(argv, environ, max(0.1, until - time.monotonic()))
        if ran.code is None:
            raise ValueError("did not answer within %s" % in_seconds(within))
        if ran.code == 0:
            return parse(ran.text)
        text = ran.text
        if "not a valid field" not in text:
            break
    raise ValueError(last_line(text) or "exit code %s" % ran.code)


def parse(text: str) -> list[Gpu]:
    """The lines of nvidia-smi's CSV; lines of another kind are left out."""
    gpus = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) < 3 or not words[0].isdigit():
            continue
        number, uuid, bus, count, failed, reasons = [*words, "", "", ""][:6]
        gpus.append(
            Gpu(
                number,
                uuid,
                bus,
                uncorrected=int(count) if count.isdigit() else None,
                remap_failed=failed.lower() in {"yes", "1"},
                throttled=int(reasons, 16) if re.fullmatch("0x[0-9a-fA-F]+", reasons) else 0,
            )
        )
    return gpus


def judge(gpus: Iterable[Gpu]) -> tuple[list[str], list[str]]:
    """What of the GPUs makes the node unfit, and what is odd."""
    problems: list[str] = []
    warnings: list[str] = []
    for one in gpus:
        if one.uncorrected:
            errors = "error" if one.uncorrected == 1 else "errors"
            problems.append(
                "GPU %s has had %d uncorrected memory %s since its last reset"
                % (one.number, one.uncorrected, errors)
            )
        if one.remap_failed:
            problems.append("GPU %s could not replace broken rows of its memory" % one.number)
        reasons = [text for bit, text in THROTTLES.items() if one.throttled & bit]
        if reasons:
            warnings.append("GPU %s is throttled by %s" % (one.number, " and ".join(reasons)))
    return problems, warnings


def kernel_log(path: str = "/dev/kmsg") -> list[str]:
    """The records of the kernel's log, where this user may read it."""
    records = []
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        while True:
            try:
                record = os.read(log, 8192)
            except BrokenPipeError:
                continue  # the oldest was overwritten just now
            if not record:
                break
            records.append(record.decode("utf-8", "replace"))
    except OSError:
        pass  # no more for the moment
    finally:
        os.close(log)
    return records


def recent_xids(records: Iterable[str], since_boot: float) -> list[tuple[str, int]]:
    """The Xid errors of the last hour: the GPU's place on the bus and the number."""
    found = []
    for record in records:
        head, _, text = record.partition(";")
        fields = head.split(",")
        xid = _XID.search(text)
        if not xid or len(fields) < 3 or not fields[2].isdigit():
            continue
        if since_boot - int(fields[2]) / 1e6 <= LAST_HOUR:
            found.append((xid.group(1), int(xid.group(2))))
    return found


def judge_xids(xids: Iterable[tuple[str, int]], gpus: Iterable[Gpu]) -> tuple[list[str], list[str]]:
    """Of the Xid errors those of these GPUs."""
    places = {place(one.bus): one.number for one in gpus}
    problems: list[str] = []
    warnings: list[str] = []
    for bus, number in dict.fromkeys(xids):
        index = places.get(place(bus))
        if index is not None and number not in PROGRAMS_XIDS:
            text = "GPU %s had Xid %d in the last hour" % (index, number)
            (problems if number in FATAL_XIDS else warnings).append(text)
    return problems, warnings


def place(bus: str) -> str:
    """A place on the bus as both write it: `00000000:3B:00.0` and `0000:3b:00`."""
    return re.sub(r"\.\d+$", "", bus).lower()[-10:]
