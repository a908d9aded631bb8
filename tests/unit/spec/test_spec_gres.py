"""GPUs and tasks: what is asked for, and what of it the job file determines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec.gres import Gres, Tasks, format_gpus, gpu_count, parse_gpus, parse_gres, parse_tres, tasks
from slurmkit.spec.model import JobSpec


def job(launch: dict[str, object] | None = None, **resources: Any) -> JobSpec:
    return msgspec.convert(
        {"name": "x", "command": "true", "resources": resources, "launch": launch or {}}, JobSpec
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu", [("gpu", None, 1)]),
        ("gpu:4", [("gpu", None, 4)]),
        ("gpu:a100", [("gpu", "a100", 1)]),
        ("gpu:a100:4", [("gpu", "a100", 4)]),
        ("gpu:a100=4", [("gpu", "a100", 4)]),
        ("gpu:1g.10gb:2", [("gpu", "1g.10gb", 2)]),
        ("gpu:a100_3g.20gb", [("gpu", "a100_3g.20gb", 1)]),
        ("gpu:1g.5gb+me:1", [("gpu", "1g.5gb+me", 1)]),
        ("shard:2k", [("shard", None, 2048)]),
        ("mps:50, gpu:2", [("mps", None, 50), ("gpu", None, 2)]),
    ],
)
def test_a_request_is_read(text: str, parts: list[tuple[str, str | None, int]]) -> None:
    assert parse_gres(text) == tuple(Gres(*part) for part in parts)


@pytest.mark.parametrize(
    "text", ["", ":", "gpu:", "gpu::4", "gpu:a:b:4", "4", "gpu:a b:1", "gpu,,shard", "gpu:-1"]
)
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a resource request"):
        parse_gres(text)


GRES = st.builds(
    Gres,
    st.sampled_from(["gpu", "shard", "mps", "nic"]),
    st.none() | st.sampled_from(["a100", "h100_pcie", "1g.10gb", "a100_3g.20gb"]),
    st.integers(0, 10_000),
)


@given(st.lists(GRES, min_size=1, max_size=4))
def test_a_printed_request_reads_back(parts: list[Gres]) -> None:
    assert parse_gres(",".join(map(str, parts))) == tuple(parts)


@given(st.lists(GRES.map(lambda one: Gres("gpu", one.type, one.count)), min_size=1, max_size=4))
def test_printed_gpus_read_back(parts: list[Gres]) -> None:
    assert parse_gpus(format_gpus(parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("cpu=4,gres/gpu=1", {"cpu": 4, "gres/gpu": 1}),
        ("gres/gpu:a100=2", {"gres/gpu:a100": 2}),
        ("gres:gpu:1", {"gres/gpu": 1}),
        ("cpu:4", {"cpu": 4}),
        ("license/matlab=1", {"license/matlab": 1}),
    ],
)
def test_resources_of_a_task_are_read(text: str, counts: dict[str, int]) -> None:
    assert parse_tres(text) == counts


@pytest.mark.parametrize(
    ("resources", "per_node", "total"),
    [
        ({"nodes": 2, "gpus_per_node": "a100:4"}, 4, 8),
        ({"nodes": 2, "gpus_per_node": 4}, 4, 8),
        ({"gpus_per_node": 4}, 4, 4),
        ({"nodes": "2-4", "gpus_per_node": 4}, 4, None),
        ({"nodes": 2, "gres": "gpu:a100:4,shard:2"}, 4, 8),
        ({"nodes": 2, "gres": "gpu:a100:2,gpu:v100:2"}, 4, 8),
        ({"nodes": 1, "gpus": 4}, 4, 4),
        ({"nodes": 2, "gpus": 8}, None, 8),
        ({"gpus": 8}, None, 8),
        ({"ntasks": 4, "gpus_per_task": 2}, None, 8),
        ({"nodes": 2, "ntasks_per_node": 4, "gpus_per_task": 1}, 4, 8),
        ({"nodes": 1, "ntasks": 4, "tres_per_task": "gres/gpu:a100=1"}, 4, 4),
        ({"nodes": 2, "gpus_per_socket": 2, "sockets_per_node": 2}, 4, 8),
        ({"gpus_per_node": "1g.10gb:7"}, 7, 7),
    ],
)
def test_gpus_are_counted_where_they_are_determined(
    resources: dict[str, Any], per_node: int | None, total: int | None
) -> None:
    count = gpu_count(job(**resources))
    assert count
    assert (count.per_node, count.total) == (per_node, total)


def test_gpus_are_counted_by_type() -> None:
    assert gpu_count(job(gres="gpu:a100:2,gpu:v100:1,gpu:1")).types == {"a100": 2, "v100": 1}


@pytest.mark.parametrize(
    "resources", [{}, {"gres": "shard:2"}, {"gres": "mps:50"}, {"gres": "none"}, {"gpus": 0}]
)
def test_shares_of_a_gpu_and_nothing_are_no_gpus(resources: dict[str, Any]) -> None:
    assert not gpu_count(job(**resources))


@pytest.mark.parametrize(
    ("launch", "resources", "expected"),
    [
        ({}, {}, Tasks(1, 1)),
        ({}, {"nodes": 3}, Tasks(3, 1)),
        ({}, {"nodes": 2, "gpus_per_node": "a100:4"}, Tasks(8, 4)),
        ({"ntasks_per_node": "gpu"}, {"nodes": 2, "gpus_per_node": 4}, Tasks(8, 4)),
        ({"ntasks_per_node": 2}, {"nodes": 2, "gpus_per_node": 4}, Tasks(4, 2)),
        ({}, {"nodes": 2, "ntasks_per_node": 2, "gpus_per_node": 4}, Tasks(4, 2)),
        ({}, {"nodes": 2, "gpus": 8}, Tasks(8, None)),
        ({}, {"ntasks": 5}, Tasks(5, None)),
        ({}, {"nodes": 1, "ntasks": 5}, Tasks(5, 5)),
        ({}, {"nodes": "2-4", "gpus_per_node": 4}, Tasks(None, 4)),
        ({}, {"nodes": 2, "gpus_per_node": 4, "ntasks_per_gpu": 2}, Tasks(16, 8)),
        ({"launcher": "torchrun"}, {"nodes": 2, "gpus_per_node": 8}, Tasks(2, 1)),
    ],
)
def test_tasks_are_one_for_each_gpu_where_nothing_else_is_stated(
    launch: dict[str, object], resources: dict[str, Any], expected: Tasks
) -> None:
    assert tasks(job(launch, **resources)) == expected
