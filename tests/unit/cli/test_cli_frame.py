from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slurmkit.cli.frame import DIM, LOUD, WARN, Line, View, frame
from slurmkit.cli.glyphs import ASCII, BLOCKS, bar, curve, glyphs_for, split
from slurmkit.run.findings import Findings, Hang
from slurmkit.run.progress import Progress, Saved, SlowRank, Straggler
from slurmkit.run.state import RunState

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
SLOW = Straggler(11, "gpu03", "data", 0.312, 0.2, NOW)
PROGRESS = Progress(
    NOW,
    step=250,
    total=1000,
    steps_per_second=2.5,
    seconds_left=300.0,
    phases={"data": 0.1, "compute": 0.3},
    metrics={"loss": 2.5, "lr": math.nan},
    history=tuple((NOW + timedelta(seconds=30 * index), 2.0 + index % 3) for index in range(120)),
    slowest=tuple(
        SlowRank(rank, "gpu03", 250, 0.3 - rank / 1000, 0.01, "data", NOW) for rank in range(9, 19)
    ),
    stragglers=(SLOW,),
    last_checkpoint=Saved(NOW - timedelta(minutes=3), 200),
    world_size=64,
    ranks_heard=12,
)
STATE = RunState("a-run", "running", job_id="12", nodes=("n1", "n2"), attempts=2, started=NOW, attempt="12-1")
LOG = [f"line {number}" for number in range(60)]


def view(**fields: Any) -> View:
    shown: dict[str, Any] = {"progress": PROGRESS, "log": LOG, "log_title": "rank 0"}
    return View(fields.pop("state", STATE), NOW, **{**shown, **fields})


def text(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def test_the_picture_says_how_far_how_fast_and_what_time_goes_into() -> None:
    lines = text(frame(view(), 80))
    assert lines[0] == "a-run  running  job 12  2 nodes  attempt 2  00:00:00"
    assert lines[1] == f"step     250/1000 {'━' * 10}╸{'─' * 32}  25 %  5m 00s left"
    assert lines[2].startswith("speed    2.5 steps/s  ")
    assert lines[2].endswith("at most 4 steps/s in 59m 30s")
    assert lines[3] == "metrics  loss 2.5  lr nan"
    assert lines[4] == "saved    step 200, 3m 00s ago"
    assert lines[5:7] == ["time     " + "█" * 18 + "▓" * 53, "400 ms   █ data 25 %  ▓ compute 75 %"]
    assert lines[8] == "slowest  NODE   STEP     OWN   SYNC  IN    HEARD"
    assert lines[10] == f"rank 10  gpu03   250  290 ms  10 ms  data  0s ago  {'━' * 23}╸"
    assert lines[-61].startswith("── log of rank 0 ──")
    assert lines[-1] == "line 59"


@pytest.mark.parametrize("height", [1, 2, 5, 8, 12, 16, 24, 40, 100])
@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_a_picture_is_never_higher_than_the_terminal(width: int, height: int) -> None:
    findings = Findings(stragglers=(SLOW,) * 5, unfit={"gpu09": ("a reason " * 20,)})
    lines = frame(view(findings=findings), width, height)
    assert len(lines) <= height
    assert text(lines)[0].startswith("a-run  running")


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (120, 40)])
def test_no_line_but_the_logs_is_wider_than_the_terminal(width: int, height: int) -> None:
    findings = Findings(stragglers=(SLOW,), hang=Hang(NOW, NOW.timestamp() - 900, 249, 600.0, "/a/folder"))
    assert max(map(len, text(frame(view(findings=findings), width, height)))) <= width


def test_on_a_low_terminal_the_log_goes_before_the_table_and_both_before_nothing() -> None:
    low = text(frame(view(), 80, 10))
    assert [line.split()[0] for line in low[:5]] == ["a-run", "step", "speed", "metrics", "saved"]
    assert low[5].startswith("── log of rank 0")
    assert low[6:] == LOG[-4:]
    high = text(frame(view(), 80, 24))
    assert sum(line.startswith("rank ") for line in high) >= 5
    assert high[-1] == "line 59"


