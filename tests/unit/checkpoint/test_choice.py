"""Which checkpoint is resumed from."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit import checkpoint
from slurmkit.checkpoint import choice, discovery, plain
from slurmkit.checkpoint.choice import choose, resume_arguments, survey, verify
from slurmkit.checkpoint.discovery import Candidate
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.errors import UsageError
from tests.unit.checkpoint.otherlike import saved, write
from tests.unit.checkpoint.torchlike import aged, write_dcp, write_dcp_per_rank


def committed(path: Path, **fields: int) -> Path:
    write(path, {"weights": b"w" * 100})
    checkpoint.commit(path, **fields)
    return path


def names(root: Path, layout: str = "auto") -> list[str]:
    return [one.path.name for one in survey(root, layout)]


@pytest.mark.parametrize(
    "there",
    [
        ["step_2500", "step_500", "step_9", "step_10"],
        ["iter-960000", "iter-1080000"],
        ["checkpoint-9900", "checkpoint-10000"],
        ["100", "99"],
    ],
)
def test_trap_108_steps_are_numbers(tmp_path: Path, there: list[str]) -> None:
    for name in random.Random(1).sample(there, len(there)):
        committed(tmp_path / name)
    expected = sorted(there, key=lambda name: -int("".join(filter(str.isdigit, name))))
    assert names(tmp_path) == expected
    assert (one := choose(tmp_path).chosen)
    assert one.path.name == expected[0]


def test_trap_110_the_step_goes_before_the_time(tmp_path: Path) -> None:
    aged(committed(tmp_path / "step_900"), 7 * 86400)
    committed(tmp_path / "step_100")
    assert (one := choose(tmp_path).chosen)
    assert one.step == 900


def test_of_one_step_the_latest_is_taken(tmp_path: Path) -> None:
    aged(committed(tmp_path / "b-step_100"), 50)
    aged(committed(tmp_path / "a-step_100"), 100)
    committed(tmp_path / "c-step_100")
    assert names(tmp_path) == ["c-step_100", "b-step_100", "a-step_100"]


def test_trap_111_without_metadata_the_one_before_is_taken_and_nothing_deleted(tmp_path: Path) -> None:
    write_dcp(tmp_path / "step_200")
    write_dcp(tmp_path / "step_300", finish=False)
    found = choose(tmp_path)
    assert (found.chosen and found.chosen.step, found.chosen and found.chosen.layout) == (200, "torch-dcp")
    assert [(one.step, one.verdict.state) for one in found.refused] == [(300, "incomplete")]
    assert ".metadata" in found.refused[0].verdict.reason
    assert (tmp_path / "step_300").exists()


def test_trap_112_truncated_and_empty_files_are_named_with_their_reason(tmp_path: Path) -> None:
    whole = saved(step=1)
    write(tmp_path, {"step_10.pt": whole, "step_20.pt": b"", "step_30.pt": whole[: len(whole) // 2]})
    found = choose(tmp_path)
    assert (found.chosen and found.chosen.path.name) == "step_10.pt"
    reasons = {one.path.name: one.verdict.reason for one in found.refused}
    assert list(reasons) == ["step_30.pt", "step_20.pt"]
    assert "cut short" in reasons["step_30.pt"]
    assert "empty" in reasons["step_20.pt"]


def megatron(root: Path, step: int, *, is_whole: bool = True) -> None:
    path = write_dcp(root / f"iter_{step:07}", finish=is_whole)
    if is_whole:
        write(path, {"metadata.json": b'{"sharded_backend": "torch_dist"}'})


@pytest.mark.parametrize(("text", "says"), [("300\n", "iter_0000300"), ("", "empty"), ("400", "not there")])
def test_trap_113_a_tracker_ahead_of_the_data_is_a_warning(tmp_path: Path, text: str, says: str) -> None:
    megatron(tmp_path, 200)
    megatron(tmp_path, 300, is_whole=False)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(text)
    found = choose(tmp_path)
    assert (found.chosen and found.chosen.step) == 200
    assert [one.step for one in found.refused] == [300]
    assert len(found.warnings) == 1
    assert says in found.warnings[0]


def test_a_tracker_that_is_right_is_no_warning(tmp_path: Path) -> None:
    megatron(tmp_path, 200)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("200")
    assert choose(tmp_path).warnings == ()


@pytest.mark.parametrize("layout", ["auto", "plain", "torch-dcp"])
def test_trap_119_no_folder_yet_is_no_error(tmp_path: Path, layout: str) -> None:
    (tmp_path / "empty").mkdir()
    for root in (tmp_path / "absent", tmp_path / "empty", tmp_path / "absent/deeper"):
        assert choose(root, layout) == choice.Choice(None, ())
        assert survey(root, layout) == []


def test_the_content_tells_the_step_where_the_name_does_not(tmp_path: Path) -> None:
    committed(tmp_path / "last", step=300)
    committed(tmp_path / "step-200")
    committed(tmp_path / "best", step=100)
    assert names(tmp_path) == ["last", "step-200", "best"]
    assert [one.step for one in survey(tmp_path)] == [300, 200, 100]


def test_what_tells_no_step_comes_after_what_does(tmp_path: Path) -> None:
    aged(committed(tmp_path / "step-200"), 1000)
    aged(committed(tmp_path / "older"), 10)
    committed(tmp_path / "newer")
    assert names(tmp_path) == ["step-200", "newer", "older"]


def test_unverified_is_never_chosen(tmp_path: Path) -> None:
    write(tmp_path, {"step_1.pt": saved(step=1), "step_2.pt": b"\x80\x02\x8a\x0a" + bytes(100)})
    found = choose(tmp_path)
    assert (found.chosen and found.chosen.step) == 1
    assert [one.verdict.state for one in found.refused] == ["unverified"]


@pytest.mark.parametrize(("world_size", "step"), [(None, 2), (8, 2), (4, 1)])
def test_another_number_of_ranks_is_passed_over_where_the_layout_ties_it(
    tmp_path: Path, world_size: int | None, step: int
) -> None:
    committed(tmp_path / "step-1", world_size=4)
    committed(tmp_path / "step-2", world_size=8)
    found = choose(tmp_path, world_size=world_size)
    assert (found.chosen and found.chosen.step) == step
    if step == 1:
        reason = "written by 8 ranks, and only so many can load it; now there are 4"
        assert [one.verdict.reason for one in found.refused] == [reason]


def test_another_number_of_ranks_is_fine_where_the_layout_reshards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dcp(tmp_path / "step-1")
    known = choose(tmp_path).chosen
    assert known
    one = known._replace(verdict=known.verdict._replace(world_size=8))
    monkeypatch.setattr(choice, "newest_first", lambda *_: iter([one]))
    assert choose(tmp_path, world_size=4).chosen == one


@pytest.mark.parametrize(("world_size", "step"), [(None, 2), (4, 2), (2, 1), (8, 1)])
@pytest.mark.parametrize("layout", ["auto", "torch-dcp", "torchtitan"])
def test_what_was_saved_without_collectives_is_tied_to_its_ranks_though_its_layout_reshards(
    tmp_path: Path, layout: str, world_size: int | None, step: int
) -> None:
    write_dcp(tmp_path / "step-1", ranks=2)
    write_dcp_per_rank(tmp_path / "step-2", 4)
    kept = tmp_path / "kept.json"
    aged(tmp_path, 100)
    for _ in range(2):  # the second time from what is kept
        found = choose(tmp_path, layout, world_size=world_size, kept=kept)
        assert (found.chosen and found.chosen.step) == step
        if step == 1:
            assert "written by 4 ranks" in found.refused[0].verdict.reason


def test_one_who_did_not_say_how_many_ranks_wrote_it_is_trusted(tmp_path: Path) -> None:
    committed(tmp_path / "step-1")
    assert choose(tmp_path, world_size=4).chosen


def test_a_layout_that_is_none_is_an_error_that_says_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="torch-dpc") as error:
        choose(tmp_path, "torch-dpc")
    assert error.value.hint == "did you mean 'torch-dcp'?"


def test_with_a_layout_of_its_own_nothing_else_counts(tmp_path: Path) -> None:
    write_dcp(tmp_path / "step-1")
    committed(tmp_path / "step-2")
    assert (one := choose(tmp_path, "torch-dcp").chosen)
    assert one.step == 1
    found = choose(tmp_path, "plain")
    assert (found.chosen and found.chosen.step) == 2


def test_with_a_layout_of_its_own_what_lies_about_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"notes.pt": b"x", "code/a.py": b"x", "step-9.pt": b"something else", "train.log": b"x"})
    found = choose(tmp_path, "torch-save")
    assert [(one.path.name, one.verdict.state) for one in found.refused] == [("step-9.pt", "foreign")]
    assert [one.verdict.state for one in choose(tmp_path / "notes.pt", "torch-save").refused] == ["foreign"]
    assert choose(tmp_path / "code", "safetensors") == choice.Choice(None, ())


STATES = ("complete", "incomplete", "damaged", "unverified")


@given(
    st.dictionaries(
        st.integers(0, 10**7), st.tuples(st.sampled_from(STATES), st.floats(0, 1e9)), max_size=12
    ),
    st.randoms(use_true_random=False),
)
def test_the_highest_complete_step_is_chosen_and_all_above_it_are_refused(
    world: dict[int, tuple[str, float]], lots: random.Random
) -> None:
    def verify(path: Path, _deep: bool) -> Verdict:
        state, saved = world[int(path.name.rpartition("-")[2])]
        return Verdict(state, "why", saved=saved)

    fields = {name: getattr(plain.LAYOUT, name) for name in Layout.__slots__}
    layout = Layout(**fields | {"verify": verify})
    candidates = [Candidate(Path(f"/c/step-{step}"), (layout,), step) for step in world]
    lots.shuffle(candidates)
    with mock.patch.object(discovery, "discover", return_value=candidates):
        found = choose("/c", "plain")
    best = max((step for step, (state, _) in world.items() if state == "complete"), default=-1)
    assert (found.chosen.step if found.chosen else -1) == best
    assert [one.step for one in found.refused] == sorted(
        (step for step in world if step > best), reverse=True
    )


def test_the_words_of_resume_are_filled_in(tmp_path: Path) -> None:
    one = choose(committed(tmp_path / "a $HOME 'b'" / "step-7").parent).chosen
    assert one
    folder = str(tmp_path / "a $HOME 'b'")
    words = ["--resume={checkpoint}", "{directory}", "{name}/{step}", '{"a": {}}', "{other}", "{{step}}"]
    assert resume_arguments(words, one) == [
        f"--resume={folder}/step-7",
        folder,
        "step-7/7",
        '{"a": {}}',
        "{other}",
        "{7}",
    ]


def test_a_step_that_nobody_knows_cannot_be_filled_in(tmp_path: Path) -> None:
    one = choose(committed(tmp_path / "best").parent).chosen
    assert one
    assert resume_arguments(["{checkpoint}"], one) == [str(tmp_path / "best")]
    with pytest.raises(UsageError, match="asks for"):
        resume_arguments(["{step}"], one)


def test_a_relative_folder_gives_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(tmp_path / "c/step-1")
    monkeypatch.chdir(tmp_path)
    assert (one := choose("c").chosen)
    assert one.path == tmp_path / "c/step-1"


def test_a_survey_stops_where_it_is_told_to(tmp_path: Path) -> None:
    for step in range(20):
        committed(tmp_path / f"step-{step}")
    assert [one.step for one in survey(tmp_path, limit=3)] == [19, 18, 17]


def test_the_size_is_that_of_all_that_the_verdict_rests_on(tmp_path: Path) -> None:
    path = committed(tmp_path / "step-1")
    assert (one := choose(tmp_path).chosen)
    assert one.size == sum(file.stat().st_size for file in path.iterdir())


class Calls(Counter[str]):
    """Counts questions to the file system."""

    def watch(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        for name in names:
            monkeypatch.setattr(os, name, self._counting(name, getattr(os, name)))

    def _counting(self, name: str, function: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self[name] += 1
            return function(*args, **kwargs)

        return counted


MANY = 10_000


@pytest.mark.parametrize("kind", ["directories", "files"])
def test_among_ten_thousand_a_bounded_number_of_questions_is_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    data = saved(step=1)
    for step in range(MANY):
        if kind == "directories":
            (tmp_path / f"step_{step}").mkdir()
        else:
            (tmp_path / f"step_{step}.pt").touch()
    if kind == "directories":
        write_dcp(tmp_path / f"step_{MANY - 1}")
        write_dcp(tmp_path / f"step_{MANY}", finish=False)
    else:
        write(tmp_path, {f"step_{MANY - 1}.pt": data, f"step_{MANY}.pt": data[:-1]})
    calls = Calls()
    calls.watch(monkeypatch, "stat", "lstat", "scandir", "listdir")
    found = choose(tmp_path, kept=tmp_path.parent / "kept.json")
    assert (found.chosen and found.chosen.step, len(found.refused)) == (MANY - 1, 1)
    assert calls.total() < 100, calls
    again = Calls()
    again.watch(monkeypatch, "stat", "lstat", "scandir", "listdir")
    assert [one.step for one in survey(tmp_path, limit=5)] == list(range(MANY, MANY - 5, -1))
    assert again.total() < 150, again


def test_of_names_that_tell_no_step_only_those_that_changed_last_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(500):
        os.utime(write(tmp_path, {f"epoch={number}.ckpt": b""}) / f"epoch={number}.ckpt", (number, number))
    (tmp_path / "epoch=499.ckpt").write_bytes(saved(global_step=7000))
    os.utime(tmp_path / "epoch=499.ckpt", (1000, 1000))
    looked_into: list[str] = []
    recognise = discovery.recognise

    def record(path: Path, layouts: Any) -> Any:
        looked_into.append(path.name)
        return recognise(path, layouts)

    monkeypatch.setattr(discovery, "recognise", record)
    assert (one := choose(tmp_path).chosen)
    assert one.path.name == "epoch=499.ckpt"
    assert len(looked_into) <= choice.LOOKED_INTO + 1  # the folder itself


def test_one_checkpoint_can_be_verified_by_itself(tmp_path: Path) -> None:
    assert verify(write_dcp(tmp_path / "a")).state == "complete"
    assert verify(committed(tmp_path / "b"), "plain", deep=True).state == "complete"
    assert (
        verify(write(tmp_path / "c", {"notes": b"x"})).reason
        == "c holds nothing that is known as a checkpoint"
    )
    assert verify(tmp_path / "absent") == Verdict("incomplete", "absent is not there")
    (tmp_path / "loop").symlink_to("loop")
    assert verify(tmp_path / "loop").state == "damaged"


def test_the_names_of_the_package_load_late_and_are_all_there() -> None:
    assert set(checkpoint.__all__) <= set(dir(checkpoint))
    assert checkpoint.choose is choose
    assert all(callable(getattr(checkpoint, name)) or name == "LAYOUTS" for name in checkpoint.__all__)
    with pytest.raises(AttributeError):
        _ = checkpoint.nothing
