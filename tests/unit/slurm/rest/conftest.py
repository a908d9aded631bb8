"""A small HTTP server in the place of slurmrestd, for what no real one can be brought to say."""

from __future__ import annotations

import base64
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from slurmkit.slurm.process import Retry
from slurmkit.slurm.rest.client import Rest
from slurmkit.slurm.rest.server import Server
from slurmkit.slurm.rest.token import Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1_800_000_000


class Told(NamedTuple):
    """One answer: `body` is JSON unless it is bytes; `cut` sends only so many of them."""

    status: int = 200
    body: object = None
    content_type: str = "application/json"
    cut: int | None = None
    hang_up: bool = False
    location: str = ""


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class FakeServer:
    """Answers by path, each answer of a list once and the last for ever; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Told]] = {}
        self.asked: list[Asked] = []
        self.url = ""

    def tell(self, path: str, *answers: Told | dict[str, object]) -> None:
        self.answers[path] = [one if isinstance(one, Told) else Told(body=one) for one in answers]

    def speak(self, version: str, release: tuple[int, int, int] = (24, 11, 5)) -> None:
        """Answer the question for the version."""
        self.tell(f"/slurm/{version}/ping", {"meta": meta(version, release), "errors": [], "pings": []})

    def count(self, path: str) -> int:
        return sum(one.path.partition("?")[0] == path for one in self.asked)

    def next(self, path: str) -> Told:
        waiting = self.answers.get(path)
        if not waiting:
            return Told(404, b"Unable find requested URL.", "text/plain")
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def meta(version: str, release: tuple[int, int, int]) -> dict[str, object]:
    major, minor, micro = release
    if version == "v0.0.38":
        return {"Slurm": {"version": {"major": major, "minor": minor, "micro": micro}}}
    numbers = {"major": str(major), "minor": str(minor), "micro": str(micro)}
    return {"slurm": {"version": numbers, "cluster": "tb"}, "plugin": {"accounting_storage": "a/slurmdbd"}}


def answer(**fields: object) -> dict[str, object]:
    return {"meta": {}, "errors": [], **fields}


def token(user: str = "alice", expires: int | None = NOW + 3600) -> str:
    """A token as slurmctld makes them, signed by nobody."""
    claims = {"sun": user} | ({"exp": expires} if expires is not None else {})
    head, body = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=")
                  for one in ({"alg": "HS256"}, claims))  # fmt: skip
    return f"{head}.{body}.c2lnbmF0dXJl"


class StandingClock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.at = float(NOW)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            fake.asked.append(
                Asked(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            )
            told = fake.next(self.path.partition("?")[0])
            if told.hang_up:
                return
            content = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            self.send_response(told.status)
            self.send_header("Content-Type", told.content_type)
            self.send_header("Content-Length", str(len(content)))
            if told.location:
                self.send_header("Location", told.location)
            self.end_headers()
            self.wfile.write(content[: told.cut])

        do_GET = do_POST = do_DELETE = do  # noqa: N815 - the names are http.server's

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: pytest shows what goes wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        fake.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield fake
        http.shutdown()
        thread.join()


@pytest.fixture
def connect(server: FakeServer, clock: StandingClock) -> Callable[..., Rest]:
    def make(**more: Any) -> Rest:
        held = Token(token(), "alice", NOW + 3600)
        given = {"retry": Retry(tries=2), "clock": clock, "timeout": 5.0, **more}
        return Rest(Server(server.url), lambda: held, **given)

    return make
