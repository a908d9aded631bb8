"""The ranks of a job find each other over TCP, sum their numbers, and say so. Standard library only."""

import os
import socket
import time

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
MEETING = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
PATIENCE = 60


def gather_and_tell():
    """Rank 0: hear every other rank's number, tell all of them the sum."""
    with socket.create_server(("", MEETING[1]), backlog=WORLD_SIZE) as server:
        server.settimeout(PATIENCE)
        peers = [server.accept()[0] for _ in range(WORLD_SIZE - 1)]
    total = RANK + sum(int(peer.makefile().readline()) for peer in peers)
    for peer in peers:
        peer.sendall(b"%d\n" % total)
        peer.close()
    return total


def tell_and_hear():
    """The other ranks: rank 0 may still be starting."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(MEETING, timeout=PATIENCE) as rank_0:
                rank_0.sendall(b"%d\n" % RANK)
                return int(rank_0.makefile().readline())
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


total = tell_and_hear() if RANK else gather_and_tell()
print(
    f"rank {RANK} of {WORLD_SIZE} on {os.environ.get('SLURMD_NODENAME', socket.gethostname())}, "
    f"local rank {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_WORLD_SIZE']}, "
    f"GPU {os.environ.get('SLURMKIT_DEVICE', 'none')}: the ranks sum to {total}"
)
