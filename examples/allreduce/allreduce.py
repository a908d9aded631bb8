"""A ring all-reduce over TCP among the ranks of a job, checked and timed. Standard library only."""

import os
import socket
import time
from array import array
from operator import add
from threading import Thread

from slurmkit import progress
from slurmkit.launch import rank_from_env

ME = rank_from_env()
STEPS = 10
NUMBERS = 1 << 17  # of 8 bytes each: 1 MiB
PATIENCE = 60
HOST = os.environ.get("SLURMD_NODENAME", socket.gethostname())


def connect(host, port):
    """A connection to a rank that may still be starting."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, port), timeout=PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def tell_all_where(port):
    """Rank 0: hear where every other rank listens, and tell each of them where the one after it does."""
    places = {0: (ME.master_addr, port)}
    peers = {}
    with socket.create_server(("", ME.master_port), backlog=ME.world_size) as server:
        server.settimeout(PATIENCE)
        while len(places) < ME.world_size:
            peer, address = server.accept()
            rank, port = map(int, peer.makefile().readline().split())
            places[rank], peers[rank] = (address[0], port), peer
    for rank, peer in peers.items():
        host, port = places[(rank + 1) % ME.world_size]
        peer.sendall(f"{host} {port}\n".encode())
        peer.close()
    return places[1]


def ask_where(port):
    """The other ranks: tell rank 0 where this one listens, and hear where the next one does."""
    with connect(ME.master_addr, ME.master_port) as rank_0:
        rank_0.sendall(f"{ME.rank} {port}\n".encode())
        host, port = rank_0.makefile().readline().split()
    return host, int(port)


def join_ring():
    """The connection to the next rank, and the one from the rank before."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        ahead = connect(*(ask_where if ME.rank else tell_all_where)(port))
        behind = server.accept()[0]
    for end in (ahead, behind):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(PATIENCE)
    return ahead, behind


def exchange(ring, ours, size):
    """Send to the next rank while as many numbers come in from the one before."""
    ahead, behind = ring
    sender = Thread(target=ahead.sendall, args=(ours,))
    sender.start()
    theirs = array("d", bytes(8 * size))
    view = memoryview(theirs).cast("B")
    while view:
        count = behind.recv_into(view)
        if not count:
            raise ConnectionError("the rank before has gone")
        view = view[count:]
    sender.join()
    return theirs


def all_reduce(ring, values):
    """Sum over all ranks, in place: each part goes round once to be summed, and once to be told."""
    size = ME.world_size
    edges = [len(values) * part // size for part in range(size + 1)]

    def bounds(part):
        return slice(edges[part % size], edges[part % size + 1])

    for turn in range(2 * (size - 1)):
        out, into = bounds(ME.rank - turn), bounds(ME.rank - turn - 1)
        theirs = exchange(ring, values[out], into.stop - into.start)
        values[into] = array("d", map(add, values[into], theirs)) if turn < size - 1 else theirs


def main():
    ring = join_ring() if ME.world_size > 1 else None
    in_sync = 0.0
    for step in range(1, STEPS + 1):
        with progress.phase("compute"):
            values = array("d", [ME.rank + step]) * NUMBERS
        with progress.phase("sync"):
            began = time.perf_counter()
            all_reduce(ring, values)
            in_sync += time.perf_counter() - began
        expected = sum(rank + step for rank in range(ME.world_size))
        if values != array("d", [expected]) * NUMBERS:
            raise SystemExit(f"rank {ME.rank}: step {step} does not sum to {expected}")
        progress.step(step, sum=expected)
    # What each rank sends: of the whole, all parts but its own, twice.
    sent = STEPS * 8 * NUMBERS * 2 * (ME.world_size - 1) / ME.world_size
    print(
        f"rank {ME.rank} of {ME.world_size} on {HOST}: {STEPS} all-reduces of {NUMBERS / 2**17:.0f} MiB, "
        f"the last sums to {expected}, {in_sync / STEPS * 1000:.1f} ms each, {sent / in_sync / 1e6:.0f} MB/s"
    )


main()
