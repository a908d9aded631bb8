"""sbatch's options as the fields of a job since v0.0.42: numbers as objects, flags in lists, TRES as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from slurmkit.errors import Refused
from slurmkit.slurm.rest.environment import implied_binding, tres_per_task
from slurmkit.slurm.tres import parse_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slurmkit.slurm.rest.versions import Api

Fields = dict[str, Any]

TEXT = {
    "account": "account", "acctg-freq": "account_gather_frequency", "array": "array",
    "batch": "batch_features", "bb": "burst_buffer", "begin": "begin_time",
    "chdir": "current_working_directory", "cluster-constraint": "cluster_constraint", "comment": "comment",
    "constraint": "constraints", "container": "container", "container-id": "container_id",
    "context": "selinux_context", "cpu-freq": "cpu_frequency", "deadline": "deadline",
    "dependency": "dependency", "distribution": "distribution", "error": "standard_error",
    "exclude": "excluded_nodes", "extra": "extra", "input": "standard_input", "job-name": "name",
    "licenses": "licenses", "mail-user": "mail_user", "mcs-label": "mcs_label", "network": "network",
    "nodelist": "required_nodes", "nodes": "nodes", "output": "standard_output", "partition": "partition",
    "prefer": "prefer", "qos": "qos", "reservation": "reservation", "tres-bind": "tres_bind",
    "wckey": "wckey",
}  # fmt: skip
COUNT = {
    "core-spec": "core_specification", "cpus-per-task": "cpus_per_task", "mincpus": "minimum_cpus_per_node",
    "nice": "nice", "ntasks": "tasks", "ntasks-per-core": "tasks_per_core",
    "ntasks-per-gpu": "ntasks_per_tres",
    "ntasks-per-node": "tasks_per_node", "ntasks-per-socket": "tasks_per_socket",
    "ntasks-per-tres": "ntasks_per_tres", "oom-kill-step": "oom_kill_step",
    "sockets-per-node": "sockets_per_node", "thread-spec": "thread_specification",
    "threads-per-core": "threads_per_core",
}  # fmt: skip
FLAG: dict[str, tuple[str, object]] = {
    "contiguous": ("contiguous", True), "hold": ("hold", True), "no-requeue": ("requeue", False),
    "overcommit": ("overcommit", True), "oversubscribe": ("shared", ["oversubscribe"]),
    "reboot": ("reboot", True),
}  # fmt: skip
JOB_FLAG = {
    "spread-job": "SPREAD_JOB",
    "use-min-nodes": "PREFER_MINIMUM_NODE_COUNT",
    "stepmgr": "STEPMGR_ENABLED",
}
GRES_FLAG = {"disable-binding": "GRES_BINDING_DISABLED", "enforce-binding": "GRES_BINDING_ENFORCED"}
GPU = {"gpus": "tres_per_job", "gpus-per-node": "tres_per_node", "gpus-per-socket": "tres_per_socket"}
IN_TRES = frozenset({"gpus-per-task", "tres-per-task"})
_SIGNAL = re.compile(r"(?:(?P<whom>[BR]+):)?(?P<name>[A-Za-z0-9]+)(?:@(?P<time>\d+))?")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")
EARLIEST_WARNING = 60
"""Seconds: what sbatch takes where no time stands after the signal."""


def described(options: Mapping[str, str | None], api: Api) -> Fields:
    """The fields of a job.

    Raises:
        Refused: there is none for an option, or its value cannot be written.
    """
    made: Fields = {}
    unknown = []
    for name, value in options.items():
        if name in TEXT:
            made[TEXT[name]] = value
        elif name in COUNT:
            made[COUNT[name]] = _count(name, "100" if value is None and name == "nice" else value)
        elif name in FLAG:
            field, meant = FLAG[name]
            made[field] = meant
        elif name in JOB_FLAG:
            _flag(made, JOB_FLAG[name])
        elif name in GPU:
            _add_tres(made, GPU[name], f"gres/gpu:{value}")
        elif name in _SPECIAL:
            _SPECIAL[name](made, value or "")
        elif name == "cores-per-socket" and api.number >= 45:
            made["cores_per_socket"] = _count(name, value)
        else:
            unknown.append(name)
    if tres := tres_per_task(options):
        made["tres_per_task"] = tres
    if bind := implied_binding(options):
        made["tres_bind"] = bind
    unknown = [name for name in unknown if name not in IN_TRES]
    if unknown:
        from slurmkit.slurm.rest.description import no_field

        raise no_field(sorted(unknown), api.name)
    _as_sbatch_reckons(made)
    return made


def minutes(text: str) -> Fields:
    """A time of sbatch's (`30`, `90:00`, `1-12`, `1-12:30:00`, `UNLIMITED`) in whole minutes, rounded up.

    Raises:
        Refused: it is no such time.
    """
    if text.upper() in {"UNLIMITED", "INFINITE", "0"}:
        return {"set": False, "infinite": True, "number": 0}
    found = _TIME.fullmatch(text)
    if found is None:
        raise Refused("this is no time limit", where=text)
    days, first, second, third = (int(found[name] or 0) for name in ("days", "first", "second", "third"))
    if found["days"]:
        seconds = ((days * 24 + first) * 60 + second) * 60 + third
    elif found["third"]:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    return number(-(-seconds // 60))


def number(value: int) -> Fields:
    """A number that could be open or unlimited, and is neither."""
    return {"set": True, "infinite": False, "number": value}


def _as_sbatch_reckons(made: Fields) -> None:
    """How many CPUs the job needs at least, and which of its numbers were asked for as they stand."""
    tasks = made.get("tasks")
    if tasks is None:
        return
    _flag(made, "EXACT_TASK_COUNT_REQUESTED")
    if not made.get("overcommit"):
        made["minimum_cpus"] = tasks * made.get("cpus_per_task", 1)
    if "cpus_per_task" in made:
        _flag(made, "EXACT_CPU_COUNT_REQUESTED")


def _flag(made: Fields, name: str) -> None:
    made.setdefault("flags", []).append(name)


def _add_tres(made: Fields, field: str, text: str) -> None:
    made[field] = ",".join(filter(None, [made.get(field), text]))


def _count(name: str, value: str | None) -> int:
    try:
        return int(value or "")
    except ValueError:
        raise Refused(f"--{name} needs a number", where=value) from None


def _mebibytes(text: str) -> int:
    try:
        return -(-(parse_memory(text, unit="M") or 0) // 1024**2)
    except ValueError as error:
        raise Refused(f"the memory cannot be read: {error}") from error


def _gres(made: Fields, text: str) -> None:
    for part in text.split(","):
        if part.upper() != "NONE":
            _add_tres(made, "tres_per_node", part if part.startswith("gres/") else f"gres/{part}")


def _signal(made: Fields, text: str) -> None:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        raise Refused("--signal is not of the form B:USR1@120", where=text)
    made["kill_warning_signal"] = found["name"]
    made["kill_warning_delay"] = number(int(found["time"] or EARLIEST_WARNING))
    flags = [
        flag
        for letter, flag in (("B", "BATCH_JOB"), ("R", "RESERVATION_JOB"))
        if letter in (found["whom"] or "")
    ]
    if flags:
        made["kill_warning_flags"] = flags


def _exclusive(made: Fields, text: str) -> None:
    made["shared"] = [{"": "none", "exclusive": "none"}.get(text, text)]


def _switches(made: Fields, text: str) -> None:
    count, at, wait = text.partition("@")
    made["required_switches"] = number(_count("switches", count))
    if at:
        made["wait_for_switch"] = int(minutes(wait)["number"]) * 60


def _priority(made: Fields, text: str) -> None:
    if text.upper() == "TOP":
        _flag(made, "TOP_PRIORITY_JOB")
    else:
        made["priority"] = number(_count("priority", text))


def _setter(field: str, value: Callable[[str], object]) -> Callable[[Fields, str], None]:
    def put(made: Fields, text: str) -> None:
        made[field] = value(text)

    return put


def _lower_dependency(made: Fields, text: str) -> None:
    _flag(made, "KILL_INVALID_DEPENDENCY" if text == "yes" else "NO_KILL_INVALID_DEPENDENCY")


def _gres_flags(made: Fields, text: str) -> None:
    for word in text.split(","):
        if word not in GRES_FLAG:
            raise Refused("slurmrestd has no field for this", where=f"--gres-flags={word}")
        _flag(made, GRES_FLAG[word])


_MAIL = {"TIME_LIMIT": "TIME=100%", "TIME_LIMIT_90": "TIME=90%", "TIME_LIMIT_80": "TIME=80%",
         "TIME_LIMIT_50": "TIME=50%", "INVALID_DEPEND": "INVALID_DEPENDENCY"}  # fmt: skip
_MAIL_ALL = ["BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPENDENCY", "STAGE_OUT"]


def _mail(text: str) -> list[str]:
    words = text.upper().split(",")
    return _MAIL_ALL if "ALL" in words else [_MAIL.get(word, word) for word in words if word != "NONE"]


_SPECIAL: dict[str, Callable[[Fields, str], None]] = {
    "cpus-per-gpu": _setter("cpus_per_tres", "gres/gpu:{}".format),
    "delay-boot": _setter("delay_boot", lambda text: int(minutes(text)["number"]) * 60),
    "exclusive": _exclusive,
    "gpu-bind": _setter("tres_bind", "gres/gpu:{}".format),
    "gpu-freq": _setter("tres_freq", "gpu:{}".format),
    "gres": _gres,
    "gres-flags": _gres_flags,
    "kill-on-invalid-dep": _lower_dependency,
    "mail-type": _setter("mail_type", _mail),
    "mem": _setter("memory_per_node", lambda text: number(_mebibytes(text))),
    "mem-per-cpu": _setter("memory_per_cpu", lambda text: number(_mebibytes(text))),
    "mem-per-gpu": _setter("memory_per_tres", lambda text: f"gres/gpu:{_mebibytes(text)}"),
    "no-kill": _setter("kill_on_node_fail", lambda text: text in {"off", "no"}),
    "open-mode": _setter("open_mode", lambda text: [text.upper()]),
    "priority": _priority,
    "profile": _setter("profile", lambda text: text.upper().split(",")),
    "requeue": _setter("requeue", lambda _: True),
    "segment": _setter("segment_size", lambda text: number(_count("segment", text))),
    "signal": _signal,
    "switches": _switches,
    "time": _setter("time_limit", minutes),
    "time-min": _setter("time_minimum", minutes),
    "tmp": _setter("temporary_disk_per_node", _mebibytes),
    "wait-all-nodes": _setter("wait_all_nodes", lambda text: text == "1"),
}
