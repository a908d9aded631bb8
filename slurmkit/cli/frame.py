"""One picture of a running run, as lines of styled text that fit a given width and height. Pure."""

from __future__ import annotations

from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.cli.glyphs import BLOCKS, Glyphs, bar, curve, split
from slurmkit.cli.output import STATE_COLOURS, cell
from slurmkit.run import sentences
from slurmkit.run.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from slurmkit.run.progress import Progress, SlowRank
    from slurmkit.run.state import RunState

LABEL = 9
"""Columns of the names at the left."""

PHASES = {"compute": "green", "data": "yellow", "sync": "blue", "checkpoint": "magenta"}
DIM, LOUD, WARN = "bright_black", "bold red", "yellow"


class Span(NamedTuple):
    """A piece of text in one style, as rich names it."""

    text: str
    style: str = ""


Line = list[Span]


class View(NamedTuple):
    """All that a picture shows."""

    state: RunState
    now: datetime
    progress: Progress | None = None
    findings: Findings = Findings()
    log: Sequence[str] = ()
    log_title: str = ""
    """Whose log it is."""
    silent: str | None = None
    """What of Slurm's does not answer."""


class Block(NamedTuple):
    """Lines that belong together; of those of less importance fewer are shown where there is no room."""

    importance: int
    """1 goes before all others."""
    lines: Sequence[Line]
    least: int
    """Fewer lines than this say nothing."""
    enough: int
    """With so many, the others may have more first."""
    is_tail: bool = False
    """Whether the last lines count most, under the first, which is a heading."""


def frame(view: View, width: int, height: int | None = None, glyphs: Glyphs = BLOCKS) -> list[Line]:
    """The picture of a run; without a height, all of it."""
    progress = view.progress
    blocks = [_block(1, _head(view, width))]
    if progress:
        blocks += [
            _block(1, _step(progress, width, glyphs)),
            _block(2, _speed(progress, width, glyphs)),
            _block(3, _metrics(progress, width)),
            _block(4, _saved(progress, view.now)),
            _block(6, _time(progress, width, glyphs)),
        ]
    blocks.append(_block(1, _notices(view, width)))
    if progress and progress.slowest:
        table = list(_slowest(progress, view.now, width, glyphs))
        blocks.append(Block(7, table, 4, len(table)))
    if view.log:
        blocks.append(Block(5, list(_log(view, width, glyphs)), 4, 8, is_tail=True))
    return fit(blocks, height)


def _block(importance: int, drawn: Iterable[Line]) -> Block:
    lines = list(drawn)
    return Block(importance, lines, len(lines), len(lines))


def fit(blocks: Sequence[Block], height: int | None) -> list[Line]:
    """The lines of all blocks, in their order, as far as there is room for them.

    Each gets the least that it needs, by importance, then what is enough for it, then the rest.
    """
    if height is None:
        return [line for block in blocks for line in block.lines]
    room = height
    granted = [0] * len(blocks)
    by_importance = sorted(range(len(blocks)), key=lambda index: blocks[index].importance)
    for index in by_importance:
        block = blocks[index]
        least = min(block.least, len(block.lines))
        if least > room and block.importance > 1:
            continue
        granted[index] = min(least, room)
        room -= granted[index]
    for is_last in (False, True):
        for index in by_importance:
            block = blocks[index]
            wanted = len(block.lines) if is_last else min(block.enough, len(block.lines))
            more = min(max(wanted - granted[index], 0), room) if granted[index] else 0
            granted[index] += more
            room -= more
    return [line for block, count in zip(blocks, granted, strict=True) for line in _cut(block, count)]


def _cut(block: Block, count: int) -> Sequence[Line]:
    if not block.is_tail or count >= len(block.lines):
        return block.lines[:count]
    return [*block.lines[:1], *block.lines[len(block.lines) - count + 1 :]] if count else []


def _head(view: View, width: int) -> Iterator[Line]:
    state = view.state
    facts = [f"job {state.job_id}"] if state.job_id else []
    if state.nodes:
        facts.append("1 node" if len(state.nodes) == 1 else f"{len(state.nodes)} nodes")
    if state.attempts > 1:
        facts.append(f"attempt {state.attempts}")
    if state.started:
        facts.append(cell((state.ended or view.now) - state.started))
    colour = STATE_COLOURS.get(state.state, "")
    line = [Span(cell(state.id), "bold"), Span("  "), Span(state.state, f"bold {colour}".strip())]
    told = "  ".join(cell(fact) for fact in facts)
    if sum(len(span.text) for span in line) + 2 + len(told) <= width:
        yield [*line, Span("  "), Span(told, DIM)]
    else:
        yield line
        yield [Span(told, DIM)]
    if state.reason:
        yield [Span(cell(state.reason), WARN)]
    if view.silent:
        yield [Span(f"{view.silent} does not answer: the state is the last that is known", WARN)]


def _label(name: str) -> Span:
    return Span(f"{name:<{LABEL}}", DIM)


