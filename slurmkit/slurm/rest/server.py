"""Where a slurmrestd is, and what of that can be said without asking it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_URL = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d+)?(?P<path>/[^\s?#]*)?")
_HERE = re.compile(r"localhost|127(?:\.\d+){3}|\[::1\]")
UNIX = "unix:"


class Server(NamedTuple):
    """One slurmrestd: an https URL, an http URL on this host (a tunnel), or `unix:` and the socket's path.

    Certificates are verified, with `ca_file` in the place of the system's authorities. `user` is the name
    that Slurm knows; without it, the one in the token. `allow_http` lets the token travel in clear text.
    """

    url: str
    ca_file: Path | None = None
    user: str | None = None
    allow_http: bool = False

    @property
    def socket(self) -> str | None:
        """The path of the unix socket, where it is one."""
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None

    @property
    def base(self) -> str:
        """What stands before the path of a request."""
        return "http://localhost" if self.socket else self.url.rstrip("/")


def checked(server: Server) -> Server:
    """The server, if its URL is one to which a token may be sent.

    Raises:
        UsageError: it is no URL, or everybody on the way could read the token.
    """
    if server.socket is not None:
        if not server.socket.startswith("/"):
            raise UsageError("`unix:` is followed by an absolute path", where=server.url)
        return server
    found = _URL.fullmatch(server.url)
    if found is None:
        raise UsageError(
            "this is no address of a slurmrestd",
            where=server.url.rpartition("@")[2],
            hint="https://HOST:PORT, http://localhost:PORT for a tunnel, or unix:/path/of/the/socket",
        )
    if found["scheme"] == "http" and not (_HERE.fullmatch(found["host"]) or server.allow_http):
        raise UsageError(
            "over http the token could be read on its way",
            where=server.url,
            hint="use https, or a tunnel (ssh -L 6820:HOST:6820); or allow it with `allow_http = true`",
        )
    return server
