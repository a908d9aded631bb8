"""Slurm through its own commands: squeue, sacct, scontrol, scancel and sbatch.

Text with a delimiter of ours and explicit fields, as `--json` changes its shape with every release. Only
`slurmkit.slurm.process` starts them. What reads an answer is imported with the first question: a submit asks
none.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING

from slurmkit.errors import AnswerLost, JobUnknown, SlurmError
from slurmkit.slurm import process
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.environment import WHERE_SLURM_IS, for_reading
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.refusals import is_fault
from slurmkit.slurm.request import Submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import TypeVar

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Answer, Retry
    from slurmkit.slurm.records import Job, Node, Partition
    from slurmkit.slurm.request import Submission

    Parsed = TypeVar("Parsed")

READ = process.Retry()
SUBMIT_TIMEOUT = 180.0
"""Seconds for sbatch at least: it goes on trying by itself for two minutes where slurmctld is overrun."""

CHUNK = 1000
"""Ids in one call. More jobs are asked of squeue as the whole queue, and of sacct in portions."""

_RECEIPT = re.compile(r"(\d+)(?:;([\w.-]+))?", re.ASCII)


class Commands:
    """The client that works wherever Slurm's commands do. Implements `slurmkit.slurm.protocol.Slurm`.

    Where Slurm's commands are not installed, every method raises `MissingRequirement`.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        clusters: str | None = None,
        timeout: float = 60.0,
        retry: Retry = READ,
        clock: Clock | None = None,
    ) -> None:
        """`environment` leads to Slurm (the process's own by default); `clusters` is for `-M`."""
        environ = os.environ if environment is None else environment
        self._environ = environ
        self._environment = for_reading(environ)
        self._clusters = [f"--clusters={clusters}"] if clusters else []
        self._timeout = timeout
        self._retry = retry
        self._clock = clock if clock is not None else SystemClock()

    def submit(self, submission: Submission) -> Submitted:
        """Call sbatch once, in the submission's own environment; which Slurm it meets is the client's.

        The id is the one line of stdout that can be one; where there is none, or several, the answer is lost.
        """
        where = {name: self._environ[name] for name in WHERE_SLURM_IS if name in self._environ}
        program, *arguments = sbatch_arguments(submission)
        answer = process.run(
            [program, *([] if submission.cluster else self._clusters), *arguments],
            environment={**where, **submission.environment},
            search_path=self._environ.get("PATH"),
            clock=self._clock,
            timeout=max(self._timeout, SUBMIT_TIMEOUT),
            directory=submission.directory,
        )
        return _receipt(answer)

    def find(self, tag: str, *, since: datetime) -> Job | None:
        """The job of this user that carries `tag` in its comment, or in its submit line.

        Raises:
            Unreachable: one of the two places could not be searched, and the other has no such job.
        """
        from slurmkit.slurm.finding import find

        return find(self, tag, since=since, user=str(os.getuid()))

    def jobs(
        self, ids: Collection[JobId] | None = None, *, user: str | None = None, max_age: float = 0.0
    ) -> list[Job]:
        """As `Slurm.jobs`: one squeue, however many ids."""
        from slurmkit.slurm import squeue

        if ids is not None and not ids:
            return []
        asked = ids if ids is not None and len(ids) <= CHUNK else None
        argv = ["squeue", *self._clusters, *squeue.arguments(ids=asked, user=user)]
        try:
            text = self._read(argv, max_age=max_age)
        except JobUnknown:
            return []  # said where only one id was asked for; of several, squeue lists those that it knows
        return _parsed("squeue", partial(squeue.parse, text, ids))

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
        """As `Slurm.accounting`: one sacct for every thousand ids, one after the other."""
        from datetime import timedelta

        from slurmkit.slurm import sacct

        if since is None and ids is None:
            since = self._clock.now() - timedelta(days=1)
        asked = sacct.fields(self._read(["sacct", "--helpformat"], max_age=3600.0).split())
        found: list[Job] = []
        for chunk in _chunks(ids):
            options = sacct.arguments(
                asked, ids=chunk, since=since, until=until, user=user, duplicates=duplicates, steps=steps
            )
            text = self._read(["sacct", *self._clusters, *options], max_age=max_age)
            found += _parsed("sacct", partial(sacct.parse, text, asked, ids))
        return sacct.count_restarts(found) if duplicates else found

    def excluded(self, job: JobId) -> tuple[str, ...]:
        """The nodes that a job must not have, as it stands in the queue; none where it is there no more."""
        from slurmkit.slurm.hostlist import expand

        try:
            text = self._read(["squeue", *self._clusters, "--noheader", "--format=%x", f"--jobs={job}"])
        except JobUnknown:
            return ()
        return _parsed("squeue", lambda: tuple(expand(text.strip())))

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        """As `Slurm.end_steps`; those of the script itself and of what Slurm runs beside it stay."""
        asked = ["squeue", *self._clusters, "--steps", "--noheader", "--format=%i", f"--jobs={job}"]
        try:
            steps = tuple(one for one in self._read(asked).split() if one.rpartition(".")[2].isdigit())
            if steps:
                self._change(["scancel", *self._clusters, *steps])
        except JobUnknown:
            return ()
        return steps

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        """As `Slurm.exclude`; `scontrol update` itself replaces the list."""
        from slurmkit.slurm.hostlist import fold

        self.update(job, {"ExcNodeList": fold({*self.excluded(job), *nodes})})

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """As `Slurm.nodes`; a name that Slurm does not know is absent."""
        from slurmkit.slurm import scontrol

        nodes = self._show("--all", "--details", "--oneliner", "show", "node", parse=scontrol.parse_nodes)
        return [node for node in nodes if names is None or node.name in names]

    def partitions(self) -> list[Partition]:
        """As `Slurm.partitions`."""
        from slurmkit.slurm import scontrol

        return self._show("--oneliner", "show", "partition", parse=scontrol.parse_partitions)

    def topology(self) -> Mapping[str, str]:
        """As `Slurm.topology`."""
        from slurmkit.slurm import scontrol

        return self._show("show", "topology", parse=scontrol.parse_topology, max_age=600.0)

    def config(self) -> Mapping[str, str]:
        """As `Slurm.config`; what the controller answered within the last ten minutes will do."""
        from slurmkit.slurm import scontrol

        return self._show("show", "config", parse=scontrol.parse_config, max_age=600.0)

    def version(self) -> tuple[int, int, int]:
        """As `Slurm.version`: that of the commands on this machine."""
        from slurmkit.slurm import scontrol

        text = self._read(["scontrol", "--version"])
        return _parsed("scontrol", partial(scontrol.parse_version, text))

    def cancel(self, ids: Sequence[JobId]) -> None:
        """As `Slurm.cancel`."""
        for chunk in _chunks(ids):
            try:
                self._change(["scancel", *self._clusters, *map(str, chunk or ())])
            except JobUnknown:
                continue  # ended in the meantime: what was asked for is the case

    def signal(self, job: JobId, name: str, *, batch: bool = False) -> None:
        """As `Slurm.signal`."""
        where = ["--batch"] if batch else []
        self._change(["scancel", *self._clusters, f"--signal={name}", *where, str(job)], once=True)

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        """As `Slurm.requeue`."""
        self._change(["scontrol", *self._clusters, "requeuehold" if hold else "requeue", str(job)], once=True)

    def hold(self, job: JobId) -> None:
        """As `Slurm.hold`."""
        self._change(["scontrol", *self._clusters, "hold", str(job)])

    def release(self, job: JobId) -> None:
        """As `Slurm.release`."""
        self._change(["scontrol", *self._clusters, "release", str(job)])

    def update(self, job: JobId, changes: Mapping[str, str]) -> None:
        """As `Slurm.update`."""
        words = [f"{name}={value}" for name, value in changes.items()]
        self._change(["scontrol", *self._clusters, "update", f"JobId={job}", *words])

    def _show(self, *words: str, parse: Callable[[str], Parsed], max_age: float = 0.0) -> Parsed:
        text = self._read(["scontrol", *self._clusters, *words], max_age=max_age)
        return _parsed("scontrol", partial(parse, text))

    def _read(self, argv: Sequence[str], *, max_age: float = 0.0) -> str:
        """The stdout of a command that changes nothing; a passing fault is met with another try."""

        def ask() -> Answer:
            return process.run(
                argv,
                environment=self._environment,
                clock=self._clock,
                timeout=self._timeout,
                retry=self._retry,
            )

        if max_age:
            from slurmkit.slurm.sharing import Shared, default_folder, shared_answer

            shared = Shared(default_folder(self._environ), self._clock)
            answer = shared_answer(shared, argv, self._environment.get("SLURM_CONF", ""), max_age, ask)
        else:
            answer = ask()
        if answer.is_ok and not answer.stdout and is_fault(answer.stderr):
            # Older commands say with code 0 that a daemon is away; an empty answer would mean "no jobs".
            answer = answer._replace(code=1)
        return process.check(argv[0], answer).stdout

    def _change(self, argv: Sequence[str], *, once: bool = False) -> None:
        """A command that changes something; `once`: doing it twice would not be the same as doing it once."""
        answer = process.run(
            argv,
            environment=self._environment,
            clock=self._clock,
            timeout=self._timeout,
            retry=process.NEVER if once else self._retry,
        )
        process.check(argv[0], answer, repeatable=not once)


