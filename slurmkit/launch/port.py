"""The port where the ranks meet: the same for all of them, and nobody else's.

Derived from the job, the step and the restart, so that logs and ranks agree on it, and tried by binding on
the first host. Two jobs of slurmkit on one host never choose the same, for each holds its port while it runs;
against other programs there remains the moment between the trial and the program's own bind.
"""

from __future__ import annotations

import _socket as socket  # `socket` itself costs a rank 11 ms, for enum and selectors
import errno

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Sequence

LOWEST, HIGHEST = 20000, 29999
EPHEMERAL = (32768, 60999)
"""The kernel's default range for outgoing connections."""
TRIED = 64


def candidates(
    job_id: int, step_id: int, restart: int, ephemeral: tuple[int, int] = EPHEMERAL
) -> Sequence[int]:
    """Ports for the rendezvous in the order in which to try them, none of them in `ephemeral`.

    Job ids that agree in their last digits lead to different ports: the ids are mixed, not cut. Two given
    jobs still meet on their first port once in 10,000.
    """
    low, high = window(ephemeral)
    state = (job_id << 24) ^ (step_id << 12) ^ restart
    ports: dict[int, None] = {}
    while len(ports) < TRIED:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        ports[low + _mix(state) % (high - low + 1)] = None
    return list(ports)


def window(ephemeral: tuple[int, int]) -> tuple[int, int]:
    """The ports to choose from: 20000-29999, or where the kernel uses these, the widest range beside."""
    low, high = ephemeral
    if low > HIGHEST or high < LOWEST:
        return LOWEST, HIGHEST
    beside = max(((10000, low - 1), (high + 1, 65535)), key=lambda ports: ports[1] - ports[0])
    # Where the kernel uses (nearly) all ports there is no better range: the trial must do.
    return beside if beside[1] - beside[0] >= 1000 else (LOWEST, HIGHEST)


def ephemeral_range(path: str = "/proc/sys/net/ipv4/ip_local_port_range") -> tuple[int, int]:
    """The range from which this host's kernel gives ports to outgoing connections."""
    try:
        with open(path, encoding="ascii") as file:
            low, high = file.read().split()
            return int(low), int(high)
    except (OSError, ValueError):
        return EPHEMERAL


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` on every address of this host now."""
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            _bind(family, (address, port)).close()
        except OSError as error:
            # Any other error says that this host lacks the family.
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
    return True


def hold(port: int) -> socket.socket | None:
    """Claim `port` among slurmkit's jobs on this host while the result is open; None where it is taken.

    The claim is an abstract Unix socket: it lives in the host's network namespace, as the port does, and dies
    with the process. The port itself stays free for the program.
    """
    try:
        claim = _bind(socket.AF_UNIX, f"\0slurmkit-port-{port}")
    except OSError:
        return None
    if is_free(port):
        return claim
    claim.close()
    return None


def _bind(family: int, address: tuple[str, int] | str) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _mix(number: int) -> int:
    """Spread a number over 64 bits, each of them hanging on all of its bits."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ (number >> shift)) * factor % 2**64
    return number ^ (number >> 31)
