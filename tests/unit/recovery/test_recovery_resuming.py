"""Which checkpoint a step starts from, and how its program is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from slurmkit.checkpoint.choice import Checkpoint
from slurmkit.checkpoint.layout import Verdict
from slurmkit.checkpoint.plain import commit
from slurmkit.errors import JobFailed
from slurmkit.recovery import resuming
from slurmkit.run import events

if TYPE_CHECKING:
    from tests.unit.recovery.conftest import Made


def save(made: Made, step: int, *, whole: bool = True) -> Path:
    path = made.root / "saved" / f"step-{step}"
    path.mkdir(parents=True)
    (path / "weights").write_bytes(b"w" * step)
    if whole:
        commit(path, step=step)
    return path


def go_back(made: Made, path: Path, *, after: float) -> None:
    """As `slurmkit resume --from` does."""
    when = made.clock.now() + timedelta(seconds=after)
    events.append(made.setting.paths, "submitting", at=when, number=2, resume_from=str(path))


def test_the_newest_complete_checkpoint_is_chosen_and_what_is_newer_is_told_of(made: Made) -> None:
    good = save(made, 100)
    torn = save(made, 200, whole=False)
    choice = resuming.newest(made.setting, None)
    assert choice is not None
    resuming.note_choice(made.setting, 0, choice)
    (told,) = made.events("checkpoint-chosen")
    assert (told["checkpoint"], told["at_step"]) == (str(good), 100)
    assert [(one["checkpoint"], one["state"]) for one in told["refused"]] == [(str(torn), "incomplete")]


def test_trap_119_without_a_checkpoint_the_first_start_is_a_fresh_one(
    made: Made, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    choice = resuming.newest(made.setting, None)
    assert choice is not None
    assert choice.chosen is None
    resuming.note_choice(made.setting, 0, choice)
    assert b"AGAIN" not in capfdbinary.readouterr().out


def test_trap_119_a_later_start_without_one_is_said_aloud(
    made: Made, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    choice = resuming.newest(made.setting, None)
    assert choice is not None
    resuming.note_choice(made.setting, 3, choice)
    assert b"from its beginning AGAIN" in capfdbinary.readouterr().out


def test_after_going_back_what_was_newer_does_not_count(made: Made) -> None:
    old = save(made, 100)
    save(made, 200)
    go_back(made, old, after=10 * 365 * 86400)
    choice = resuming.newest(made.setting, None)
    assert choice is not None
    assert choice.chosen is not None
    assert choice.chosen.step == 100


def test_after_going_back_what_came_since_counts(made: Made) -> None:
    old = save(made, 100)
    go_back(made, old, after=-10 * 365 * 86400)
    save(made, 150)
    choice = resuming.newest(made.setting, None)
    assert choice is not None
    assert choice.chosen is not None
    assert choice.chosen.step == 150


def test_a_checkpoint_to_go_back_to_that_is_gone_stops_the_run(made: Made) -> None:
    go_back(made, made.root / "saved" / "step-100", after=0)
    with pytest.raises(JobFailed, match="no complete checkpoint any more"):
        resuming.newest(made.setting, None)


CHOSEN = Checkpoint(Path("/saved/it's $1 step-9"), "plain", 9, Verdict("complete", "all there"), 1)


def test_the_resume_arguments_stand_behind_the_command(made: Made) -> None:
    spec = resuming.resuming(made.setting.spec, CHOSEN)
    assert spec.command == ("python", "train.py", "--resume", "/saved/it's $1 step-9")


def test_behind_a_line_of_bash_they_are_quoted(made: Made) -> None:
    spec = replace(made.setting.spec, command="exec python train.py\n")
    line = resuming.resuming(spec, CHOSEN).command
    assert line == "exec python train.py --resume '/saved/it'\"'\"'s $1 step-9'"


def test_without_a_checkpoint_the_command_is_the_job_files(made: Made) -> None:
    assert resuming.resuming(made.setting.spec, None) is made.setting.spec


def test_old_checkpoints_go_where_the_job_file_says_how_many_stay(made: Made) -> None:
    paths = {step: save(made, step) for step in (1, 2, 3, 4)}
    wanted = made.setting.spec.checkpoint
    assert wanted is not None
    spec = replace(made.setting.spec, checkpoint=replace(wanted, keep=2))
    object.__setattr__(made.setting, "spec", spec)
    found = resuming.look(made.setting, None)
    assert set(found.removed) == {paths[1], paths[2]}
    assert found.newest is not None
    assert found.newest.step == 4
