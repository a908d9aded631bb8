"""slurmrestd on a live testbed while something is away, a token is wrong, or an answer is lost on its way."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import AnswerLost, Refused, Unreachable
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import NEVER
from slurmkit.slurm.request import Submission
from slurmkit.slurm.rest import token
from slurmkit.slurm.rest.client import Rest
from slurmkit.slurm.rest.server import Server
from slurmkit.slurm.submission import submit_once
from slurmkit.testbed import native
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from slurmkit.testbed.ports import listens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def testbed(make_testbed: Callable[[Options], Testbed]) -> Testbed:
    return make_testbed(Options(nodes=1, gpus="", rest=True))


@pytest.fixture
def text(testbed: Testbed) -> str:
    return testbed.command(["scontrol", "token", "lifespan=3600"]).stdout.strip()


def client(testbed: Testbed, text: str, port: int | None = None) -> Rest:
    url = testbed.rest_url if port is None else f"http://127.0.0.1:{port}"
    return Rest(Server(url), lambda: token.parse(text, "the test"), retry=NEVER)


def submission(folder: Path, tag: str) -> Submission:
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --hold --comment=slurmkit:{tag} --output=/dev/null\ntrue\n")
    return Submission(script=script, tag=tag, directory=folder, environment={"PATH": os.environ["PATH"]})


def test_a_slurmctld_that_is_away_is_told_from_a_wrong_token(
    testbed: Testbed, text: str, tmp_path: Path
) -> None:
    rest = client(testbed, text)
    assert rest.version()
    testbed.stop("slurmctld")
    try:
        with pytest.raises(Unreachable, match="slurmctld does not answer"):
            rest.jobs()
        with pytest.raises(Unreachable, match="slurmctld does not answer"):
            rest.submit(submission(tmp_path, "none"))
    finally:
        testbed.start("slurmctld")


def test_a_slurmdbd_that_is_away_is_said(testbed: Testbed, text: str) -> None:
    testbed.stop("slurmdbd")
    try:
        with pytest.raises(Unreachable, match="slurmdbd does not answer"):
            client(testbed, text).accounting()
    finally:
        testbed.start("slurmdbd")


def test_a_slurmrestd_that_is_away_is_said_and_the_submit_did_not_arrive(
    testbed: Testbed, text: str, tmp_path: Path
) -> None:
    rest = client(testbed, text)
    assert rest.version()
    testbed.stop("slurmrestd")
    assert wait_for(lambda: not listens(testbed.ports["slurmrestd"]), 10)
    try:
        with pytest.raises(Unreachable, match="slurmrestd does not answer"):
            rest.submit(submission(tmp_path, "none"))
    finally:
        native.up(testbed.options, testbed.root)
    assert rest.jobs() == []


def test_a_token_of_another_cluster_is_refused(testbed: Testbed, text: str, tmp_path: Path) -> None:
    head, body, signature = text.removeprefix("SLURM_JWT=").split(".")
    forged = ".".join([head, body, signature[::-1]])
    with pytest.raises(Refused, match="does not accept the token"):
        client(testbed, forged).accounting()
    with pytest.raises(Refused, match="does not accept the token"):
        client(testbed, forged).submit(submission(tmp_path, "none"))


def test_a_token_that_has_expired_is_said_before_it_is_sent(testbed: Testbed) -> None:
    short = testbed.command(["scontrol", "token", "lifespan=1"]).stdout.strip()
    with pytest.raises(Refused, match="the token has expired"):
        client(testbed, short).jobs()


def test_a_slurmrestd_that_was_killed_listens_again_on_both_doors(testbed: Testbed, text: str) -> None:
    testbed.kill("slurmrestd")
    native.up(testbed.options, testbed.root)
    over_socket = Rest(Server(f"unix:{testbed.layout.rest_socket}"), lambda: token.parse(text, "the test"))
    assert over_socket.version() == client(testbed, text).version()


class QuickClock(SystemClock):
    """Fifty times as fast as time: a grace of a minute passes in a second."""

    def __init__(self) -> None:
        self.slept = 0.0

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        time.sleep(seconds / 50)


class Way:
    """A door before slurmrestd that hands requests on, and loses answers to submits while it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.loses = 0
        self.swallows = False
        self.submits = 0
        self._threads: list[threading.Thread] = []

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._hand_on(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _hand_on(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request or len(request.partition(b"\r\n\r\n")[2]) < _length(request):
            request += connection.recv(65536)
        is_submit = request.startswith(b"POST") and b"/job/submit" in request.partition(b"\r\n")[0]
        self.submits += is_submit
        if is_submit and self.swallows:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as target:
            target.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer or len(answer.partition(b"\r\n\r\n")[2]) < _length(answer):
                if not (more := target.recv(65536)):
                    break
                answer += more
        if is_submit and self.loses:
            self.loses -= 1
            return
        connection.sendall(answer)


def _length(message: bytes) -> int:
    for line in message.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


@contextmanager
def way(testbed: Testbed) -> Iterator[Way]:
    with closing(Way(testbed.ports["slurmrestd"])) as made:
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        yield made
    thread.join()


def test_a_submit_whose_answer_was_lost_makes_one_job_whose_id_is_found(
    testbed: Testbed, text: str, tmp_path: Path
) -> None:
    tag = f"run-{uuid.uuid4()}"
    began = datetime.now(UTC) - timedelta(seconds=5)
    with way(testbed) as between:
        between.loses = 1
        rest = client(testbed, text, between.port)
        receipt = submit_once(rest, submission(tmp_path, tag), clock=QuickClock(), since=began)
        assert between.submits == 1
        assert [job.id for job in rest.jobs() if tag in (job.comment or "")] == [receipt.id]
        rest.cancel([receipt.id])
    assert "the job was found in Slurm" in receipt.message


def test_a_submit_that_was_swallowed_is_made_anew_once(testbed: Testbed, text: str, tmp_path: Path) -> None:
    tag = f"run-{uuid.uuid4()}"
    began = datetime.now(UTC) - timedelta(seconds=5)
    with way(testbed) as between:
        between.swallows = True
        rest = client(testbed, text, between.port)
        with pytest.raises(AnswerLost):
            submit_once(rest, submission(tmp_path, tag), clock=QuickClock(), since=began)
        assert between.submits == 2
        assert [job for job in rest.jobs() if tag in (job.comment or "")] == []
        assert rest.jobs([JobId(1)]) is not None
