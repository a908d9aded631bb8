"""The first node answers where rank 0 will listen, and the others reach it. Both stand on this host here."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.meeting import answer, reach
from slurmkit.launch.port import is_free

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "127.0.0.1"


@pytest.fixture
def port() -> int:
    """One that nobody listens at."""
    with socket.create_server((HERE, 0)) as server:
        number: int = server.getsockname()[1]
    return number


@contextmanager
def somebody(words: bytes) -> Iterator[int]:
    """Another program's server, which says these words to whoever comes, and closes."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)
                connection.sendall(words)

    with socket.create_server((HERE, 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_clocks_of_one_host_agree(port: int) -> None:
    with ThreadPoolExecutor() as pool:
        answering = pool.submit(answer, port, 1, 20.0)
        skew, uncertain = reach(HERE, port, 20.0)
        assert answering.result() == 1
    assert abs(skew) <= uncertain + 1e-5
    assert 0 <= uncertain < 1


def test_all_other_nodes_are_answered_and_the_port_is_free_at_once(port: int) -> None:
    with ThreadPoolExecutor(16) as pool:
        answering = pool.submit(answer, port, 12, 20.0)
        reaching = [pool.submit(reach, HERE, port, 20.0) for _ in range(12)]
        assert answering.result() == 12
        assert is_free(port)
        assert all(abs(one.result()[0]) < 5 for one in reaching)


def test_a_node_that_does_not_come_is_waited_for_no_longer_than_allowed(port: int) -> None:
    with ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        answering = pool.submit(answer, port, 2, 0.5)
        reach(HERE, port, 0.5)
        assert answering.result() == 1
        assert time.monotonic() - begun < 5
    assert is_free(port)


def test_a_taken_port_is_told() -> None:
    with socket.create_server((HERE, 0)) as server, pytest.raises(OSError, match="in use"):
        answer(server.getsockname()[1], 1, 20.0)


def test_where_nobody_listens_the_reason_comes_within_the_bound(port: int) -> None:
    begun = time.monotonic()
    with pytest.raises(OSError, match="refused"):
        reach(HERE, port, 0.3)
    assert 0.2 < time.monotonic() - begun < 5


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH_9.9\r\n", b"\xff\xfe\n"])
def test_something_else_that_answers_is_told_from_the_first_node(words: bytes) -> None:
    with somebody(words) as port, pytest.raises(OSError, match="something else answers there"):
        reach(HERE, port, 0.3)


def test_a_first_node_that_starts_later_is_still_reached(port: int) -> None:
    def late() -> int:
        threading.Event().wait(0.3)
        return answer(port, 1, 20.0)

    with ThreadPoolExecutor() as pool:
        answering = pool.submit(late)
        skew, _ = reach(HERE, port, 20.0)
        assert answering.result() == 1
    assert abs(skew) < 5


def test_a_stranger_who_says_nothing_does_not_count(port: int) -> None:
    with ThreadPoolExecutor() as pool:
        answering = pool.submit(answer, port, 1, 20.0)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection((HERE, port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
        reach(HERE, port, 20.0)
        assert answering.result() == 1
