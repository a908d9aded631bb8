"""Getting the step to start: its nodes checked and laid out, its checkpoint and meeting place chosen."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmkit.errors import JobFailed, SlurmError, SlurmkitError
from slurmkit.recovery import report, resuming, step
from slurmkit.recovery.fitness import check_nodes
from slurmkit.recovery.placing import choose, place
from slurmkit.recovery.rendezvous import choose_address
from slurmkit.recovery.start import StepEnd, rendezvous_port, run_step
from slurmkit.run.fitness import Fitness

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.recovery.diagnosis import Diagnosis
    from slurmkit.recovery.policy import Decision
    from slurmkit.recovery.setting import Setting

STARTS_FOR_A_PORT = 5
"""A port that is taken between the trial and rank 0's start is met with the next one, so often."""


@dataclass(slots=True)
class Course:
    """How far the attempt has come: what the next start of the step has to know of those before it."""

    started: int = 0
    """Starts of the step so far."""
    has_run: bool = False
    """Whether one of them got its ranks going."""
    without: tuple[str, ...] = ()
    """Nodes that are left out from now on."""
    fitness: Fitness | None = None
    """Of the nodes; None where they are to be checked before the next start."""
    diagnosis: Diagnosis | None = None
    """Of the last end."""

    def outcome(self, decision: Decision) -> str | None:
        """How the run has ended: "completed", "failed" or "cancelled"; None where it has not."""
        if decision.action == "stop" and self.diagnosis and self.diagnosis.kind == "cancelled":
            return "cancelled"
        return {"done": "completed", "stop": "failed"}.get(decision.action)


def start_once(setting: Setting, course: Course) -> StepEnd:
    """Start the step and wait for its end; what fails before it starts is an end too."""
    try:
        return _start_once(setting, course)
    except SlurmkitError as error:
        return StepEnd(error.exit_code, error=error)


def _start_once(setting: Setting, course: Course) -> StepEnd:
    this, spec = setting.attempt, setting.spec
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if setting.environ.get(name) and not course.started:
            report.say(f"{name}={setting.environ[name]} is the job's own and stays")
    there = [node for node in this.nodes if node not in course.without]
    address = rendezvous_address(setting, there[0])
    if course.fitness is None:
        course.fitness, told_to_end = check(setting, there, address)
        if told_to_end:
            return StepEnd(128 + signal.SIGTERM, [signal.SIGTERM])
    left_out = {**dict.fromkeys(course.without, ("it failed before",)), **course.fitness.unfit}
    try:
        nodes = choose(this.nodes, spec.spare_nodes, left_out)
    except JobFailed as error:
        return StepEnd(error.exit_code, error=error, unfit=left_out)
    placement = place(setting, nodes, course.fitness.topology or network(setting))
    if placement.nodes[0] != there[0]:
        address = rendezvous_address(setting, placement.nodes[0])
    choice = resuming.newest(setting, step.world_size(spec, this, setting.environ))
    for again in range(STARTS_FOR_A_PORT):
        number, course.started = course.started, course.started + 1
        if again:
            own = setting.environ.get("MASTER_PORT")
            how = f"in case MASTER_PORT={own} is free by now" if own else "with another port"
            report.say(f"the step starts again, {how}")
        if choice is not None:
            resuming.note_choice(setting, number, choice)
        end = run_step(setting, number, placement, address, choice.chosen if choice else None)
        if not end.is_port_taken or signal.SIGTERM in end.received:
            break
    return end


def check(setting: Setting, nodes: Sequence[str], address: str) -> tuple[Fitness, bool]:
    """Check the nodes, and write down what was found; whether the job was told to end meanwhile."""
    if not setting.spec.launch.check_nodes:
        return Fitness(), False
    began = setting.clock.monotonic()
    port, claim = rendezvous_port(setting, 0)
    # Where the ranks meet somewhere else, that is for them to find out.
    is_own = bool(setting.environ.get("MASTER_ADDR"))
    with claim:
        fitness, told_to_end = check_nodes(setting, nodes, None if is_own else (address, port))
    setting.note(
        "nodes-checked",
        nodes=list(nodes),
        unfit=[{"node": node, "reasons": why} for node, why in fitness.unfit.items()],
        warnings=[{"node": node, "reasons": why} for node, why in fitness.warnings.items()],
        seconds=round(setting.clock.monotonic() - began, 3),
        reason=fitness.why_not,
    )
    report.nodes_checked(fitness)
    return fitness, told_to_end


def network(setting: Setting) -> Mapping[str, str]:
    """Where the nodes are in the network, as Slurm tells it, where that matters; the nodes told nothing."""
    if setting.spec.parallel is None:
        return {}
    try:
        return setting.connect().topology()
    except SlurmError as error:
        report.say(f"the order of nodes stays Slurm's: {error.what}")
        return {}


def rendezvous_address(setting: Setting, node: str) -> str:
    """MASTER_ADDR; the user's own goes before any choice."""
    given = setting.environ.get("MASTER_ADDR")
    if given:
        return given
    address, remark = choose_address(node, setting.connect)
    if remark:
        report.say(remark)
    return address
