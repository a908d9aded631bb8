"""Waiting at the terminal: changes are said on stderr, Ctrl-C ends the waiting and never a job."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slurmkit.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmkit.run.paths import RunPaths
    from slurmkit.run.state import RunState
    from slurmkit.run.watch import Watch

INTERRUPTED = 130


@contextmanager
def leaving_jobs_alone(runs: Sequence[RunPaths]) -> Iterator[None]:
    """On Ctrl-C, say that the runs go on and how to come back to them."""
    gc.enable()  # `slurmkit.cli.start` turned it off for commands that are soon over
    try:
        yield
    except KeyboardInterrupt:
        ids = " ".join(paths.run_id for paths in runs)
        note(f"\nno longer waiting; what runs goes on\n  wait again: slurmkit wait {ids}")
        note(f"  look:       slurmkit status {ids}\n  end it:     slurmkit cancel {ids}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def wait_for(watch: Watch, runs: Sequence[RunPaths]) -> list[RunState]:
    """Wait until all runs have ended; each new state of one is said once, and each outage of Slurm's."""
    said: dict[str, str] = {}
    states: list[RunState] = []
    silent: str | None = None
    with leaving_jobs_alone(runs):
        for states in watch.until_over():
            for state in states:
                text = describe(state)
                if said.get(state.id) != text:
                    said[state.id] = text
                    note(f"{state.id}: {text}")
            if watch.silent != silent:
                silent = watch.silent
                note(f"{silent} does not answer; still waiting" if silent else "Slurm answers again")
    return states


def describe(state: RunState) -> str:
    """A state and its reason in one phrase."""
    return state.state if state.reason is None else f"{state.state} ({state.reason})"
