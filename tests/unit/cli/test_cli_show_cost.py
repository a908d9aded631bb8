from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import pytest

import slurmkit as api
from slurmkit.cli.bill import LETTERS, MOST_ROWS, bars, bill, rastered, rows_of, styled
from slurmkit.cli.output import cell
from slurmkit.errors import MissingRequirement
from slurmkit.run import events
from slurmkit.run.cost import reckon
from slurmkit.run.course import courses
from slurmkit.run.spans import KINDS, Span
from slurmkit.run.timeline import timeline
from tests.unit.run.stories import Story, minute, stamp

if TYPE_CHECKING:
    from slurmkit.run.paths import RunPaths
    from tests.unit.cli.conftest import Make, Slurmkit
    from tests.unit.run.conftest import FakeSlurm


def stormy() -> Story:
    """A crash, a damaged checkpoint, a dead node, and the end."""
    story = Story().attempt(5).step(6, chosen=None).saved((16, 100), (26, 200)).fails(30, rank=3, host="n2")
    story.step(31, chosen=100, refused=200).saved((41, 200))
    story.fails(50, "node-died", action="requeue", at_step=290, checkpoint_step=200).leaves(50, "requeue")
    return story.attempt(55).step(57, chosen=200).saved((67, 300)).succeeds(90, saving=60)


def text_of(story: Story, width: int = 80, state: str = "completed") -> list[str]:
    reckoning = reckon(courses(story.events, state=state, now=stamp(90)), lambda nodes: 8 * nodes)
    return [
        click.unstyle(styled(line)) for lines in bill(reckoning, story.events, width) for line in [*lines, []]
    ]


@pytest.fixture
def stormy_run(add_run: Make) -> RunPaths:
    paths = add_run("r", job_id=None)
    paths.events.unlink()
    for one in stormy().events:
        events.append(paths, one.kind, at=one.time, **one.fields)
    paths.job_toml.write_text(
        'name = "x"\ncommand = ["true"]\n[resources]\ntime = "1h"\nnodes = 2\ngpus_per_node = 8\n'
    )
    return paths


def test_each_attempt_has_its_bar_on_one_scale() -> None:
    lines = text_of(stormy())
    assert lines[0].startswith("time  1 character is ")
    first, second = lines[1:3]
    assert first.startswith("  12-0  50m 00s  ......ss============xxxx")
    assert second.startswith("  12-1  40m 00s  ......sss=====")
    assert len(first) == 80
    assert {"x", "s"} <= set(first[17:])
    assert "+" in second
    assert len(second) - 17 == pytest.approx((len(first) - 17) * 40 / 50, abs=1)


def test_the_figures_are_the_legend_of_the_bars() -> None:
    lines = text_of(stormy())
    begin = lines.index("cost  21.3 GPU-hours on 16 GPUs")
    assert lines[begin + 1 : lines.index("", begin)] == [
        "  effective training time ratio (ETTR) 0.58; without the queue 0.65",
        "  . queued          10m 00s   11 %",
        "  s starting         4m 00s    4 %      1.07 GPU-hours",
        "  = computing       52m 00s   58 %      13.9 GPU-hours",
        "  + checkpointing    1m 00s    1 %     0.267 GPU-hours",
        "  x lost            23m 00s   26 %      6.13 GPU-hours",
        "  lost to   6.93 GPU-hours, restarts included: crashed 4 (1), node-died 2.93 (1)",
        "  restarts  1 in place, 1 by requeue",
        "  failures  2, one every 40m 00s",
        "  saving    a checkpoint every 10m 00s, 60 s each, and a failure every 40m 00s:",
        "            near the best interval, 8m 57s (expected ETTR 0.77)",
    ]


def test_what_interrupted_it_is_told_with_what_followed() -> None:
    lines = text_of(stormy())
    begin = lines.index("interruptions")
    assert [line.strip() for line in lines[begin + 1 : begin + 7]] == [
        f"{cell(minute(30))}  12-0, start 0  crashed",
        "it crashed",
        "restart in place: the first failure",
        f"{cell(minute(50))}  12-0, start 1  node-died",
        "it node-died (at step 290, checkpoint of step 200)",
        "requeue: the first failure",
    ]


