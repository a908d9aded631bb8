"""A rehearsal as it goes on: its run is watched, asked for a checkpoint, ended, and cleaned up after."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import SlurmError, SlurmkitError, UsageError
from slurmkit.launch.files import write_atomically
from slurmkit.recovery import rehearsal, step
from slurmkit.recovery.attempt import current_attempt
from slurmkit.recovery.rehearsal import Asked, Limits, Sample, Start, Verdict, View
from slurmkit.recovery.setting import Setting
from slurmkit.run import events
from slurmkit.run import progress as of_progress
from slurmkit.run.course import courses
from slurmkit.run.survey import open_dossier
from slurmkit.slurm import process
from slurmkit.slurm.environment import strip
from slurmkit.spec.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from slurmkit.checkpoint.choice import Checkpoint
    from slurmkit.recovery.rehearsal_job import Rehearsed
    from slurmkit.run.course import Stint
    from slurmkit.run.paths import RunPaths
    from slurmkit.run.progress import Progress
    from slurmkit.run.state import RunState
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.spec.model import JobSpec

LOOK, QUICK_LOOK = 0.5, 0.1
"""Seconds between two looks at the run; the last word of a start is there only until the next one begins."""
SIGNAL_WITHIN = 30.0
GONE_WITHIN = 120.0
"""Seconds that a cancelled job is waited for: KillWait and an epilog."""
LOSS = "loss"


class Place(NamedTuple):
    """Where a rehearsal goes on: its run, Slurm, the clock, this shell's variables, and whom to tell."""

    paths: RunPaths
    slurm: Slurm
    clock: Clock
    environ: Mapping[str, str]
    say: Callable[[str], None]


def limits_of(spec: JobSpec, *, timeout: float, job: float) -> Limits:
    """How long each thing may take; the program gets its lead time to save, as at a time limit."""
    lead = parse_duration(spec.checkpoint.lead_time) if spec.checkpoint else 0
    return Limits(timeout, min(float(lead), timeout), job)


@contextlib.contextmanager
def making_folder(job: Rehearsed) -> Iterator[None]:
    """Make the rehearsal's own folder where that of the run is there, too: the program may count on it.

    Raises:
        UsageError: it cannot be made.
    """
    is_made = job.is_own and job.real.is_dir()
    try:
        if is_made:
            job.folder.mkdir()
    except OSError as error:
        raise UsageError(f"cannot make a folder: {error.strerror}", where=str(job.folder)) from error
    try:
        yield
    except SlurmkitError:
        if is_made:
            job.folder.rmdir()
        raise


def rehearse(place: Place, job: Rehearsed, limits: Limits, look: Callable[[], RunState]) -> Verdict:
    """Take a run that was submitted for it through an end and a resume; `look` tells its state.

    Raises:
        SlurmError: the step could not be ended.
    """
    samples: list[Sample] = []
    asked: Asked | None = None
    interrupted: float | None = None
    while True:
        state, now = look(), place.clock.now().timestamp()
        stints = _stints(place.paths, state, now)
        starts = rehearsal.starts_of(stints)
        _listen(samples, place.paths, stints)
        view = View(
            now=now,
            limits=limits,
            starts=starts,
            samples=samples,
            asked=asked,
            interrupted=interrupted,
            ended=(state.reason or state.state) if state.is_end else None,
            anew=_rewritten(place.paths, job, starts) if interrupted and not samples else None,
        )
        move = rehearsal.next_move(view)
        if isinstance(move, Verdict):
            return explained(move, place.paths, job, starts)
        if move == "ask":
            asked = ask(place, job.loaded.spec, stints[-1])
        elif move == "interrupt":
            interrupted = _end_step(place)
        place.clock.sleep(QUICK_LOOK if interrupted and len(starts) < 2 else LOOK)


def _stints(paths: RunPaths, state: RunState, now: float) -> Sequence[Stint]:
    # What Slurm told last may be older than the first word of the agent.
    known = state.state if state.is_end else "running"
    found = courses(events.read(paths), state=known, now=now)
    return found[0].stints if found else ()


def _listen(samples: list[Sample], paths: RunPaths, stints: Sequence[Stint]) -> None:
    """Add what progress.json tells, where it tells something new."""
    told = of_progress.read(paths.progress(stints[-1].name)) if stints else None
    if told is None or told.step is None or told.attempt is None or told.step_start is None:
        return
    sample = Sample((told.attempt, told.step_start), told.step, told.first_step, loss_in(told))
    if not samples or samples[-1] != sample:
        samples.append(sample)


def loss_in(told: Progress) -> float | None:
    """The metric `loss`, or else the only one whose name ends so, such as `train/loss`."""
    if LOSS in told.metrics:
        return told.metrics[LOSS]
    found = [value for name, value in told.metrics.items() if name.lower().endswith(LOSS)]
    return found[0] if len(found) == 1 else None


def ask(place: Place, spec: JobSpec, stint: Stint) -> Asked:
    """Ask every rank for a checkpoint as the agent does at a time limit: by a file, and by the signal."""
    name = spec.checkpoint.signal if spec.checkpoint else "USR1"
    number = stint.starts[-1].number
    place.say("every rank is asked for a checkpoint")
    file = place.paths.request(stint.name, number)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, b"rehearsal\n")
        at = file.stat().st_mtime
    except OSError as error:
        raise UsageError(f"the request cannot be written: {error.strerror}", where=str(file)) from error
    try:
        caught = _signal(place, spec, stint, name)
    except SlurmkitError as error:
        place.say(f"the ranks could not be signalled: {error.what}; those that poll see the request")
        return Asked(at, name)
    return Asked(at, name, sum(caught.values()), len(caught))


