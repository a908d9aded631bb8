"""A report as one HTML file that needs nothing else: charts, tables to sort, and what stands out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.accounting.asking import table_named
from slurmkit.accounting.formats import SUMMED, TEXT, Sheet, heading, in_words, records, sheets
from slurmkit.accounting.periods import GROUPED_BY_TIME
from slurmkit.accounting.report import Chart, columns_of
from slurmkit.errors import MissingRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurmkit.accounting.asking import Answered
    from slurmkit.accounting.question import Question
    from slurmkit.accounting.report import Measure, Table

MOST_BARS = 25
"""Bars that can be read; what is left goes into one of its own where it can be summed."""
MOST_SERIES = 7
"""Colours that can be told apart."""
REST = "all others"
HEIGHT = 320
"""Of a chart over time, in pixels."""

SCALES = {
    "hours": 3600.0,
    "memory_hours": 3600.0 * 1024,
    "memory": 1024.0**3,
    "share": 0.01,
    "duration": 3600.0,
}
UNITS = {"hours": "hours", "memory_hours": "GiB-hours", "memory": "GiB", "share": "%", "duration": "hours"}
"""What a chart's axis counts in, by kind."""


class Shown(NamedTuple):
    """A table on the page, and its chart in Plotly's form."""

    name: str
    sheet: Sheet
    values: list[list[object]]
    """Of the cells: what a column is sorted by."""
    figure: str | None


def as_html(answered: Answered) -> str:
    """The page.

    Raises:
        MissingRequirement: plotly is not installed.
    """
    from slurmkit.templating import environment

    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            "a page needs plotly for its charts", hint="pip install 'slurmkit-hpc[reports]'"
        ) from error
    shown = [
        _shown(answered, name, sheet) for name, sheet in zip(answered.frames, sheets(answered), strict=True)
    ]
    page = (
        environment()
        .get_template("reports/accounting.html.j2")
        .render(
            heading=heading(answered),
            report=answered.report,
            made=f"{datetime.now(UTC).astimezone(answered.question.zone):%Y-%m-%d %H:%M}",
            stands_out=list(answered.report.stands_out(answered.frames)),
            notes=answered.notes,
            shown=shown,
            at_left=TEXT,
            plotly=get_plotlyjs() if any(one.figure for one in shown) else "",
        )
    )
    # A name may hold what is no text; a page must be UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")


def _shown(answered: Answered, name: str, sheet: Sheet) -> Shown:
    table = table_named(answered.report, name)
    frame = answered.frames[name]
    rows = records(frame)
    values = [[row[column.name] for column in sheet.columns] for row in rows]
    drawn = figure(table, answered.question, rows)
    # `</script>` in a job's name must not end the script.
    text = json.dumps(drawn, ensure_ascii=False).replace("</", "<\\/") if drawn else None
    return Shown(name, sheet, values, text)


