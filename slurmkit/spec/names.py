"""Which name was meant: the nearest known one, what other tools call it, and the table that it belongs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmkit.spec.options import ALLOWED, BY_NAME, find

if TYPE_CHECKING:
    from collections.abc import Iterable

_CALLED_ELSEWHERE: Final = {
    "cores": "cpus_per_task", "cpus": "cpus_per_task", "threads": "cpus_per_task", "ncpus": "cpus_per_task",
    "gpu": "gpus_per_node", "ngpus": "gpus", "n_gpus": "gpus", "num_gpus": "gpus",
    "memory": "mem", "ram": "mem", "mem_gb": "mem", "mem_per_node": "mem",
    "walltime": "time", "time_limit": "time", "timeout": "time", "timeout_min": "time", "duration": "time",
    "queue": "partition", "project": "account", "tasks": "ntasks", "num_nodes": "nodes", "nnodes": "nodes",
    "tasks_per_node": "ntasks_per_node", "node_list": "nodelist", "exclude_nodes": "exclude",
    "features": "constraint", "email": "mail_user", "mail": "mail_user", "stdout": "output",
    "stderr": "error", "stdin": "input", "log": "output", "logfile": "output", "workdir": "chdir",
    "cwd": "chdir", "dir": "directory", "shared": "oversubscribe",
    "spares": "spare_nodes", "env": "environment", "image": "container", "script": "command",
    "cmd": "command",
    "args": "command", "job_name": "name", "jobname": "name", "environ": "variables", "vars": "variables",
    "module": "modules", "virtualenv": "venv", "conda_env": "conda", "retries": "restarts",
}  # fmt: skip


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most likely stands for, if one is near enough."""
    import difflib

    known = list(known)
    flat = name.strip("- ").replace("-", "_").lower()
    if flat in known:
        return flat
    option = find(name) if name.startswith("-") or len(name) > 1 else None
    for candidate in (option.name if option else None, _CALLED_ELSEWHERE.get(flat)):
        if candidate in known:
            return candidate
    close = difflib.get_close_matches(flat, known, n=1, cutoff=0.6)
    return close[0] if close else None


def unknown_key(name: str, table: str, known: Iterable[str], homes: dict[str, str]) -> str:
    """What is right where `table` has no key `name`; `homes` says which keys live in which other tables."""
    known = list(known)
    flat = name.strip("- ").replace("-", "_").lower()
    home = homes.get(flat, "resources" if flat in BY_NAME else None)
    if flat not in known and home not in {None, table}:
        return f"`{flat}` belongs in [{home}]" if home else f"`{flat}` belongs at the top of the file"
    near = nearest(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    near = nearest(name, [*homes, *ALLOWED])
    if near is not None:
        home = homes.get(near, "resources")
        return f"did you mean `{near}` {f'in [{home}]' if home else 'at the top of the file'}?"
    return f"known here: {', '.join(known)}" if len(known) <= 12 else "`slurmkit schema` lists what is known"
