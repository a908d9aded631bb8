"""sbatch's options as the fields of a job in v0.0.38, and what a submit sends.

v0.0.38 reads most values as sbatch itself does; `described` has those of later versions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from slurmkit.errors import Refused
from slurmkit.slurm.rest.described import described
from slurmkit.slurm.rest.environment import job_environment, since_2411
from slurmkit.slurm.rest.script import options as read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.slurm.request import Submission
    from slurmkit.slurm.rest.versions import Api

PLAIN = {
    "account": "account", "acctg-freq": "account_gather_frequency", "array": "array",
    "batch": "batch_features", "bb": "burst_buffer", "begin": "begin_time",
    "chdir": "current_working_directory",
    "cluster-constraint": "cluster_constraint", "comment": "comment", "constraint": "constraints",
    "container": "container", "core-spec": "core_specification", "cores-per-socket": "cores_per_socket",
    "cpu-freq": "cpu_frequency", "cpus-per-gpu": "cpus_per_gpu", "cpus-per-task": "cpus_per_task",
    "deadline": "deadline", "delay-boot": "delay_boot", "dependency": "dependency",
    "distribution": "distribution", "error": "standard_error", "exclude": "exclude_nodes",
    "exclusive": "exclusive", "gpu-bind": "gpu_binding", "gpu-freq": "gpu_frequency", "gpus": "gpus",
    "gpus-per-node": "gpus_per_node", "gpus-per-socket": "gpus_per_socket", "gpus-per-task": "gpus_per_task",
    "gres": "gres", "gres-flags": "gres_flags", "hint": "cpu_binding_hint", "hold": "hold",
    "input": "standard_input", "job-name": "name", "kill-on-invalid-dep": "kill_on_invalid_dependency",
    "licenses": "licenses", "mail-type": "mail_type", "mail-user": "mail_user", "mcs-label": "mcs_label",
    "mem": "memory_per_node", "mem-bind": "memory_binding", "mem-per-cpu": "memory_per_cpu",
    "mem-per-gpu": "memory_per_gpu", "mincpus": "minimum_cpus_per_node", "nice": "nice",
    "no-kill": "no_kill", "no-requeue": "no_requeue", "nodelist": "nodelist", "nodes": "nodes",
    "ntasks": "tasks", "ntasks-per-core": "tasks_per_core", "ntasks-per-gpu": "ntasks_per_gpu",
    "ntasks-per-node": "tasks_per_node", "ntasks-per-socket": "tasks_per_socket",
    "ntasks-per-tres": "ntasks_per_tres", "open-mode": "open_mode", "output": "standard_output",
    "oversubscribe": "oversubscribe", "partition": "partition", "prefer": "prefer", "priority": "priority",
    "profile": "profile", "qos": "qos", "requeue": "requeue", "reservation": "reservation",
    "signal": "signal", "sockets-per-node": "sockets_per_node", "spread-job": "spread_job",
    "thread-spec": "thread_specification", "threads-per-core": "threads_per_core", "time": "time_limit",
    "time-min": "time_minimum", "tmp": "temporary_disk_per_node", "use-min-nodes": "minimum_nodes",
    "wait-all-nodes": "wait_all_nodes", "wckey": "wckey",
}  # fmt: skip
"""Option of sbatch to field of v0.0.38, as its table of options has them."""

OURS = frozenset({"export", "get-user-env", "ignore-pbs", "parsable", "quiet", "verbose"})
"""Options that are about sbatch itself, or that this client sees to."""

_NULLS = {"exclusive": "exclusive", "no-kill": "set", "nice": 100}


def body(submission: Submission, api: Api, *, umask: int = 0o022) -> tuple[dict[str, Any], list[str]]:
    """What is sent for a submit, and what there is to say of it.

    Raises:
        Refused: the script cannot be read, or this API version has no way to ask for an option.
    """
    try:
        script = (submission.directory / submission.script).read_bytes().decode()
    except (OSError, ValueError) as error:
        raise Refused(f"the script cannot be sent: {error}", where=str(submission.script)) from error
    options = completed({"job-name": submission.script.name, **read_options(script, submission.arguments)})
    directory = options.get("chdir") or str(submission.directory)
    environment = job_environment(submission.environment, options, directory, umask=umask)
    if not api.is_plain:
        environment |= since_2411(options)
    asked = {name: value for name, value in options.items() if name not in OURS}
    asked["chdir"] = directory
    if api.is_plain:
        notes = _without_batch_signal(asked)
        return {"script": script, "job": {**plain(asked), "environment": environment}}, notes
    pairs = [f"{name}={value}" for name, value in environment.items()]
    return {"job": {**described(asked, api), "script": script, "environment": pairs}}, []


def fields_of(options: Mapping[str, str | None], api: Api) -> dict[str, Any]:
    """The fields that change a job.

    Raises:
        Refused: this API version has none for an option.
    """
    return plain(options) if api.is_plain else described(options, api)


def completed(options: Mapping[str, str | None]) -> dict[str, str | None]:
    """With the number of tasks that sbatch reckons: so many on each node, or one."""
    made = dict(options)
    nodes, by_gpu = made.get("nodes"), {"ntasks-per-gpu", "ntasks-per-tres"} & made.keys()
    if "ntasks" not in made and not by_gpu and nodes is not None and nodes.isdigit():
        per_node = made.get("ntasks-per-node") or "1"
        made["ntasks"] = str(int(nodes) * int(per_node)) if per_node.isdigit() else nodes
    return made


def _without_batch_signal(options: dict[str, str | None]) -> list[str]:
    """Take out a warning to the script alone, which v0.0.38 does not read: the steps are not meant."""
    if not (options.get("signal") or "").partition(":")[0].startswith(("B", "RB")):
        return []
    return [
        f"slurmrestd v0.0.38 cannot be asked for --signal={options.pop('signal')}: "
        "Slurm will not warn the script; slurmkit's agent keeps the time itself"
    ]


def plain(options: Mapping[str, str | None]) -> dict[str, Any]:
    """The fields of v0.0.38.

    Raises:
        Refused: it has none for an option.
    """
    unknown = sorted(options.keys() - PLAIN.keys())
    if unknown:
        raise no_field(unknown, "v0.0.38")
    return {PLAIN[name]: _plain_value(name, value) for name, value in options.items()}


def _plain_value(name: str, value: str | None) -> object:
    if value is None:
        return _NULLS.get(name, True)
    if name == "kill-on-invalid-dep":
        return value == "yes"
    return int(value) if re.fullmatch(r"-?\d+", value) and name not in {"comment", "job-name"} else value


def no_field(names: list[str], version: str) -> Refused:
    """The error for options that an API version has no field for."""
    return Refused(
        f"slurmrestd {version} has no way to ask for {', '.join(f'--{name}' for name in names)}",
        hint="leave it out, or submit with sbatch on the cluster",
    )
