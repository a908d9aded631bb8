"""What a testbed can be asked to be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmkit.errors import UsageError
from slurmkit.testbed.options import Options


@pytest.mark.parametrize(
    ("gpus", "counts"),
    [
        ("", {}),
        ("a100:8", {"a100": 8}),
        ("a100:4,h100:2", {"a100": 4, "h100": 2}),
        ("1g.10gb:7", {"1g.10gb": 7}),
        ("nvidia_a100-sxm4:1", {"nvidia_a100-sxm4": 1}),
    ],
)
def test_gpus_are_counted_by_type(gpus: str, counts: dict[str, int]) -> None:
    assert Options(gpus=gpus).gpus_by_type() == counts


@pytest.mark.parametrize(
    "values",
    [
        {"gpus": "a100"},
        {"gpus": "8"},
        {"gpus": "a100:0"},
        {"gpus": "a100:8,"},
        {"gpus": "a100:4,a100:4"},
        {"gpus": "a 100:4"},
        {"gpus": "a100:8\nFile=/dev/null"},
        {"nodes": 0},
        {"cpus": -1},
        {"memory": 0},
        {"prefix": ""},
        {"prefix": "n1"},
        {"prefix": "N"},
        {"prefix": "-n"},
        {"prefix": "n n"},
        {"prefix": "n\n"},
        {"partitions": ("debug",)},
        {"partitions": ("debug=",)},
        {"partitions": ("debug=n1 MaxTime",)},
        {"partitions": ("debug=n1\nPartitionName=x",)},
        {"features": ("big mem",)},
        {"features": ("bigmem=",)},
        {"features": ("bigmem=n[1-",)},
        {"features": ("bigmem=n9",)},
        {"topology": "torus"},
        {"topology": "tree:0"},
        {"config": ("MaxArraySize",)},
        {"config": ("Key=Value\nOther=1",)},
        {"rest": True, "accounting": False},
    ],
)
def test_what_slurm_would_refuse_later_is_refused_at_once(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Options(**values)


def test_options_survive_json() -> None:
    options = Options(nodes=2, partitions=("short=n1 MaxTime=10",), config=("A=1", "B=2"), accounting=False)
    assert Options.from_json(json.loads(json.dumps(options.as_json()))) == options


def test_options_of_a_later_version_are_left_out() -> None:
    assert Options.from_json({"nodes": 3, "colour": "blue"}) == Options(nodes=3)


def test_differences_name_the_option_and_both_values() -> None:
    assert Options(nodes=2).differences(Options()) == ["nodes: 2, not 4"]
    assert Options().differences(Options()) == []


def test_nodes_are_numbered_from_one() -> None:
    assert Options(nodes=3, prefix="gpu-").node_names() == ("gpu-1", "gpu-2", "gpu-3")


def test_daemons_come_in_the_order_of_their_needs() -> None:
    assert Options(nodes=1).daemons() == ["munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd-n1"]
    assert Options(nodes=1, accounting=False).daemons() == ["munged", "slurmctld", "slurmd-n1"]
    with_rest = Options(nodes=1, rest=True)
    assert with_rest.daemons()[2:] == ["slurmdbd", "slurmctld", "slurmrestd", "slurmd-n1"]
    assert "slurmrestd" in with_rest.daemons_with_port()