def sbatch_arguments(submission: Submission) -> list[str]:
    """How sbatch is called for a submission."""
    where = [f"--clusters={submission.cluster}"] if submission.cluster else []
    script = submission.directory / submission.script
    return ["sbatch", "--parsable", *where, *submission.arguments, str(script)]


def _receipt(answer: Answer) -> Submitted:
    """What sbatch answered.

    Raises:
        Refused: Slurm, or sbatch itself, said no.
        AnswerLost: no one id was printed, or something other than sbatch failed: a job may be in the queue.
        Unreachable: the request did not arrive.
    """
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    receipts = [found for line in lines if (found := _RECEIPT.fullmatch(line))]
    said = [line for line in (*lines, *answer.stderr.splitlines()) if not _RECEIPT.fullmatch(line)]
    if answer.is_ok and len(receipts) == 1:
        job, cluster = receipts[0].groups()
        return Submitted(JobId(int(job)), cluster, "\n".join(said))
    spoken = any(line.startswith("sbatch: ") for line in answer.stderr.splitlines())
    if answer.is_ok or receipts or not spoken:
        raise AnswerLost("sbatch did not say which job it made", where="; ".join(said)[-500:] or None)
    process.check("sbatch", answer, repeatable=False)
    raise AssertionError("an answer that is not well is an error")


def _chunks(ids: Collection[JobId] | None) -> Iterator[list[JobId] | None]:
    """The ids in portions; None, which stands for all, as it is; none of them: nothing to ask."""
    if ids is None:
        yield None
        return
    listed = list(ids)
    for begin in range(0, len(listed), CHUNK):
        yield listed[begin : begin + CHUNK]


def _parsed(program: str, parse: Callable[[], Parsed]) -> Parsed:
    """What `parse` makes of an answer; of an unknown shape it is Slurm's error, with the faulty part."""
    try:
        return parse()
    except (ValueError, KeyError) as error:
        raise SlurmError(f"{program} answered what slurmkit cannot read", where=str(error)) from error
