"""A picture that is drawn anew on the whole terminal, and the keys that are pressed meanwhile."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from slurmkit.cli.frame import DIM, Span, frame
from slurmkit.cli.glyphs import glyphs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slurmkit.cli.frame import Line, View

    Keys = Callable[[float], str]
    """Waits so many seconds for a key; "" where none is pressed."""

HASTE = 0.2
"""Seconds within which a new size of the terminal is drawn."""

LEAVE = frozenset("qQ\x04")


def live(look: Callable[[], View], interval: float) -> View:
    """Show a run until it has ended or a key was pressed that leaves; what was seen last.

    Raises:
        KeyboardInterrupt: Ctrl-C. The terminal is as it was before.
    """
    console = Console()
    glyphs = glyphs_for(console.encoding)
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            view = look()
            due = time.monotonic() + interval
            drawn: object = None
            while not view.state.is_end and (now := time.monotonic()) < due:
                if drawn != (drawn := console.size):
                    width, height = console.size
                    lines = frame(view, width, height - 1, glyphs)
                    lines += [[]] * (height - 1 - len(lines))
                    foot = [Span("q leaves; what runs goes on", DIM)]
                    screen.update(as_text([*lines, foot]), refresh=True)
                if pressed(min(HASTE, due - now)) in LEAVE:
                    return view
            if view.state.is_end:
                return view


def print_lines(draw: Callable[[int], Sequence[Line]]) -> None:
    """Print a picture as wide as the terminal is."""
    console = Console()
    console.print(as_text(draw(console.width)))


def as_text(lines: Sequence[Line]) -> Group:
    """Lines as rich prints them: each stays one, whatever the width."""
    return Group(*(Text.assemble(*line, no_wrap=True, overflow="ellipsis") for line in lines))


@contextmanager
def keys() -> Iterator[Keys]:
    """Keys as they are pressed, unseen; where stdin is no terminal, there are none."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    handler = signal.signal(signal.SIGTERM, _leave)
    try:
        tty.setcbreak(stdin)
        yield lambda seconds: _key(stdin, seconds)
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


def _no_key(seconds: float) -> str:
    select.select([], [], [], seconds)
    return ""


def _key(stdin: int, seconds: float) -> str:
    if not select.select([stdin], [], [], seconds)[0]:
        return ""
    # At the end of the input, as when the terminal is gone, there is nobody left to watch.
    return os.read(stdin, 1).decode("latin-1") or "q"


def _leave(number: int, _: object) -> None:
    """End by way of the code that gives the terminal back."""
    raise click.exceptions.Exit(128 + number)
