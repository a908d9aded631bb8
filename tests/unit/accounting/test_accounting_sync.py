"""A sync against a Slurm of a few lines: nothing is lost or doubled, wherever it is broken off."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.accounting.manifest import load
from slurmkit.accounting.store import open_store
from slurmkit.accounting.sync import Accounting, accounting_of, sync
from slurmkit.errors import Refused, SlurmError, Unreachable, UsageError
from slurmkit.slurm.rows import DELIMITER
from tests.unit.run.conftest import FakeSlurm, make_job

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.accounting.sync import Synced
    from slurmkit.slurm.dumping import Query

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SINCE = datetime(2026, 11, 17, tzinfo=UTC)
WINDOWS = 4
HOUR = timedelta(hours=1)
FIELDS = ("JobID", "JobIDRaw", "Cluster", "User", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
          "TimelimitRaw", "NNodes", "NodeList", "AllocCPUS", "AllocTRES", "JobName")  # fmt: skip


class Clock:
    """A clock that sleeps at once."""

    def __init__(self) -> None:
        self.time = NOW
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Site:
    """slurmdbd with some attempts, each `(number, submit, start, end)`; a job runs where it has no end."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.clock = Clock()
        self.attempts: list[tuple[int, datetime, datetime | None, datetime | None]] = []
        self.queries: list[Query] = []
        self.known: set[str] | None = None
        self.takes: dict[timedelta, float] = {}
        self.fails: Exception | None = None
        self.fails_after = 0

    def dump(self, query: Query, target: Path) -> bool:
        self.queries.append(query)
        if self.fails is not None and len(self.queries) > self.fails_after:
            target.write_text("half a rec")
            raise self.fails
        lines = [FIELDS, *(self._row(*one) for one in self.attempts if self._fits(query, *one))]
        target.write_text("".join(DELIMITER.join(line) + DELIMITER + "\n" for line in lines))
        return True

    def _fits(self, query: Query, number: int, submit: datetime, _: Any, end: datetime | None) -> bool:
        if query.ids:
            return number in query.ids
        assert query.since
        assert query.until
        return submit < query.until and (end is None or end >= query.since)

    def _row(self, number: int, submit: datetime, start: datetime | None, end: datetime | None) -> list[str]:
        def epoch(moment: datetime | None) -> str:
            return f"{moment.timestamp():.0f}" if moment else "Unknown"

        state = "COMPLETED" if end else "RUNNING" if start else "PENDING"
        elapsed = ((end or self.clock.time) - start).total_seconds() if start else 0
        nodes = ("1", "n1", "4", "cpu=4,node=1") if start else ("0", "None assigned", "0", "")
        return [
            str(number), str(number), "aurora", "ada", state, epoch(submit), epoch(submit), epoch(start),
            epoch(end), f"{elapsed:.0f}", "UNLIMITED", *nodes, f"job {number}",
        ]  # fmt: skip

    def sync(self, **how: Any) -> Synced:
        self.queries.clear()
        how = how if load(self.store) else {"since": SINCE} | how
        accounting = Accounting("aurora", self.dump, lambda: self.known)
        return sync(self.store, accounting, clock=self.clock, **how)

    def rows(self, columns: str = "job_number, state") -> list[Any]:
        with closing(open_store(self.store)) as ledger:
            return ledger.connection.execute(f"SELECT {columns} FROM jobs ORDER BY ALL").fetchall()

    def notes(self) -> tuple[str, ...]:
        with closing(open_store(self.store)) as ledger:
            return ledger.notes


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path / "store")
    for number in range(1, 9):
        start = NOW - number * 20 * HOUR
        site.attempts.append((number, start - HOUR, start, start + 30 * HOUR if number > 1 else None))
    site.attempts.append((50, NOW - HOUR, None, None))
    return site


def everything(site: Site) -> list[tuple[int, str]]:
    return sorted(
        (number, "COMPLETED" if end else "RUNNING" if start else "PENDING")
        for number, _, start, end in site.attempts
        if end is None or end >= SINCE
    )


def test_the_first_sync_has_every_attempt_once_and_asks_a_day_at_a_time(site: Site) -> None:
    done = site.sync()
    assert site.rows() == everything(site)
    assert [query.until - query.since for query in site.queries if query.since and query.until] == [
        *[24 * HOUR] * (WINDOWS - 1),
        2 * 12 * HOUR,
    ]
    assert (done.windows, done.until) == (WINDOWS, NOW)
    with closing(open_store(site.store)) as ledger:
        assert ledger.as_of == NOW
        assert ledger.notes == ()


def test_the_next_sync_asks_only_for_what_can_have_changed(site: Site) -> None:
    site.sync()
    site.clock.time = NOW + 2 * HOUR
    site.attempts[0] = (*site.attempts[0][:3], NOW + HOUR)
    site.attempts[-1] = (50, NOW - HOUR, NOW + HOUR / 2, None)
    site.sync()
    assert [(query.since, query.until) for query in site.queries] == [(NOW - HOUR, NOW + 5 * HOUR)]
    assert site.rows() == everything(site)


