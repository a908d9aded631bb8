"""Checkpoints of frameworks as they are documented, made without them, and all that can befall them."""

from __future__ import annotations

import json
import os
import random
import struct
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.unit.checkpoint import torchlike
from tests.unit.checkpoint.torchlike import Tensor, floats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from slurmkit.checkpoint.layout import Layout, Verdict

HOSTILE = ["", " ", "a b", "$(touch x)", "`touch x`", "x\ny", "../up", "-rf", "café", "checkpoint-", "10.tmp"]


def saved(**values: Any) -> bytes:
    """What torch.save would have written of a dict with a tensor in it."""
    return torchlike.saved({**values, "weight": Tensor(floats(200))})


def safetensors(names: Iterable[str] = ("weight",), size: int = 100) -> bytes:
    """A safetensors file with a tensor of `size` float32 for each name."""
    header, data = {}, b""
    for name in names:
        offsets = [len(data), len(data) + 4 * size]
        header[name] = {"dtype": "F32", "shape": [size], "data_offsets": offsets}
        data += floats(size)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """A directory of these files, in this order."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def sharded_weights(stem: str = "model", count: int = 2) -> dict[str, bytes]:
    """Shards of weights and, last, their index."""
    shards = {
        f"{stem}-{one + 1:05}-of-{count:05}.safetensors": safetensors([f"w{one}"]) for one in range(count)
    }
    index = {"metadata": {"total_size": 1}, "weight_map": {f"w{n}": name for n, name in enumerate(shards)}}
    return {**shards, f"{stem}.safetensors.index.json": json.dumps(index).encode()}


def files_in(path: Path, spared: Collection[str] = ()) -> list[Path]:
    """The files of a checkpoint, besides those that no resume needs."""
    return [one for one in sorted(path.rglob("*")) if one.is_file() and one.name not in spared]


def replaced(file: Path, data: bytes) -> Iterator[None]:
    """Put other bytes in a file, its times unchanged, then the old ones again."""
    before, times = file.read_bytes(), file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    yield
    file.write_bytes(before)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def torn(verdict: Verdict, what: object) -> None:
    """Check that a verdict refuses, and says why in one line."""
    assert verdict.state in {"incomplete", "damaged"}, (what, verdict)
    assert verdict.reason, what
    assert "\n" not in verdict.reason, what


def check_refusals(
    path: Path,
    layout: Layout,
    *,
    spared: Collection[str] = (),
    optional: Collection[str] = (),
    count: int = 200,
    deep: bool = False,
) -> int:
    """Damage a whole checkpoint in every way: it is refused each time, and accepted again afterwards.

    `spared` are files that no resume needs, `optional` those that need not be there; the number of refusals.
    """
    files, chosen = files_in(path, spared), random.Random(7)
    good = layout.verify(path, deep)
    assert good.state == "complete", good
    refused = 0
    for _ in range(count):
        file = chosen.choice(files)
        data = file.read_bytes()
        place = chosen.randrange(len(data))
        for _changed in replaced(file, data[:place]):
            torn(layout.verify(path, deep), f"{file} cut at {place} of {len(data)}")
            refused += 1
    for file in files:
        size = file.stat().st_size
        for _changed in replaced(file, b""):
            torn(layout.verify(path, deep), f"{file} empty")
            refused += 1
        for _changed in replaced(file, bytes(size)):
            torn(layout.verify(path, deep), f"{file} full of zeros")
            refused += 1
        if file.name not in optional:
            hidden = file.rename(path.parent / "elsewhere")
            torn(layout.verify(path, deep), f"{file} missing")
            refused += 1
            file.symlink_to(file.name)
            torn(layout.verify(path, deep), f"{file} a link to itself")
            refused += 1
            file.unlink()
            hidden.rename(file)
    assert layout.verify(path, deep)._replace(rests_on=()) == good._replace(rests_on=())
    return refused


def check_outside(tmp_path: Path, path: Path, layout: Layout) -> None:
    """A path that is none, that leads to itself, that may not be read: a verdict each time."""
    assert layout.verify(tmp_path / "absent", False).state in {"incomplete", "damaged"}
    loop = tmp_path / f"loop-{path.name}"
    loop.symlink_to(loop.name)
    torn(layout.verify(loop, False), "loop")
    file = tmp_path / f"file-{path.name}"
    file.write_text("no checkpoint")
    assert layout.verify(file, False).state == "foreign"
    other = write(tmp_path / "other", {"notes.txt": b"none"})
    assert layout.verify(other, False).state == "foreign"
    assert not layout.is_one(other)
    refusal = PermissionError(13, "Permission denied", str(path))
    with mock.patch("os.scandir", side_effect=refusal):
        verdict = layout.verify(path, False)
    torn(verdict, "no permission")
    assert "Permission denied" in verdict.reason


def check_rests_on(path: Path, layout: Layout) -> None:
    """What a verdict rests on is there, and all that was written is among it."""
    verdict = layout.verify(path, False)
    assert verdict.rests_on
    for name in verdict.rests_on:
        assert (path / name).exists(), name


def write_later(file: Path, data: bytes | None = None, seconds: float = 60) -> None:
    """Write a file again, as a second save does."""
    file.write_bytes(file.read_bytes() if data is None else data)
    at = file.stat().st_mtime + seconds
    os.utime(file, (at, at))


class Payload:
    """A pickle that makes a file, if anybody runs it."""

    def __init__(self, evidence: Path) -> None:
        self.evidence = evidence

    def __reduce__(self) -> Any:
        return (os.system, (f"touch '{self.evidence}'",))


def steps(layout: Layout, names: Iterable[str]) -> list[str]:
    """Names by the step that a layout sees in them."""
    return sorted(names, key=lambda name: layout.step_of(name) or 0)
