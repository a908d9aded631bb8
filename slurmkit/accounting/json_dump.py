"""`sacct --json` of Slurm 22.05 to 26.05, turned into the rows that `sacct --parsable` prints.

The shape changes with each release (SchedMD's data_parser plugins): a number may be a number, null or
`{"set": ..., "infinite": ..., "number": ...}`, a state a word or a list of words. One reading serves all. The
jobs are read one after the other, however large the file is.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

from slurmkit.errors import UsageError
from slurmkit.slurm.rows import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

Json = Any
Row = dict[str, str]

FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "User", "Account", "Partition", "QOS", "State", "ExitCode", "Submit",
    "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "NNodes", "NodeList", "NTasks",
    "AllocCPUS", "AllocTRES", "ReqNodes", "ReqCPUS", "ReqMem", "ReqTRES", "TotalCPU", "MaxRSS",
    "TRESUsageInTot", "ConsumedEnergyRaw", "Restarts", "Reason", "WorkDir", "SubmitLine", "Comment",
    "JobName",
)  # fmt: skip
"""sacct's names; what may hold any text stands last."""

FLAGS = ("COMPLETING", "STAGE_OUT", "CONFIGURING", "EXPEDITING", "RESIZING", "REQUEUED", "REQUEUE_FED",
         "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING")  # fmt: skip
"""Words that sacct's text shows in the place of the state beside them (Slurm's job_state_string)."""

CHUNK = 1 << 20
_JOBS = re.compile(r'"jobs"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_SENTINELS = frozenset({2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2})


def convert(source: Path, target: Path) -> int:
    """Write the records of a JSON dump, gzipped or not, as text with a header and `DELIMITER`; how many jobs.

    Raises:
        UsageError: it is no such dump, or is cut short.
        OSError: one of the two files cannot be used.
    """
    count = 0
    with _opened(source) as file, target.open("w", encoding="utf-8", errors="surrogateescape") as out:
        out.write(_line(FIELDS))
        for job in jobs(file, str(source)):
            count += 1
            out.writelines(_line([row.get(name, "") for name in FIELDS]) for row in rows(job))
    return count


def jobs(file: TextIO, name: str) -> Iterator[Json]:
    """The entries of the list `jobs`, one after the other.

    Raises:
        UsageError: there is no such list, or it is damaged; tells the line.
    """
    reader = _Reader(file, name)
    reader.skip_to_jobs()
    while reader.has_another():
        yield reader.another()


def rows(job: Mapping[str, Json]) -> Iterator[Row]:
    """The row of a job, and those of its steps."""
    row, steps = _of_job(job), job.get("steps") or ()
    # The text of sacct has the sum of the steps here, JSON zero.
    yield row | {"TotalCPU": _total_cpu(job, *steps)}
    for step in steps:
        yield _of_step(step, row)


def number(value: Json) -> str:
    """A number in any of its shapes; empty where it is not set or is Slurm's mark for that."""
    if isinstance(value, dict):
        if value.get("infinite"):
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) else None
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number and value not in _SENTINELS else ""


class _Reader:
    """A window on a JSON text, from which one value after the other is taken."""

    def __init__(self, file: TextIO, name: str) -> None:
        self.file, self.name = file, name
        self.text, self.at, self.line = "", 0, 1
        self.decoder = json.JSONDecoder(strict=False)

    def skip_to_jobs(self) -> None:
        while not (found := _JOBS.search(self.text, self.at)):
            # The key may stand across the edge of what has been read.
            self.at = max(len(self.text) - 64, self.at)
            if not self._more():
                raise UsageError("there is no list of jobs in the file", where=self.name)
        self.at = found.end()

    def has_another(self) -> bool:
        while True:
            between = _BETWEEN.match(self.text, self.at)
            self.at = between.end() if between else self.at
            if self.at < len(self.text):
                return self.text[self.at] != "]"
            if not self._more():
                raise self._cut()

    def another(self) -> Json:
        while True:
            try:
                value, self.at = self.decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise self._cut() from error
            else:
                if not isinstance(value, dict):
                    raise UsageError("a job that is no JSON object", where=self._place())
                return value

    def _more(self) -> bool:
        """Read on, as much again as is held: a job of any size is tried a few times only."""
        held = len(self.text) - self.at
        read = self.file.read(max(CHUNK, held))
        self.line += self.text.count("\n", 0, self.at)
        self.text, self.at = self.text[self.at :] + read, 0
        return bool(read)

    def _cut(self) -> UsageError:
        return UsageError(
            "the JSON is damaged or cut short", where=self._place(), hint="let sacct write it again"
        )

    def _place(self) -> str:
        return f"{self.name}:{self.line + self.text.count(chr(10), 0, self.at)}"


