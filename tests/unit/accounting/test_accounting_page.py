"""A report as a page, in a real browser that reaches no network."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from slurmkit.accounting.page import MOST_BARS, REST, as_html, figure
from slurmkit.accounting.question import question
from slurmkit.accounting.report import Chart, Measure, Table
from tests.unit.accounting.answers import FRAME, answered

if TYPE_CHECKING:
    from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOURS = Measure("gpu_seconds", "GPU-hours", "hours", "GPU time")


class Cells(HTMLParser):
    """The raw values of a page's table cells, row by row, and the paths of its drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.drawings = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag == "td" and "data-value" in given:
            self.rows[-1].append(given["data-value"] or "")
        self.drawings += tag == "svg" and "main-svg" in (given.get("class") or "")


def browse(path: Path, *options: str, width: int = 1200) -> tuple[str, list[str]]:
    """The page as it is once its scripts have run, and what stands on the console."""
    assert BROWSER, "Chromium is needed to look at pages: apt-get install chromium"
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},900",
            f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=5000",
            *options, path.as_uri(),
        ],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1600])
def test_the_figures_on_the_page_are_those_of_the_frame_and_the_console_is_empty(
    tmp_path: Path, width: int
) -> None:
    path = written(tmp_path, as_html(answered(tables=2)))
    page, console = browse(path, "--dump-dom", width=width)
    assert console == []
    cells = Cells()
    cells.feed(page)
    assert cells.drawings >= 2
    shown = [row for row in cells.rows if row]
    expected = [
        ["physics", "1200", "3600000", "0.75", "93784.0", "2026-11-01T10:00:00+00:00"],
        ["", "1", "1", "", "", ""],
    ]
    assert shown == expected * 2


def test_nothing_is_asked_of_the_network() -> None:
    page = as_html(answered())
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", outside)
    assert "@import" not in page
    assert "url(" not in outside


def test_a_name_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = "</script><script>console.error('out')</script><img src=x onerror=console.error(1)>\ud800"
    path = written(tmp_path, as_html(answered(FRAME.assign(account=[evil, "b"]))))
    page, console = browse(path, "--dump-dom")
    assert console == []
    assert "&lt;/script&gt;" in page


def test_a_click_on_a_title_sorts_by_the_value_and_not_by_the_text(tmp_path: Path) -> None:
    frame = pd.concat([FRAME.assign(jobs=[900, 1]), FRAME.assign(jobs=[1200, 30])], ignore_index=True)
    clicks = (
        "<script>addEventListener('load', () => {"
        "document.querySelectorAll('thead button')[1].click();"
        "document.title = [...document.querySelectorAll('tbody tr')].map((r) => r.cells[1].dataset.value);"
        "})</script></body>"
    )
    path = written(tmp_path, as_html(answered(frame)).replace("</body>", clicks))
    page, console = browse(path, "--dump-dom")
    assert console == []
    assert "<title>1200,900,30,1</title>" in page


def test_on_paper_nothing_is_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path, as_html(answered()))
    paper = tmp_path / "report.pdf"
    _, console = browse(path, f"--print-to-pdf={paper}")
    assert console == []
    assert paper.read_bytes().startswith(b"%PDF")


def asked(frame: pd.DataFrame, by: list[str], chart: Chart | None = None) -> dict[str, Any] | None:
    table = Table("t", "T", (HOURS,), lambda _ledger, _question: frame, chart=chart)
    rows = frame.to_dict("records")
    return figure(table, question(by=by, zone=UTC), [{str(k): v for k, v in row.items()} for row in rows])


def test_bars_of_names_lie_the_largest_first_and_the_rest_is_one_bar() -> None:
    count = MOST_BARS + 5
    frame = pd.DataFrame({"user": [f"u{n}" for n in range(count)], "gpu_seconds": [3600] * count})
    drawn = asked(frame, ["user"])
    assert drawn
    (bars,) = drawn["data"]
    assert (bars["y"][0], bars["y"][-1], bars["x"][-1]) == ("u0", REST, 5.0)
    assert len(bars["y"]) == MOST_BARS + 1


def test_a_line_has_all_its_points() -> None:
    days = [f"day {n}" for n in range(MOST_BARS + 5)]
    frame = pd.DataFrame({"user": days, "gpu_seconds": [3600] * len(days)})
    drawn = asked(frame, ["user"], Chart("lines", "user", ("gpu_seconds",)))
    assert drawn
    assert drawn["data"][0]["x"] == days


def test_a_column_that_nobody_knows_is_not_drawn() -> None:
    frame = pd.DataFrame({"user": ["a"], "gpu_seconds": pd.array([None], "Int64")})
    assert asked(frame, ["user"], Chart("bars", "user", ("gpu_seconds",))) is None


def test_over_time_the_second_group_is_stacked_and_adds_up() -> None:
    frame = pd.DataFrame(
        {
            "day": [f"2026-11-0{day}" for day in (1, 2) for _ in range(10)],
            "user": [f"u{n}" for _ in (1, 2) for n in range(10)],
            "gpu_seconds": [3600 * (n + 1) for _ in (1, 2) for n in range(10)],
        }
    )
    drawn = asked(frame, ["user", "day"])
    assert drawn
    assert drawn["layout"]["barmode"] == "stack"
    assert sum(sum(trace["y"]) for trace in drawn["data"]) == 110
    assert drawn["data"][0]["name"] == "u9"
    assert drawn["data"][-1]["name"] == REST
    assert drawn["data"][0]["x"] == ["2026-11-01", "2026-11-02"]


def test_a_heatmap_has_gaps_where_there_is_no_row() -> None:
    frame = pd.DataFrame({"user": ["a", "b"], "account": ["x", "y"], "gpu_seconds": [3600, 7200]})
    drawn = asked(frame, ["user", "account"], Chart("heatmap", "user", ("account", "gpu_seconds")))
    assert drawn
    assert drawn["data"][0]["z"] == [[1.0, None], [None, 2.0]]


@pytest.mark.parametrize(("seconds", "greatest"), [(7200, 2.0), (0, 1)])
def test_the_colours_of_a_heatmap_begin_at_0(seconds: int, greatest: float) -> None:
    frame = pd.DataFrame({"user": ["a"], "account": ["x"], "gpu_seconds": [seconds]})
    drawn = asked(frame, ["user", "account"], Chart("heatmap", "user", ("account", "gpu_seconds")))
    assert drawn
    assert (drawn["data"][0]["zmin"], drawn["data"][0]["zmax"]) == (0, greatest)


def test_nothing_is_drawn_of_nothing() -> None:
    assert asked(pd.DataFrame({"user": ["a"], "gpu_seconds": [0]}), ["user"]) is None
    assert asked(pd.DataFrame({"gpu_seconds": [5]}), []) is None
