"""Reads a pickle without running anything out of it: every class and function that it names is an inert one.

torch's `.metadata` and `data.pkl` are pickles, and a pickle is a program. Here it may only build lists,
dicts, numbers and strings, and stand-ins for all else, so that sizes and step numbers can be read without
torch and without trust.
"""

from __future__ import annotations

import gc
import io
import pickle
import re
from typing import Any, Protocol

LIMIT = 256 << 20
"""Bytes of pickle that are read at most. The `.metadata` of a million tensors' pieces has 150 MB."""
MOST_NAMES = 10_000
"""Different classes and functions that one pickle may name."""

_FAULTS = (
    pickle.UnpicklingError, EOFError, MemoryError, RecursionError, ValueError, OverflowError,
    TypeError, AttributeError, LookupError, ImportError,
)  # fmt: skip
"""All that the unpickler raises for a pickle that is cut short or made up."""


class Inert:
    """Stands for an object of a class that is not there: holds what the pickle would have given to it."""

    named = ""
    """The class or function: `torch.distributed.checkpoint.metadata.Metadata`."""
    args: tuple[Any, ...] = ()
    state: Any = None
    entries: dict[Any, Any] | None = None
    """What was set by key, as in an OrderedDict."""

    def __init__(self, *args: Any, **_options: Any) -> None:  # noqa: ANN401
        """Keep the arguments of the call."""
        self.args = args

    def __setstate__(self, state: Any) -> None:  # noqa: ANN401
        """Keep the state as it is: the fields of a dataclass, mostly."""
        self.state = state

    def __call__(self, *args: Any, **_options: Any) -> Inert:  # noqa: ANN401
        """Do nothing: a pickle may call what a stand-in returned."""
        return Inert(*args)

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        """Keep an entry."""
        if self.entries is None:
            self.entries = {}
        self.entries[key] = value

    def append(self, value: Any) -> None:  # noqa: ANN401
        """Drop an element: no layout asks for those of a class of its own."""

    extend = add = update = append


class _Reads(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.classes: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        named = f"{module}.{name}"
        if named not in self.classes:
            if len(self.classes) >= MOST_NAMES:
                raise ValueError(f"it names more than {MOST_NAMES:,} classes")
            self.classes[named] = type("Inert", (Inert,), {"named": named})
        return self.classes[named]

    def persistent_load(self, pid: Any) -> Inert:  # noqa: ANN401
        return Inert(pid)


def load(file: _Reads, limit: int = LIMIT) -> Any:  # noqa: ANN401
    """What a pickle holds: plain values, and an `Inert` for every object of a class.

    Raises:
        ValueError: it is longer than `limit` bytes, cut short, or no pickle at all.
    """
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it is longer than {limit:,} bytes")
    if not data:
        raise ValueError("it is empty")
    _check(data)
    collects = gc.isenabled()
    gc.disable()  # of millions of new objects none is garbage: looking for it takes half of the time
    try:
        return _Unpickler(data).load()
    except _FAULTS as fault:
        raise ValueError(f"it is no whole pickle: {str(fault) or type(fault).__name__}") from fault
    finally:
        if collects:
            gc.enable()


def fields(value: Any) -> dict[Any, Any]:  # noqa: ANN401
    """The entries of a dict, or the fields of an object, by name; none of anything else."""
    if isinstance(value, Inert):
        value = value.entries if value.entries is not None else value.state
    return value if isinstance(value, dict) else {}


# The C unpickler takes a length at its word and allocates that much before it reads; a memo index of four
# bytes makes it clear 64 GB. Lengths and indices are therefore compared with the pickle's own size first.

_FIXED = re.compile(
    rb"(?:[(012NRabd}el\]ost)uQ\x81\x85-\x89\x8f-\x94\x97\x98]|[Khq\x80].|M..|[Jj].{4}|G.{8})*+", re.DOTALL
)
"""All opcodes in a row whose arguments, if they have any, are of one length and harmless."""
_COUNTED = {
    **dict.fromkeys(b"UC\x8c\x8a", 1),
    **dict.fromkeys(b"TBX\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e\x96", 8),
}
"""Opcodes before whose argument stands its length, in so many bytes."""
_LINES = {**dict.fromkeys(b"ILFSVPpg", 1), **dict.fromkeys(b"ci", 2)}
"""Opcodes whose arguments are so many lines."""
_STOP, _FRAME, _PUT, _LONG_BINPUT = b".\x95pr"


def _check(data: bytes) -> None:
    """Raise ValueError unless every length and index in the pickle can be true of a pickle of its size."""
    at, end = 0, len(data)
    while True:
        found = _FIXED.match(data, at) if at < end else None
        at = found.end() if found else at
        if at >= end:
            raise ValueError(f"it is cut short at byte {end:,}")
        opcode, at = data[at], at + 1
        if opcode == _STOP:
            return
        if size := _COUNTED.get(opcode):
            at += size + int.from_bytes(data[at : at + size], "little")
        elif opcode == _LONG_BINPUT:
            _check_place(int.from_bytes(data[at : at + 4], "little"), end)
            at += 4
        elif opcode == _FRAME:
            _check_frame(int.from_bytes(data[at : at + 8], "little"), end - at - 8)
            at += 8
        elif opcode in _LINES:
            start = at
            for _line in range(_LINES[opcode]):
                at = data.find(b"\n", at) + 1 or end + 1
            place = data[start : at - 1]
            if opcode == _PUT and at <= end:
                _check_place(int(place) if place.isdigit() and len(place) < 20 else -1, end)
        else:
            raise ValueError(f"byte {at - 1:,} of it is no part of a pickle")


def _check_place(index: int, most: int) -> None:
    if not 0 <= index <= most:
        raise ValueError(f"it asks for place {index:,} of its memo")


def _check_frame(length: int, left: int) -> None:
    if length > left:
        raise ValueError(f"it is cut short: a frame of {length:,} bytes has {left:,}")