def figure(table: Table, question: Question, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The chart of a table as Plotly's `data` and `layout`; None where there is nothing to draw."""
    columns = {column.name: column for column in columns_of(table, question)}
    chart = _chart(table, question, columns.values(), rows)
    if chart is None or not rows:
        return None
    if chart.form == "heatmap":
        return _heatmap(chart, columns, rows, question)
    series = [name for name in question.by if name != chart.x] if table.is_grouped else []
    over_time = chart.x in GROUPED_BY_TIME or chart.form == "lines" or columns[chart.x].kind == "time"
    if series and len(chart.y) == 1:
        traces = _by_series(chart, series[0], columns, rows)
    else:
        kept = rows if over_time else rows[:MOST_BARS]
        known = [name for name in chart.y if any(row[name] is not None for row in rows)]
        traces = [_trace(columns[name], chart.x, kept, rows) for name in known]
    if not traces:
        return None
    return _laid_out(traces, columns[chart.y[0]], over_time=over_time, form=chart.form, stacked=bool(series))


def _chart(
    table: Table, question: Question, columns: Iterable[Measure], rows: Sequence[Mapping[str, Any]]
) -> Chart | None:
    """The table's own chart; of a grouped one without, its first hours that are not all zero."""
    if table.chart is not None:
        if table.chart.x:
            return table.chart
        # What cannot be summed is drawn of one group only.
        return table.chart._replace(x=question.by[0]) if len(question.by) == 1 else None
    if not table.is_grouped or not question.by:
        return None
    kinds = [column.name for column in columns if column.kind == "hours"]
    with_hours = [
        name for name in ("gpu_seconds", *kinds) if name in kinds and any(row[name] for row in rows)
    ]
    x = next((name for name in question.by if name in GROUPED_BY_TIME), question.by[0])
    return Chart("bars", x, (with_hours[0],)) if with_hours else None


def _scaled(value: Any, column: Measure) -> float | None:  # noqa: ANN401 - a cell of a DataFrame
    return None if value is None else float(value) / SCALES.get(column.kind, 1.0)


def _label(value: object) -> str:
    return "-" if value is None else str(value)


def _trace(
    column: Measure, x: str, kept: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The values of a column in the first rows, and one for the others where they have a sum."""
    names = [_label(row[x]) for row in kept]
    values = [_scaled(row[column.name], column) for row in kept]
    rest = [_scaled(row[column.name], column) or 0.0 for row in rows[len(kept) :]]
    if rest and column.kind in SUMMED:
        names.append(REST)
        values.append(sum(rest))
    return {"name": column.title, "x": names, "y": values}


def _by_series(
    chart: Chart, series: str, columns: Mapping[str, Measure], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One trace for each of the largest groups of the second kind, and one for all others."""
    column = columns[chart.y[0]]
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for row in rows:
        value = _scaled(row[column.name], column) or 0.0
        sums[_label(row[series])] = sums.get(_label(row[series]), 0.0) + value
        totals[_label(row[chart.x])] = totals.get(_label(row[chart.x]), 0.0) + value
    largest = sorted(sums, key=lambda name: -sums[name])[:MOST_SERIES]
    x = sorted(totals) if chart.x in GROUPED_BY_TIME else sorted(totals, key=lambda name: -totals[name])
    x = x if chart.x in GROUPED_BY_TIME else x[:MOST_BARS]
    cells = {name: dict.fromkeys(x, 0.0) for name in (*largest, REST)}
    for row in rows:
        name = _label(row[series]) if _label(row[series]) in largest else REST
        if _label(row[chart.x]) in cells[name]:
            cells[name][_label(row[chart.x])] += _scaled(row[column.name], column) or 0.0
    shown = [name for name in cells if name != REST or any(cells[REST].values())]
    return [{"name": name, "x": x, "y": [cells[name][one] for one in x]} for name in shown]


def _laid_out(
    traces: list[dict[str, Any]], column: Measure, *, over_time: bool, form: str, stacked: bool
) -> dict[str, Any]:
    unit = UNITS.get(column.kind, "")
    title = f"{column.title}, {unit}" if unit and unit not in column.title else column.title
    if unit and len(traces) > 1 and not stacked:
        title = unit  # the legend names the columns
    value_axis = {"title": {"text": title}, "rangemode": "tozero"}
    if form == "lines":
        data = [{**trace, "type": "scatter", "mode": "lines"} for trace in traces]
        return {
            "data": data,
            "layout": {"yaxis": value_axis, "xaxis": {"automargin": True}, "height": HEIGHT},
        }
    if over_time:
        data = [{**trace, "type": "bar"} for trace in traces]
        axes = {"yaxis": value_axis, "xaxis": {"type": "category", "automargin": True}}
    else:
        # Names are read from left to right: bars lie, the largest on top.
        data = [
            {**trace, "x": trace["y"], "y": trace["x"], "type": "bar", "orientation": "h"} for trace in traces
        ]
        axes = {
            "xaxis": value_axis,
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        }
    bars = max(len(trace["x"]) for trace in traces)
    height = HEIGHT if over_time else 110 + 24 * bars * (1 if stacked else len(traces))
    return {"data": data, "layout": {**axes, "barmode": "stack" if stacked else "group", "height": height}}


def _heatmap(
    chart: Chart, columns: Mapping[str, Measure], rows: Sequence[Mapping[str, Any]], question: Question
) -> dict[str, Any]:
    """A colour for each pair of `x` and the first of `y`, by the second of `y`."""
    down, colour = chart.y
    across = list(dict.fromkeys(_label(row[chart.x]) for row in rows))
    lines = list(dict.fromkeys(_label(row[down]) for row in rows))
    cells = {(_label(row[down]), _label(row[chart.x])): row[colour] for row in rows}
    column = columns[colour]
    grid = [[_scaled(cells.get((line, one)), column) for one in across] for line in lines]
    texts = [
        [in_words(cells.get((line, one)), column.kind, question.zone) for one in across] for line in lines
    ]
    greatest = max((value for line in grid for value in line if value is not None), default=0)
    trace = {
        "type": "heatmap",
        "x": across,
        "y": lines,
        "z": grid,
        "zmin": 0,
        "zmax": greatest or 1,
        "text": texts,
        "hovertemplate": "%{y}, %{x}: %{text}<extra></extra>",
        "colorbar": {"title": {"text": UNITS.get(column.kind, "")}},
        "colorscale": "Blues",
        "reversescale": True,
    }
    axes = {
        "xaxis": {"type": "category"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }
    return {"data": [trace], "layout": {**axes, "height": 130 + 26 * len(lines)}}
