"""Slurm through slurmrestd: the client for where Slurm's commands are not, such as a laptop."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from slurmkit.errors import AccountingOff, AnswerLost, JobUnknown, Refused, SlurmError
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.finding import find
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import Retry
from slurmkit.slurm.request import Submitted
from slurmkit.slurm.rest import answers
from slurmkit.slurm.rest.asking import Asking
from slurmkit.slurm.rest.token import Tokens
from slurmkit.slurm.rest.transport import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any, TypeVar

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.records import Job, Node, Partition
    from slurmkit.slurm.request import Submission
    from slurmkit.slurm.rest.server import Server
    from slurmkit.slurm.rest.token import Token
    from slurmkit.slurm.rest.transport import Params
    from slurmkit.slurm.rest.versions import Api

    Parsed = TypeVar("Parsed")

SUBMIT_TIMEOUT = 180.0
"""Seconds for a submit at least, as for sbatch: slurmctld may be overrun."""

CHUNK = 200
"""Ids in one question: they stand in its address."""


class Rest:
    """The client over HTTP. Implements `slurmkit.slurm.protocol.Slurm`.

    What the server's version of the API has no way to do is `Refused`, with the way that there is. Without
    httpx2, every method raises `MissingRequirement`.
    """

    def __init__(
        self,
        server: Server,
        token: Callable[[], Token],
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`token` is asked when a token is needed, and again when that has expired."""
        self._clock = clock if clock is not None else SystemClock()
        self._timeout = timeout
        self._asking = Asking(server, Tokens(token, self._clock), self._clock, retry or Retry(), timeout)
        self._uids: dict[str, int] = {"root": 0}

    def submit(self, submission: Submission) -> Submitted:
        """Send the script with the options that stand in it, once, in the submission's own environment.

        slurmrestd reads no `#SBATCH` line: the options are sent as fields; one without a field is refused.
        """
        import msgspec

        from slurmkit.slurm.rest.description import body
        from slurmkit.slurm.rest.environment import current_umask

        api = self._api
        if submission.cluster:
            raise Refused(
                "slurmrestd submits to its own cluster alone", where=f"--clusters={submission.cluster}"
            )
        content, notes = body(submission, api, umask=current_umask())
        request = Request(
            "POST", f"{api.jobs}/job/submit", body=msgspec.json.encode(content), repeatable=False
        )
        answer = self._asking.once(request, max(self._timeout, SUBMIT_TIMEOUT))
        # With an id the errors are warnings, such as that no node is free at present.
        job = answer.json.get("job_id")
        if isinstance(job, int) and job > 0:
            return Submitted(JobId(job), None, "\n".join([*notes, *answers.texts(answer)]))
        answers.check(answer, self._asking.place, repeatable=False)
        raise AnswerLost("slurmrestd did not say which job it made", where=self._asking.place)

    def find(self, tag: str, *, since: datetime) -> Job | None:
        """The job of this user that carries `tag` in its comment, or in its submit line.

        Raises:
            Unreachable: one of the two places could not be searched, and the other has no such job.
        """
        return find(self, tag, since=since, user=self._asking.user)

    def jobs(
        self,
        ids: Collection[JobId] | None = None,
        *,
        user: str | None = None,
        max_age: float = 0.0,  # noqa: ARG002 - nothing is kept between processes
    ) -> list[Job]:
        """As `Slurm.jobs`: one question, for one job or for the whole queue."""
        from slurmkit.slurm.rest import jobs

        if ids is not None and not ids:
            return []
        asked = {one.job for one in ids} if ids is not None else set()
        path = f"{self._api.jobs}/job/{asked.pop()}" if len(asked) == 1 else f"{self._api.jobs}/jobs"
        try:
            answer = self._asking.question(path)
        except JobUnknown:
            return []  # said where one job was asked for
        found = _parsed(partial(jobs.parse, answer, self._clock.now(), ids, user=user))
        self._learn(answer)
        return found

    def accounting(
        self,
        ids: Collection[JobId] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: str | None = None,
        duplicates: bool = False,
        steps: bool = True,
        max_age: float = 0.0,  # noqa: ARG002 - nothing is kept between processes
    ) -> list[Job]:
        """As `Slurm.accounting`: one question for every two hundred ids, one after the other."""
        from slurmkit.slurm.rest import accounting
        from slurmkit.slurm.sacct import count_restarts

        if since is None and ids is None:
            since = self._clock.now() - timedelta(days=1)
        params: Params = {"skip_steps": "false" if steps else "true"}
        for name, moment in (("start_time", since), ("end_time", until)):
            if moment is not None:
                params[name] = f"uts{int(moment.timestamp())}"
        if not self._api.is_plain:
            params["show_duplicates"] = "true" if duplicates else "false"
            if user is not None:
                params["users"] = user
        found: list[Job] = []
        for chunk in _chunks(ids):
            try:
                answer = self._asking.question(f"{self._api.accounting}/jobs", params | self._which(chunk))
            except answers.NotOffered as error:
                raise AccountingOff("slurmrestd has no pages of slurmdbd", where=error.where) from error
            if answer.get("jobs") is None:
                continue
            parse = partial(accounting.parse, answer, self._api, ids, user=user, uids=self._uids)
            found += _parsed(parse)
        if not steps:
            found = [job._replace(steps=()) for job in found]
        return count_restarts(found) if duplicates else accounting.last_attempts(found)

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """As `Slurm.nodes`; a name that Slurm does not know is absent."""
        from slurmkit.slurm.rest import nodes

        found = _parsed(partial(nodes.parse_nodes, self._asking.question(f"{self._api.jobs}/nodes")))
        return [node for node in found if names is None or node.name in names]

    def partitions(self) -> list[Partition]:
        """As `Slurm.partitions`; v0.0.42 does not say which is the default."""
        from slurmkit.slurm.rest import nodes

        return _parsed(partial(nodes.parse_partitions, self._asking.question(f"{self._api.jobs}/partitions")))

    def cancel(self, ids: Sequence[JobId]) -> None:
        """As `Slurm.cancel`."""
        for job in ids:
            try:
                self._change("DELETE", job)
            except JobUnknown:
                continue  # ended in the meantime: what was asked for is the case

    def signal(self, job: JobId, name: str, *, batch: bool = False) -> None:
        """As `Slurm.signal`; v0.0.38 can only signal all of a job at once, script and steps: refused."""
        if not self._api.signals:
            raise self._cannot(
                "signal the steps or the script of a job alone", f"scancel --signal={name} {job}"
            )
        flags = "BATCH_JOB" if batch else "FULL_STEPS_ONLY"
        self._change("DELETE", job, params={"signal": name, "flags": flags}, once=True)

    def requeue(self, job: JobId, *, hold: bool = False) -> None:
        """As `Slurm.requeue`; before v0.0.45 refused: the API has no way to."""
        if not self._api.requeues:
            raise self._cannot("requeue a job", f"scontrol {'requeuehold' if hold else 'requeue'} {job}")
        self._change("GET", job, "/requeue", params={"Hold": "true"} if hold else {}, once=True)

    def hold(self, job: JobId) -> None:
        """As `Slurm.hold`."""
        self._change("POST", job, fields={"hold": True})

    def release(self, job: JobId) -> None:
        """As `Slurm.release`."""
        self._change("POST", job, fields={"hold": False})

    def update(self, job: JobId, changes: Mapping[str, str]) -> None:
        """As `Slurm.update`; a field for which the API has no name is refused."""
        from slurmkit.slurm.rest.changing import as_options
        from slurmkit.slurm.rest.description import fields_of

        self._change("POST", job, fields=fields_of(as_options(changes), self._api))

    def end_steps(self, job: JobId) -> tuple[str, ...]:
        """As `Slurm.end_steps`; refused: the API ends jobs, not steps."""
        raise self._cannot("end the steps of a job", f"scancel {job}.STEP")

    def excluded(self, job: JobId) -> tuple[str, ...]:
        """The nodes that a job must not have, as it stands in the queue; none where it is there no more."""
        from slurmkit.launch.hostlist import expand
        from slurmkit.slurm.rest import wire

        try:
            answer = self._asking.question(f"{self._api.jobs}/job/{job.job}")
        except JobUnknown:
            return ()
        first = next(iter(wire.records(answer, "jobs")), {})
        return _parsed(lambda: tuple(expand(wire.text(first.get("excluded_nodes")) or "")))

    def exclude(self, job: JobId, nodes: Sequence[str]) -> None:
        """As `Slurm.exclude`; an update itself replaces the list."""
        from slurmkit.slurm.hostlist import fold

        self.update(job, {"ExcNodeList": fold({*self.excluded(job), *nodes})})

    def topology(self) -> Mapping[str, str]:
        """As `Slurm.topology`; refused: the API does not tell it."""
        raise self._cannot("tell the topology", "scontrol show topology")

    def config(self) -> Mapping[str, str]:
        """What slurmrestd tells of the configuration: the API has no `scontrol show config`.

        SLURM_VERSION, and since v0.0.42 ClusterName and AccountingStorageType.
        """
        told = self._asking.spoken()
        known = {
            "SLURM_VERSION": "{}.{:02d}.{}".format(*told.slurm),
            "ClusterName": told.cluster,
            "AccountingStorageType": told.accounting,
        }
        return {name: value for name, value in known.items() if value}

    def version(self) -> tuple[int, int, int]:
        """As `Slurm.version`: that of slurmrestd."""
        return self._asking.spoken().slurm

    @property
    def api(self) -> str:
        """The version of the API that is spoken, e.g. `v0.0.42`."""
        return self._api.name

    @property
    def _api(self) -> Api:
        return self._asking.spoken().api

    def _change(
        self,
        method: str,
        job: JobId,
        more: str = "",
        *,
        params: Params | None = None,
        fields: Mapping[str, Any] | None = None,
        once: bool = False,
    ) -> None:
        """A request about one job; `once`: doing it twice would not be the same as doing it once."""
        import msgspec

        request = Request(
            method,
            f"{self._api.jobs}/job/{quote(str(job), safe='')}{more}",
            params,
            None if fields is None else msgspec.json.encode(dict(fields)),
            repeatable=not once,
        )
        answer = self._asking.change(request)
        answers.check(answer, self._asking.place, repeatable=not once)

    def _cannot(self, what: str, instead: str) -> Refused:
        return Refused(f"slurmrestd {self._api.name} has no way to {what}", hint=f"on the cluster: {instead}")

    def _which(self, chunk: Collection[JobId] | None) -> Params:
        """The jobs that are asked for: v0.0.38 takes them in one word, later versions in one word each."""
        if not chunk:
            return {}
        words = list(map(str, sorted({one.job for one in chunk})))
        return {"step": ",".join(words) if self._api.is_plain else words}

    def _learn(self, answer: Mapping[str, Any]) -> None:
        """The uids of users: slurmdbd's answers have their names alone."""
        for record in answer.get("jobs") or ():
            name, uid = record.get("user_name"), record.get("user_id")
            if isinstance(name, str) and isinstance(uid, int):
                self._uids[name] = uid


def _chunks(ids: Collection[JobId] | None) -> Iterator[list[JobId] | None]:
    """The ids in portions; None, which stands for all, as it is; none of them: nothing to ask."""
    if ids is None:
        yield None
        return
    listed = list(ids)
    for begin in range(0, len(listed), CHUNK):
        yield listed[begin : begin + CHUNK]


def _parsed(parse: Callable[[], Parsed]) -> Parsed:
    """What `parse` makes of an answer; of an unknown shape it is Slurm's error, with the faulty part."""
    try:
        return parse()
    except (ValueError, KeyError) as error:
        raise SlurmError("slurmrestd answered what slurmkit cannot read", where=str(error)) from error