def test_which_checkpoints_were_chosen_and_refused_is_told() -> None:
    lines = text_of(stormy())
    begin = lines.index("resumed from")
    assert lines[begin + 1 : begin + 5] == [
        "  12-0, start 0  the beginning: no checkpoint yet",
        "  12-0, start 1  /c/step-100 (step 100)",
        "    refused: step-200 is damaged (a shard is short)",
        "  12-1, start 0  /c/step-200 (step 200)",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, text_of(stormy(), width))) <= width


def test_a_run_that_has_not_started_has_no_bill() -> None:
    assert text_of(Story(), state="pending") == []


def test_what_waits_after_the_last_attempt_has_a_row_of_its_own() -> None:
    story = Story().attempt(0).step(0).fails(10).leaves(10, "requeue")
    lines = text_of(story, state="pending")
    assert lines[2].startswith("  waiting   1h 20m  ....")


def test_of_many_attempts_the_last_ones_are_shown() -> None:
    spans = [Span("computing", at, at + 1, f"12-{at}", 1) for at in range(MOST_ROWS + 3)]
    lines = [styled(line) for line in bars(rows_of(spans), 80)]
    assert len(lines) == 1 + MOST_ROWS
    assert "3 earlier attempts are not shown" in lines[0]


def test_a_cell_is_what_most_of_it_is_and_no_kind_goes_unseen() -> None:
    spans = [
        Span("queued", 0, 30),
        Span("starting", 30, 31),
        Span("computing", 31, 90),
        Span("lost", 90, 100),
    ]
    assert "".join(LETTERS[kind][0] for kind in rastered(spans, 10)) == "...s=====x"
    assert set(rastered([Span("computing", 0, 100), Span("idle", 100, 100.01)], 10)) == {"computing"}
    assert rastered([Span("starting", 0, 0.001)], 1) == ["starting"]
    assert set(LETTERS) == set(KINDS)


def test_show_has_it_all_in_a_pipe_and_as_json(
    slurmkit: Slurmkit, stormy_run: RunPaths, slurm: FakeSlurm
) -> None:
    shown = slurmkit("show", "r")
    assert "cost  21.3 GPU-hours on 16 GPUs" in shown.out.splitlines()
    assert "\x1b" not in shown.out
    assert slurm.calls.count("accounting") <= 2
    data = slurmkit("show", "r", "--json").json
    cost = data["cost"]
    assert (cost["wall"], cost["seconds"]["lost"], cost["failures"]) == (5400, 23 * 60, 2)
    assert cost["ettr"] == pytest.approx(52 / 90)
    assert cost["restarts"] == {"in_place": 1, "requeue": 1, "resubmit": 0}
    assert cost["losses"]["crashed"]["times"] == 1
    assert (cost["mtbf"], cost["interval"], cost["write"]) == (2400, 600, 60)
    assert [one["kind"] for one in data["interruptions"]] == ["crashed", "node-died"]
    assert [one["at_step"] for one in data["checkpoints"]] == [None, 100, 200]
    assert data["spans"][0]["kind"] == "queued"
    assert {span["gpus"] for span in data["spans"]} == {0, 16}


def test_the_story_folds_checkpoints_in_a_row(slurmkit: Slurmkit, stormy_run: RunPaths) -> None:
    story = [line for line in slurmkit("show", "r").out.splitlines() if "a complete checkpoint" in line]
    assert [line.partition("a complete checkpoint")[2] for line in story] == [
        " of step 200: /c/step-200 (and 1 more before it)",
        " of step 200: /c/step-200",
        " of step 300: /c/step-300",
    ]


