"""What the name of a checkpoint tells."""

from __future__ import annotations

import pytest

from slurmkit.checkpoint.names import is_temporary, step_in


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("100", 100),
        ("0000100", 100),
        ("step_9", 9),
        ("step-10", 10),
        ("step=10.pt", 10),
        ("global_step100", 100),
        ("iter_0000100", 100),
        ("iteration100.ckpt", 100),
        ("checkpoint-100", 100),
        ("checkpoint_100.pt", 100),
        ("ckpt-100.safetensors", 100),
        ("epoch=3-step=100.ckpt", 100),
        ("epoch=3-step=100-v1.ckpt", 100),
        ("ep1-ba100", 100),
        ("100steps", 100),
        ("step_5_rank_0.pt", 5),
        ("model_00012.pth.tar", 12),
        ("epoch_5.pt", 5),
        ("last.ckpt", None),
        ("best-0.87.pt", None),
        ("model-v2.pt", None),
        ("rank_0.pt", None),
        ("2026-12-02.pt", None),
        ("model-00001-of-00003.safetensors", None),
        ("step_5.5", None),
        ("commit5", None),
        ("gpt2", None),
        ("", None),
    ],
)
def test_a_name_tells_its_step(name: str, step: int | None) -> None:
    assert step_in(name) == step


def test_trap_108_steps_are_numbers() -> None:
    names = ["step_2500", "step_500", "step_9", "step_10"]
    assert max(names, key=lambda name: step_in(name) or 0) == "step_2500"
    assert sorted(names, key=lambda name: step_in(name) or 0)[:2] == ["step_9", "step_10"]


@pytest.mark.parametrize(
    "name",
    [".x", "x.tmp", "x.tmp.123", "tmp-checkpoint-5", "temp_5", "x.pt.part", "x~", "5.orbax-checkpoint-tmp-3",
     "iter_1_local.dirty.pt", "last-unfinished"],
)  # fmt: skip
def test_temporary_names_are_known(name: str) -> None:
    assert is_temporary(name)


@pytest.mark.parametrize("name", ["temperature", "template.pt", "step_5", "tmpfs-test", "particle-5", "a.b"])
def test_other_names_are_not_temporary(name: str) -> None:
    assert not is_temporary(name)
