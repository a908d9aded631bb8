from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.tres import Tres, format_memory, parse_memory

GIB = 2**30
names = st.sampled_from(
    [
        "cpu",
        "node",
        "mem",
        "billing",
        "gres/gpu",
        "gres/gpu:a100",
        "gres/gpu:a100_1g.5gb",
        "license/x=y",
        "bb/datawarp",
    ]
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("472K", 483328),
        ("16.5M", 17301504),
        ("1.50T", 1649267441664),
        ("2P", 2251799813685248),
        ("0", 0),
        ("1gb", GIB),
        ("100B", 100),
        ("", None),
    ],
)
def test_trap_014_memory_unit_letters(text: str, size: int | None) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["12X", "M", "1.2.3M", "-1M", "1e3", "nan", "½G", "12 M"])
def test_trap_014_what_is_no_size_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ValueError, match="not a memory size"):
        parse_memory(text)


def test_a_bare_number_counts_in_the_unit_of_its_field() -> None:
    assert parse_memory("8000", unit="M") == 8000 * 2**20


@given(st.integers(0, 2**60))
def test_memory_reads_back_what_it_prints(size: int) -> None:
    assert parse_memory(format_memory(size)) == size


@pytest.mark.parametrize(
    ("text", "total", "types"),
    [
        ("billing=1,cpu=1,gres/gpu:a100=2,gres/gpu=2,mem=50M,node=1", 2, {"a100": 2}),
        ("gres/gpu:a100=2,gres/gpu:h100=1,gres/gpu=3", 3, {"a100": 2, "h100": 1}),
        ("gres/gpu=8", 8, {}),
        ("cpu=1", 0, {}),
    ],
)
def test_trap_042_typed_and_untyped_gpu_counts_are_not_added(
    text: str, total: int, types: dict[str, int]
) -> None:
    tres = Tres.parse(text)
    assert (tres.gpus, tres.gpus_by_type) == (total, types)


def test_trap_043_typed_only_is_summed() -> None:
    tres = Tres.parse("cpu=4,gres/gpu:nvidia_geforce_rtx_2080_ti=1,gres/gpu:v100=2,mem=8G,node=1")
    assert tres.gpus == 3


def test_trap_044_a_mig_profile_is_the_type() -> None:
    tres = Tres.parse("gres/gpu:a100_1g.5gb=1,gres/gpu=1")
    assert (tres.gpus, tres.gpus_by_type) == (1, {"a100_1g.5gb": 1})


@pytest.mark.parametrize("energy", ["18446744073709551614", "18446744073709551615", "4294967294"])
def test_trap_046_a_mark_for_none_is_no_count(energy: str) -> None:
    assert "energy" not in Tres.parse(f"cpu=1,energy={energy}")


def test_memory_is_in_bytes_and_a_name_that_is_missing_counts_zero() -> None:
    tres = Tres.parse("cpu=4,mem=50M,node=1")
    assert (tres["mem"], tres["cpu"], tres["gres/gpu"], "gres/gpu" in tres) == (50 * 2**20, 4, 0, False)


@pytest.mark.parametrize("text", ["cpu", "=4", "cpu=x", "cpu=4,mem=1Z"])
def test_what_is_no_resource_count_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        Tres.parse(text)


@pytest.mark.parametrize("text", ["", "  ", "cpu="])
def test_nothing_is_no_resources(text: str) -> None:
    assert Tres.parse(text) == Tres()


@given(st.dictionaries(names, st.integers(0, 2**31)))
def test_resources_read_back_what_they_print(counts: dict[str, int]) -> None:
    assert Tres.parse(str(Tres.of(counts))) == Tres.of(counts)


def test_order_does_not_matter() -> None:
    assert Tres.parse("mem=1G,cpu=2") == Tres.parse("cpu=2,mem=1024M")
