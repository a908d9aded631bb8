"""A training run that may be stopped anywhere and comes out the same, bit by bit. Standard library only.

A linear model learns numbers from sparse samples by gradient descent with momentum. All arithmetic is exact,
in whole numbers of 2**-20: neither the order of a sum nor the number of ranks changes a bit of the result.
"""

import argparse
import hashlib
import json
import operator
import os
import random
import socket
import sys
import time
from array import array
from pathlib import Path

from slurmkit import progress
from slurmkit.checkpoint import commit, requested
from slurmkit.launch import rank_from_env

ME = rank_from_env()
SIZE, SAMPLES, BATCH, TOUCHED = 2048, 4096, 64, 16
ONE = 1 << 20
PATIENCE = 60
NUMBER = 8  # bytes


class Peers:
    """Sums among all ranks, through rank 0. A rank that is gone is an error at once."""

    def __init__(self):
        self.sockets = self._accept() if ME.rank == 0 else [self._connect()]
        for peer in self.sockets:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.settimeout(None)

    def _accept(self):
        found = {}
        if ME.world_size > 1:
            with socket.create_server(("", ME.master_port), backlog=ME.world_size) as server:
                server.settimeout(PATIENCE)
                while len(found) < ME.world_size - 1:
                    peer = server.accept()[0]
                    found[array("q", receive(peer, 1))[0]] = peer
        return [found[rank] for rank in sorted(found)]

    def _connect(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                peer = socket.create_connection((ME.master_addr, ME.master_port), timeout=PATIENCE)
            except ConnectionRefusedError:  # rank 0 is still starting
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                peer.sendall(array("q", [ME.rank]))
                return peer

    def sum(self, values):
        """The sum of every rank's numbers, on every rank."""
        if ME.rank == 0:
            for peer in self.sockets:
                values = array("q", map(operator.add, values, receive(peer, len(values))))
        for peer in self.sockets:
            peer.sendall(values)
        return values if ME.rank == 0 else receive(self.sockets[0], len(values))

    def wait(self):
        """Return once every rank is here."""
        self.sum(array("q", [0]))


def receive(peer, count):
    values = array("q", bytes(NUMBER * count))
    view = memoryview(values).cast("B")
    while view:
        got = peer.recv_into(view)
        if not got:
            raise ConnectionError("connection closed by peer: another rank is gone")
        view = view[got:]
    return values


class State:
    """All that a step depends on: weights, momentum, and the order of the data."""

    def __init__(self, seed):
        self.step = 0
        self.weights = array("q", bytes(NUMBER * SIZE))
        self.momentum = array("q", bytes(NUMBER * SIZE))
        self.order = list(range(SAMPLES))
        self.random = random.Random(seed)

    def next_batch(self):
        """The numbers of the next samples. Each epoch shuffles what the last one left."""
        start = self.step * BATCH % SAMPLES
        if start == 0:
            self.random.shuffle(self.order)
        return self.order[start : start + BATCH]

    def update(self, gradient):
        """One step of gradient descent with momentum."""
        self.momentum = array("q", [m * 7 // 8 + g for m, g in zip(self.momentum, gradient, strict=True)])
        self.weights = array("q", [w - (m >> 3) for w, m in zip(self.weights, self.momentum, strict=True)])
        self.step += 1

    def digest(self):
        return hashlib.sha256(self.weights).hexdigest()


def sample(number):
    """A sample: the weights that it touches, and what they are to sum to."""
    touched = random.Random(number).sample(range(SIZE), TOUCHED)
    return touched, sum(weight * weight % 1009 * ONE // 1009 for weight in touched)


def gradients(state, batch):
    """This rank's share of the gradient and, as the last number but one, of the loss."""
    values = array("q", bytes(NUMBER * (SIZE + 2)))
    for number in batch[ME.rank :: ME.world_size]:
        touched, wanted = sample(number)
        error = sum(state.weights[weight] for weight in touched) - wanted
        for weight in touched:
            values[weight] += error >> 4
        values[SIZE] += abs(error)
    return values


def bounds(rank, world_size):
    return SIZE * rank // world_size, SIZE * (rank + 1) // world_size


def save(state, peers, folder, seconds):
    """Every rank writes its part; rank 0 writes the rest and, when all of it is on disk, the manifest."""
    path = folder / f"step-{state.step}"
    if ME.rank == 0:
        path.mkdir(parents=True, exist_ok=True)
        # What an interrupted save has left here is no checkpoint, and must not look like one meanwhile.
        (path / "slurmkit-manifest.json").unlink(missing_ok=True)
    peers.wait()
    first, last = bounds(ME.rank, ME.world_size)
    write(path / f"weights-{ME.rank}", state.weights[first:last].tobytes(), seconds)
    write(path / f"momentum-{ME.rank}", state.momentum[first:last].tobytes())
    if ME.rank == 0:
        rest = {"step": state.step, "ranks": ME.world_size, "order": state.order}
        write(path / "data.json", json.dumps({**rest, "random": state.random.getstate()}).encode())
    peers.wait()
    if ME.rank == 0:
        commit(path, step=state.step)  # without world_size: any number of ranks can load it


def write(path, data, seconds=0.0):
    """Write a file to disk, half of it `seconds` after the other half: a slow file system's way."""
    with path.open("wb", buffering=0) as file:
        file.write(data[: len(data) // 2])
        time.sleep(seconds)
        file.write(data[len(data) // 2 :])
        os.fsync(file.fileno())


def load(state, path):
    """Take up a checkpoint that any number of ranks has written."""
    rest = json.loads((path / "data.json").read_bytes())
    state.step, state.order, (version, words, gauss) = rest["step"], rest["order"], rest["random"]
    state.random.setstate((version, tuple(words), gauss))
    for name in ("weights", "momentum"):
        parts = [(path / f"{name}-{rank}").read_bytes() for rank in range(rest["ranks"])]
        setattr(state, name, array("q", b"".join(parts)))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--step-time", type=float, default=0.05, help="seconds added to each step")
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--save-time", type=float, default=0.0, help="seconds added to each save")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoints", type=Path, help="default: $SLURMKIT_CHECKPOINTS, else checkpoints")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--result", type=Path, default=Path("weights.sha256"))
    return parser.parse_args()


def main():
    asked = arguments()
    folder = asked.checkpoints or Path(os.environ.get("SLURMKIT_CHECKPOINTS", "checkpoints"))
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    print(f"rank {ME.rank} of {ME.world_size} on {host}, pid {os.getpid()}", flush=True)
    state, peers = State(asked.seed), Peers()
    if asked.resume:
        load(state, asked.resume)
    say(f"from step {state.step} of {asked.steps}")
    has_been_asked = False
    while state.step < asked.steps:
        with progress.phase("compute"):
            values = gradients(state, state.next_batch())
            values[-1] = requested()
            time.sleep(asked.step_time)
        with progress.phase("sync"):
            *gradient, loss, asking = peers.sum(values)
        with progress.phase("compute"):
            state.update(gradient)
        loss = loss / BATCH / ONE
        # All ranks see the same sum: they save at the same step, though they were asked at different ones.
        is_asked, has_been_asked = bool(asking) and not has_been_asked, bool(asking)
        if is_asked or state.step % asked.save_every == 0 or state.step == asked.steps:
            with progress.phase("checkpoint"):
                save(state, peers, folder, asked.save_time)
        progress.step(state.step, loss=loss)
        say(f"step {state.step}  loss {loss:.6f}{'  saved, as asked' if is_asked else ''}")
    if ME.rank == 0:
        asked.result.write_text(f"{state.digest()}\n")
        print(f"weights: sha256 {state.digest()}")


def say(text):
    if ME.rank == 0:
        print(f"{time.time():.3f}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