def test_nothing_new_changes_nothing(site: Site) -> None:
    site.sync()
    before = site.rows("* EXCLUDE (elapsed, until_time)")
    site.clock.time += HOUR
    site.sync()
    assert site.rows("* EXCLUDE (elapsed, until_time)") == before


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("failure", [Unreachable("slurmdbd does not answer"), KeyboardInterrupt()], ids=repr)
def test_broken_off_it_goes_on_where_it_was(site: Site, after: int, failure: Exception) -> None:
    site.fails, site.fails_after = failure, after
    with pytest.raises(type(failure)):
        site.sync()
    kept = load(site.store)
    if after:
        assert kept
        assert kept.clusters["aurora"].synced_until == SINCE + timedelta(days=after)
    site.fails = None
    site.sync()
    assert len([query for query in site.queries if query.since]) == WINDOWS - after + (after > 0)
    assert site.rows() == everything(site)


def test_an_interrupted_sync_is_complete_up_to_where_it_came(site: Site) -> None:
    site.fails, site.fails_after = Unreachable("slurmdbd does not answer"), 2
    with pytest.raises(Unreachable):
        site.sync()
    until = SINCE + timedelta(days=2)
    begun = {n for n, submit, _, end in site.attempts if submit < until and (not end or end >= SINCE)}
    assert {number for number, _ in site.rows()} == begun


def test_open_attempts_that_no_window_has_are_asked_for_by_their_ids(site: Site) -> None:
    number, submit, start, _ = site.attempts[0]
    site.sync()
    site.clock.time = NOW + 10 * HOUR
    # slurmdbd hears late of an end that was long before the last sync.
    site.attempts[0] = (number, submit, start, NOW - 3 * HOUR)
    site.sync()
    assert [list(query.ids) for query in site.queries] == [[], [1]]
    assert site.rows() == everything(site)


def test_an_open_attempt_that_slurmdbd_has_no_more_stays_and_is_noted(site: Site) -> None:
    site.sync()
    gone = site.attempts.pop(0)
    site.clock.time = NOW + HOUR
    site.sync()
    assert (gone[0], "RUNNING") in site.rows()
    assert any("1 attempts that had not ended are gone" in note for note in site.notes())
    site.attempts.insert(0, gone)
    site.sync()
    assert site.notes() == ()


def test_trap_048_what_runs_in_accounting_alone_is_a_runaway_until_slurmctld_knows_it(site: Site) -> None:
    site.known = {"50"}
    site.sync()
    assert site.rows("job_number, is_runaway") == [(n, n == 1) for n, _ in everything(site)]
    assert any("runaway" in note for note in site.notes())
    site.known = {"50", "1"}
    site.sync()
    assert not any(flag for _, flag in site.rows("job_number, is_runaway"))
    site.known = None
    site.sync()
    assert not any(flag for _, flag in site.rows("job_number, is_runaway"))


def test_slurmdbd_rests_between_questions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = site.dump

    def slow(query: Query, target: Path) -> bool:
        site.clock.time += timedelta(seconds=7)
        return real(query, target)

    monkeypatch.setattr(site, "dump", slow)
    site.sync()
    assert site.clock.slept == [7.0] * (len(site.queries) - 1)


def test_a_window_that_takes_too_long_or_is_refused_is_divided(site: Site) -> None:
    real = site.dump

    def limited(query: Query, target: Path) -> bool:
        assert query.since
        assert query.until
        whole = real(query, target)
        if query.until - query.since > 13 * HOUR:
            raise Refused("the time range is too long")
        return whole and query.until - query.since < 7 * HOUR

    site.dump = limited  # type: ignore[method-assign]
    site.sync()
    assert site.rows() == everything(site)


def test_what_is_never_answered_in_time_is_an_error(site: Site) -> None:
    real = site.dump
    site.dump = lambda query, target: real(query, target) and False  # type: ignore[method-assign]
    with pytest.raises(SlurmError, match="does not answer in time"):
        site.sync()


def test_since_asks_again_for_what_is_there(site: Site) -> None:
    site.sync()
    since = NOW - timedelta(days=1)
    site.sync(since=since)
    assert site.queries[0].since == since
    assert site.rows() == everything(site)
    kept = load(site.store)
    assert kept
    assert kept.clusters["aurora"].synced_since == SINCE


def test_an_earlier_since_fills_up_what_came_before(site: Site) -> None:
    site.sync(since=NOW - timedelta(days=1))
    few = len(site.rows())
    site.sync(since=SINCE)
    assert few < len(site.rows())
    assert site.rows() == everything(site)


def test_a_disk_that_takes_nothing_is_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(query: Query, target: Path) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site, "dump", full)
    with pytest.raises(UsageError, match="No space left"):
        site.sync()


@pytest.mark.parametrize(
    ("private", "uid", "judges"), [("none", 7, True), ("jobs,usage", 7, False), ("jobs", 0, True)]
)
def test_who_does_not_see_the_jobs_of_all_calls_none_a_runaway(
    monkeypatch: pytest.MonkeyPatch, private: str, uid: int, judges: bool
) -> None:
    fake = FakeSlurm([make_job("12_3")])
    fake.configuration = {"ClusterName": "aurora", "PrivateData": private}
    monkeypatch.setattr("slurmkit.accounting.sync.known_fields", lambda *_: ("JobID",))
    monkeypatch.setattr("os.geteuid", lambda: uid)
    accounting = accounting_of(None, fake, {}, Clock())
    assert accounting.cluster == "aurora"
    assert accounting.known() == ({"12_3"} if judges else None)
