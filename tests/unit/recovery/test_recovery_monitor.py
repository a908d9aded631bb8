from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.recovery.monitor import Hung, Monitor, Straggler, StragglerGone, open_socket
from slurmkit.spec.model import Progress
from tests.unit.recovery.simulation import START, TOKEN, Sender, Training, open_monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    opened = open_monitor(tmp_path, interval=0.0)  # written at every tick
    yield opened
    opened.close()


@pytest.fixture
def sender(monitor: Monitor) -> Iterator[Sender]:
    opened = Sender(monitor)
    yield opened
    opened.close()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    opened: list[Training] = []

    def start(**options: Any) -> Training:
        opened.append(Training(tmp_path, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def step(rank: int, number: int, at: float, **more: object) -> dict[str, Any]:
    return {
        "rank": rank,
        "host": f"n{rank // 2}",
        "time": at,
        "step": number,
        "steps": number,
        "elapsed": at - START,
        "seconds": {},
        "in": None,
        "metrics": {},
        "checkpoints": 0,
        **more,
    }


def written(monitor: Monitor) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(monitor.written_to.read_bytes())
    return fields


def test_starts_and_ends_of_ranks_are_notices_with_our_own_time(monitor: Monitor, sender: Sender) -> None:
    sender.tell("rank-started", rank=1, host="n0", time=50.0)
    sender.tell("rank-ended", rank=1, host="n0", time=60.5, signal=9, received=[15])
    started, ended = monitor.receive(START)
    assert (started.kind, started.rank, started.host, started.time) == ("rank-started", 1, "n0", 50.0)
    assert (ended.arrived, ended.fields) == (START, {"signal": 9, "received": [15]})


HOSTILE = [
    b"",
    b"\xff\xfe",
    b"[" * 2000,
    b"{}",
    b"[]",
    b"null",
    json.dumps({"token": "1" * 32, "kind": "rank-started", "rank": 0, "host": "x", "time": 1}).encode(),
    json.dumps({"kind": "rank-started", "rank": 0, "host": "x", "time": 1}).encode(),
    json.dumps({"token": "é", "kind": "rank-started", "rank": 0, "host": "x", "time": 1}).encode(),
    f'{{"token":"{TOKEN}","kind":"progress"}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"rank-ended","rank":1e999,"host":"x","time":1}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"other","rank":1,"host":"x","time":1}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"progress","rank":-1,"host":"x","time":1,"steps":1}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"progress","rank":99999999,"host":"x","time":1,"steps":1}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"progress","rank":1,"host":"x","time":NaN,"steps":1}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"progress","rank":1,"host":"x","time":1,"steps":1.5}}'.encode(),
    f'{{"token":"{TOKEN}","kind":"progress","rank":1,"host":"x","time":1,"steps":{"9" * 300}}}'.encode(),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_what_is_no_datagram_of_ours_is_dropped(monitor: Monitor, sender: Sender, data: bytes) -> None:
    sender.send(data)
    assert monitor.receive(START) == []
    assert monitor.tick(START + 1) == []
    assert written(monitor)["step"] is None


def test_a_flood_does_not_keep_the_agent(monitor: Monitor, sender: Sender, monkeypatch: Any) -> None:
    monkeypatch.setattr("slurmkit.recovery.monitor.AT_ONCE", 3)
    for number in range(5):
        sender.tell("rank-started", rank=number, host="n0", time=1.0)
    assert [len(monitor.receive(START)) for _ in range(3)] == [3, 2, 0]


def test_ranks_of_both_address_families_are_heard(monitor: Monitor) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.sendto(
            json.dumps({"token": TOKEN, "kind": "rank-started", "rank": 0, "host": "n0", "time": 1}).encode(),
            ("::1", monitor.port),
        )
    assert len(monitor.receive(START)) == 1


def test_without_ipv6_the_other_family_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def refuse(family: int, *rest: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "no such family")
        return real(family, *rest)

    monkeypatch.setattr("socket.socket", refuse)
    with open_socket() as opened:
        assert opened.family == socket.AF_INET


def test_a_hosts_clock_is_told_by_the_quickest_datagram(monitor: Monitor, sender: Sender) -> None:
    for delay in (3.0, 0.25, 1.0):
        sender.tell("rank-started", rank=0, host="n0", time=START + 100)
        monitor.receive(START + delay)
    assert monitor.offset("n0") == 99.75
    assert monitor.offset("n1") == 0.0


def test_progress_json_says_how_far_the_step_is(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, progress=Progress(total=100), interval=0.0)
    sender = Sender(monitor)
    for second in range(1, 41):
        for rank in range(2):
            spent = {"compute": second * (0.5 + 0.01 * rank), "sync": second * 0.25}
            saved = {"checkpoints": second // 20}
            sender.tell(
                **step(rank, second - rank, START + second, seconds=spent, metrics={"loss": rank}, **saved)
            )
        monitor.receive(START + second)
        monitor.tick(START + second)
    fields = written(monitor)
    monitor.close()
    sender.close()
    assert (fields["attempt"], fields["step_start"], fields["world_size"]) == ("12-0", 0, 4)
    assert (fields["updated"], fields["started"]) == (START + 40, START)
    assert (fields["ranks_heard"], fields["step"], fields["step_max"], fields["total"]) == (2, 39, 40, 100)
    assert fields["steps_per_second"] == pytest.approx(1.0)
    assert fields["seconds_left"] == pytest.approx(61.0)
    assert fields["source"] == "datagrams"
    assert fields["phases"] == pytest.approx({"compute": 0.505, "sync": 0.25})
    assert fields["metrics"] == {"loss": 1.0}
    assert fields["last_checkpoint"] == {"at": START + 40, "step": 39}
    assert [row["rank"] for row in fields["slowest"]] == [1, 0]
    assert fields["slowest"][0] == {
        "rank": 1,
        "host": "n0",
        "step": 39,
        "own": pytest.approx(0.51),
        "sync": pytest.approx(0.25),
        "in": None,
        "heard": START + 40,
    }
    assert (fields["stragglers"], fields["hung"]) == ([], False)
    assert [when for when, _ in fields["history"]] == [START + 1, START + 40] or fields["history"]


def test_progress_json_is_written_no_more_often_than_asked(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, interval=5.0)
    times = []
    for second in range(12):
        monitor.tick(START + second)
        times.append(written(monitor)["updated"] - START)
    monitor.close()
    assert times == [0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10]


def test_at_the_end_progress_json_says_how_far_the_step_came(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, progress=Progress(pattern=r"step (\d+)"), interval=1e9)
    monitor.tick(START + 1)
    (tmp_path / "rank-00000.out").write_text("step 8\n")
    monitor.receive(START + 9)
    monitor.close()
    fields = written(monitor)
    assert (fields["step"], fields["updated"]) == (8, START + 9)


def test_a_full_disk_does_not_stop_the_monitor(monitor: Monitor) -> None:
    monitor.written_to.mkdir()
    assert monitor.tick(START + 1) == []


def test_a_slow_rank_is_named_once_with_its_host_and_phase_and_then_gone(
    training: Callable[..., Training],
) -> None:
    run = training(ranks=16, per_node=4)
    run.slowness = lambda rank, _: 0.25 if rank == 6 else 0.0
    ((when, one),) = run.run(100)
    assert when <= START + 70
    assert (one.rank, one.host, one.phase, one.ranks) == (6, "n1", "compute", (6,))
    assert one.own > 1.15 * one.median
    assert when - 60 <= one.since <= when
    run.monitor.interval = 0.0
    run.run(1)
    assert written(run.monitor)["stragglers"] == [
        {"rank": 6, "host": "n1", "phase": "compute", "since": one.since}
        | {
            "own": pytest.approx(one.own, rel=0.1),
            "median": pytest.approx(one.median, rel=0.1),
        }
    ]
    run.slowness = lambda _rank, _now: 0.0
    run.run(100)
    assert [one for _, one in run.found[1:]] == [StragglerGone(rank=6, host="n1")]


def test_a_slow_node_is_named_instead_of_its_ranks(training: Callable[..., Training]) -> None:
    run = training(ranks=16, per_node=4)
    run.slowness = lambda rank, _: 0.3 if 8 <= rank < 12 else 0.0
    ((_, one),) = run.run(100)
    assert (one.rank, one.host, one.ranks) == (None, "n2", (8, 9, 10, 11))


def test_no_false_alarm_in_an_hour_of_noise(training: Callable[..., Training]) -> None:
    run = training(ranks=64, seed=1, noise=0.1)
    run.slow_steps, run.pauses, run.checkpoint_every, run.tells_every = 0.002, 0.0005, 600.0, 5.0
    assert run.run(3600) == []
    assert run.found == []


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_that_is_a_fifth_slower_is_found_within_a_minute(
    training: Callable[..., Training], seed: int
) -> None:
    run = training(ranks=64, seed=seed)
    victim, onset = run.random.randrange(64), run.now + 25
    # All of its own time, of which seven parts in eight are computing.
    run.slowness = lambda rank, now: 0.2 * 8 / 7 if rank == victim and now >= onset else 0.0
    ((when, one),) = run.run(100)
    assert one.rank == victim
    assert when - onset <= 60


def silence(monitor: Monitor, start: float, seconds: int) -> list[tuple[float, Hung]]:
    monitor.interval = 1e9  # findings are written all the same
    found = []
    for second in range(1, seconds):
        found += [(start + second, one) for one in monitor.tick(start + second) if isinstance(one, Hung)]
    return found


def test_silence_of_five_minutes_after_steps_is_a_hang_and_told_once(
    monitor: Monitor, sender: Sender
) -> None:
    for second in range(1, 31):
        sender.tell(**step(0, second, START + second))
        monitor.receive(START + second)
        monitor.tick(START + second)
    ((when, one),) = silence(monitor, START + 30, 700)
    assert (when, one) == (START + 331, Hung(since=START + 30, step=30, after=300.0))
    assert written(monitor)["hung"] is True
    assert written(monitor)["steps_per_second"] == 0.0


def test_a_program_that_never_told_of_a_step_does_not_hang(monitor: Monitor) -> None:
    assert silence(monitor, START, 400) == []


def test_a_given_time_counts_from_the_first_rank_on(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, progress=Progress(hang_after="90s"))
    monitor.tally.hosts[0] = "n1"
    ((when, one),) = silence(monitor, START, 200)
    monitor.close()
    assert (when, one) == (START + 91, Hung(since=START, step=None, after=90))


def test_steps_in_the_logs_count_as_progress(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, progress=Progress(pattern=r"step (\d+)", hang_after="20s"), interval=0.0)
    found = []
    for second in range(1, 100):
        if second <= 50:
            with (tmp_path / "rank-00000.out").open("a") as log:
                log.write(f"step {second}\n")
        found += [(second, one) for one in monitor.tick(START + second)]
        if second == 45:
            fields = written(monitor)
    monitor.close()
    ((second, one),) = found
    assert isinstance(one, Hung)
    assert (second, one.step) == (71, 50)
    assert (fields["source"], fields["step"]) == ("pattern", 45)
    assert fields["steps_per_second"] == pytest.approx(1.0)


def test_a_log_that_repeats_the_same_step_is_no_progress(tmp_path: Path) -> None:
    monitor = open_monitor(tmp_path, progress=Progress(pattern=r"step (\d+)", hang_after="20s"))
    found: list[object] = []
    for second in range(1, 40):
        with (tmp_path / "rank-00000.out").open("a") as log:
            log.write("step 7\n")
        found += monitor.tick(START + second)
    monitor.close()
    assert len(found) == 1


def test_a_pattern_that_takes_for_ever_is_given_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmkit.recovery.log_pattern.MATCHING", 0.05)
    monitor = open_monitor(tmp_path, progress=Progress(pattern=r"(a+)+$"))
    for second in range(1, 6):
        with (tmp_path / "rank-00000.out").open("a") as log:
            log.write("a" * 3000 + "!\n")
        assert monitor.tick(START + second * 11) == []
    monitor.close()
    assert "pattern" in "".join(capfd.readouterr())


def test_a_rank_that_starts_anew_counts_from_there(monitor: Monitor, sender: Sender) -> None:
    for second, number in enumerate([*range(100, 160), *range(1, 30)], 1):
        sender.tell(**step(0, number, START + second))
        monitor.receive(START + second)
        monitor.tick(START + second)
    assert written(monitor)["step"] == 29
    assert monitor.rate(START + 89) == pytest.approx(1.0)


def test_known_stragglers_stay_while_all_are_silent(training: Callable[..., Training]) -> None:
    run = training(ranks=8, per_node=4)
    run.slowness = lambda rank, _: 0.3 if rank == 1 else 0.0
    run.run(100)
    for second in range(200):
        assert run.monitor.tick(run.now + second) == []
    assert [isinstance(one, Straggler) for one in run.monitor.stragglers.values()] == [True]
