"""Whether this node is fit to start: `python3 -I -S launch.pyz fitness`, one process per node.

What to look at stands in SLURMKIT_FITNESS as JSON. Each check is a function that returns what it found; all
run at once, and one that does not answer in time is itself a finding. Two lines of JSON go to stdout, through
which the agent reads them whatever the state of the shared file system: at the start the time of this node's
clock, at the end the record, which is also left as a file. No check writes more than a few MiB.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from slurmkit.launch.files import write_atomically
from slurmkit.launch.fitness_found import Found, in_seconds
from slurmkit.launch.fitness_gpus import check_gpus
from slurmkit.launch.fitness_meeting import Listener, check_rendezvous
from slurmkit.launch.fitness_programs import check_program
from slurmkit.launch.fitness_resources import check_directory, check_memory
from slurmkit.launch.leftovers import end_leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCRATCH_SIZE = 4 << 20
SHARE = 0.9
"""Of the time allowed, what the checks may take: the rest is for the start and the way back."""


def main(_argv: list[str]) -> None:
    """Check this node."""
    asked = json.loads(os.environ["SLURMKIT_FITNESS"])
    environ = {name: value for name, value in os.environ.items() if name != "SLURMKIT_FITNESS"}
    node = environ.get("SLURMD_NODENAME") or os.uname().nodename
    # With several tasks on a node the first one speaks for it.
    if environ.get("SLURM_LOCALID", "0") != "0":
        return
    began = time.monotonic()
    told = {"token": asked["token"], "node": node}
    tell({**told, "hello": time.time(), "step": environ.get("SLURM_STEP_ID")})
    run = asked.get("run")
    # Before the port is tried, which one of them may still hold.
    before = check_leftovers(run["id"], run["job"]) if run else Found()
    listener = Listener(asked.get("rendezvous"), node)
    found = run_all(checks(asked, environ, node), began + asked["seconds"] * SHARE)
    record = {
        **told,
        "problems": [*before.problems, *found.problems],
        "warnings": [*before.warnings, *found.warnings, *([listener.problem] if listener.problem else [])],
        "facts": {**found.facts, **({"port_taken": True} if listener.problem else {})},
        "topology": environ.get("SLURM_TOPOLOGY_ADDR"),
        "time": time.time(),
        "seconds": round(time.monotonic() - began, 3),
    }
    tell(record)
    keep(record, asked.get("output"))
    listener.close(began + asked["seconds"] * SHARE)
    # A thread that waits for a dead file system must not keep the step.
    os._exit(0)


def tell(record: Mapping[str, Any]) -> None:
    """One line for the agent."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def keep(record: Mapping[str, Any], folder: str | None) -> None:
    """Leave the record as a file; that the folder cannot be written is a finding of its own check."""
    if folder:
        try:
            name = record["node"].replace(os.sep, "_") + ".json"
            write_atomically(os.path.join(folder, name), json.dumps(record).encode())
        except OSError:
            pass


def checks(
    asked: Mapping[str, Any], environ: Mapping[str, str], node: str
) -> dict[str, Callable[[float], Found]]:
    """The checks to make, by the name under which one that does not answer is reported."""
    made: dict[str, Callable[[float], Found]] = {
        "nvidia-smi": lambda within: check_gpus(asked.get("gpus"), environ, within),
        "the memory": lambda _: check_memory(asked.get("memory")),
    }
    for directory in [*asked.get("directories", ()), *scratch(environ)]:
        made["{what} {path}".format(**directory)] = partial(_directory, directory)
    for program in asked.get("programs", ()):
        made[program] = partial(check_program, program, environ)
    meeting = asked.get("rendezvous")
    if meeting and node != meeting["first"]:
        made["the rendezvous"] = partial(check_rendezvous, meeting, node)
    return made


def check_leftovers(run_id: str, job_id: str | None) -> Found:
    """End programs of an earlier start of the run; one that does not end makes the node unfit."""
    there, left = end_leftovers(run_id, job_id)
    if left:
        return Found(problems=["%d programs of an earlier start of the run cannot be ended" % left])
    return Found(warnings=["%d programs of an earlier start of the run were ended" % there] if there else [])


def _directory(asked: Mapping[str, Any], _within: float) -> Found:
    return check_directory(**asked)


def run_all(made: Mapping[str, Callable[[float], Found]], until: float) -> Found:
    """All checks at once; what has come until then, and that of the others nothing has."""
    answers: dict[str, Found] = {}
    began = time.monotonic()

    def run(name: str, check: Callable[[float], Found]) -> None:
        try:
            answers[name] = check(max(0.1, until - time.monotonic() - 0.2))
        except Exception as error:  # noqa: BLE001  (a check that is wrong must not make a node unfit)
            answers[name] = Found(warnings=["%s could not be checked: %r" % (name, error)])

    threads = {
        name: threading.Thread(target=run, args=(name, check), daemon=True) for name, check in made.items()
    }
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    problems: list[str] = []
    warnings: list[str] = []
    facts: dict[str, Any] = {}
    for name in made:
        answer = answers.get(name)
        if answer is None:
            problems.append("%s did not answer within %s" % (name, in_seconds(until - began)))
            continue
        problems += answer.problems
        warnings += answer.warnings
        facts.update(answer.facts)
    return Found(problems, warnings, facts)


def scratch(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Where programs leave what they need no more; it may differ from node to node."""
    path = environ.get("TMPDIR") or "/tmp"  # noqa: S108
    return [{"what": "scratch", "path": path, "size": SCRATCH_SIZE, "must_exist": True}]
