"""How the ranks of `slurmkit fabric-check` move bytes: plain TCP sockets, or torch over gloo or NCCL.

Python 3.8 and the standard library; torch is imported where it was chosen.
"""

from __future__ import annotations

import importlib
import os
import select
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

PING_BYTES = 8
CHUNK = 1 << 20
WAIT = 0.1


class Member(NamedTuple):
    """One rank, as it introduced itself."""

    rank: int
    node: int
    host: str
    port: int
    """Of its data socket."""
    address: str | None
    """As rank 0 sees it; None on rank 0's own node, which all reach as MASTER_ADDR."""
    torch: str | None
    """Version."""
    nccl: bool
    why: str
    """Why there is no torch, or no NCCL."""


def listen(port: int = 0) -> socket.socket:
    """A listening socket on all addresses, of both families where the host has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", port), backlog=1024)


def connect(host: str, port: int, within: float) -> socket.socket:
    """Connect, again and again while nobody listens yet."""
    end = time.monotonic() + within
    while True:
        try:
            return socket.create_connection((host, port), timeout=max(end - time.monotonic(), WAIT))
        except OSError:
            if time.monotonic() + WAIT > end:
                raise
            time.sleep(WAIT)


class Sockets:
    """Plain TCP. The bytes of an all-reduce move as they do in a ring; nothing is added up."""

    name = "sockets"

    def __init__(self, me: Member, members: Sequence[Member], listener: socket.socket, plan: Any) -> None:  # noqa: ANN401
        self.me, self.members, self.listener = me, members, listener
        self.token, self.timeout = plan["token"].encode(), plan["timeout"]
        self.right: socket.socket | None = None
        self.left: socket.socket | None = None
        self.peer: socket.socket | None = None
        self._out, self._into = memoryview(bytes(CHUNK)), memoryview(bytearray(CHUNK))

    def meet(self, peer: int) -> None:
        """Connect with the other of a pair."""
        self.part()
        self.peer = self._dial(peer) if self.me.rank < peer else self._accept(peer)

    def part(self) -> None:
        """Leave the other of a pair."""
        if self.peer is not None:
            self.peer.close()
            self.peer = None

    def all_reduce(self, size: int) -> None:
        """What a ring moves: 2(n-1) steps, in each of which every rank passes on an n-th."""
        count = len(self.members)
        if self.right is None:
            self.right = self._dial((self.me.rank + 1) % count)
            self.left = self._accept((self.me.rank - 1) % count)
        assert self.left is not None  # noqa: S101
        part = -(-size // count)
        for _ in range(2 * (count - 1)):
            self._move(self.right, part, self.left, part)

    def swap(self, peer: int, size: int) -> None:  # noqa: ARG002
        """Both send `size` bytes at once, as an all-reduce of two does."""
        assert self.peer is not None  # noqa: S101
        self._move(self.peer, size, self.peer, size)

    def ping(self, peer: int) -> None:
        """A small message there and back."""
        assert self.peer is not None  # noqa: S101
        first = self.me.rank < peer
        for sends in (first, not first):
            self._move(self.peer, PING_BYTES * sends, self.peer, PING_BYTES * (not sends))

    def close(self) -> None:
        """Leave all."""
        for one in (self.left, self.right, self.peer, self.listener):
            if one is not None:
                one.close()

    def _dial(self, rank: int) -> socket.socket:
        other = self.members[rank]
        made = connect(other.address or os.environ["MASTER_ADDR"], other.port, self.timeout)
        made.sendall(self.token + b"%08d" % self.me.rank)
        return self._ready(made)

    def _accept(self, rank: int) -> socket.socket:
        wanted = self.token + b"%08d" % rank
        end = time.monotonic() + self.timeout
        while True:
            self.listener.settimeout(max(end - time.monotonic(), 0.001))
            made, _ = self.listener.accept()
            made.settimeout(self.timeout)
            said = b""
            while len(said) < len(wanted):
                more = made.recv(len(wanted) - len(said))
                if not more:
                    break
                said += more
            if said == wanted:
                return self._ready(made)
            made.close()  # a stranger, or one who gave up

    def _ready(self, made: socket.socket) -> socket.socket:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(0)
        return made

    def _move(self, out: socket.socket, sending: int, into: socket.socket, receiving: int) -> None:
        end = time.monotonic() + self.timeout
        while sending or receiving:
            moved = 0
            try:
                if receiving:
                    got = into.recv_into(self._into, min(receiving, CHUNK))
                    if not got:
                        raise ConnectionError("the other side closed the connection")
                    receiving -= got
                    moved += got
            except BlockingIOError:
                pass
            try:
                if sending:
                    sent = out.send(self._out[: min(sending, CHUNK)])
                    sending -= sent
                    moved += sent
            except BlockingIOError:
                pass
            if not moved:
                self._wait(out if sending else None, into if receiving else None, end)

    def _wait(self, out: socket.socket | None, into: socket.socket | None, end: float) -> None:
        waiting = select.poll()
        if into is not None:
            waiting.register(into, select.POLLIN)
        if out is not None:
            waiting.register(out, select.POLLOUT | (select.POLLIN if out is into else 0))
        if not waiting.poll(max(end - time.monotonic(), 0) * 1000):
            raise TimeoutError(f"no answer within {self.timeout:g} s")


class Torch:
    """torch.distributed over NCCL or gloo."""

    def __init__(self, me: Member, plan: Any, store: Any) -> None:  # noqa: ANN401
        self.torch: Any = importlib.import_module("torch")
        self.dist: Any = importlib.import_module("torch.distributed")
        self.name, self.me, self.ranks = plan["transport"], me, plan["ranks"]
        self.device = _device(self.torch) if self.name == "nccl" else self.torch.device("cpu")
        if self.name == "nccl":
            self.torch.cuda.set_device(self.device)
        wait = timedelta(seconds=plan["timeout"])
        self.dist.init_process_group(
            self.name, store=store, rank=me.rank, world_size=plan["ranks"], timeout=wait
        )
        self._buffers: dict[int, tuple[Any, Any]] = {}

    def meet(self, peer: int) -> None:
        """Torch connects by itself."""

    def part(self) -> None:
        """The memory of the pair's messages is kept for the next one."""

    def all_reduce(self, size: int) -> None:
        """The sum over all ranks; sizes count in bytes."""
        self.dist.all_reduce(self._of(size)[0])
        self._settle()

    def swap(self, peer: int, size: int) -> None:
        """An all-reduce of two: both send all they have at once, and add up what came."""
        out, into = self._of(size)
        operation = self.dist.P2POp
        both = [operation(self.dist.isend, out, peer), operation(self.dist.irecv, into, peer)]
        for work in self.dist.batch_isend_irecv(both):
            work.wait()
        into.add_(out)
        self._settle()

    def ping(self, peer: int) -> None:
        """A small message there and back."""
        out, into = self._of(PING_BYTES)
        if self.me.rank < peer:
            self.dist.send(out, peer)
            self.dist.recv(into, peer)
        else:
            self.dist.recv(into, peer)
            self.dist.send(out, peer)
        self._settle()

    def adds_up(self) -> bool:
        """Whether a sum over all ranks is right."""
        value = self.torch.full((1024,), float(self.me.rank + 1), device=self.device)
        self.dist.all_reduce(value)
        return bool((value == self.ranks * (self.ranks + 1) / 2).all().item())

    def close(self) -> None:
        """Leave all."""
        self.dist.destroy_process_group()

    def _of(self, size: int) -> tuple[Any, Any]:
        if size not in self._buffers:
            made = [self.torch.zeros(max(size // 4, 1), device=self.device) for _ in range(2)]
            self._buffers[size] = (made[0], made[1])
        return self._buffers[size]

    def _settle(self) -> None:
        if self.name == "nccl":
            self.torch.cuda.synchronize(self.device)


def _device(torch: Any) -> Any:  # noqa: ANN401
    index = os.environ.get("SLURMKIT_DEVICE") or os.environ.get("LOCAL_RANK") or "0"
    return torch.device("cuda", int(index) % torch.cuda.device_count())


def tcp_store(port: int, ranks: int, timeout: float) -> Any:  # noqa: ANN401
    """Where the ranks of torch find each other; port 0 makes it, on a port that is free."""
    distributed = importlib.import_module("torch.distributed")
    wait = timedelta(seconds=timeout)
    host = os.environ["MASTER_ADDR"]
    return distributed.TCPStore(host, port, ranks, port == 0, timeout=wait, wait_for_workers=False)
