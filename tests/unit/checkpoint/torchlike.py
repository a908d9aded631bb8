"""Checkpoints such as torch writes them, made without torch."""

from __future__ import annotations

import io
import os
import pickle
import random
import sys
import zipfile
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

DCP_CLASSES = {
    "torch": ["Size"],
    "torch.distributed.checkpoint.metadata": [
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
        "StorageMeta",
    ],
    "torch.distributed.checkpoint.filesystem": ["_StorageInfo"],
}  # fmt: skip


class Tensor:
    """Stands for a tensor in what is saved; its data become an entry of their own."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=2)
        self.data: list[bytes] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return None
        self.data.append(obj.data)
        return ("storage", "torch.FloatStorage", str(len(self.data) - 1), "cpu", len(obj.data) // 4)


def saved(value: Any, *, root: str = "archive", checksums: bool = True) -> bytes:
    """What torch.save would have written: a stored zip, `data.pkl` first."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)
    entries = [("data.pkl", stream.getvalue()), ("byteorder", b"little")]
    entries += [(f"data/{number}", data) for number, data in enumerate(pickler.data)]
    entries += [("version", b"3\n"), (".data/serialization_id", b"1234567890")]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)
    return out.getvalue() if checksums else without_checksums(out.getvalue())


def without_checksums(file: bytes) -> bytes:
    """The same zip with every checksum 0, as after `torch.serialization.set_crc32_options(False)`."""
    data = bytearray(file)
    for signature, place in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        at = data.find(signature)
        while at >= 0:
            data[at + place : at + place + 4] = bytes(4)
            at = data.find(signature, at + 1)
    return bytes(data)


def floats(count: int, seed: int = 0) -> bytes:
    """Data of a tensor of so many float32."""
    return random.Random(seed).randbytes(4 * count)


class _Fields:
    def __init__(self, *args: Any, **fields: Any) -> None:
        self.__dict__.update(fields)
        self._args = args

    def __reduce__(self) -> Any:
        if self._args:
            return (type(self), self._args)
        return (object.__new__, (type(self),), self.__dict__)


def _classes() -> tuple[dict[str, ModuleType], dict[str, Any]]:
    modules, found = {}, {}
    for module, names in DCP_CLASSES.items():
        modules[module] = ModuleType(module)
        for name in names:
            found[name] = type(name, (_Fields,), {"__module__": module})
            setattr(modules[module], name, found[name])
    return modules, found


def metadata(
    places: Sequence[tuple[str, str, int, int]],
    *,
    shapes: Mapping[str, tuple[int, Sequence[tuple[int, int]]]] | None = None,
    extra: Mapping[str, Any] | None = None,
    objects: bool = False,
) -> bytes:
    """A `.metadata`: tensor, file, offset and length of each piece; shapes: size and pieces of a tensor."""
    modules, of = _classes()
    with mock.patch.dict(sys.modules, modules):
        storage = {}
        for number, (name, file, offset, length) in enumerate(places):
            start = None if objects else of["Size"]((0,))
            index = of["MetadataIndex"](fqn=name, offset=start, index=number)
            info = of["_StorageInfo"](relative_path=file, offset=offset, length=length, **(extra or {}))
            storage[index] = info
        tensors = {
            name: of["TensorStorageMetadata"](
                size=of["Size"]((size,)),
                chunks=[
                    of["ChunkStorageMetadata"](offsets=of["Size"]((offset,)), sizes=of["Size"]((length,)))
                    for offset, length in chunks
                ],
            )
            for name, (size, chunks) in (shapes or {}).items()
        }
        whole = of["Metadata"](
            state_dict_metadata=tensors,
            planner_data={},
            storage_data=storage,
            storage_meta=of["StorageMeta"](checkpoint_id="/somewhere", save_id="1-2-3"),
            version="1.0.0",
        )
        return pickle.dumps(whole, protocol=4)


def write_dcp(folder: Path, *, ranks: int = 3, items: int = 3, seed: int = 0, finish: bool = True) -> Path:
    """A directory of torch.distributed.checkpoint: each rank's file, then `.metadata` unless not finished."""
    folder.mkdir(parents=True, exist_ok=True)
    places = []
    for rank in range(ranks):
        data = b""
        for number in range(items):
            item = saved(Tensor(floats(300, seed + 100 * rank + number)))
            places.append((f"layer{number}.weight", f"__{rank}_0.distcp", len(data), len(item)))
            data += item
        (folder / f"__{rank}_0.distcp").write_bytes(data)
    if finish:
        (folder / ".metadata").write_bytes(metadata(places))
    return folder


def write_dcp_per_rank(folder: Path, ranks: int, *, whole: int | None = None) -> Path:
    """As `use_collectives=False` leaves it: each rank's piece of one tensor, and metadata of its own."""
    folder.mkdir()
    for rank in range(ranks):
        item = saved(Tensor(floats(100, rank)))
        (folder / f"__{rank}_0.distcp").write_bytes(item)
        shapes = {"w": (100 * (whole or ranks), [(100 * rank, 100)])}
        places = [("w", f"__{rank}_0.distcp", 0, len(item))]
        (folder / f"__{rank}.metadata").write_bytes(metadata(places, shapes=shapes))
    return folder


def aged(path: Path, seconds: float) -> Path:
    """Let a file, or all files of a directory, have been written so many seconds earlier."""
    for one in [path, *(path.rglob("*") if path.is_dir() else [])]:
        written = one.stat().st_mtime - seconds
        os.utime(one, (written, written))
    return path


def cuts(size: int, count: int = 200, seed: int = 0) -> Iterator[int]:
    """Lengths below `size` at which a file may have been cut: the ends, and others at random."""
    chosen = random.Random(seed)
    yield from (0, 1, size - 1)
    for _ in range(count - 3):
        yield chosen.randrange(size)
