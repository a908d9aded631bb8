"""Slurm through pyslurm: the queue and accounting without a process for each question.

What pyslurm 25.11 cannot do, or not as the commands do it, is done by the commands: `LEFT_TO_COMMANDS`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurmkit.slurm import sacct, squeue
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import Answer
from slurmkit.slurm.pyslurm_library import NotToBeHad, library
from slurmkit.slurm.pyslurm_rows import accounted, live, step_rows
from slurmkit.slurm.rows import by_base, is_wanted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.commands import Commands
    from slurmkit.slurm.pyslurm_rows import Row
    from slurmkit.slurm.records import Job, Node, Partition
    from slurmkit.slurm.request import Submission, Submitted

_ONE_RECORD = "it reaches jobs by number: of an array one record alone, and no task by its index"
LEFT_TO_COMMANDS: Mapping[str, str] = {
    "submit": "it has no SPANK options, het jobs or submit line, and cannot read a directive with two `=`",
    "jobs of one id": "slurmctld would send the whole queue: of an array, it can ask for one record only",
    "accounting with duplicates": "it keeps one record of each id, the last",
    "accounting that may be shared": "answers are kept as sacct's text, for all processes of the user",
    "nodes": "it has neither CfgTRES nor GresUsed, and of Gres no sockets",
    "partitions": "it has no TRES of a partition",
    "topology": "not in pyslurm",
    "config": "pyslurm names and types the values in its own way",
    "version": "it asks slurmctld for its whole configuration; the commands know theirs",
    "signal": "it keeps silent where the job has ended",
    "requeue": _ONE_RECORD,
    "hold": _ONE_RECORD,
    "release": _ONE_RECORD,
    "update": f"{_ONE_RECORD}; scontrol's names of fields are not its own",
    "exclude": _ONE_RECORD,
    "end_steps": f"{_ONE_RECORD}; a step of a het component has the number of another",
    "cancel of a task": "it reaches jobs by number",
}
"""What is asked of the commands client, and why pyslurm ("it") is not."""


class PySlurm:
    """The client that asks Slurm's library within this process. Implements `slurmkit.slurm.protocol.Slurm`.

    It talks to the Slurm of the process's own environment. Where pyslurm fails or does not know enough, the
    commands are asked: errors are theirs.
    """

    def __init__(self, commands: Commands, *, clock: Clock) -> None:
        self._commands = commands
        self._clock = clock
        self._exit_codes: dict[tuple[str, str], str] = {}

    def submit(self, submission: Submission) -> Submitted:
        """As `Slurm.submit`, by sbatch."""
        return self._commands.submit(submission)

    def find(self, tag: str, *, since: datetime) -> Job | None:
        """As `Slurm.find`."""
        from slurmkit.slurm.finding import find

        return find(self, tag, since=since, user=str(os.getuid()))

    def jobs(
        self, ids: Collection[JobId] | None = None, *, user: str | None = None, max_age: float = 0.0
    ) -> list[Job]:
        """As `Slurm.jobs`: one request for the whole queue; that of one id alone is left to squeue."""
        if ids is not None and len(ids) <= 1:
            return self._commands.jobs(ids, user=user, max_age=max_age)
        try:
            if not max_age:
                return [squeue.to_job(JobId.parse(row["JobArrayID"]), row) for row in self._queue(ids, user)]
            # Kept as squeue's own text, under squeue's own question: whoever asks by commands has it, too.
            return squeue.parse(self._shared(ids, user, max_age), ids)
        except NotToBeHad:
            return self._commands.jobs(ids, user=user, max_age=max_age)

    def accounting(
        self,
        ids: Collection[JobId] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: str | None = None,
        duplicates: bool = False,
        steps: bool = True,
        max_age: float = 0.0,
    ) -> list[Job]:
        """As `Slurm.accounting`: one request; records that pyslurm tells wrongly are asked of sacct."""
        if ids is not None and not ids:
            return []

        def by_commands(asked: Collection[JobId] | None) -> list[Job]:
            return self._commands.accounting(
                asked,
                since=since,
                until=until,
                user=user,
                duplicates=duplicates,
                steps=steps,
                max_age=max_age,
            )

        if duplicates or max_age:
            return by_commands(ids)
        try:
            told, doubtful = self._accounted(ids, since, until, user, with_steps=steps)
        except NotToBeHad:
            return by_commands(ids)
        if not doubtful:
            return told
        wanted = [job.id.base for job in told if job.id in doubtful]
        better = {job.id: job for job in by_commands(list(dict.fromkeys(wanted)))}
        return [better.get(job.id, job) if job.id in doubtful else job for job in told]

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """As `Slurm.nodes`, by scontrol."""
        return self._commands.nodes(names)

    def partitions(self) -> list[Partition]:
        """As `Slurm.partitions`, by scontrol."""
        return self._commands.partitions()

    def cancel(self, ids: Sequence[JobId]) -> None:
        """As `Slurm.cancel`; parts of arrays and het jobs by scancel."""
        left = [one for one in ids if one != one.base]
        for one in (one for one in ids if one == one.base):
            try:
                with library() as pyslurm:
                    pyslurm.Job(one.job).cancel()
            except NotToBeHad:
                left.append(one)
        if left:
            self._commands.cancel(left)

    def signal(self, job: JobId, name: str, *, batch: bool = False) -> None:
        """As `Slurm.signal`, by scancel."""
        self._commands.signal(job, name, batch=batch)

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        """As `Slurm.requeue`, by scontrol."""
        self._commands.requeue(job, hold=hold)

    def hold(self, job: JobId) -> None:
        """As `Slurm.hold`, by scontrol."""
        self._commands.hold(job)

    def release(self, job: JobId) -> None:
        """As `Slurm.release`, by scontrol."""
        self._commands.release(job)

    def update(self, job: JobId, changes: Mapping[str, str]) -> None:
        """As `Slurm.update`, by scontrol."""
        self._commands.update(job, changes)

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        """As `Slurm.end_steps`, by squeue and scancel."""
        return self._commands.end_steps(job)

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        """As `Slurm.exclude`, by squeue and scontrol."""
        self._commands.exclude(job, nodes)

    def topology(self) -> Mapping[str, str]:
        """As `Slurm.topology`, by scontrol."""
        return self._commands.topology()

    def config(self) -> Mapping[str, str]:
        """As `Slurm.config`, by scontrol."""
        return self._commands.config()

    def version(self) -> tuple[int, int, int]:
        """As `Slurm.version`, by scontrol."""
        return self._commands.version()

    def _queue(self, ids: Collection[JobId] | None, user: str | None) -> list[Row]:
        """The queue as squeue's rows, of those ids and users."""
        wanted = None if ids is None else by_base(ids)
        users = None if user is None else set(user.split(","))
        found: list[Row] = []
        doubtful: list[Row] = []
        names: dict[int, str] = {}
        now = self._clock.now().timestamp()
        with library() as pyslurm:
            for job in pyslurm.Jobs.load().values():
                number = job.user_id
                name = names[number] if number in names else names.setdefault(number, job.user_name)
                if users is not None and users.isdisjoint((name, str(number))):
                    continue
                if name == str(number):
                    raise NotToBeHad("a user whom this machine does not know")
                row, is_doubtful = live(job, name, now)
                if wanted is None or is_wanted(JobId.parse(row["JobArrayID"]), row["JobID"], wanted):
                    found.append(row)
                    if is_doubtful:
                        doubtful.append(row)
        self._settle(doubtful)
        return found

    def _settle(self, doubtful: Sequence[Row]) -> None:
        """Put the true exit codes into rows of jobs that have ended; each is asked for once."""
        ends = {(row["JobID"], row["EndTime"]): row for row in doubtful}
        self._exit_codes = {end: code for end, code in self._exit_codes.items() if end in ends}
        unknown = [JobId.parse(row["JobArrayID"]) for end, row in ends.items() if end not in self._exit_codes]
        told = {job.id: job.exit_code for job in self._commands.jobs(unknown)} if unknown else {}
        for end, row in ends.items():
            code = told.get(JobId.parse(row["JobArrayID"]))
            if code is not None:
                self._exit_codes[end] = str(code.code << 8 | code.signal)
            row["exit_code"] = self._exit_codes.get(end, row["exit_code"])

    def _shared(self, ids: Collection[JobId] | None, user: str | None, max_age: float) -> str:
        from slurmkit.slurm.commands import CHUNK
        from slurmkit.slurm.sharing import Shared, default_folder, shared_answer

        asked = ids if ids is not None and len(ids) <= CHUNK else None
        return shared_answer(
            Shared(default_folder(os.environ), self._clock),
            ["squeue", *squeue.arguments(ids=asked, user=user)],
            os.environ.get("SLURM_CONF", ""),
            max_age,
            lambda: Answer(0, squeue.written(self._queue(asked, user)), ""),
        ).stdout

    def _accounted(
        self,
        ids: Collection[JobId] | None,
        since: datetime | None,
        until: datetime | None,
        user: str | None,
        *,
        with_steps: bool,
    ) -> tuple[list[Job], set[JobId]]:
        """What pyslurm tells of accounting, and the ids of which it tells something wrongly."""
        from datetime import timedelta

        wanted = None if ids is None else by_base(ids)
        if since is None and ids is None:
            since = self._clock.now() - timedelta(days=1)
        found: list[Job] = []
        doubtful: set[JobId] = set()
        with library() as pyslurm:
            asked = pyslurm.db.JobFilter(end_time=int((until or self._clock.now()).timestamp()))
            if since is not None:
                asked.start_time = int(since.timestamp())
            if wanted is not None:
                asked.ids = sorted(wanted)
            if user is not None:
                asked.users = user.split(",")
            for job in pyslurm.db.Jobs.load(asked).values():
                row, is_doubtful = accounted(job)
                job_id = JobId.parse(row["JobID"])
                if wanted is not None and not is_wanted(job_id, row["JobIDRaw"], wanted):
                    continue
                record = sacct.to_job(job_id, row)
                own = map(sacct.to_step, step_rows(job, row["JobID"])) if with_steps else ()
                found.append(record._replace(steps=tuple(own)))
                if is_doubtful:
                    doubtful.add(job_id)
        return found, doubtful
