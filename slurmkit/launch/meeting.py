"""Can the nodes reach the first one where the ranks will meet, and do their clocks agree?"""

from __future__ import annotations

import errno
import socket
import struct
import time

AT_ONCE = 0.05


def answer(port: int, others: int, within: float) -> int:
    """Listen where rank 0 will, and tell the time to the other nodes until all have asked; how many did.

    The port is free again at once: a connection is reset here after the other side has its answer.

    Raises:
        OSError: the port is taken.
    """
    deadline = time.monotonic() + within
    with listening(port) as server:
        answered = 0
        while answered < others and time.monotonic() < deadline:
            server.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except socket.timeout:  # noqa: UP041 - before 3.10 it is no TimeoutError
                break
            with connection:
                connection.settimeout(1.0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                try:
                    if connection.recv(1):
                        connection.sendall(b"%.6f\n" % time.time())
                        connection.recv(1)  # until the other side has closed
                        answered += 1
                except OSError:
                    continue  # whoever it was, it went away
    return answered


def listening(port: int) -> socket.socket:
    """A socket on all addresses of this host, of both families where there are two.

    Raises:
        OSError: the port is taken.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=1024)


def reach(host: str, port: int, within: float) -> tuple[float, float]:
    """Ask the first node for its time: how far this clock is ahead, give or take what, in seconds.

    Raises:
        OSError: it cannot be reached within so many seconds; why, is the last try's reason.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            with socket.create_connection(
                (host, port), max(0.001, deadline - time.monotonic())
            ) as connection:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                asked = time.time()
                connection.sendall(b"?")
                told = float(connection.makefile("rb").readline())
                heard = time.time()
        except (OSError, ValueError) as error:
            # The first node may start later than this one.
            if time.monotonic() + AT_ONCE < deadline:
                time.sleep(AT_ONCE)
                continue
            if isinstance(error, OSError):
                raise
            raise OSError(errno.EPROTO, "something else answers there") from error
        else:
            return (asked + heard) / 2 - told, (heard - asked) / 2
