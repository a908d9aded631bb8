"""What a server can say that is no answer: a clear error each, and never a second submit.

The server is a fake: no real slurmrestd cuts its answers short or turns into a portal.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import AccountingOff, AnswerLost, JobUnknown, Refused, SlurmError, Unreachable
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.process import NEVER
from slurmkit.slurm.request import Submission
from slurmkit.slurm.rest import token as tokens
from slurmkit.slurm.rest.client import Rest
from slurmkit.slurm.rest.server import Server
from slurmkit.slurm.rest.token import Token
from tests.unit.slurm.rest.conftest import NOW, Told, answer, token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.slurm.rest.conftest import FakeServer, StandingClock

JOBS = "/slurm/v0.0.42/jobs"
SUBMIT = "/slurm/v0.0.42/job/submit"
HTML = Told(200, b"<!DOCTYPE html><html><body>Log in</body></html>", "text/html")


@pytest.fixture(autouse=True)
def speaking(server: FakeServer) -> None:
    server.speak("v0.0.42")


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    return Submission(script=script, tag="run-1", directory=tmp_path, environment={"PATH": "/bin"})


def error(code: int | None, text: str, **more: object) -> dict[str, object]:
    """An answer with an error as slurmrestd writes it."""
    number = {} if code is None else {"error_number": code}
    return {"meta": {}, "errors": [{**number, "error": text, **more}]}


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (Told(401, b"Authentication failure", "text/plain"), Refused, "does not accept the token"),
        (Told(403, b"", "text/plain"), Refused, "does not accept the token"),
        (Told(511, error(1007, "Protocol authentication error")), Refused, "does not accept the token"),
        (HTML, SlurmError, "this is no slurmrestd: HTTP 200, HTML"),
        (Told(302, b"", location="https://sso/login?x"), SlurmError, "leads on to https://sso/login"),
        (Told(200, [1, 2]), SlurmError, "its JSON is of another shape"),
        (Told(200, {"jobs": []}), SlurmError, "its JSON is of another shape"),
        (Told(200, b'{"meta": {}, "errors": [], "jobs": [{"job_id"'), Unreachable, "cut short"),
        (Told(200, answer(jobs=[]), cut=10), Unreachable, "connection to slurmrestd broke"),
        (Told(hang_up=True), Unreachable, "connection to slurmrestd broke"),
        (Told(503, b"<html>", "text/html"), Unreachable, "what stands before slurmrestd"),
        (Told(500, error(-1, "Unspecified error")), Unreachable, "does not answer, or does not accept"),
        (Told(200, error(7000, "Unable to connect to database")), Unreachable, "slurmdbd does not answer"),
        (Told(500, answer()), SlurmError, "refused the request"),
        (Told(500, error(1000, "Unexpected message received")), Unreachable, "did not answer as it should"),
        (Told(500, error(5005, "Zero Bytes were transmitted")), Unreachable, "closed the connection"),
        (Told(200, answer()), SlurmError, "cannot read"),
        (Told(200, answer(jobs=[{"job_id": 7}])), SlurmError, "cannot read"),
        (Told(200, answer(jobs="none")), SlurmError, "cannot read"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_clear_error(
    server: FakeServer, connect: Callable[..., Rest], told: Told, kind: type[SlurmError], words: str
) -> None:
    server.tell(JOBS, told)
    with pytest.raises(kind) as caught:
        connect(retry=NEVER).jobs()
    assert words in str(caught.value)
    assert not isinstance(caught.value, AnswerLost)


def test_a_field_that_is_missing_is_named_with_its_job(
    server: FakeServer, connect: Callable[..., Rest]
) -> None:
    server.tell(JOBS, answer(jobs=[{"job_id": 7, "job_state": ["RUNNING"]}]))
    with pytest.raises(SlurmError) as caught:
        connect().jobs()
    assert caught.value.where == "job 7: there is no field nodes"


def test_a_question_is_asked_again_while_the_fault_passes(
    server: FakeServer, connect: Callable[..., Rest]
) -> None:
    server.tell(JOBS, Told(503, b"", "text/html"), answer(jobs=[]))
    assert connect().jobs() == []
    assert server.count(JOBS) == 2


@pytest.mark.parametrize(
    "told", [HTML, Told(401, b"", "text/plain"), Told(500, error(2000, "Invalid partition name"))]
)
def test_what_does_not_pass_is_asked_once(
    server: FakeServer, connect: Callable[..., Rest], told: Told
) -> None:
    server.tell(JOBS, told)
    with pytest.raises(SlurmError):
        connect().jobs()
    assert server.count(JOBS) == 1


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (Told(hang_up=True), AnswerLost),
        (Told(200, answer(job_id=5), cut=10), AnswerLost),
        (Told(200, b'{"job_id": 5', "application/json"), AnswerLost),
        (Told(502, b"<html>", "text/html"), AnswerLost),
        (HTML, AnswerLost),
        (Told(500, error(-1, "Unspecified error")), AnswerLost),
        (Told(500, error(5005, "Zero Bytes were transmitted or received")), AnswerLost),
        (Told(200, answer()), AnswerLost),
        (Told(200, answer(job_id=0)), AnswerLost),
        (Told(500, error(1800, "Unable to contact slurm controller (connect failure)")), Unreachable),
        (Told(401, b"", "text/plain"), Refused),
        (Told(511, error(1007, "Protocol authentication error")), Refused),
        (Told(500, error(2000, "Invalid partition name specified")), Refused),
        (Told(400, error(9001, "Failure during parsing", description="Unknown key")), Refused),
        (Told(404, b"", "text/plain"), SlurmError),
    ],
)
def test_a_submit_is_sent_once_and_lost_only_where_it_may_have_arrived(
    server: FakeServer,
    connect: Callable[..., Rest],
    submission: Submission,
    told: Told,
    kind: type[SlurmError],
) -> None:
    server.tell(SUBMIT, told)
    with pytest.raises(kind) as caught:
        connect().submit(submission)
    assert server.count(SUBMIT) == 1
    assert isinstance(caught.value, AnswerLost) == (kind is AnswerLost)


def test_a_submit_to_nobody_did_surely_not_arrive(clock: StandingClock, submission: Submission) -> None:
    nobody = Rest(Server("http://127.0.0.1:9"), lambda: Token(token()), clock=clock, retry=NEVER)
    with pytest.raises(Unreachable, match="slurmrestd does not answer"):
        nobody.submit(submission)


def test_a_submit_that_slurm_took_with_a_warning_is_a_receipt(
    server: FakeServer, connect: Callable[..., Rest], submission: Submission
) -> None:
    told = error(2015, "Requested partition configuration not available now")
    server.tell(SUBMIT, Told(200, told | {"job_id": 13, "job_submit_user_msg": "be nice"}))
    receipt = connect().submit(submission)
    assert receipt.id == JobId(13)
    assert receipt.message == "be nice\nRequested partition configuration not available now"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (error(1007, "Protocol authentication error"), "Slurm does not accept the token"),
        (answer(clusters=[]), "slurmctld does not answer"),
        (
            error(7000, "Unable to connect to database"),
            "slurmctld does not answer, or does not accept the token",
        ),
    ],
)
def test_trap_v0_0_38_says_the_same_of_a_bad_token_and_of_a_slurmctld_that_is_away(
    server: FakeServer, connect: Callable[..., Rest], told: dict[str, object], words: str
) -> None:
    del server.answers["/slurm/v0.0.42/ping"]
    server.tell("/slurm/v0.0.38/ping", Told(500, error(-1, "Unspecified error")))
    server.tell("/slurmdb/v0.0.38/clusters", told)
    with pytest.raises(SlurmError) as caught:
        connect(retry=NEVER).version()
    assert caught.value.what == words


@pytest.mark.parametrize(
    ("description", "partitions", "words"),
    [
        ("Failed to open slurmdbd connection, authentication error", None, "does not accept the token"),
        ("Failed to open slurmdbd connection", error(1007, "authentication"), "does not accept the token"),
        ("Failed to open slurmdbd connection", answer(partitions=[]), "slurmdbd does not answer"),
        ("Failed to open slurmdbd connection", None, "slurmdbd does not answer"),
    ],
)
def test_trap_later_versions_say_the_same_of_a_bad_token_and_of_a_slurmdbd_that_is_away(
    server: FakeServer,
    connect: Callable[..., Rest],
    description: str,
    partitions: dict[str, object] | None,
    words: str,
) -> None:
    told = error(7000, "Unable to connect to database", description=description)
    server.tell("/slurmdb/v0.0.42/jobs", Told(500, told))
    if partitions is not None:
        server.tell("/slurm/v0.0.42/partitions", partitions)
    with pytest.raises(SlurmError) as caught:
        connect(retry=NEVER).accounting()
    assert words in caught.value.what


def test_trap_a_change_of_an_array_is_no_error_for_an_error_without_a_code(
    server: FakeServer, connect: Callable[..., Rest]
) -> None:
    server.tell("/slurm/v0.0.42/job/5_2", error(None, "", description="job array update failed"))
    connect().hold(JobId(5, task=2))


def test_a_server_without_pages_of_slurmdbd_keeps_no_accounting(
    server: FakeServer, connect: Callable[..., Rest]
) -> None:
    server.tell(JOBS, answer(jobs=[]))
    rest = connect()
    with pytest.raises(AccountingOff):
        rest.accounting()
    assert rest.find("run-1", since=datetime(2026, 12, 1, tzinfo=UTC)) is None


def test_a_job_that_is_unknown_is_absent(server: FakeServer, connect: Callable[..., Rest]) -> None:
    server.tell("/slurm/v0.0.42/job/9", Told(500, error(2017, "Invalid job id specified")))
    server.tell("/slurmdb/v0.0.42/jobs", error(9003, "Nothing found with query") | {"jobs": []})
    rest = connect()
    assert rest.jobs([JobId(9)]) == []
    assert rest.accounting([JobId(9)]) == []
    with pytest.raises(JobUnknown):
        rest.hold(JobId(9))
    rest.cancel([JobId(9)])


class TestTheVersion:
    """Chosen by asking: the newest that both know."""

    @pytest.mark.parametrize("version", ["v0.0.45", "v0.0.42", "v0.0.38"])
    def test_the_newest_that_both_know_is_spoken(
        self, server: FakeServer, connect: Callable[..., Rest], version: str
    ) -> None:
        del server.answers["/slurm/v0.0.42/ping"]
        server.speak(version, (23, 2, 1))
        server.speak("v0.0.38") if version != "v0.0.38" else None
        rest = connect()
        assert rest.api == version
        assert rest.version() == (23, 2, 1)
        assert len({one.path for one in server.asked}) == len(server.asked)

    def test_a_server_that_speaks_others_is_told_apart_from_no_server(
        self, server: FakeServer, connect: Callable[..., Rest]
    ) -> None:
        server.answers.clear()
        server.tell(
            "/openapi/v3", Told(200, {"paths": {"/slurm/v0.0.40/ping/": {}, "/slurm/v0.0.39/jobs": {}}})
        )
        with pytest.raises(SlurmError) as caught:
            connect().version()
        assert caught.value.where == f"{server.url}: v0.0.39, v0.0.40"
        assert "slurmkit knows v0.0.45, v0.0.42, v0.0.38" in str(caught.value.hint)

    def test_a_server_without_pages_says_so(self, server: FakeServer, connect: Callable[..., Rest]) -> None:
        server.answers.clear()
        with pytest.raises(SlurmError, match="speaks no version of its API"):
            connect().version()

    def test_a_release_that_is_not_told_is_an_error(
        self, server: FakeServer, connect: Callable[..., Rest]
    ) -> None:
        server.tell("/slurm/v0.0.42/ping", answer(pings=[]))
        with pytest.raises(SlurmError, match="does not say which Slurm"):
            connect().version()


class TestTheToken:
    """It stands in one header, is asked for again at its end, and is in no message."""

    def test_it_is_sent_with_the_name_that_stands_in_it(
        self, server: FakeServer, connect: Callable[..., Rest]
    ) -> None:
        connect().version()
        sent = {name.lower(): value for name, value in server.asked[-1].headers.items()}
        assert sent["x-slurm-user-token"] == token()
        assert sent["x-slurm-user-name"] == "alice"

    def test_one_that_has_expired_is_asked_for_again(self, server: FakeServer, clock: StandingClock) -> None:
        given = [token(expires=NOW + 60), token(expires=NOW + 9999)]
        rest = Rest(Server(server.url), lambda: tokens.parse(given.pop(0), "x"), clock=clock)
        rest.version()
        clock.sleep(55)
        server.tell(JOBS, answer(jobs=[]))
        rest.jobs()
        assert given == []

    def test_one_that_has_expired_is_not_sent(self, server: FakeServer, clock: StandingClock) -> None:
        rest = Rest(Server(server.url), lambda: tokens.parse(token(expires=NOW - 1), "x"), clock=clock)
        with pytest.raises(Refused, match="the token has expired"):
            rest.version()
        assert server.asked == []

    @pytest.mark.parametrize(
        "text", ["", "secret", "SLURM_JWT=", "a.b", "a.b.c\nX-Evil: 1", "é.é.é", "a.b.c d"]
    )
    def test_what_is_none_is_refused_and_not_repeated(self, text: str) -> None:
        with pytest.raises(Refused) as caught:
            tokens.parse(text, "$NAME")
        assert str(caught.value).startswith("this is no JSON Web Token\n  at: $NAME")
        assert "secret" not in str(caught.value)

    def test_it_is_in_no_representation(self) -> None:
        one = tokens.parse(token(), "x")
        assert one.text not in f"{one!r} {one}"

    @pytest.mark.parametrize(
        "told", [HTML, Told(hang_up=True), Told(401, b"", ""), Told(500, error(-1, "x"))]
    )
    def test_it_is_in_no_error(self, server: FakeServer, connect: Callable[..., Rest], told: Told) -> None:
        server.tell(JOBS, told)
        with pytest.raises(SlurmError) as caught:
            connect(retry=NEVER).jobs()
        chain: list[BaseException] = [caught.value]
        while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(before)
        assert not [one for one in chain if token() in f"{one!r} {one} {vars(one)}"]
