"""What becomes of runs whose jobs have no agent (any more): one round over them, from outside.

Safe to run at any time, twice at once, and to be killed: a run is decided about under its lock, on what its
events and Slurm say then, and every intent is on disk before it is acted on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import AccountingOff, MissingRequirement, SlurmError, SlurmkitError
from slurmkit.recovery.diagnosis import Evidence, diagnose, from_accounting
from slurmkit.recovery.judging import decided, diagnosed
from slurmkit.recovery.past import past
from slurmkit.recovery.policy import decide, retry_of
from slurmkit.run import events, history, waiting
from slurmkit.run.record import start_directory
from slurmkit.run.resubmit import locked, resubmit
from slurmkit.run.survey import MARGIN, ask, open_dossier, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slurmkit.recovery.diagnosis import Diagnosis
    from slurmkit.recovery.policy import Decision
    from slurmkit.run.events import Event
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState, Sight
    from slurmkit.run.survey import Connect, Dossier
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job
    from slurmkit.spec.model import JobSpec

BY = "supervisor"
ELSEWHERE = frozenset({"requeue", "resubmit"})


class Outcome(NamedTuple):
    """What one round did about one run, or why it could not."""

    id: str
    action: str
    """`adopted`, `submitted`, `released`, `cancelled`, `stopped`, `done`; `busy`: another process decides;
    `left`; `unseen`: Slurm did not tell how the run is; `failed`.
    """
    text: str
    exit_code: int = 0


class _Case(NamedTuple):
    """One run, under its lock, with what is known of it."""

    dossier: Dossier
    state: RunState
    slurm: Slurm
    clock: Clock
    chance: float

    @property
    def paths(self) -> RunPaths:
        return self.dossier.paths

    def note(self, kind: str, fields: Mapping[str, object]) -> None:
        attempt = self.dossier.history.attempt
        known = {"attempt": attempt.name if attempt else None, "by": BY, **fields}
        told = {name: value for name, value in known.items() if value is not None}
        events.append(self.paths, kind, at=self.clock.now(), **told)

    def outcome(self, action: str, text: str) -> Outcome:
        return Outcome(self.paths.run_id, action, text)


class Round(NamedTuple):
    """The states of all runs that were looked at, and what was done about some."""

    states: Sequence[RunState]
    outcomes: Sequence[Outcome]


def supervise(runs: Iterable[RunPaths], connect: Connect, clock: Clock, chance: Callable[[], float]) -> Round:
    """One round. Slurm is asked once for all runs, and once more for each that needs something."""
    before = [open_dossier(paths) for paths in runs]
    sights = ask(before, connect, clock.now())
    states = settle(before, sights, clock.now())
    outcomes: list[Outcome] = []
    for dossier, state in zip(before, states, strict=True):
        sight = sights.get(dossier.paths.run_id)
        now_known = open_dossier(dossier.paths).history.job_id if dossier.history.is_submitting else None
        if now_known not in {None, dossier.history.job_id}:
            outcomes.append(Outcome(state.id, "adopted", f"job {now_known} was found: its receipt was lost"))
        if sight is not None and _is_unseen(state, sight):
            outcomes.append(Outcome(state.id, "unseen", f"could not be observed: {state.reason}", 3))
        elif _needs_care(dossier, state, sight):
            outcomes += _attend(dossier.paths, connect(dossier.cluster), clock, chance())
    return Round(states, outcomes)


def _is_unseen(state: RunState, sight: Sight) -> bool:
    """Whether Slurm's silence leaves open how a run is. An end that is known needs no more answers."""
    if state.is_end and state.state not in {"interrupted", "lost"}:
        return False
    return not sight.queue or sight.is_blind


def _needs_care(dossier: Dossier, state: RunState, sight: Sight | None) -> bool:
    if state.state == "interrupted" or _without_agent(dossier, sight) is not None:
        return True
    if sight is None or state.state not in {"pending", "blocked"}:
        return False
    told = dossier.history
    return any(
        waiting.held_by_slurm(job) or waiting.is_held_by_requeue(job, told)
        for job in sight.jobs
        if job.state.is_pending
    )


def _without_agent(dossier: Dossier, sight: Sight | None) -> Job | None:
    """A job that has lost the node of its agent: with --no-kill Slurm lets it run on, to its time limit."""
    attempt = dossier.history.attempt
    if attempt is None or attempt.ended is not None or sight is None:
        return None
    for job in sight.jobs:
        is_going = job.state.name == "RUNNING" and str(job.id) == attempt.job_id
        if is_going and job.nodes and attempt.host and attempt.host not in job.nodes:
            return job
    return None


