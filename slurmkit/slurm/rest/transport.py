"""HTTP to one slurmrestd: the answer, or where none came, whether the request may have been carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import AnswerLost, MissingRequirement, Refused, SlurmError, Unreachable
from slurmkit.slurm.rest.server import checked

if TYPE_CHECKING:
    from types import ModuleType

    import httpx2

    from slurmkit.slurm.rest.server import Server
    from slurmkit.slurm.rest.token import Token

CONNECT_TIMEOUT = 10.0
"""Seconds to reach the server; how long it may take to answer is the caller's word."""


Params = dict[str, "str | list[str]"]


class Request(NamedTuple):
    """One request. `repeatable`: carried out twice, it does what it does once."""

    method: str
    path: str
    params: Params | None = None
    body: bytes | None = None
    repeatable: bool = True


class Reply(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    content_type: str = ""
    location: str = ""


class Connection:
    """Sends requests to one server, each over a connection of its own."""

    def __init__(self, server: Server) -> None:
        self._server = checked(server)
        self._client: httpx2.Client | None = None

    @property
    def place(self) -> str:
        """The server, as messages name it."""
        return self._server.url

    def send(self, request: Request, token: Token, timeout: float) -> Reply:
        """Send a request once.

        Raises:
            MissingRequirement: httpx2 is not installed.
            Unreachable: the request surely did not arrive, or it is repeatable and no answer came.
            AnswerLost: it may have been carried out.
            SlurmError: the server's certificate is not trusted.
        """
        library = _httpx2()
        client = self._open(library)
        user = self._server.user or token.user
        headers = {"X-SLURM-USER-TOKEN": token.text, **({"X-SLURM-USER-NAME": user} if user else {})}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            answer = client.request(
                request.method,
                f"{self._server.base}{request.path}",
                params=request.params or None,
                content=request.body,
                headers=headers,
                timeout=library.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
            )
        except library.HTTPError as error:
            # The error holds the request with its token: none of it is kept but the words.
            raise _failure(library, error, request, self.place) from None
        return Reply(
            answer.status_code,
            answer.content,
            answer.headers.get("content-type", ""),
            answer.headers.get("location", ""),
        )

    def _open(self, library: ModuleType) -> httpx2.Client:
        if self._client is None:
            # No proxy, and no credentials of ~/.netrc: the token goes to the server that was named.
            # No connection is kept: one that the server has closed meanwhile would lose a submit's answer.
            transport = library.HTTPTransport(
                verify=_verification(self._server),
                uds=self._server.socket,
                trust_env=False,
                limits=library.Limits(max_keepalive_connections=0),
            )
            made: httpx2.Client = library.Client(transport=transport, trust_env=False, follow_redirects=False)
            self._client = made
        return self._client


def _verification(server: Server) -> object:
    """The authorities that are trusted: those of a file alone, or the system's."""
    import ssl

    if server.ca_file is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(server.ca_file))
    except OSError as error:
        raise SlurmError(
            f"the file of certificate authorities cannot be used: {error.strerror or error}",
            where=str(server.ca_file),
        ) from error


def _failure(library: ModuleType, error: Exception, request: Request, place: str) -> SlurmError:
    said = f"{place}: {error}" if str(error) else f"{place}: {type(error).__name__}"
    if isinstance(error, library.ConnectError | library.ConnectTimeout | library.PoolTimeout):
        if "certificate" in str(error).lower():
            return Refused(
                "the certificate of slurmrestd is not trusted",
                where=said,
                hint="name the file of the authority that signed it: `ca_file` of the cluster",
            )
        return Unreachable("slurmrestd does not answer", where=said, hint="is the address right, is it up?")
    if isinstance(error, library.UnsupportedProtocol | library.LocalProtocolError):
        return Refused("the request could not be sent", where=said)
    lost = "slurmrestd did not answer in time" if isinstance(error, library.TimeoutException) else None
    what = lost or "the connection to slurmrestd broke"
    return Unreachable(what, where=said) if request.repeatable else AnswerLost(what, where=said)


def _httpx2() -> ModuleType:
    try:
        import httpx2
    except ImportError as error:
        raise MissingRequirement(
            "slurmrestd is spoken to through httpx2, which is not installed",
            hint="pip install 'slurmkit-hpc[rest]'",
        ) from error
    return httpx2
