from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from slurmkit.inventory import fabric_page
from slurmkit.inventory.fabric import from_json
from slurmkit.inventory.fabric_verdict import findings
from tests.unit.inventory.test_fabric_verdict import even, measured, node_at

HOSTILE = "<script>alert(1)</script>&\"' é\udcff"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.add(tag)


def page(data: dict[str, Any], run: str = "r-1") -> str:
    fabric = from_json(data)
    return fabric_page.html(fabric, findings(fabric), run=run)


def text(data: dict[str, Any]) -> str:
    fabric = from_json(data)
    return "\n".join(fabric_page.lines(fabric, findings(fabric)))


def test_no_name_and_no_error_can_bring_markup_into_the_page() -> None:
    data = measured(4, even)
    data["nodes"][1] = HOSTILE
    data["why"] = HOSTILE
    data["world_error"] = HOSTILE
    data["pairs"][2] |= {"seconds": None, "latency": None, "lane": None, "error": HOSTILE}
    made = page(data, run=HOSTILE)
    made.encode()
    assert "<script" not in made
    assert "&lt;script&gt;" in made
    tags = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "br", "ul", "li", "b",
            "span", "div", "table", "thead", "tr", "th", "td"}  # fmt: skip
    parser = Tags()
    parser.feed(made)
    assert parser.seen <= tags


def test_the_page_loads_nothing_from_elsewhere() -> None:
    made = page(measured(5, even))
    assert not re.search(r"https?:|src=|href=|url\(|@import", made)
    assert "prefers-color-scheme: dark" in made


@pytest.mark.parametrize("count", [1, 2, 24, 25, 40])
def test_every_pair_is_a_cell_twice_in_each_map(count: int) -> None:
    assert page(measured(count, even)).count('<td class="l') == 2 * count * (count - 1)


def test_a_slow_node_is_a_red_row_and_a_sentence() -> None:
    made = page(measured(6, node_at(2, factor=5.0)))
    assert made.count('<td class="l4"') == 2 * 2 * 5
    assert "n2 is slow with nearly all others" in made


def test_the_text_tells_the_transport_the_reason_and_the_verdict() -> None:
    said = text(measured(4, even) | {"why": "no gloo on n0: no torch"})
    assert said.startswith("4 nodes, 4 ranks, over plain TCP sockets (no gloo on n0: no torch)\n")
    assert said.endswith("no node and no path stands out among 6 pairs")
    assert len([line for line in said.splitlines() if line.startswith("n1 ")]) == 2


def test_two_nodes_are_too_few_to_call_one_slow() -> None:
    assert "too few nodes to compare" in text(measured(2, even))


def test_of_many_nodes_the_slowest_pairs_are_shown() -> None:
    said = text(measured(20, node_at(7)))
    assert "(the slowest of 190 pairs)" in said
    assert len(said.splitlines()) < 30


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (64 << 20, "64 MiB"),
     (1 << 30, "1 GiB"), (1 << 42, "4096 GiB")],
)  # fmt: skip
def test_sizes_are_written_as_people_do(count: int, expected: str) -> None:
    assert fabric_page.bytes_text(count) == expected