def _step(progress: Progress, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """How far: a bar where the total is known."""
    step = sentences.step_of(progress)
    if step is None:
        waiting = "no step has been told of yet"
        if progress.world_size is not None:
            waiting += f"; {progress.ranks_heard} of {progress.world_size} ranks heard"
        yield [_label("step"), Span(waiting, DIM)]
        return
    done = sentences.share(progress)
    left = f"  {sentences.duration(progress.seconds_left)} left" if progress.seconds_left is not None else ""
    line = [_label("step"), Span(step, "bold")]
    if done is None:
        yield [*line, Span(left)]
        return
    percent = f" {int(done * 100):3d} %"
    length = max(width - LABEL - len(step) - 1 - len(percent) - len(left), 4)
    full, rest = bar(done, length, glyphs)
    yield [*line, Span(" "), Span(full, "green"), Span(rest, DIM), Span(percent), Span(left, "bold")]


def _speed(progress: Progress, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """How fast, and how fast it was during the last hour."""
    values = [speed for _, speed in progress.history]
    if progress.steps_per_second is None and not values:
        return
    now = "-" if progress.steps_per_second is None else sentences.speed(progress.steps_per_second)
    about = ""
    if len(values) > 1:
        span = (progress.history[-1][0] - progress.history[0][0]).total_seconds()
        about = f"  at most {sentences.speed(max(values))} in {sentences.duration(span)}"
    room = width - LABEL - len(now) - 2
    if room - len(about) < 10:
        about = ""
    drawn = curve(values, room - len(about), glyphs) if len(values) > 1 else ""
    yield [_label("speed"), Span(now, "bold"), Span("  "), Span(drawn, "cyan"), Span(about, DIM)]


def _time(progress: Progress, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """What a step's time goes into: one bar, and beneath it what its parts mean."""
    shares = sentences.shares(progress.phases)
    if not shares:
        return
    styles = [PHASES.get(name, "cyan") for name, _ in shares]
    shades = [glyphs.shades[index % len(glyphs.shades)] for index in range(len(shares))]
    cells = split([share for _, share in shares], max(width - LABEL, 10))
    yield [
        _label("time"),
        *(Span(shade * count, style) for shade, count, style in zip(shades, cells, styles, strict=True)),
    ]
    legend = [
        [Span(shade, style), Span(f" {cell(name)} {share * 100:.0f} %")]
        for (name, share), shade, style in zip(shares, shades, styles, strict=True)
    ]
    whole = sum(seconds for seconds in progress.phases.values() if seconds > 0)
    yield from _flow(sentences.seconds(whole), legend, width)


def _flow(name: str, items: Iterable[Line], width: int) -> Iterator[Line]:
    """Items one after the other, in as many lines as they take."""
    line, used = [_label(name)], LABEL
    for item in items:
        length = sum(len(span.text) for span in item)
        if used > LABEL and used + length > width:
            yield line
            line, used = [_label("")], LABEL
        line += [*item, Span("  ")]
        used += length + 2
    yield line


def _saved(progress: Progress, now: datetime) -> Iterator[Line]:
    if progress.last_checkpoint:
        yield [_label("saved"), Span(sentences.saved(progress.last_checkpoint, now))]


def _metrics(progress: Progress, width: int) -> Iterator[Line]:
    if progress.metrics:
        items = [
            [Span(f"{cell(name)} ", DIM), Span(sentences.number(value), "" if isfinite(value) else LOUD)]
            for name, value in progress.metrics.items()
        ]
        yield from _flow("metrics", items, width)


def _notices(view: View, width: int) -> Iterator[Line]:
    """What needs a person's eye, as long as it is."""
    found, progress = view.findings, view.progress
    loud = list(found.troubles())
    if found.first_failure:
        loud.insert(0, sentences.failure(found.first_failure) + sentences.why(found.first_failure))
    if view.state.state == "running" and progress and progress.is_silent(view.now):
        silence = sentences.duration((view.now - progress.updated).total_seconds())
        loud.insert(0, f"the agent has told nothing for {silence}")
    for texts, style in ((loud, LOUD), (found.doubts(), WARN)):
        for text in texts:
            for line in wrap(f"! {cell(text)}", width, subsequent_indent="  "):
                yield [Span(line, style)]


def _slowest(progress: Progress, now: datetime, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """The slowest ranks, and how their own time compares."""
    ranks = progress.slowest
    rows = [_row(one, now) for one in ranks]
    widths = [max(map(len, column)) for column in zip(TITLES, *rows, strict=True)]
    widths[0] = max(widths[0], LABEL - 2)
    yield []
    yield [Span(_aligned(TITLES, widths), DIM)]
    slow = {(one.rank, one.host) for one in progress.stragglers}
    longest = max(one.own or 0.0 for one in ranks)
    room = min(width - sum(widths) - 2 * len(widths), 24)
    for one, row in zip(ranks, rows, strict=True):
        style = WARN if {(one.rank, one.host), (None, one.host)} & slow else ""
        full = bar(one.own / longest, room, glyphs)[0] if one.own and longest and room > 5 else ""
        yield [Span(_aligned(row, widths), style), Span(f"  {full}" if full else "", style or "cyan")]


TITLES = ("slowest", "NODE", "STEP", "OWN", "SYNC", "IN", "HEARD")
NUMBERS = frozenset({2, 3, 4})
"""The columns that are aligned at the right."""


def _row(one: SlowRank, now: datetime) -> tuple[str, ...]:
    own, sync = ("-" if value is None else sentences.seconds(value) for value in (one.own, one.sync))
    heard = "-" if one.heard is None else sentences.ago(now - one.heard)
    return (f"rank {one.rank}", cell(one.host), cell(one.step), own, sync, cell(one.phase)[:12], heard)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        text.rjust(width) if column in NUMBERS else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )


def _log(view: View, width: int, glyphs: Glyphs) -> Iterator[Line]:
    title = f"{glyphs.rule * 2} log of {cell(view.log_title)} "
    yield [Span(title + glyphs.rule * max(width - len(title), 0), DIM)]
    yield from ([Span(cell(line))] for line in view.log)
