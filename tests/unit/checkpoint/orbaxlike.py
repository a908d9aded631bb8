"""Checkpoints such as Orbax writes them, made without it: trees of OCDBT, uncompressed."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.checkpoint.ocdbt import crc32c
from tests.unit.checkpoint import otherlike

if TYPE_CHECKING:
    from pathlib import Path

STANDARD = "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler"
JSON = "orbax.checkpoint._src.handlers.json_checkpoint_handler.JsonCheckpointHandler"


class Place(NamedTuple):
    """A node or a value in a file: the part of its path that is handed on, the path, where in it."""

    base: str
    file: str
    offset: int
    length: int


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def varints(*numbers: int) -> bytes:
    return b"".join(map(varint, numbers))


def framed(magic: bytes, body: bytes, *, version: int = 0, compression: int = 0) -> bytes:
    """A node or a manifest around its body: head before it, checksum after it."""
    head = magic + struct.pack("<Q", 12 + 2 + len(body) + 4) + varints(version, compression)
    return head + body + struct.pack("<I", crc32c(head + body))


def files(places: list[Place]) -> tuple[bytes, list[int]]:
    """The table of files of these places, and each place's number in it."""
    paths = sorted({(place.file, place.base) for place in places})
    shared, suffixes, before = [], [], ""
    for path, _base in paths:
        same = 0
        while before[:same] + path[same : same + 1] == before[: same + 1] and same < len(before):
            same += 1
        shared.append(same)
        suffixes.append(path[same:])
        before = path
    table = varints(len(paths), *shared[1:], *map(len, suffixes), *(len(base) for _path, base in paths))
    return table + "".join(suffixes).encode(), [paths.index((place.file, place.base)) for place in places]


def leaf(outside: list[Place], inline: list[bytes] = []) -> bytes:  # noqa: B006
    """A node of values, those outside first."""
    table, which = files(outside)
    keys = [f"{number:04}" for number in range(len(outside) + len(inline))]
    body = (
        bytes([0])
        + table
        + varints(len(keys), *[0] * (len(keys) - 1), *[4] * len(keys))
        + "".join(keys).encode()
    )
    body += varints(*(place.length for place in outside), *map(len, inline))
    body += varints(*[1] * len(outside), *[0] * len(inline))
    body += varints(*which, *(place.offset for place in outside)) + b"".join(inline)
    return framed(b"\x0c\xdb\x20\xde", body)


def interior(below: list[Place], height: int = 1) -> bytes:
    """A node of nodes."""
    table, which = files(below)
    count = len(below)
    body = (
        bytes([height])
        + table
        + varints(count, *[0] * (count - 1), *[4] * count, *[0] * count)
        + b"key_" * count
    )
    body += varints(*which, *(place.offset for place in below), *(place.length for place in below))
    return framed(b"\x0c\xdb\x20\xde", body + varints(*[1] * 3 * count))


def manifest(root: Place | None, *, kind: int = 0, **options: int) -> bytes:
    """A manifest with one version."""
    table, which = files([root] if root else [])
    place = root or Place("", "", 0, 0)
    body = bytes(16) + bytes([kind]) + varints(1024, 100_000_000) + bytes([4]) + varints(0) + table
    body += varints(1, 1) + bytes([0]) + varints(*(which or [0]), place.offset, place.length, 1, 1, 1)
    return framed(b"\x0c\xdb\x3a\x2a", body + struct.pack("<Q", 0) + varints(0), **options)


def write_tree(folder: Path, *, values: int = 4, size: int = 300) -> Path:
    """A database of two levels: a root in `d/`, leaves and values in a process's own folder."""
    base, file = "ocdbt.process_0/", "ocdbt.process_0/d/0a"
    held = [bytes([number]) * size for number in range(values)]
    data, below = b"".join(held), []
    for start in range(0, values, 2):
        places = [Place("", "d/0a", number * size, size) for number in range(start, min(start + 2, values))]
        node = leaf(places, [b"inline"])
        below.append(Place(base, file, len(data), len(node)))
        data += node
    root = interior(below)
    written = {file: data, "d/1b": b"an older node" + root}
    return otherlike.write(folder, {**written, "manifest.ocdbt": manifest(Place("", "d/1b", 13, len(root)))})


def metadata(items: Any, commit: int | None = 2) -> dict[str, bytes]:
    about = {"item_handlers": items, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": commit}
    return {"_CHECKPOINT_METADATA": json.dumps(about).encode()}


def tree_metadata(*arrays: str, ocdbt: bool = True) -> dict[str, bytes]:
    entries = {
        f"('{name}',)": {
            "key_metadata": [{"key": part, "key_type": 2} for part in name.split(".")],
            "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False},
        }
        for name in arrays
    }
    return {"_METADATA": json.dumps({"tree_metadata": entries, "use_ocdbt": ocdbt}).encode()}


def checkpoint(folder: Path) -> Path:
    """A step of CheckpointManager with arrays and an item of JSON."""
    write_tree(folder / "state")
    described = {f"state/{name}": data for name, data in tree_metadata("w").items()}
    described |= {"state/_sharding": b"{}", "state/array_metadatas/process_0": b'{"array_metadatas": []}'}
    return otherlike.write(
        folder,
        {
            **described,
            "meta/metadata": b'{"a": 1}',
            **metadata({"state": STANDARD, "meta": JSON}),
            "commit_success.txt": b"done",
        },
    )
