"""Whether the ranks can meet where they will: the first node answers there, the others come."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from slurmkit.launch.fitness_found import Found, one_line
from slurmkit.launch.rendezvous import host_and_port

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY = 0.05


def check_rendezvous(meeting: Mapping[str, Any], node: str, within: float) -> Found:
    """Reach the first node where the ranks will meet. Whose fault it is if not, the agent sees best."""
    until = time.monotonic() + within
    token = meeting["token"].encode()
    while True:
        left = until - time.monotonic()
        try:
            with socket.create_connection((meeting["host"], int(meeting["port"])), max(0.05, left)) as peer:
                peer.settimeout(max(0.05, until - time.monotonic()))
                peer.sendall(b"%s %s\n" % (token, node.encode()))
                answer = peer.recv(256)
            if answer == token + b"\n":
                return Found()
            reason = "something else answers there"
        except (OSError, UnicodeError) as error:
            reason = str(getattr(error, "strerror", None) or error)
        if time.monotonic() + RETRY >= until:
            where = host_and_port(meeting["host"], str(meeting["port"]))
            return Found(facts={"unreached": "%s: %s" % (where, one_line(reason))})
        time.sleep(RETRY)


class Listener:
    """On the first node: answers at the place of the rendezvous until every other node has been there."""

    def __init__(self, meeting: Mapping[str, Any] | None, node: str) -> None:
        self.problem: str | None = None
        self._missing = threading.Event()
        self._sockets: list[socket.socket] = []
        self._came: set[bytes] = set()
        self._meeting = meeting or {}
        if meeting and node == meeting["first"] and meeting["peers"]:
            self._listen(int(meeting["port"]))

    def _listen(self, port: int) -> None:
        for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104
            try:
                one = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # the host lacks the family
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address, port))
                one.listen(4096)
            except OSError as error:
                one.close()
                if family == socket.AF_INET:
                    self.problem = "the rendezvous port %d cannot be used: %s" % (port, error.strerror)
                continue
            self._sockets.append(one)
            threading.Thread(target=self._accept, args=(one,), daemon=True).start()

    def _accept(self, one: socket.socket) -> None:
        while True:
            try:
                peer, _ = one.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        token = self._meeting["token"].encode()
        with peer:
            try:
                peer.settimeout(2.0)
                said, _, name = peer.recv(1024).strip().partition(b" ")
                if said != token:
                    return
                peer.sendall(token + b"\n")
                # The other side closes first: it keeps the port in TIME_WAIT, and ours is free for the ranks.
                peer.recv(1)
            except OSError:
                return
        self._came.add(name)
        if len(self._came) >= self._meeting["peers"]:
            self._missing.set()

    def close(self, until: float) -> None:
        """Wait for those who have not come yet, and leave the port to the ranks."""
        if self._sockets:
            self._missing.wait(max(0.0, until - time.monotonic()))
        for one in self._sockets:
            # Closed alone it would listen for as long as a thread waits in accept.
            one.shutdown(socket.SHUT_RDWR)
            one.close()
