"""What contradicts what: each error names both and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.errors import JobFileError
from slurmkit.spec.conflicts import PAIRS
from slurmkit.spec.loading import Loaded, load
from slurmkit.spec.options import ALLOWED

SOUND_VALUE = {
    "mem": '"4G"', "mem_per_cpu": '"4G"', "mem_per_gpu": '"4G"', "exclusive": "true", "oversubscribe": "true",
    "requeue": "true", "no_requeue": "true", "hint": '"multithread"', "tres_per_task": '"cpu=1"',
    "extra_node_info": '"2"', "spread_segments": "true", "consolidate_segments": "true", "export": '"ALL"',
    "export_file": '"file"',
}  # fmt: skip


def loaded(tmp_path: Path, resources: str, rest: str = "", top: str = 'name = "x"') -> Loaded:
    path = tmp_path / "job.toml"
    path.write_text(f'{top}\ncommand = "true"\n[resources]\n{resources}\n{rest}\n')
    return load(path, site=None, user=None)


def problems(tmp_path: Path, resources: str, rest: str = "", top: str = 'name = "x"') -> tuple[str, ...]:
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, resources, rest, top)
    return caught.value.problems


@pytest.mark.parametrize(("first", "second", "why"), PAIRS)
def test_options_that_exclude_each_other_are_both_named(
    tmp_path: Path, first: str, second: str, why: str
) -> None:
    lines = f"{first} = {SOUND_VALUE.get(first, 1)}\n{second} = {SOUND_VALUE.get(second, 1)}"
    found = [one for one in problems(tmp_path, lines) if why in one]
    assert len(found) == 1
    assert f"resources.{second} contradicts resources.{first}" in found[0]
    assert "job.toml:5:1" in found[0]
    assert "job.toml:4:1" in found[0].splitlines()[-1]


def test_pairs_are_of_options_that_exist() -> None:
    assert {name for first, second, _ in PAIRS for name in (first, second)} <= set(ALLOWED)


@pytest.mark.parametrize(
    ("resources", "rest", "told"),
    [
        ("gpus_per_task = 1", "", "resources.gpus_per_task needs a number of tasks"),
        ('tres_per_task = "gres/gpu=1"', "", "resources.tres_per_task needs a number of tasks"),
        ("gpus_per_socket = 1", "", "needs the number of sockets"),
        ("nodes = 2\nntasks_per_node = 4\nntasks = 9", "", "4 on each of 2 nodes makes 8 tasks, not 9"),
        ("nodes = 2\nntasks_per_node = 4\nntasks = 4", "", "makes 8 tasks, not 4"),
        ("nodes = 2\nntasks = 9", "[launch]\nntasks_per_node = 4", "contradicts launch.ntasks_per_node"),
        ('nodes = "2-4"\nntasks_per_node = 4\nntasks = 20', "", "makes 8 to 16 tasks, not 20"),
        ("nodes = 4\nntasks = 2", "", "2 tasks cannot be on 4 nodes"),
        ("nodes = 2\ngpus_per_node = 4\ngpus = 4", "", "4 on each of 2 nodes makes 8 GPUs, not 4"),
        ("nodes = 2\ngres = 'gpu:4'\ngpus = 4", "", "resources.gpus contradicts resources.gres"),
        ("gpus_per_node = 4\ngres = 'gpu:4'", "", "both ask for the GPUs of each node"),
        ("ntasks = 4\ngpus_per_task = 1\ngpus = 8", "", "makes 4 GPUs, not 8"),
        ("nodes = 1\nntasks = 4\ngpus_per_task = 1\ngpus_per_node = 8", "", "makes 4 GPUs on a node, not 8"),
        ("ntasks_per_node = 2", "[launch]\nntasks_per_node = 2", "tasks are counted in one place"),
        ("", '[launch]\nntasks_per_node = "gpu"', "no GPUs are asked for"),
        ('gres = "shard:2"', '[launch]\nntasks_per_node = "gpu"', "no GPUs are asked for"),
        ("cpus_per_gpu = 4", "", "no GPUs are asked for"),
        ('time = "1h"\ntime_min = "2h"', "", "longer than the limit"),
        ('time = "1m"', '[checkpoint]\npath = "c"', "would come before the start"),
        ("nodes = 10\nsegment = 4", "", "cannot be cut into segments of 4"),
        ('output = "%x.out"\narray = "0-3"', "", "same file"),
    ],
)
def test_what_does_not_come_out_is_an_error(tmp_path: Path, resources: str, rest: str, told: str) -> None:
    assert any(told in one for one in problems(tmp_path, resources, rest))


@pytest.mark.parametrize(
    ("resources", "rest"),
    [
        ("nodes = 2\nntasks_per_node = 8\ngpus_per_node = 8", ""),
        ("nodes = 2\ngpus_per_node = 8", "ntasks_per_node = 8"),
        ("nodes = 2\ngpus_per_node = 8", 'ntasks_per_node = "gpu"'),
        ("nodes = 2\nntasks = 16\ngpus_per_node = 8", ""),
        ("nodes = 2\ngpus = 16\nntasks_per_gpu = 1", ""),
    ],
)
def test_trap_086_torchrun_and_several_tasks_on_a_node_are_an_error(
    tmp_path: Path, resources: str, rest: str
) -> None:
    found = problems(tmp_path, resources, f'[launch]\nlauncher = "torchrun"\n{rest}')
    assert any("exactly one task on each node" in one for one in found)


@pytest.mark.parametrize("rest", ["", "ntasks_per_node = 1"])
def test_trap_086_torchrun_and_one_task_on_each_node_are_sound(tmp_path: Path, rest: str) -> None:
    loaded(tmp_path, "nodes = 2\ngpus_per_node = 8", f'[launch]\nlauncher = "torchrun"\n{rest}')


def test_trap_140_a_log_directory_known_only_later_is_an_error(tmp_path: Path) -> None:
    (one,) = problems(tmp_path, 'output = "logs/%x/%A/%j.out"')
    assert "job.toml:4:10: resources.output: the directory part contains `%A`" in one


def test_trap_141_a_slash_in_the_name_is_an_error_where_logs_are_named_by_it(tmp_path: Path) -> None:
    (one,) = problems(tmp_path, 'output = "%x-%j.out"', top='name = "exp/lr=0.1"')
    assert "`%x` becomes `exp/lr=0.1`" in one
    loaded(tmp_path, 'output = "%j.out"', top='name = "exp/lr=0.1"')


@pytest.mark.parametrize(
    "resources",
    [
        "nodes = 2\nntasks_per_node = 4\nntasks = 8",
        'nodes = "2-4"\nntasks_per_node = 4\nntasks = 12',
        "nodes = 2\nntasks = 7",
        "nodes = 2\ngpus_per_node = 4\ngpus = 8",
        "ntasks = 4\ngpus_per_task = 2",
        "gpus = 8\ngpus_per_task = 2",
        "nodes = 8\nsegment = 4",
        "exclusive = true\noversubscribe = false",
        'gres = ["gpu:2", "shard:4"]',
        'time = "UNLIMITED"\ntime_min = "2h"',
    ],
)
def test_what_comes_out_is_sound(tmp_path: Path, resources: str) -> None:
    assert loaded(tmp_path, resources).spec.resources
