from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.hostlist import expand, first

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("linux[1,2]", "linux1 linux2"),
        (
            "node[001-003,007],gpu[1-2]-ib[0-1]",
            "node001 node002 node003 node007 gpu1-ib0 gpu1-ib1 gpu2-ib0 gpu2-ib1",
        ),
        (
            "ml-16-n-[001-002,004],ml-17-n-[001-003]",
            "ml-16-n-001 ml-16-n-002 ml-16-n-004 ml-17-n-001 ml-17-n-002 ml-17-n-003",
        ),
        ("c1001a-s[11,17]", "c1001a-s11 c1001a-s17"),
        ("login", "login"),
        ("n", "n"),
    ],
)
def test_trap_071_a_compressed_list_is_expanded_and_its_first_host_is_a_host(text: str, hosts: str) -> None:
    assert expand(text) == hosts.split()
    assert first(text) == hosts.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[3,1]", "n3 n1"),
        ("c,a,b", "c a b"),
        ("n1,n1", "n1 n1"),
        ("n[1-3],n2", "n1 n2 n3 n2"),
        ("n[001-003,10]", "n001 n002 n003 n10"),
        ("rack[0-1]node[00-01]", "rack0node00 rack0node01 rack1node00 rack1node01"),
        ("r[1-2]n[3,1]p[1-2]", "r1n3p1 r1n3p2 r2n3p1 r2n3p2 r1n1p1 r1n1p2 r2n1p1 r2n1p2"),
        ("n[99-101]", "n99 n100 n101"),
        ("n[1-2] [3]", "n1 n2 3"),
        (",n1,,n2 n3\nn4,", "n1 n2 n3 n4"),
        ("é[1-2]", "é1 é2"),
        ("", ""),
    ],
)
def test_order_duplicates_and_widths_are_slurms(text: str, hosts: str) -> None:
    assert expand(text) == hosts.split()


@pytest.mark.parametrize(
    ("text", "faulty"),
    [
        ("ok,n[1-3", r"n\[1-3"),
        ("ok,n1]", "n1]"),
        ("n[[1-2]]", "n"),
        ("a[1-2]b", r"a\[1-2\]b"),
        ("n[3-1]", "3-1"),
        ("n[]", "''"),
        ("n[1,a]", "'a'"),
        ("n[1-2-3]", "1-2-3"),
        ("n[1, 2]", "' 2'"),
        ("n[\u00b2]", "\u00b2"),
        ("n[0-65536]", "too many"),
        ("n[0-999]m[0-999]p[1]", "too many"),
    ],
)
def test_what_is_no_host_list_is_refused_with_the_faulty_part(text: str, faulty: str) -> None:
    with pytest.raises(ValueError, match=faulty):
        expand(text)


def test_an_empty_list_has_no_first_host() -> None:
    with pytest.raises(ValueError, match="no first host"):
        first(" , ")


def _random_list(source: random.Random) -> str:
    def number() -> str:
        return str(source.randrange(1200)).zfill(source.choice((0, 2, 3, 5)))

    def ranges() -> str:
        texts = []
        for _ in range(source.randrange(1, 4)):
            low = number()
            texts.append(low if source.random() < 0.5 else f"{low}-{int(low) + source.randrange(5)}")
        return f"[{','.join(texts)}]"

    def element() -> str:
        name = (
            "".join(source.choice(("a", "gpu", "-", "n0", "r1-", "7")) for _ in range(3)).lstrip("-") or "n"
        )
        kind = source.random()
        if kind < 0.3:
            return name + source.choice(("", number()))
        return name + ranges() + ("-ib" + ranges() if kind > 0.85 else "")

    return ",".join(element() for _ in range(source.randrange(1, 5)))


@pytest.mark.cluster
def test_ten_thousand_generated_lists_expand_as_scontrol_has_it(tmp_path: Path) -> None:
    """`scontrol show hostnames` reads a configuration and asks no daemon: it needs to be there, no more."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=ALL\n")
    source = random.Random(71)
    for _ in range(10):
        lists = [_random_list(source) for _ in range(1000)]
        # One call for a thousand lists: a mark that no generated name has stands between them.
        done = subprocess.run(
            ["scontrol", "show", "hostnames", ",MARK,".join(lists)],
            env={**os.environ, "SLURM_CONF": str(conf)},
            capture_output=True,
            text=True,
            check=True,
        )
        expected = [block.split() for block in done.stdout.split("MARK\n")]
        assert [expand(text) for text in lists] == expected
