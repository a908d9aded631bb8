"""Slurm through its own commands: squeue, sacct, scontrol, scancel and sbatch.

Text with a delimiter of ours and explicit fields, as `--json` changes its shape with every release. Only
`slurmkit.slurm.process` starts them.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from slurmkit.errors import AccountingOff, AnswerLost, JobUnknown, SlurmError
from slurmkit.slurm import process
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.environment import for_reading
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submitted
from slurmkit.slurm.sharing import Shared, default_folder, shared_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import TypeVar

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Answer, Retry
    from slurmkit.slurm.records import Job, Node, Partition
    from slurmkit.slurm.request import Submission

    Parsed = TypeVar("Parsed")

READ = process.Retry()
CHUNK = 500
"""Ids in one call: a command line has an end, and a long list of ids is dear to slurmdbd."""

_RECEIPT = re.compile(r"(\d+)(?:;([\w.-]+))?", re.ASCII)


class Commands:
    """The client that works wherever Slurm's commands do. Implements `slurmkit.slurm.protocol.Slurm`."""

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
        self._environment = for_reading(environ)
        self._clusters = [f"--clusters={clusters}"] if clusters else []
        self._timeout = timeout
        self._retry = retry
        self._clock = clock if clock is not None else SystemClock()
        self._shared = Shared(default_folder(environ), self._clock)

    def submit(self, submission: Submission) -> Submitted:
        """Call sbatch once. The id is the one line of stdout that can be one; else the answer is lost."""
        answer = process.run(
            sbatch_arguments(submission),
            environment=submission.environment,
            clock=self._clock,
            timeout=self._timeout,
            directory=submission.directory,
        )
        process.check("sbatch", answer, repeatable=False)
        receipts = [
            found for line in answer.stdout.splitlines() if (found := _RECEIPT.fullmatch(line.strip()))
        ]
        if len(receipts) != 1:
            raise AnswerLost(
                "sbatch gave no job id", where=answer.stdout.strip()[-500:] or "it printed nothing"
            )
        job, cluster = receipts[0].groups()
        return Submitted(JobId(int(job)), cluster, answer.stderr.strip())

    def find(self, tag: str, *, since: datetime) -> Job | None:
        """The job that carries `tag` in its comment, or in its submit line as accounting keeps it."""
        import getpass

        user = getpass.getuser()
        found = _carrying(tag, self.jobs(user=user))
        if found is None:
            try:
                found = _carrying(tag, self.accounting(since=since, user=user, steps=False))
            except AccountingOff:
                return None
        return found

    def jobs(
        self, ids: Collection[JobId] | None = None, *, user: str | None = None, max_age: float = 0.0
    ) -> list[Job]:
        """As `Slurm.jobs`: one squeue, or one for every 500 ids."""
        return [job for chunk in _chunks(ids) for job in self._squeue(chunk, user, max_age)]

    def _squeue(self, ids: Collection[JobId] | None, user: str | None, max_age: float) -> list[Job]:
        from slurmkit.slurm import squeue

        argv = ["squeue", *self._clusters, *squeue.arguments(ids=ids, user=user)]
        try:
            text = self._read(argv, max_age=max_age)
        except JobUnknown:
            return []  # said of a single id only; of several, squeue lists those that it knows
        return _parsed("squeue", lambda: squeue.parse(text))

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
        """As `Slurm.accounting`: one sacct at a time, never without a start."""
        from slurmkit.slurm import sacct

        now = self._clock.now()
        if since is None:
            since = datetime.fromtimestamp(0, UTC) if ids is not None else now - timedelta(days=1)
        # A job that the cluster's clock has seen a little later than ours is not left out.
        until = until if until is not None else now + timedelta(days=1)
        asked = self._sacct_fields()
        found = []
        for chunk in _chunks(ids):
            options = sacct.arguments(
                asked,
                ids=chunk,
                since=since.astimezone(UTC),
                until=until.astimezone(UTC),
                user=user,
                duplicates=duplicates,
                steps=steps,
            )
            text = self._read(["sacct", *self._clusters, *options], max_age=max_age)
            found += _parsed("sacct", lambda text=text: sacct.parse(text, asked))  # type: ignore[misc]
        return found

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """As `Slurm.nodes`."""
        from slurmkit.slurm import scontrol

        which = [",".join(names)] if names is not None else []
        words = ("--details", "--oneliner", "show", "node", *which)
        return self._scontrol_read(*words, parse=scontrol.parse_nodes)

    def partitions(self) -> list[Partition]:
        """As `Slurm.partitions`."""
        from slurmkit.slurm import scontrol

        return self._scontrol_read("--oneliner", "show", "partition", parse=scontrol.parse_partitions)

    def config(self) -> Mapping[str, str]:
        """As `Slurm.config`; what the controller answered within the last ten minutes will do."""
        from slurmkit.slurm import scontrol

        return self._scontrol_read("show", "config", parse=scontrol.parse_config, max_age=600.0)

    def version(self) -> tuple[int, int, int]:
        """As `Slurm.version`: that of the commands on this machine."""
        from slurmkit.slurm import scontrol

        return _parsed("scontrol", lambda: scontrol.parse_version(self._read(["scontrol", "--version"])))

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

    def _keeps_no_accounting(self) -> bool:
        return self.config().get("AccountingStorageType") == "accounting_storage/none"

    def _sacct_fields(self) -> tuple[str, ...]:
        from slurmkit.slurm import sacct

        known = self._read(["sacct", "--helpformat"], max_age=3600.0)
        return sacct.fields(known.split())

    def _scontrol_read(self, *words: str, parse: Callable[[str], Parsed], max_age: float = 0.0) -> Parsed:
        text = self._read(["scontrol", *self._clusters, *words], max_age=max_age)
        return _parsed("scontrol", lambda: parse(text))

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
            conf = self._environment.get("SLURM_CONF", "")
            answer = shared_answer(self._shared, argv, conf, max_age, ask)
        else:
            answer = ask()
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
    return ["sbatch", "--parsable", *submission.arguments, str(submission.script)]


def _carrying(tag: str, jobs: Sequence[Job]) -> Job | None:
    texts = ((job, f"{job.comment} {job.submit_line}") for job in jobs)
    return next((job for job, text in texts if tag in text), None)


def _chunks(ids: Collection[JobId] | None) -> Iterator[list[JobId] | None]:
    """The ids in portions; None, which stands for all, as it is; none of them: nothing to ask."""
    if ids is None:
        yield None
        return
    listed = list(ids)
    for begin in range(0, len(listed), CHUNK):
        yield listed[begin : begin + CHUNK]


def _parsed(program: str, parse: Callable[[], Parsed]) -> Parsed:
    """What `parse` makes of an answer; an unknown shape is an error with the faulty part."""
    try:
        return parse()
    except (ValueError, KeyError) as error:
        raise SlurmError(f"{program} answered what slurmkit cannot read", where=str(error)) from error
