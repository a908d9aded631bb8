from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.slurm.hostlist import expand, expand_set, fold

names = st.from_regex(r"[a-z]{1,3}(-?[0-9]{1,3})?([a-z-]{1,3}[0-9]{1,2})?(\.[a-z]{1,3}|-ib)?", fullmatch=True)


@pytest.mark.parametrize(
    ("folded", "hosts"),
    [
        ("n[1-4]", ["n3", "n1", "n4", "n2", "n1"]),
        ("n[9-11]", ["n11", "n9", "n10"]),
        ("n[01-03]", ["n01", "n02", "n03"]),
        ("n[1,01]", ["n01", "n1"]),
        ("n1-ib,n2-ib", ["n2-ib", "n1-ib"]),
        ("a-[1-2],login", ["login", "a-2", "a-1"]),
        ("", []),
    ],
)
def test_names_fold_into_a_list_that_slurm_reads(folded: str, hosts: list[str]) -> None:
    assert fold(hosts) == folded


@given(st.frozensets(names, max_size=30))
def test_what_is_folded_expands_to_the_same_names(hosts: frozenset[str]) -> None:
    assert expand_set(fold(hosts)) == hosts


def test_a_set_has_each_name_once_and_a_list_keeps_slurms_order() -> None:
    assert expand_set("n[3,1,3]") == {"n1", "n3"}
    assert expand("n[3,1,3]") == ["n3", "n1", "n3"]


@pytest.mark.parametrize("text", ["n[1-", "n[1-2]-ib", "n[a]", "n[3-1]"])
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        expand_set(text)