TOLD: list[tuple[str, dict[str, Any], str]] = [
    ("submitting", {"number": 2, "exclude": ["n1", "n3"]},
     "sbatch is called again (submit 2), without n1,n3"),
    ("submitted", {"number": 3, "job_id": "14"}, "submitted again (submit 3) as job 14"),
    ("submitted", {"job_id": "12"}, "submitted as job 12"),
    ("checkpoint-chosen", {"checkpoint": "/c/step-9", "at_step": 9},
     "it goes on from the checkpoint of step 9: /c/step-9"),
    ("checkpoint-chosen", {"refused": [{"checkpoint": "/c/step-9", "state": "incomplete", "reason": "x"}]},
     "no checkpoint yet: it starts from the beginning; refused: step-9 is incomplete (x)"),
    ("checkpoint-complete", {"checkpoint": "/c/step-9", "at_step": 9},
     "a complete checkpoint of step 9: /c/step-9"),
    ("checkpoint-requested", {"why": "time-limit", "seconds_left": 120.0},
     "every rank is asked to save: the time limit is near; 2m 00s left"),
    ("checkpoint-removed", {"checkpoint": "/c/step-1"}, "an old checkpoint is removed: /c/step-1"),
    ("diagnosed", {"kind": "hung", "sentence": "nothing moved"}, "diagnosed as hung: nothing moved"),
    ("decided", {"action": "restart", "reason": "the first failure", "delay": 2.5, "without": ["n2"]},
     "restart in place: the first failure; without n2; after 2.5 s"),
    ("decided", {"action": "leave", "reason": "Slurm requeues it"}, "leave it to Slurm: Slurm requeues it"),
    ("requeueing", {"job_id": "12", "exclude": ["n2"]}, "Slurm is asked to requeue job 12, without n2"),
    ("requeued", {"job_id": "12"}, "job 12 is requeued"),
    ("attempt-ended", {"attempt": "12-0", "exit_code": 1, "next": "requeue"},
     "attempt 12-0 ended with exit code 1; next: requeue"),
    ("run-ended", {"outcome": "failed", "exit_code": 1, "reason": "failed twice at step 9"},
     "the run ended: failed: failed twice at step 9"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fields", "sentence"), TOLD)
def test_recovery_is_told_in_sentences(kind: str, fields: dict[str, Any], sentence: str) -> None:
    (moment,) = timeline([events.Event(Story().events[0].time, kind, fields)], [])
    assert moment.text == sentence


def test_what_the_supervisor_does_is_its_own() -> None:
    event = events.Event(Story().events[0].time, "decided", {"action": "stop", "by": "supervisor"})
    assert timeline([event], [])[0].source == "supervisor"


@pytest.mark.usefixtures("slurm")
class TestCosts:
    @pytest.mark.usefixtures("stormy_run")
    def test_many_runs_make_a_frame(self, add_run: Make, slurm: FakeSlurm) -> None:
        add_run("waits", job_id=None)
        frame = api.costs().set_index("id")
        assert (len(frame), sorted(frame.loc["r"].index)[:2]) == (2, ["attempts", "best_interval"])
        stormy = frame.loc["r"]
        assert (stormy["failures"], stormy["restarts_requeue"], stormy["lost"]) == (2, 1, 1380)
        assert stormy["ettr"] == pytest.approx(52 / 90)
        assert stormy["lost_hours_node_died"] == pytest.approx(16 * 11 / 60)
        assert frame.loc["waits"]["lost_hours_node_died"] == 0
        assert slurm.calls.count("accounting") <= 2

    def test_runs_are_named_as_in_commands(self, stormy_run: RunPaths) -> None:
        assert len(api.costs(["r", api.Run("r"), stormy_run])) == 3
        assert len(api.costs([])) == 0

    @pytest.mark.usefixtures("stormy_run")
    def test_without_pandas_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingRequirement) as caught:
            api.costs()
        assert caught.value.hint == "pip install 'slurmkit-hpc[reports]'"


def test_what_one_event_has_said_the_next_need_not_say_again() -> None:
    why = "somebody killed the program"
    sentence = f"rank 3 on n1: {why}"
    at = Story().events[0].time
    failure = {"rank": 3, "host": "n1", "signal": 9, "cause": {"sentence": why}}
    told = [
        events.Event(at, "step-ended", {"exit_code": 143, "first_failure": failure}),
        events.Event(at, "diagnosed", {"kind": "killed", "sentence": sentence}),
        events.Event(at, "decided", {"action": "restart", "reason": f"{sentence}: once more in place"}),
    ]
    assert [moment.text for moment in timeline(told, [])][1:] == [
        "diagnosed as killed",
        "restart in place: once more in place",
    ]