def _attend(paths: RunPaths, slurm: Slurm, clock: Clock, chance: float) -> list[Outcome]:
    """Decide about one run under its lock, on what holds then."""
    try:
        with locked(paths) as mine:
            if not mine:
                return [Outcome(paths.run_id, "busy", "another process decides about it")]
            dossier = open_dossier(paths)
            sight = ask([dossier], lambda _: slurm, clock.now()).get(paths.run_id)
            (state,) = settle([dossier], {paths.run_id: sight} if sight else {}, clock.now())
            if sight is not None and _is_unseen(state, sight):
                return [Outcome(paths.run_id, "unseen", f"could not be observed: {state.reason}", 3)]
            return _care_for(_Case(open_dossier(paths), state, slurm, clock, chance), sight)
    except SlurmError as error:
        return [Outcome(paths.run_id, "unseen", f"Slurm did not do it: {error.what}", 3)]
    except (SlurmkitError, OSError) as error:
        return [Outcome(paths.run_id, "failed", str(error), getattr(error, "exit_code", 1))]


def _care_for(case: _Case, sight: Sight | None) -> list[Outcome]:
    if case.state.state == "interrupted":
        return [_carry_on(case)]
    headless = _without_agent(case.dossier, sight)
    if headless is not None:
        return [_replace(case, headless)]
    jobs = sight.jobs if sight else ()
    return [done for job in jobs if job.state.is_pending for done in _let_go(case, job)]


def _carry_on(case: _Case) -> Outcome:
    """The job is gone: what its agent decided is done, else what Slurm's account of its end calls for."""
    from slurmkit.spec import load_resolved

    job_id = case.dossier.job_id
    live = case.slurm.jobs([job_id]) if job_id else []
    if any(not job.state.is_final for job in live):
        return case.outcome("left", f"job {job_id} is in the queue again")
    spec = load_resolved(case.paths.job_toml)
    meant = _meant(events.read(case.paths), case)
    if meant is not None:
        return _submit(case, spec, meant.fields.get("without"), meant.fields.get("memory"), "as decided")
    diagnosis, decision = _decide(case, spec, _evidence(case, spec, live))
    if decision.action == "leave":
        return case.outcome("left", decision.reason)
    if decision.action in ELSEWHERE:
        return _submit(case, spec, decision.without, decision.memory, decision.reason)
    return _end(case, diagnosis.kind, decision)


def _replace(case: _Case, job: Job) -> Outcome:
    """End a job that has lost its agent; once it is over, the run goes on as decided here."""
    from slurmkit.spec import load_resolved

    spec = load_resolved(case.paths.job_toml)
    attempt = case.dossier.history.attempt
    host = str(attempt.host) if attempt else ""
    evidence = _evidence(case, spec, [])._replace(job_state=None, nodes_down=(host,), restart_lost=True)
    diagnosis, decision = _decide(case, spec, evidence)
    case.note("attempt-ended", {"reason": f"{host}, where its agent was, is gone", "next": history.REPLACED})
    if decision.action not in ELSEWHERE:
        ended = _end(case, diagnosis.kind, decision)
        case.slurm.cancel([job.id])
        return ended
    case.slurm.cancel([job.id])
    return case.outcome("cancelled", f"job {job.id} has lost its agent with {host}: {decision.reason}")


def _decide(case: _Case, spec: JobSpec, evidence: Evidence) -> tuple[Diagnosis, Decision]:
    """Why the job ended and what follows, both written down unless it is for somebody else to act."""
    from slurmkit.spec.gres import node_count

    retry = retry_of(spec)
    diagnosis = diagnose(evidence, retry.stop_on)

    attempt = case.dossier.history.attempt
    decision = decide(
        diagnosis,
        past(events.read(case.paths), attempt=attempt.name if attempt else None),
        retry,
        nodes=(),
        needed=node_count(spec.resources) or 1,
        checkpoint_step=evidence.checkpoint_step,
        chance=case.chance,
        can_restart=False,
    )
    if decision.action != "leave":
        case.note("diagnosed", diagnosed(diagnosis, evidence))
        case.note("decided", decided(decision))
    return diagnosis, decision