def _signal(place: Place, spec: JobSpec, stint: Stint, name: str) -> dict[int, bool]:
    """Send the signal to the ranks that catch it, by a step beside theirs; by rank, whether it does."""
    started = next(event for event in stint.events if event.kind == "attempt-started")
    nodes = started.fields.get("nodes") or []
    batch = {"SLURM_JOB_ID": stint.job_id or "", "SLURM_JOB_NODELIST": ",".join(map(str, nodes))}
    setting = Setting(
        paths=place.paths,
        spec=spec,
        attempt=current_attempt(batch),
        environ=batch,
        mask=(),
        srun="srun",
        clock=place.clock,
        connect=lambda: place.slurm,
        began=stint.begin,
    )
    plain, _ = strip(place.environ)
    told = {"SLURMKIT_ATTEMPT": stint.name, "SLURMKIT_STEP": str(stint.starts[-1].number)}
    environment = {**plain, **told, "SLURM_JOB_ID": batch["SLURM_JOB_ID"]}
    argv = [*step.on_every_node(setting, "signal"), name]
    answer = process.run(argv, environment=environment, clock=place.clock, timeout=SIGNAL_WITHIN)
    return signalled(process.check("srun", answer).stdout)


def signalled(text: str) -> dict[int, bool]:
    """What the step that signals has printed: of each rank, whether it catches the signal."""
    found: dict[int, bool] = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            told = json.loads(line)
            found[int(told["rank"])] = found.get(int(told["rank"]), False) or told["sent"] is True
    return found


def _end_step(place: Place) -> float | None:
    """End the program without warning; when that was, and None where Slurm lists no step of the job."""
    job, at = open_dossier(place.paths).job_id, place.clock.now().timestamp()
    if job is None or not place.slurm.end_steps(job):
        return None
    place.say("the step is ended, as by a fault")
    return at


def _rewritten(paths: RunPaths, job: Rehearsed, starts: Sequence[Start]) -> str | None:
    """A checkpoint that the second start has saved and that is no newer than the one it was given."""
    if len(starts) < 2 or not starts[1].step.marks or starts[1].step.from_step is None:
        return None
    begin, given = starts[1].step.begin, starts[1].step.from_step
    found = [one for one in _saved_since(paths, job, begin) if one.step is not None and one.step <= given]
    return found[-1].path.name if found else None


def _saved_since(paths: RunPaths, job: Rehearsed, begin: float) -> list[Checkpoint]:
    from slurmkit.checkpoint.choice import survey

    layout = job.loaded.spec.checkpoint.layout if job.loaded.spec.checkpoint else "auto"
    found = survey(job.folder, layout, kept=paths.verdicts)
    return [one for one in found if one.verdict.saved is not None and one.verdict.saved >= begin]


def explained(verdict: Verdict, paths: RunPaths, job: Rehearsed, starts: Sequence[Start]) -> Verdict:
    """With what lies about, where a checkpoint was waited for in vain."""
    if verdict.passed or not starts or starts[0].step.marks:
        return verdict
    from slurmkit.checkpoint.choice import survey

    layout = job.loaded.spec.checkpoint.layout if job.loaded.spec.checkpoint else "auto"
    here = survey(job.folder, layout, kept=paths.verdicts, limit=1)
    if here:
        name, why = here[0].path.name, here[0].verdict.reason or here[0].verdict.state
        told = why if name in why else f"{name}: {why}"
        return verdict._replace(reason=f"{verdict.reason}; {told}")
    begin = starts[0].step.begin
    there = survey(job.real, layout, limit=1) if job.is_own else []
    if there and (there[0].verdict.saved or 0.0) >= begin:
        why = f"; it saved {there[0].path.name} into {job.real}, and not where SLURMKIT_CHECKPOINTS says"
        return verdict._replace(reason=verdict.reason + why)
    return verdict


def clean_up(place: Place, job: Rehearsed, *, keep: bool) -> None:
    """Cancel the job, and once it is gone remove the checkpoints that are the rehearsal's own."""
    from slurmkit.run.cancel import cancel

    run_id = place.paths.run_id
    try:
        cancel([place.paths], lambda _: place.slurm, place.clock)
        is_gone = _is_gone(place)
    except SlurmkitError as error:
        place.say(f"the job could not be cancelled: {error.what}\n  try: slurmkit cancel {run_id}")
        is_gone = False
    if keep or not job.is_own:
        return
    if not is_gone:
        place.say(f"its job has not ended yet: {job.folder} stays")
        return
    try:
        shutil.rmtree(job.folder)
    except FileNotFoundError:
        return
    except OSError as error:
        place.say(f"its checkpoints could not be removed: {error.strerror}: {error.filename or job.folder}")


def _is_gone(place: Place) -> bool:
    """Wait until the run's job has ended; False where that takes too long."""
    job = open_dossier(place.paths).job_id
    give_up = place.clock.monotonic() + GONE_WITHIN
    while job is not None:
        try:
            alive = [one for one in place.slurm.jobs([job]) if not one.state.is_final]
        except SlurmError:
            alive = None
        if alive == []:
            return True
        if place.clock.monotonic() >= give_up:
            return False
        place.clock.sleep(LOOK)
    return True
