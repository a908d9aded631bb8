"""JSON of plain values, for a rank's parent: importing json takes as long as starting the program."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from typing import Any


def encode(value: Any) -> str:  # noqa: ANN401
    """Text, numbers that are finite, booleans, None, and lists and mappings of these, as ASCII."""
    if isinstance(value, str):
        try:
            from _json import encode_basestring_ascii
        except ImportError:  # a Python built without it
            from json.encoder import encode_basestring_ascii
        return str(encode_basestring_ascii(value))
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(encode, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(name)}:{encode(one)}" for name, one in value.items()) + "}"
    return repr(value)
