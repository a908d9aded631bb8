"""The program of `slurmkit fabric-check`, run by every rank; rank 0 writes down what was measured.

The Python that the user names need not have slurmkit, nor be newer than 3.8. Ranks meet at
MASTER_ADDR:MASTER_PORT, where rank 0 gives the orders, a line of JSON each; what is measured never passes
there, but through torch (NCCL or gloo), or without it through TCP sockets between the ranks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # slurmkit is found beside this file, and of all that lies there nothing else.
    _here = Path(__file__).absolute().parent
    sys.path[:] = [str(_here.parents[1]), *(path for path in sys.path if path != str(_here))]
from slurmkit.inventory.fabric_measure import lead, obey
from slurmkit.inventory.fabric_transport import Member, Sockets, Torch, connect, listen, tcp_store
from slurmkit.launch.files import write_atomically

if __name__ == "__main__":
    del sys.path[0]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT = 1
RESULT = "fabric.json"
"""In the run directory."""
START = 300.0
"""Seconds for all ranks to appear: torch can take minutes to load from a shared disk."""
LONGEST_LINE = 1 << 24


class Line:
    """A connection on which both sides speak JSON, a line each."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        connection.settimeout(timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._file = connection.makefile("rb")

    def say(self, message: object) -> None:
        """Send one line."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:  # noqa: ANN401
        """Receive one line.

        Raises:
            ConnectionError: the other side has ended.
        """
        line = self._file.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side has ended")
        return json.loads(line)

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self.connection.close()


def introduce(listener: socket.socket, transport: str) -> Member:
    """Who this rank is and what it could measure with."""
    torch, nccl, why = (None, False, "") if transport == "sockets" else look_for_torch()
    environ = os.environ
    return Member(
        rank=int(environ["RANK"]),
        node=int(environ.get("NODE_RANK") or environ.get("GROUP_RANK") or 0),
        host=environ.get("SLURMD_NODENAME") or socket.gethostname(),
        port=listener.getsockname()[1],
        address=None,
        torch=torch,
        nccl=nccl,
        why=why,
    )


def look_for_torch() -> tuple[str | None, bool, str]:
    """Its version, whether NCCL could serve, and why not what is not."""
    try:
        torch = importlib.import_module("torch")
        distributed = importlib.import_module("torch.distributed")
    except (ImportError, OSError, RuntimeError) as error:
        return None, False, first_line(error)
    if not distributed.is_available():
        return None, False, "this torch was built without torch.distributed"
    if not torch.cuda.is_available():
        return torch.__version__, False, "torch sees no GPU"
    if not distributed.is_nccl_available():
        return torch.__version__, False, "this torch was built without NCCL"
    return torch.__version__, True, ""


def choose(members: Sequence[Member], wanted: str) -> tuple[str, str]:
    """The best that all ranks have, of nccl, gloo, sockets; and why no better one.

    Raises:
        ValueError: what is wanted is not to be had; the message says on which nodes and why.
    """
    lacking = {
        "nccl": [one for one in members if not one.nccl],
        "gloo": [one for one in members if one.torch is None],
    }
    why = ""
    for name, without in lacking.items():
        if wanted not in {name, "auto"}:
            continue
        if not without:
            return name, why
        hosts = list(dict.fromkeys(one.host for one in without))
        where = ", ".join(hosts[:8]) + (f" and {len(hosts) - 8} more" if len(hosts) > 8 else "")
        why = f"no {name} on {where}: {without[0].why}"
    if wanted in lacking:
        raise ValueError(why)
    return "sockets", why


def meet(me: Member, world: int, token: str) -> tuple[list[Member], list[Line]]:
    """Rank 0: wait until all others have introduced themselves; they and the lines to them, by rank.

    Raises:
        TimeoutError: some did not come; the message says who.
    """
    members, lines = {0: me}, {}
    end = time.monotonic() + START
    with listen(int(os.environ["MASTER_PORT"])) as door:
        while len(members) < world:
            missing = sorted(set(range(world)) - set(members))
            door.settimeout(max(end - time.monotonic(), 0.001))
            try:
                made, address = door.accept()
            except OSError:
                raise TimeoutError(f"ranks {missing[:8]} did not appear within {START:g} s") from None
            line = Line(made, 10.0)
            try:
                one = Member(**line.hear()[token])
            except (OSError, ValueError, TypeError, LookupError):  # a stranger
                line.close()
                continue
            near = one.node == me.node
            members[one.rank] = one._replace(address=None if near else plain_address(address[0]))
            lines[one.rank] = line
    return [members[rank] for rank in range(world)], [lines[rank] for rank in range(1, world)]


def plain_address(address: str) -> str:
    """An IPv4 address that was received on a socket of both families, as itself."""
    return address.rpartition("::ffff:")[2]


def run_leader(me: Member, world: int, listener: socket.socket, options: argparse.Namespace) -> None:
    """Rank 0: choose the transport, have everything measured, keep the result."""
    members, lines = meet(me, world, os.environ.get("SLURMKIT_TOKEN", ""))
    try:
        name, why = choose(members, options.transport)
    except ValueError as error:
        for line in lines:
            line.say({"error": str(error)})
        sys.exit(f"fabric-check: {error}")
    limit = waiting_time(options.timeout)
    plan: dict[str, Any] = {"transport": name, "ranks": world, "timeout": options.timeout, "limit": limit}
    plan["token"] = secrets.token_hex(16)
    plan["members"] = [one._asdict() for one in members]
    store = None
    if name != "sockets":
        store = tcp_store(0, world, options.timeout)
        plan["port"] = store.port
    for line in lines:
        line.connection.settimeout(limit)
        line.say(plan)
    transport = Torch(me, plan, store) if store else Sockets(me, members, listener, plan)

    def ask(kind: str, **order: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        for line in lines:
            line.say({"do": kind, **order})
        own = obey({"do": kind, **order}, transport, 0)
        return [own, *(line.hear() for line in lines)]

    nodes = sorted({one.node for one in members})
    on_nodes = [[one.rank for one in members if one.node == node] for node in nodes]
    result = {
        "format": FORMAT,
        "started": time.time(),
        "complete": False,
        "transport": name,
        "why": why,
        "torch": me.torch if store else None,
        "nodes": [members[ranks[0]].host for ranks in on_nodes],
        "ranks": world,
        "lanes": min(map(len, on_nodes)),
        "pair_bytes": options.pair_bytes,
        "measuring": [],
        "world": [],
        "world_error": None,
        "adds_up": None,
        "pairs": [],
    }
    lead(ask, save, result, on_nodes, options)
    for line in lines:
        line.say({"do": "end"})
    transport.close()


def run_follower(me: Member, listener: socket.socket) -> None:
    """Any other rank: do what rank 0 says until it says that it is over."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    line = Line(connect(address, port, START), START)
    line.say({os.environ.get("SLURMKIT_TOKEN", ""): me._asdict()})
    plan = line.hear()
    if "error" in plan:
        sys.exit(f"fabric-check: {plan['error']}")
    line.connection.settimeout(plan["limit"])
    members = [Member(**one) for one in plan["members"]]
    if plan["transport"] == "sockets":
        transport: Any = Sockets(me, members, listener, plan)
    else:
        transport = Torch(me, plan, tcp_store(plan["port"], plan["ranks"], plan["timeout"]))
    while True:
        order = line.hear()
        if order["do"] == "end":
            break
        line.say(obey(order, transport, me.rank))
    transport.close()


def waiting_time(timeout: float) -> float:
    """Seconds that the longest order may take: a connection and several messages that each just make it."""
    return 4 * timeout + START


def save(result: Mapping[str, Any]) -> None:
    """Put the result into the run directory, as a whole."""
    path = Path(os.environ["SLURMKIT_RUN_DIRECTORY"], RESULT)
    write_atomically(path, json.dumps(result).encode() + b"\n")


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return (str(error) or type(error).__name__).splitlines()[0]


def main(argv: Sequence[str] | None = None) -> None:
    """Be one rank of the check."""
    parser = argparse.ArgumentParser(description="One rank of slurmkit fabric-check.")
    parser.add_argument("--transport", choices=("auto", "nccl", "gloo", "sockets"), default="auto")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes of the largest all-reduce")
    parser.add_argument("--pair-bytes", type=int, default=16 << 20, help="bytes that each of a pair sends")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until silence is a failure")
    options = parser.parse_args(argv)
    with listen() as listener:
        me = introduce(listener, options.transport)
        if me.rank == 0:
            run_leader(me, int(os.environ["WORLD_SIZE"]), listener, options)
        else:
            run_follower(me, listener)


if __name__ == "__main__":
    main()