def _meant(told: Sequence[Event], case: _Case) -> Event | None:
    """The decision to go on elsewhere that nobody has carried out: whoever took it was killed, or refused."""
    name = case.dossier.history.attempt.name if case.dossier.history.attempt else None
    for event in reversed(told):
        if event.kind in {"submitted", "adopted", "attempt-started", "step-started"}:
            return None
        if event.kind == "decided" and event.text("attempt") == name:
            return event if event.text("action") in ELSEWHERE else None
    return None


def _submit(case: _Case, spec: JobSpec, without: object, memory: object, why: str) -> Outcome:
    from slurmkit.recovery.requeue import more_memory

    made = resubmit(
        case.paths,
        slurm=case.slurm,
        clock=case.clock,
        by=BY,
        instead_of=case.dossier.history.job_id,
        exclude=[str(node) for node in without] if isinstance(without, list | tuple) else (),
        options=more_memory(spec, memory) if isinstance(memory, int | float) else {},
    )
    return case.outcome("submitted", f"goes on as job {made.id}: {why}")


def _end(case: _Case, kind: str, decision: Decision) -> Outcome:
    """Write the run's end down."""
    if decision.action == "done":
        events.append(case.paths, "run-ended", at=case.clock.now(), outcome="completed", exit_code=0, by=BY)
        return case.outcome("done", decision.reason)
    outcome = "cancelled" if kind == "cancelled" else "failed"
    code = case.state.exit_code or 1
    events.append(
        case.paths,
        "run-ended",
        at=case.clock.now(),
        outcome=outcome,
        exit_code=code,
        reason=decision.reason,
        by=BY,
    )
    return case.outcome("stopped", decision.reason)


def _evidence(case: _Case, spec: JobSpec, live: Sequence[Job]) -> Evidence:
    """What Slurm and the checkpoints tell of a job that nobody has explained."""
    told = case.dossier.history
    total = spec.progress.total if spec.progress else None
    known = Evidence(
        checkpoint_step=_checkpoint_step(case, spec),
        total=total,
        cancel_requested=told.cancel_requested is not None,
        restart_lost=told.is_running,
    )
    job = _account(case) or next(iter(live), None)
    if job is None:
        return known
    return from_accounting(
        job,
        checkpoint_step=known.checkpoint_step,
        total=total,
        cancel_requested=known.cancel_requested,
        restart_lost=known.restart_lost,
    )


def _account(case: _Case) -> Job | None:
    """The last record of the run's job; None where accounting is off or has none."""
    job_id, submitted = case.dossier.job_id, case.dossier.history.job_submitted
    if job_id is None:
        return None
    try:
        found = case.slurm.accounting([job_id], since=submitted - MARGIN if submitted else None)
    except (AccountingOff, MissingRequirement):
        return None
    return found[-1] if found else None


def _checkpoint_step(case: _Case, spec: JobSpec) -> int | None:
    if spec.checkpoint is None:
        return None
    from slurmkit.checkpoint.choice import choose

    made = case.dossier.record
    root = (start_directory(case.paths, made) if made else Path()) / spec.checkpoint.path
    chosen = choose(root, spec.checkpoint.layout, kept=case.paths.verdicts).chosen
    return chosen.step if chosen else None


def _let_go(case: _Case, job: Job) -> list[Outcome]:
    """A requeue left half done is finished; a job that Slurm holds is let go while tries are left."""
    told = case.dossier.history
    if waiting.is_held_by_requeue(job, told):
        if waiting.stuck(job, told, case.clock.now()) is None:
            return []  # whoever requeues it may be at work
        intent = told.requeueing
        nodes = intent.fields.get("exclude") if intent else None
        if nodes:
            case.slurm.exclude(job.id, [str(node) for node in nodes])
        case.slurm.release(job.id)
        case.note("requeued", {"job_id": str(job.id)})
        return [case.outcome("released", f"the requeue of job {job.id} was left half done")]
    held = waiting.held_by_slurm(job)
    made = case.dossier.record
    if held is None or made is None or not made.recovers:
        return []
    from slurmkit.spec import load_resolved

    limit = retry_of(load_resolved(case.paths.job_toml)).requeues
    if (job.restarts or 0) >= limit:
        return [case.outcome("left", f"{held}; it was requeued {job.restarts} times ([retry] requeues)")]
    case.slurm.release(job.id)
    return [case.outcome("released", f"{held}; let go, as [retry] requeues = {limit} allows")]