def _opened(source: Path) -> TextIO:
    with source.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    if is_gzip:
        return gzip.open(source, "rt", encoding="utf-8", errors="surrogateescape")
    return source.open(encoding="utf-8", errors="surrogateescape")


def _line(cells: Sequence[str]) -> str:
    return DELIMITER.join(cells) + DELIMITER + "\n"


def _of_job(job: Mapping[str, Json]) -> Row:
    state = _get(job, "state")
    allocated, requested = (_tres(_get(job, "tres", kind)) for kind in ("allocated", "requested"))
    word = _state(_get(state, "current"))
    killer = _killer(job.get("kill_request_user"))
    return {
        "JobID": _job_id(job),
        "JobIDRaw": number(job.get("job_id")),
        "Cluster": _text(job.get("cluster")),
        "User": _text(job.get("user")) or _text(_get(job, "association", "user")),
        "Account": _text(job.get("account")),
        "Partition": _text(job.get("partition")),
        "QOS": _text(job.get("qos")),
        "State": f"CANCELLED by {killer}" if word == "CANCELLED" and killer else word,
        "Submit": _moment(_get(job, "time", "submission")),
        "Eligible": _moment(_get(job, "time", "eligible")),
        "Suspended": _clock(number(_get(job, "time", "suspended"))),
        "TimelimitRaw": number(_get(job, "time", "limit")),
        "NNodes": number(job.get("allocation_nodes")),
        "NodeList": _text(job.get("nodes")),
        "AllocTRES": allocated,
        "AllocCPUS": _count(allocated, "cpu"),
        "ReqTRES": requested,
        "ReqCPUS": number(_get(job, "required", "CPUs")),
        "ReqNodes": _count(requested, "node"),
        "ReqMem": _count(requested, "mem"),
        "ConsumedEnergyRaw": _count(allocated, "energy"),
        "Restarts": number(job.get("restart_cnt")),
        "Reason": _text(_get(state, "reason")),
        "WorkDir": _text(job.get("working_directory")),
        "SubmitLine": _text(job.get("submit_line")),
        "Comment": _text(_get(job, "comment", "job")),
        "JobName": _text(job.get("name")),
        **_course(job),
    }


def _of_step(step: Mapping[str, Json], job: Row) -> Row:
    # 22.05 has the step's own name, or its number; later ones the whole id.
    name = str(_get(step, "step", "id")).rpartition(".")[2]
    allocated = _tres(_get(step, "tres", "allocated"))
    return {
        "JobID": f"{job['JobID']}.{name}",
        "JobIDRaw": f"{job['JobIDRaw']}.{name}",
        "Cluster": job["Cluster"],
        "Account": job["Account"],
        "State": _state(step.get("state")),
        "Submit": job["Submit"],
        "Suspended": _clock(number(_get(step, "time", "suspended"))),
        "NNodes": number(_get(step, "nodes", "count")),
        "NodeList": _text(_get(step, "nodes", "range")),
        "NTasks": number(_get(step, "tasks", "count")),
        "AllocTRES": allocated,
        "AllocCPUS": _count(allocated, "cpu"),
        "MaxRSS": _count(_tres(_get(step, "tres", "requested", "max"), is_usage=True), "mem"),
        "TRESUsageInTot": _tres(_get(step, "tres", "requested", "total"), is_usage=True),
        "ConsumedEnergyRaw": number(_get(step, "statistics", "energy", "consumed")),
        "JobName": _text(_get(step, "step", "name")),
        **_course(step),
    }


