"""Requests to one slurmrestd, their retries, and which version of its API is spoken."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.errors import Refused, SlurmError, Unreachable
from slurmkit.slurm.rest import answers, wire
from slurmkit.slurm.rest.transport import Connection, Request
from slurmkit.slurm.rest.versions import APIS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurmkit.slurm.clock import Clock
    from slurmkit.slurm.process import Retry
    from slurmkit.slurm.rest.answers import Answer
    from slurmkit.slurm.rest.server import Server
    from slurmkit.slurm.rest.token import Tokens
    from slurmkit.slurm.rest.transport import Params
    from slurmkit.slurm.rest.versions import Api
    from slurmkit.slurm.rest.wire import Json


class Spoken(NamedTuple):
    """What the server said of itself: the version of the API that both know, Slurm's own, and its cluster."""

    api: Api
    slurm: tuple[int, int, int]
    cluster: str | None = None
    accounting: str | None = None


class Asking:
    """Puts requests; a question is repeated while its fault passes, all else is sent once."""

    def __init__(self, server: Server, tokens: Tokens, clock: Clock, retry: Retry, timeout: float) -> None:
        self._connection = Connection(server)
        self._server = server
        self._tokens = tokens
        self._clock = clock
        self._retry = retry
        self._timeout = timeout
        self._spoken: Spoken | None = None

    @property
    def user(self) -> str | None:
        """Who the server takes us for."""
        return self._server.user or self._tokens.get().user

    @property
    def place(self) -> str:
        """The server, as messages name it."""
        return self._connection.place

    def spoken(self) -> Spoken:
        """What the server speaks: asked once, newest first, so that a token that fails fails here.

        Raises:
            SlurmError: it speaks no version that this client knows, or does not answer.
        """
        if self._spoken is None:
            self._spoken = self._negotiate()
        return self._spoken

    def question(self, path: str, params: Params | None = None) -> Json:
        """The answer to a question that changes nothing.

        Raises:
            SlurmkitError: there is none, or it holds errors.
        """
        request = Request("GET", path, params)
        answer = self._patiently(request)
        try:
            answers.check(answer, self.place)
        except answers.Unclear as error:
            raise self._clearer(error) from None
        return answer.json

    def change(self, request: Request) -> Answer:
        """The answer to a request that changes something, whatever it says.

        Raises:
            SlurmkitError: there is none.
        """
        return self._patiently(request) if request.repeatable else self._once(request, self._timeout)

    def once(self, request: Request, timeout: float) -> Answer:
        """The answer to a request that is sent once, whatever it says.

        Raises:
            SlurmkitError: there is none.
        """
        return self._once(request, timeout)

    def _once(self, request: Request, timeout: float) -> Answer:
        reply = self._connection.send(request, self._tokens.get(), timeout)
        return answers.read(reply, self.place, repeatable=request.repeatable)

    def _patiently(self, request: Request) -> Answer:
        """Again while the server cannot be reached and tries are left."""
        began, tried = self._clock.monotonic(), 0
        while True:
            tried += 1
            try:
                return self._once(request, self._timeout)
            except Unreachable:
                is_late = self._clock.monotonic() - began > self._retry.within
                if tried >= self._retry.tries or is_late:
                    raise
            longest = min(self._retry.longest_pause, self._retry.first_pause * 2 ** (tried - 1))
            self._clock.sleep(random.uniform(longest / 2, longest))  # noqa: S311  (spreads the callers)

    def _negotiate(self) -> Spoken:
        for api in APIS:
            try:
                answer = self.question(f"{api.jobs}/ping")
            except answers.NotOffered:
                continue
            return _spoken(api, answer)
        offered = ", ".join(self._offered()) or "none that it names"
        raise SlurmError(
            "slurmrestd speaks no version of its API that slurmkit knows",
            where=f"{self.place}: {offered}",
            hint=f"slurmkit knows {', '.join(api.name for api in APIS)}",
        )

    def _offered(self) -> list[str]:
        """The versions that the server's own description names."""
        for path in ("/openapi/v3", "/openapi"):
            try:
                told = self._connection.send(Request("GET", path), self._tokens.get(), self._timeout)
            except SlurmError:
                continue
            if found := set(re.findall(rb"/slurm/(v\d+\.\d+\.\d+)/", told.body)):
                return sorted(one.decode() for one in found)
        return []

    def _clearer(self, error: answers.Unclear) -> SlurmError:
        """Where one daemon is away, or the token is bad: the other daemon says whether it is the token."""
        if isinstance(error, answers.NoDatabase):
            page = f"{self._spoken.api.jobs}/partitions" if self._spoken else ""
        else:
            page = f"{APIS[-1].accounting}/clusters"
        try:
            answers.check(self._once(Request("GET", page), self._timeout), self.place)
        except Refused as refused:
            return refused if "token" in refused.what else error
        except SlurmError:
            return error
        if isinstance(error, answers.NoDatabase):
            return error
        hint = "scontrol ping on the cluster"
        return Unreachable("slurmctld does not answer", where=error.where, hint=hint)


def _spoken(api: Api, answer: Mapping[str, Any]) -> Spoken:
    where = "Slurm" if api.is_plain else "slurm"
    try:
        major, minor, micro = (
            wire.number(wire.need(answer, "meta", where, "version", part)) or 0
            for part in ("major", "minor", "micro")
        )
    except ValueError as error:
        raise SlurmError("slurmrestd does not say which Slurm it is of", where=str(error)) from error
    return Spoken(
        api,
        (major, minor, micro),
        wire.text(wire.look(answer, "meta", where, "cluster")),
        wire.text(wire.look(answer, "meta", "plugin", "accounting_storage")),
    )
