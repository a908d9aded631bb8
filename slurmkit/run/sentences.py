"""What is found out about a running or failed step, in words. The same ones in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from slurmkit.run.progress import Progress, Saved, Straggler

SIGNALS: Mapping[str, str] = {
    "SIGABRT": "the program aborted itself",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGHUP": "hangup",
    "SIGILL": "illegal instruction",
    "SIGINT": "interrupt",
    "SIGKILL": "which no program can catch",
    "SIGPIPE": "broken pipe",
    "SIGSEGV": "segmentation fault",
    "SIGSYS": "forbidden system call",
    "SIGTERM": "asked to end",
    "SIGXCPU": "limit of processor time",
    "SIGXFSZ": "limit of file size",
}
"""What a signal means to somebody who has never had to know its name."""

ACTIONS: Mapping[str, str] = {
    "done": "the work is done",
    "restart": "restart in place",
    "requeue": "requeue",
    "resubmit": "submit again",
    "stop": "stop",
    "leave": "leave it to Slurm",
}
"""What follows an end, by the names of events."""

WHY_ASKED: Mapping[str, str] = {
    "time-limit": "the time limit is near",
    "preempted": "another job takes the nodes",
    "told": "the job was told to end",
    "asked": "somebody asked for it",
}
"""Why every rank is asked to save, by the names of events."""


def end_in_words(exit_code: int | None, signal: int | None) -> str:
    """How a process ended, e.g. "killed by SIGSEGV (segmentation fault)"."""
    if signal:
        return f"killed by {signal_in_words(signal)}"
    if exit_code is None:
        return "nobody knows how"
    if 128 < exit_code <= 128 + 64:
        return f"exit code {exit_code}, as a shell reports {signal_in_words(exit_code - 128)}"
    return f"exit code {exit_code}"


def signal_in_words(number: int) -> str:
    """A signal by its name, and what that means."""
    from signal import Signals

    try:
        name = Signals(number).name
    except ValueError:
        return f"signal {number}"
    meaning = SIGNALS.get(name)
    return f"{name} ({meaning})" if meaning else name


def duration(seconds: float) -> str:
    """A length of time in its two largest units: "45s", "1m 12s", "3h 05m", "2d 04h"."""
    whole = max(int(seconds + 0.5), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def speed(steps_per_second: float) -> str:
    """Steps a second; of slow ones, seconds a step."""
    if 0 < steps_per_second < 0.5:
        return f"{number(1 / steps_per_second)} s/step"
    return f"{number(steps_per_second)} steps/s"


def number(value: float) -> str:
    """A number to three digits, without an exponent where it can be read without."""
    if abs(value) >= 1000 and abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.3g}"


def step_of(progress: Progress) -> str | None:
    """E.g. "120/1000", or "120" where the total is not known; None where no step is."""
    if progress.step is None:
        return None
    return str(progress.step) if progress.total is None else f"{progress.step}/{progress.total}"


def share(progress: Progress) -> float | None:
    """The part of the work that is done, from 0 to 1."""
    if progress.step is None or not progress.total:
        return None
    return min(max(progress.step / progress.total, 0.0), 1.0)


def how_far(progress: Progress) -> str | None:
    """E.g. "step 120/1000 (12 %), 12.3 steps/s, 1m 12s left"; None where no step is known."""
    if progress.step is None:
        return None
    done = share(progress)
    words = [f"step {step_of(progress)}" + ("" if done is None else f" ({int(done * 100)} %)")]
    if progress.steps_per_second is not None:
        words.append(speed(progress.steps_per_second))
    if progress.seconds_left is not None:
        words.append(f"{duration(progress.seconds_left)} left")
    return ", ".join(words)


def shares(phases: Mapping[str, float]) -> list[tuple[str, float]]:
    """The part of a step that each phase takes, from 0 to 1; nothing where no time was measured."""
    whole = sum(one for one in phases.values() if one > 0)
    return [(name, one / whole) for name, one in phases.items() if one > 0] if whole > 0 else []


def ago(age: timedelta) -> str:
    """How long ago; clocks that differ a little make it no time in the future."""
    return f"{duration(age.total_seconds())} ago"


def saved(one: Saved, now: datetime) -> str:
    """The last checkpoint: of which step, and how old."""
    step = "" if one.step is None else f"step {one.step}, "
    return f"{step}{ago(now - one.at)}"


def place(rank: object, host: object) -> str:
    """Who: a rank on its node, or a node as a whole."""
    if rank is None:
        return f"node {host}"
    return f"rank {rank} on {host}" if host else f"rank {rank}"


def failure(first: Mapping[str, Any]) -> str:
    """Which rank failed first, and how."""
    code, number = (
        value if isinstance(value := first.get(name), int) else None for name in ("exit_code", "signal")
    )
    killed = number == 9 or code == 128 + 9
    end = (
        "killed by the kernel: out of memory"
        if killed and first.get("oom_killed")
        else end_in_words(code, number)
    )
    return f"{place(first.get('rank'), first.get('host'))} failed first: {end}"


def refused(one: Mapping[str, Any]) -> str:
    """A checkpoint that was not good enough, and why: its name, not its whole path."""
    name = str(one.get("checkpoint") or "?").rstrip("/").rpartition("/")[2]
    reason = one.get("reason")
    return f"{name} is {one.get('state') or 'not good enough'}" + (f" ({reason})" if reason else "")


def why(first: Mapping[str, Any]) -> str:
    """The cause of a first failure, as the end of a sentence; empty where it is not known."""
    cause = first.get("cause")
    return f": {cause['sentence']}" if isinstance(cause, dict) and cause.get("sentence") else ""


def others(count: int) -> str:
    """How many ranks failed after the first."""
    return "1 other rank failed" if count == 1 else f"{count} other ranks failed"


def straggler(one: Straggler) -> str:
    """Who is slow, in which phase, and by how much."""
    text = f"{place(one.rank, one.host)} is slow"
    if one.phase:
        text += f" in {one.phase}"
    if one.own is not None and one.median is not None:
        text += f": {seconds(one.own)} a step of its own, the others {seconds(one.median)}"
        if one.median > 0:
            text += f" (+{(one.own / one.median - 1) * 100:.0f} %)"
    return text


def seconds(value: float) -> str:
    """A short time, in milliseconds below a second."""
    return f"{number(value * 1000)} ms" if value < 1 else f"{number(value)} s"


def unfit(node: str, reasons: Iterable[str]) -> str:
    """A node that must not, or should not, be started on, and why."""
    return f"{node}: {'; '.join(reasons) or 'no reason given'}"