def _course(record: Mapping[str, Json]) -> Row:
    """What jobs and steps have alike: when it ran, and how it ended."""
    code, time = record.get("exit_code"), record.get("time")
    signal = number(_get(code, "signal", "id")) or number(_get(code, "signal", "signal_id"))
    return {
        "ExitCode": f"{number(_get(code, 'return_code')) or 0}:{signal or 0}",
        "Start": _moment(_get(time, "start")),
        "End": _moment(_get(time, "end")),
        "ElapsedRaw": number(_get(time, "elapsed")),
        "TotalCPU": _total_cpu(record),
    }


def _job_id(job: Mapping[str, Json]) -> str:
    """The id as sacct's text has it: 12, 12_3, 12_[4-9%2], 12+1."""
    own = number(job.get("job_id"))
    array, task = number(_get(job, "array", "job_id")), number(_get(job, "array", "task_id"))
    waiting = _text(_get(job, "array", "task"))
    if array not in {"", "0"} and task:
        return f"{array}_{task}"
    if array not in {"", "0"} and waiting:
        limit = number(_get(job, "array", "limits", "max", "running", "tasks"))
        throttle = f"%{limit}" if limit not in {"", "0"} and "%" not in waiting else ""
        return f"{array}_[{_tasks(waiting)}{throttle}]"
    het, offset = number(_get(job, "het", "job_id")), number(_get(job, "het", "job_offset"))
    return f"{het}+{offset}" if het not in {"", "0"} and offset else own


def _tasks(text: str) -> str:
    """The tasks that wait; old versions give a bit for each, as a number to base 16."""
    if not text.startswith("0x"):
        return text
    bits = int(text, 16)
    set_bits = [index for index in range(bits.bit_length()) if bits >> index & 1]
    spans: list[list[int]] = []
    for index in set_bits:
        if spans and spans[-1][-1] == index - 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans)


def _state(value: Json) -> str:
    words = [value] if isinstance(value, str) else [_text(word) for word in value or ()]
    return next((word for word in words if word in FLAGS), words[0] if words else "")


def _killer(value: Json) -> str:
    return number(value) if not isinstance(value, str) else value


def _tres(counts: Json, *, is_usage: bool = False) -> str:
    """A list of counts as `cpu=4,gres/gpu:a100=2,mem=4000M`; what was used is in bytes and milliseconds."""
    parts = []
    for one in counts or ():
        count = number(one.get("count"))
        name = "/".join(_text(one.get(key)) for key in ("type", "name") if one.get(key))
        if not count or not name:
            continue
        if is_usage and name == "cpu":
            count = _clock(str(int(count) // 1000))
        elif name in {"mem", "vmem"}:
            count = f"{int(count) // 1024}K" if is_usage else f"{count}M"
        parts.append(f"{name}={count}")
    return ",".join(parts)


def _count(tres: str, name: str) -> str:
    return next(
        (part.removeprefix(f"{name}=") for part in tres.split(",") if part.startswith(f"{name}=")), ""
    )


def _moment(value: Json) -> str:
    text = number(value)
    return "Unknown" if text in {"", "0"} else text


def _total_cpu(*records: Mapping[str, Json]) -> str:
    """The time that some records used together; below an hour with milliseconds, as sacct writes it."""
    times = [_get(record, "time", "total") for record in records]
    parts = [(number(_get(time, "seconds")), number(_get(time, "microseconds"))) for time in times]
    used = sum(int(seconds) * 1_000_000 + int(rest or 0) for seconds, rest in parts if seconds)
    whole = used // 1_000_000
    if whole >= 3600:
        return _clock(str(whole))
    return f"{whole // 60:02}:{whole % 60:02}.{used // 1000 % 1000:03}"


def _clock(seconds: str) -> str:
    """Seconds as `[D-]HH:MM:SS`."""
    if not seconds.isdigit():
        return ""
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _get(record: Json, *path: str) -> Json:
    """What stands at the end of a path, or None where it breaks off."""
    for name in path:
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
