"""A run as Python code holds it, and `submit` for Python code; the commands are made of the same parts."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurmkit.run.index import index_of, resolve
from slurmkit.run.paths import RunPaths
from slurmkit.run.survey import survey
from slurmkit.run.watch import Watch
from slurmkit.slurm.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurmkit.run.state import RunState
    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.protocol import Slurm
    from slurmkit.spec import Loaded


class Run:
    """One run: `Run("last")`, or what `submit` returns.

    >>> run = slurmkit.submit("job.toml")  # doctest: +SKIP
    >>> run.wait().state  # doctest: +SKIP
    'completed'
    """

    def __init__(
        self,
        run: str | os.PathLike[str] | RunPaths,
        *,
        slurm: Slurm | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(run, RunPaths):
            run = resolve(os.fspath(run), index_of(os.environ))
        self.paths = run
        self._connect = usual_client if slurm is None else lambda _: slurm
        self._clock = clock if clock is not None else SystemClock()

    @property
    def id(self) -> str:
        """The run id."""
        return self.paths.run_id

    def status(self) -> RunState:
        """Where the run stands now, and why."""
        return survey([self.paths], self._connect, self._clock)[0]

    def wait(self) -> RunState:
        """Wait until the run has ended, however it ended."""
        *_, last = Watch([self.paths], self._connect, self._clock).until_over()
        return last[0]

    def logs(self, *, rank: int | None = 0) -> list[Path]:
        """The log of a rank in the last attempt, or with None of all; the batch log where no rank has one."""
        from slurmkit.run.logs import files
        from slurmkit.run.survey import open_dossier

        return files(open_dossier(self.paths), rank=rank)

    def cancel(self) -> None:
        """Ask Slurm to cancel the run's job.

        Raises:
            UsageError: the run has no job so far.
            SlurmError: Slurm did not do it.
        """
        from slurmkit.run.cancel import cancel

        cancel([self.paths], self._connect, self._clock)

    def __repr__(self) -> str:
        """The run as code."""
        return f"Run({self.id!r})"


def submit(
    job: str | os.PathLike[str] | Loaded,
    overrides: Sequence[str] = (),
    *,
    template: str = "managed",
    slurm: Slurm | None = None,
    clock: Clock | None = None,
) -> Run:
    """Submit a job file, or one that `load` has loaded; `overrides` are `key.path=value`.

    Raises:
        JobFileError: the job file is wrong.
        SlurmError: Slurm refused, or could not be reached.
    """
    from slurmkit.run.submit import Place
    from slurmkit.run.submit import submit as submit_once
    from slurmkit.spec import load

    loaded = load(job, overrides) if isinstance(job, str | os.PathLike) else job
    clock = clock if clock is not None else SystemClock()
    place = Place(directory=Path.cwd(), environ=os.environ, runs=index_of(os.environ), clock=clock)
    receipt = submit_once(loaded, place, slurm=slurm or usual_client(None), template=template)
    return Run(receipt.prepared.paths, slurm=slurm, clock=clock)


@functools.cache
def usual_client(cluster: str | None) -> Slurm:
    """The client for a cluster as the profiles say; None is the usual one.

    Raises:
        JobFileError: a profile is wrong.
    """
    from slurmkit.run.clients import connect
    from slurmkit.spec.profile import read_profile

    return connect(read_profile(), cluster, clock=SystemClock())