def test_what_is_wrong_is_told_in_full_the_worst_first() -> None:
    failure = {"rank": 3, "host": "n2", "signal": 11, "cause": {"sentence": "a null pointer"}}
    found = Findings(
        unfit={"gpu09": ("3 of 4 GPUs are visible", "the scratch folder is full")},
        warnings={"gpu07": ("its clock is late",)},
        stragglers=(SLOW,),
        first_failure=failure,
    )
    silent = PROGRESS._replace(updated=NOW - timedelta(minutes=7), slowest=())
    lines = frame(view(findings=found, progress=silent, log=()), 60)
    notices = [line for line in lines if line and line[0].style in {LOUD, WARN}]
    assert text(notices) == [
        "! the agent has told nothing for 7m 00s",
        "! rank 3 on n2 failed first: killed by SIGSEGV (segmentation",
        "  fault): a null pointer",
        "! unfit node gpu09: 3 of 4 GPUs are visible; the scratch",
        "  folder is full",
        "! rank 11 on gpu03 is slow in data: 312 ms a step of its",
        "  own, the others 200 ms (+56 %)",
        "! doubtful node gpu07: its clock is late",
    ]
    assert [line[0].style for line in notices] == [LOUD] * 5 + [WARN] * 3


def test_control_characters_of_logs_hosts_and_metrics_do_not_reach_the_terminal() -> None:
    hostile = "a\x1b[31m\x07\r\u202e\x9b2J"
    one = SlowRank(1, hostile, 1, 0.1, 0.1, hostile, NOW)
    progress = PROGRESS._replace(
        metrics={hostile: 1.0},
        phases={hostile: 1.0},
        slowest=(one,),
        stragglers=(SLOW._replace(host=hostile),),
    )
    state = STATE._replace(reason=hostile)
    found = Findings(unfit={hostile: (hostile,)}, first_failure={"rank": 1, "host": hostile, "exit_code": 1})
    lines = frame(view(state=state, progress=progress, findings=found, log=[hostile], log_title=hostile), 80)
    assert all(line.isprintable() for line in text(lines))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"step": None}, "step     no step has been told of yet; 12 of 64 ranks heard"),
        ({"total": None, "seconds_left": None}, "step     250"),
        ({"step": 2000, "seconds_left": None}, f"step     2000/1000 {'━' * 55} 100 %"),
    ],
)
def test_what_is_not_known_is_not_drawn(fields: dict[str, Any], line: str) -> None:
    assert text(frame(view(progress=PROGRESS._replace(**fields)), 80))[1] == line


def test_a_pending_run_has_its_reason_and_an_outage_is_said() -> None:
    state = RunState("a-run", "pending", "Priority", job_id="12")
    lines = text(frame(View(state, NOW, silent="slurmctld"), 80, 10))
    assert lines == [
        "a-run  pending  job 12",
        "Priority",
        "slurmctld does not answer: the state is the last that is known",
    ]


def test_a_terminal_without_block_characters_gets_ascii() -> None:
    assert (glyphs_for("utf-8"), glyphs_for("ascii"), glyphs_for(None), glyphs_for("?")) == (
        BLOCKS,
        *[ASCII] * 3,
    )
    assert all(line.isascii() for line in text(frame(view(), 80, glyphs=ASCII)))


@pytest.mark.parametrize(
    ("part", "drawn"), [(0, "────"), (0.125, "╸───"), (0.5, "━━──"), (1, "━━━━"), (7, "━━━━"), (-1, "────")]
)
def test_a_bar_is_as_long_as_its_part(part: float, drawn: str) -> None:
    assert "".join(bar(part, 4, BLOCKS)) == drawn


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [
        ([], 5, ""),
        ([0, 0], 5, "▁▁"),
        ([3, 3, 3], 5, "███"),
        ([0, 7], 5, "▁█"),
        ([1.8, 2], 5, "▇█"),
        ([0, 0, 8, 8, 4, 4], 3, "▁█▅"),
        ([1], 0, ""),
    ],
)
def test_a_curve_shows_heights_and_small_changes_as_small(
    values: list[float], width: int, drawn: str
) -> None:
    assert curve(values, width, BLOCKS) == drawn


@pytest.mark.parametrize(
    "parts", [[1.0], [0.5, 0.5], [1 / 3] * 3, [0.98, 0.01, 0.01], [0.26, 0.58, 0.14, 0.02]]
)
def test_shares_fill_the_bar(parts: list[float]) -> None:
    cells = split(parts, 71)
    assert sum(cells) == 71
    assert all(abs(cell - part * 71) < 1 for cell, part in zip(cells, parts, strict=True))


def test_the_head_takes_a_second_line_where_it_is_narrow() -> None:
    first, second = frame(view(), 30)[:2]
    assert (text([first]), second[0].style) == (["a-run  running"], DIM)
