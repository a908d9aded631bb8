"""What a run cost, as lines: its time as a bar for each attempt, figures, what interrupted it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.cli.frame import DIM, LOUD, Span
from slurmkit.cli.output import cell
from slurmkit.run import interval, sentences
from slurmkit.run.spans import KINDS
from slurmkit.run.timeline import refused_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slurmkit.cli.frame import Line
    from slurmkit.run.cost import Cost, Reckoning
    from slurmkit.run.events import Event
    from slurmkit.run.interruptions import Interruption
    from slurmkit.run.spans import Span as Stretch

LETTERS = {
    "queued": (".", DIM),
    "starting": ("s", "black on yellow"),
    "computing": ("=", "black on green"),
    "checkpointing": ("+", "black on blue"),
    "lost": ("x", "black on red"),
    "idle": ("-", "black on magenta"),
}
"""Of each kind of span: its letter, which tells it without colour, and its style."""

MOST_ROWS = 24
"""More attempts, interruptions or starts than these are counted only; the last ones are shown."""

LEAST_SHOWN = 0.1
"""Of a cell: what is less in every one of them is not shown."""


class Row(NamedTuple):
    """One line of the bar: an attempt, and the wait before it."""

    name: str
    spans: tuple[Stretch, ...]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return sum(span.seconds for span in self.spans)


def bill(reckoning: Reckoning, told: Iterable[Event], width: int) -> Iterator[list[Line]]:
    """The paragraphs, as wide as `width`."""
    rows = [row for course in reckoning.spans for row in rows_of(course)]
    if any(span.nodes for row in rows for span in row.spans):
        yield list(bars(rows, width))
        yield list(costs(reckoning.cost, width))
    if reckoning.interruptions:
        yield list(interrupted(reckoning.interruptions, width))
    if starts := [event for event in told if event.kind == "checkpoint-chosen"]:
        yield list(chosen(starts, width))


def rows_of(spans: Sequence[Stretch]) -> list[Row]:
    """A row for each attempt; what follows the last one has a row of its own."""
    rows: list[Row] = []
    waiting: list[Stretch] = []
    for span in spans:
        if span.attempt is None:
            waiting.append(span)
        elif rows and rows[-1].name == span.attempt:
            rows[-1] = rows[-1]._replace(spans=(*rows[-1].spans, *waiting, span))
            waiting = []
        else:
            rows.append(Row(span.attempt, (*waiting, span)))
            waiting = []
    return [*rows, Row("waiting", tuple(waiting))] if waiting else rows


def bars(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """All rows on the same scale, so that long attempts are long."""
    shown = rows[-MOST_ROWS:]
    label = max(len(row.name) for row in shown)
    times = [sentences.duration(row.seconds) for row in shown]
    head = 2 + label + 2 + max(map(len, times)) + 2
    room = max(width - head, 10)
    scale = max(row.seconds for row in shown) / room
    note = f"1 character is {sentences.duration(scale) if scale >= 1 else sentences.seconds(scale)}"
    if len(rows) > len(shown):
        note += f"; {len(rows) - len(shown)} earlier attempts are not shown"
    yield [Span("time", "bold"), Span(f"  {note}", DIM)]
    for row, time in zip(shown, times, strict=True):
        kinds = rastered(row.spans, max(round(row.seconds / scale), 1) if scale else 1)
        yield [
            Span(f"  {row.name:<{label}}  {time:>{head - label - 6}}  "),
            *(Span(LETTERS[kind][0] * count, LETTERS[kind][1]) for kind, count in _runs(kinds)),
        ]


def rastered(spans: Sequence[Stretch], cells: int) -> list[str]:
    """The kind that most of each cell is; one that is nowhere the most has the cell where it is most."""
    begin, whole = spans[0].begin, spans[-1].end - spans[0].begin
    shares: list[dict[str, float]] = [{} for _ in range(cells)]
    for span in spans:
        low, high = ((at - begin) / whole * cells if whole else 0.0 for at in (span.begin, span.end))
        for index in range(int(low), min(int(high) + 1, cells)):
            share = min(high, index + 1) - max(low, index)
            shares[index][span.kind] = shares[index].get(span.kind, 0.0) + max(share, 0.0)
    kinds = [max(share, key=lambda kind: share[kind]) for share in shares]
    for kind in KINDS:
        best = max(range(cells), key=lambda index: shares[index].get(kind, 0.0))
        is_seen = kind in kinds or shares[best].get(kind, 0.0) < LEAST_SHOWN
        if not is_seen and kinds.count(kinds[best]) > 1:
            kinds[best] = kind
    return kinds


def _runs(kinds: Iterable[str]) -> Iterator[tuple[str, int]]:
    from itertools import groupby

    return ((kind, len(list(group))) for kind, group in groupby(kinds))


def costs(cost: Cost, width: int) -> Iterator[Line]:
    """The ratio, where the time went with the legend of the bars, and what was lost by what."""
    hours = f"{sentences.number(cost.hours)} {cost.unit}-hours on {cost.units} {cost.unit}s"
    yield [Span("cost", "bold"), Span(f"  {hours if cost.units != 1 else hours.removesuffix('s')}")]
    ratio = f"effective training time ratio (ETTR) {cost.ettr or 0.0:.2f}"
    if cost.ettr_without_queue is not None:
        ratio += f"; without the queue {cost.ettr_without_queue:.2f}"
    yield [Span(f"  {ratio}")]
    for kind, seconds in cost.seconds.items():
        if seconds >= 0.5 or cost.wall < 1:
            letter, style = LETTERS[kind]
            share = seconds / cost.wall * 100
            held = cost.hours_by_kind[kind]
            amount = f"{sentences.number(held):>8} {cost.unit}-hours" if held else ""
            text = f"{kind:<13}  {sentences.duration(seconds):>8}  {share:3.0f} %  {amount}"
            yield [Span("  "), Span(letter, style), Span(f" {text}".rstrip())]
    yield from _facts(cost, width)


def _facts(cost: Cost, width: int) -> Iterator[Line]:
    if cost.losses:
        causes = (
            f"{cell(kind)} {sentences.number(loss.hours)} ({loss.times})"
            for kind, loss in cost.losses.items()
        )
        text = (
            f"{sentences.number(cost.lost_hours)} {cost.unit}-hours, restarts included: {', '.join(causes)}"
        )
        yield from _labelled("lost to", text, width)
    restarts = cost.restarts
    if any(restarts):
        ways = (("in place", restarts.in_place), ("by requeue", restarts.requeue))
        words = [f"{count} {way}" for way, count in (*ways, ("by resubmit", restarts.resubmit)) if count]
        yield from _labelled("restarts", ", ".join(words), width)
    if cost.failures:
        every = f", one every {sentences.duration(cost.mtbf)}" if cost.mtbf else ""
        yield from _labelled("failures", f"{cost.failures}{every}", width)
    if told := interval.advice(cost):
        yield from _labelled("saving", told, width)


def _labelled(label: str, text: str, width: int) -> Iterator[Line]:
    lines = wrap(text, max(width - 12, 20)) or [""]
    yield [Span(f"  {label:<10}{lines[0]}")]
    yield from ([Span(f"{'':12}{line}")] for line in lines[1:])


def interrupted(ends: Sequence[Interruption], width: int) -> Iterator[Line]:
    """Each end before the work was done: when, why, and what followed."""
    yield from _title("interruptions", len(ends))
    for one in ends[-MOST_ROWS:]:
        place = one.attempt if one.step is None else f"{one.attempt}, start {one.step}"
        when = cell(datetime.fromtimestamp(one.at, UTC))
        yield [Span(f"  {when}  {place}  "), Span(cell(one.kind), LOUD if one.is_failure else "yellow")]
        steps = [
            f"{name} {step}"
            for name, step in (("at step", one.at_step), ("checkpoint of step", one.checkpoint_step))
            if step is not None
        ]
        yield from _wrapped(cell(one.sentence) + (f" ({', '.join(steps)})" if steps else ""), width)
        if one.action:
            follows = sentences.ACTIONS.get(one.action, one.action)
            yield from _wrapped(f"{follows}: {cell(one.reason)}" if one.reason else follows, width)


def chosen(starts: Sequence[Event], width: int) -> Iterator[Line]:
    """From which checkpoint each start went on, and which newer ones were refused."""
    yield from _title("resumed from", len(starts))
    for event in starts[-MOST_ROWS:]:
        path = event.text("checkpoint")
        step = event.number("at_step")
        what = "the beginning: no checkpoint yet" if path is None else cell(path)
        if step is not None:
            what += f" (step {step})"
        yield [Span(f"  {event.text('attempt')}, start {event.text('step')}  {what}")]
        for one in refused_of(event):
            yield from _wrapped(f"refused: {cell(sentences.refused(one))}", width)


def _title(text: str, count: int) -> Iterator[Line]:
    hidden = count - MOST_ROWS
    yield [Span(text, "bold"), Span(f"  {hidden} earlier ones are not shown" if hidden > 0 else "", DIM)]


def _wrapped(text: str, width: int) -> Iterator[Line]:
    yield from ([Span(f"    {line}")] for line in wrap(text, max(width - 4, 20)))


def styled(line: Line) -> str:
    """A line with the codes of its colours, which click takes out where they are not wanted."""
    return "".join(_styled(span) for span in line).rstrip()


def _styled(span: Span) -> str:
    import click

    if not span.style:
        return span.text
    words, _, ground = span.style.partition(" on ")
    names = words.split()
    colours = [name for name in names if name != "bold"]
    return click.style(
        span.text, fg=colours[0] if colours else None, bg=ground or None, bold="bold" in names or None
    )
