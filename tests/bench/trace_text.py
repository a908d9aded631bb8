"""A generated trace as `sacct --parsable2 --duplicates` prints it, with what sites and users do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.bench.trace import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NODE_FAIL,
    OUT_OF_MEMORY,
    PENDING,
    STATES,
    TIMEOUT,
    account_name,
    user_name,
)
from tests.bench.trace_cluster import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import numpy.typing as npt

    from tests.bench.trace import Trace
    from tests.bench.trace_cluster import Class, Ints

    Columns = dict[str, list[str]]

FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "JobName", "User", "Account", "Partition", "QOS", "State", "ExitCode",
    "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "NNodes", "NodeList",
    "AllocCPUS", "ReqMem", "AllocTRES", "AllocGRES", "TotalCPU", "ConsumedEnergyRaw", "Comment",
)  # fmt: skip
ALSO = (
    "Elapsed", "Timelimit", "CPUTimeRAW", "CPUTime", "NCPUS", "ReqCPUS", "ReqNodes", "AllocNodes", "ReqTRES",
)  # fmt: skip
"""What is printed only where it is asked for; it follows from the others."""
STEP_FIELDS = ("NTasks", "MaxRSS", "TRESUsageInTot")
KINDS = 5
"""How many ways there are to write an allocation."""
STEPS = ("batch", "extern", "0")
OF_ITS_JOB = (
    "Cluster",
    "Account",
    "Start",
    "End",
    "ElapsedRaw",
    "NodeList",
    "NNodes",
    "Suspended",
    "AllocCPUS",
)
CHUNK = 100_000
CLUSTER = "aurora"

NAMES = tuple(
    f"{what}-{model}" for what in ("train", "eval", "sweep", "prep", "interactive", "bash", "python")
    for model in ("llama", "vit", "resnet", "bert", "gnn", "diffusion", "moe", "asr", "rl", "test")
)  # fmt: skip
ODD_NAMES = (
    "lr=0.1|wd=0.01", "a|b|c", "two\nlines", "end\n", "tab\there", "größe-模型-🚀", "lat\udced n", '"quoted',
    "it's", "comma, semicolon;", "\\back\\slash", " blanks ", "1735689600", "COMPLETED", "|",
    "nul-like\\0", "é" * 60,
)  # fmt: skip
"""What users call their jobs. A surrogate stands for a byte that is no UTF-8."""
ODD = 2e-4
"""How many of the jobs have such a name."""


class Variant(NamedTuple):
    """One way to write the same allocation."""

    tres: str
    gres: str = ""


def write(
    trace: Trace,
    file: BinaryIO,
    *,
    fields: tuple[str, ...] | list[str] = FIELDS,
    delimiter: str = "|",
    epoch: bool = False,
    steps: bool = False,
    header: bool = True,
    odd: float = ODD,
) -> None:
    """The whole dump; with `steps` each attempt that started is followed by three, and the fields grow.

    A field that no record has is empty. `odd` is how many of the jobs have a name that breaks readers, and
    how many have each of the other oddities in how a value is written.
    """
    asked = (*fields, *(name for name in STEP_FIELDS if steps and name not in fields))
    if header:
        file.write(delimiter.join(asked).encode() + b"\n")
    for begin in range(0, len(trace), CHUNK):
        part = slice(begin, begin + CHUNK)
        lines = "\n".join(lines_of(trace, part, asked, delimiter, epoch=epoch, steps=steps, odd=odd))
        file.write((lines + "\n").encode("utf-8", "surrogateescape"))


def lines_of(
    trace: Trace,
    part: slice,
    fields: tuple[str, ...],
    delimiter: str,
    *,
    epoch: bool,
    steps: bool,
    odd: float,
) -> Iterator[str]:
    """The records of a part of the trace, each a text that may itself have line breaks."""
    columns = jobs_of(trace, part, epoch=epoch, odd=odd)
    if set(ALSO).intersection(fields):
        columns |= _also(trace, part, columns)
    kept = _one_for_those_that_wait(trace, part, columns)
    nothing = [""] * len(columns["JobID"])
    jobs = [delimiter.join(row) for row in zip(*(columns.get(name, nothing) for name in fields), strict=True)]
    if not steps:
        yield from (job for job, is_kept in zip(jobs, kept, strict=True) if is_kept)
        return
    started = (trace.start[part] > 0).tolist()
    each = [steps_of(trace, part, columns, step) for step in STEPS]
    texts = [
        [delimiter.join(row) for row in zip(*(one.get(name, nothing) for name in fields), strict=True)]
        for one in each
    ]
    for job, is_kept, has_started, *of_job in zip(jobs, kept, started, *texts, strict=True):
        if is_kept:
            yield from [job, *of_job] if has_started else [job]


def jobs_of(trace: Trace, part: slice, *, epoch: bool, odd: float) -> Columns:
    """The rows of jobs, by sacct's name of the field."""
    random = np.random.default_rng([part.start, len(trace)])
    state, code, start, end = trace.state[part], trace.code[part], trace.start[part], trace.end[part]
    job, submit = trace.job[part], trace.submit[part]
    never = start == 0
    names = _ids(trace, part)
    nodes = np.array([one.nodes for one in CLASSES])[code]
    lists = trace.lanes.node_lists
    cpus = np.array([one.cpus for one in CLASSES])[code]
    limit = trace.limit[part]
    variants = [
        _variant(one, memory, kind) for one in CLASSES for memory in range(4) for kind in range(KINDS)
    ]
    is_odd = random.random(len(job)) < odd * 10
    kind = np.where(is_odd, random.integers(0, KINDS, len(job)), 0)
    chosen = ((code * 4 + trace.memory[part]) * KINDS + kind).tolist()
    gone = never.tolist()
    odd_name = random.random(len(job)) < odd
    words = np.where(odd_name, len(NAMES) + trace.name[part] % len(ODD_NAMES), trace.name[part] % len(NAMES))
    all_names = (*NAMES, *ODD_NAMES)
    return {
        "JobID": names,
        "JobIDRaw": _texts(job),
        "Cluster": [CLUSTER] * len(job),
        "JobName": [all_names[word] for word in words.tolist()],
        "User": list(map(user_name, trace.user[part].tolist())),
        "Account": list(map(account_name, trace.account[part].tolist())),
        "Partition": [CLASSES[one].partition.name for one in code.tolist()],
        "QOS": np.array(["normal", "high", "preempt"])[trace.user[part] % 3].tolist(),
        "State": _states(state, trace.user[part]),
        "ExitCode": _exit_codes(random, state),
        "Submit": _times(submit, epoch=epoch),
        "Eligible": _times(submit + np.where(is_odd, 3600, 0), epoch=epoch),
        "Start": _times(start, epoch=epoch, unknown=np.where(state == PENDING, "Unknown", "None")),
        "End": _times(end, epoch=epoch, unknown=np.full(len(job), "Unknown")),
        "ElapsedRaw": _texts(trace.elapsed[part]),
        "Suspended": _clock(trace.suspended[part]),
        "TimelimitRaw": ["UNLIMITED" if one < 0 else str(one // 60) for one in limit.tolist()],
        "NNodes": _texts(nodes),
        "NodeList": [
            "None assigned" if none else lists[lane]
            for lane, none in zip(trace.lane[part].tolist(), gone, strict=True)
        ],
        "AllocCPUS": _texts(np.where(never, 1, cpus)),
        "ReqMem": _requested(random, code, trace.memory[part], odd),
        "AllocTRES": ["" if none else variants[one].tres for one, none in zip(chosen, gone, strict=True)],
        "AllocGRES": ["" if none else variants[one].gres for one, none in zip(chosen, gone, strict=True)],
        "TotalCPU": _clock(np.where(state == TIMEOUT, 0, trace.elapsed[part] * cpus * 6 // 10)),
        "ConsumedEnergyRaw": np.where(is_odd, "18446744073709551614", "0").tolist(),
        "Comment": np.where(odd_name, "asked|by the user", "").tolist(),
    }


def _also(trace: Trace, part: slice, columns: Columns) -> Columns:
    seconds = trace.elapsed[part] * np.array([one.cpus for one in CLASSES])[trace.code[part]]
    limits = zip(columns["TimelimitRaw"], _clock(trace.limit[part] // 60 * 60), strict=True)
    return {
        "Elapsed": _clock(trace.elapsed[part]),
        "Timelimit": [raw if raw == "UNLIMITED" else clock for raw, clock in limits],
        "CPUTimeRAW": _texts(seconds),
        "CPUTime": _clock(seconds),
        "NCPUS": columns["AllocCPUS"],
        "ReqCPUS": columns["AllocCPUS"],
        "ReqNodes": columns["NNodes"],
        "AllocNodes": columns["NNodes"],
        "ReqTRES": columns["AllocTRES"],
    }


def steps_of(trace: Trace, part: slice, jobs: Columns, step: str) -> Columns:
    """The rows of one step of every job of the part."""
    code, elapsed = trace.code[part], trace.elapsed[part]
    cpus = np.array([one.cpus for one in CLASSES])[code]
    memory = np.array([one.slots * one.partition.memory for one in CLASSES])[code]
    used = memory * 2**17 * (1 + trace.name[part] % 7)
    has_used = step != "extern"
    return {
        **{name: jobs[name] for name in OF_ITS_JOB},
        "JobID": [f"{job}.{step}" for job in jobs["JobID"]],
        "JobIDRaw": [f"{job}.{step}" for job in jobs["JobIDRaw"]],
        "JobName": ["python" if step == "0" else step] * len(code),
        "State": [_state_of_step(job, step) for job in jobs["State"]],
        "ExitCode": jobs["ExitCode"] if step == "0" else ["0:0"] * len(code),
        "Submit": jobs["Start"],
        "Eligible": jobs["Start"],
        "AllocTRES": [tres.partition(",")[2] for tres in jobs["AllocTRES"]],
        "TotalCPU": jobs["TotalCPU"] if has_used else ["00:00:00"] * len(code),
        "NTasks": _texts(np.array([one.nodes for one in CLASSES])[code]),
        "MaxRSS": [f"{one}K" for one in (used // 1024).tolist()] if has_used else [""] * len(code),
        "TRESUsageInTot": [
            f"cpu={seconds},energy=0,mem={size}"
            for seconds, size in zip(_clock(elapsed * cpus * 6 // 10), used.tolist(), strict=True)
        ],
    }


def _state_of_step(job: str, step: str) -> str:
    if job == "TIMEOUT":
        return "CANCELLED"
    return job.partition(" ")[0] if step == "0" or job == "RUNNING" else "COMPLETED"


def _ids(trace: Trace, part: slice) -> list[str]:
    columns = (trace.job[part], trace.array[part], trace.task[part], trace.het[part])
    return [
        f"{array}_{task}" if array else f"{het}+{job - het}" if het else str(job)
        for job, array, task, het in zip(*(one.tolist() for one in columns), strict=True)
    ]


def _one_for_those_that_wait(trace: Trace, part: slice, columns: Columns) -> list[bool]:
    """Tasks of an array that wait are one record, with `[first-last%4]`; the others are left out."""
    waits = (trace.state[part] == PENDING) & (trace.array[part] > 0)
    kept = [True] * len(columns["JobID"])
    rows: dict[int, list[int]] = {}
    for row in np.flatnonzero(waits).tolist():
        rows.setdefault(int(trace.array[part][row]), []).append(row)
    for array, waiting in rows.items():
        tasks = sorted(int(trace.task[part][row]) for row in waiting)
        columns["JobID"][waiting[0]] = f"{array}_[{','.join(map(str, tasks))}%4]"
        for row in waiting[1:]:
            kept[row] = False
    return kept


def _variant(one: Class, memory: int, kind: int) -> Variant:
    """An allocation: as usual (0), untyped first, typed alone, of old Slurm, with a fraction."""
    partition = one.partition
    size = max(1, one.slots * partition.memory * 2**memory // 8)
    mem = f"mem={size}.50G" if kind == 4 else f"mem={size}G"
    typed = f"gres/{partition.gres}={one.slots}"
    untyped = f"gres/gpu={one.slots}"
    front = f"billing={one.cpus + 8 * one.gpus},cpu={one.cpus}"
    if not one.gpus:
        gres = [typed] if partition.gres else []
    elif kind == 3 and one.nodes == 1:
        return Variant(f"{front},{mem},node={one.nodes}", f"{partition.gres}:{one.slots}")
    else:
        gres = [[typed, untyped], [untyped, typed], [typed], [typed, untyped], [typed, untyped]][kind]
    return Variant(",".join([front, *gres, mem, f"node={one.nodes}"]))


def _requested(random: np.random.Generator, code: Ints, memory: Ints, rate: float) -> list[str]:
    """ReqMem; old Slurm's forms among it, and the number that stands for none."""
    sizes = np.array([one.slots * one.partition.memory for one in CLASSES])[code] * 2**memory // 8
    odd = np.flatnonzero(random.random(len(code)) < rate * 5).tolist()
    texts = [f"{size}G" for size in np.maximum(1, sizes).tolist()]
    for row, form in zip(
        odd, ["4Gn", "4Gc", "0n", "2147486648Mn", "62.50G"] * (len(odd) // 5 + 1), strict=False
    ):
        texts[row] = form
    return texts


def _states(state: Ints, user: Ints) -> list[str]:
    return [
        f"CANCELLED by {1000 + who}" if one == CANCELLED and who % 10 else STATES[one]
        for one, who in zip(state.tolist(), user.tolist(), strict=True)
    ]


def _exit_codes(random: np.random.Generator, state: Ints) -> list[str]:
    failed = random.choice(
        ["1:0", "2:0", "0:9", "137:0", "0:11"], size=len(state), p=[0.7, 0.1, 0.1, 0.05, 0.05]
    )
    texts = np.full(len(state), "0:0", dtype=failed.dtype)
    texts[state == FAILED] = failed[state == FAILED]
    texts[state == CANCELLED] = "0:15"
    texts[state == NODE_FAIL] = "1:0"
    texts[state == OUT_OF_MEMORY] = "0:125"
    texts[state == COMPLETED] = "0:0"
    found: list[str] = texts.tolist()
    return found


def _times(moments: Ints, *, epoch: bool, unknown: npt.NDArray[np.str_] | None = None) -> list[str]:
    texts = moments.astype(str) if epoch else np.datetime_as_string(moments.astype("datetime64[s]"))
    found: list[str] = (texts if unknown is None else np.where(moments == 0, unknown, texts)).tolist()
    return found


def _clock(seconds: Ints) -> list[str]:
    """Seconds as `[days-]HH:MM:SS`."""
    return [
        "00:00:00"
        if not one
        else f"{one // 86_400}-{one // 3600 % 24:02d}:{one // 60 % 60:02d}:{one % 60:02d}"
        if one >= 86_400
        else f"{one // 3600:02d}:{one // 60 % 60:02d}:{one % 60:02d}"
        for one in seconds.tolist()
    ]


def _texts(numbers: Ints) -> list[str]:
    return list(map(str, numbers.tolist()))
