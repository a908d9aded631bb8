from __future__ import annotations

import itertools
import socket
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.port import candidates, ephemeral_range, hold, is_free, window

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("one", "other"), list(itertools.combinations([1500, 2500, 2110145, 2120145, 67043327], 2))
)
def test_trap_077_job_ids_with_equal_last_digits_have_different_ports(one: int, other: int) -> None:
    assert candidates(one, 0, 0)[0] != candidates(other, 0, 0)[0]


def test_trap_077_the_same_job_step_and_restart_have_the_same_ports() -> None:
    assert candidates(67043327, 3, 1) == candidates(67043327, 3, 1)


def test_trap_077_another_step_and_another_restart_have_other_ports() -> None:
    """A port of the start before may still be in TIME_WAIT."""
    firsts = {candidates(1500, step, restart)[0] for step in range(5) for restart in range(5)}
    assert len(firsts) == 25


def test_trap_077_jobs_meet_on_a_first_port_no_more_often_than_by_chance() -> None:
    counts = Counter(candidates(job, 0, 0)[0] for job in range(0, 200_000, 10))
    assert max(counts.values()) < 15  # 20,000 jobs on 10,000 ports: two on the average


@pytest.mark.parametrize(
    ("ephemeral", "low", "high"),
    [
        ((32768, 60999), 20000, 29999),
        ((49152, 65535), 20000, 29999),
        ((15000, 60999), 10000, 14999),
        ((10240, 40000), 40001, 65535),
        ((1024, 65535), 20000, 29999),
    ],
)
def test_trap_078_ports_lie_outside_of_the_range_for_outgoing_connections(
    ephemeral: tuple[int, int], low: int, high: int
) -> None:
    assert window(ephemeral) == (low, high)
    ports = candidates(1500, 0, 0, ephemeral)
    assert len(ports) == len(set(ports)) == 64
    assert all(low <= port <= high for port in ports)


@pytest.mark.parametrize("text", ["", "1 2 3", "a b"])
def test_trap_078_without_a_readable_range_the_kernels_default_counts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "range"
    assert ephemeral_range(str(path)) == (32768, 60999)
    path.write_text(text)
    assert ephemeral_range(str(path)) == (32768, 60999)


def test_the_range_is_read_as_the_kernel_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "range"
    path.write_text("15000\t64000\n")
    assert ephemeral_range(str(path)) == (15000, 64000)


@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")],
)
def test_a_port_in_use_on_any_address_is_not_free(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip("this machine lacks the address family")
        port = server.getsockname()[1]
        assert not is_free(port)
        assert hold(port) is None
    assert is_free(port)


def test_two_holders_never_have_the_same_port_and_the_program_can_still_bind_it() -> None:
    port = next(port for port in candidates(4711, 0, 0) if is_free(port))
    claim = hold(port)
    assert claim is not None
    assert hold(port) is None
    socket.create_server(("", port)).close()
    claim.close()
    again = hold(port)
    assert again is not None
    again.close()
