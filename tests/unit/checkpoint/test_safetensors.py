"""Safetensors: one file, and several with an index."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import safetensors
from tests.unit.checkpoint import torchlike

if TYPE_CHECKING:
    from pathlib import Path

HOLE = "a hole in its data would not be seen"


def packed(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def written(tensors: int = 3, *, metadata: dict[str, str] | None = None, seed: int = 0) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    for number in range(tensors):
        header[f"w{number}"] = {
            "dtype": "F32",
            "shape": [10, 50],
            "data_offsets": [2000 * number, 2000 * (number + 1)],
        }
    return packed(header, torchlike.floats(500 * tensors, seed))


def judge(path: Path, *, deep: bool = False) -> tuple[str, str]:
    return safetensors.verify(path, deep)[:2]


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    folder = tmp_path / "step-9"
    folder.mkdir()
    names = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
    for name in names:
        (folder / name).write_bytes(written())
    index = {"metadata": {"total_size": 18000}, "weight_map": {f"{name}.w": name for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("tensors", [0, 1, 5])
def test_a_whole_file_is_complete(tmp_path: Path, tensors: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(written(tensors))
    assert judge(path) == ("complete", "model.safetensors has the size that its header gives it")
    assert safetensors.verify(path, False).rests_on == ("",)


def test_trap_112_a_file_cut_anywhere_is_incomplete(tmp_path: Path) -> None:
    path, data = tmp_path / "a.safetensors", written()
    for size in torchlike.cuts(len(data)):
        path.write_bytes(data[:size])
        assert judge(path)[0] == "incomplete", size


@pytest.mark.parametrize(
    ("data", "state", "reason"),
    [
        (b"", "incomplete", "a.safetensors is empty"),
        (b"abc", "incomplete", "a.safetensors has 3 bytes, and its header alone 6,513,257"),
        (
            bytes(5000),
            "damaged",
            "a.safetensors begins with zeros: space was set aside, and nothing written to it",
        ),
        (b"hello, this is none", "foreign", "a.safetensors begins with no header of safetensors"),
        (torchlike.saved({}), "foreign", "a.safetensors begins with no header of safetensors"),
        (written() + b"\0", "damaged", "a.safetensors has 6,225 bytes of 6,224"),
        (packed([], b""), "foreign", "a.safetensors begins with no header of safetensors"),
        (packed({}, b"")[:8] + b"{x", "incomplete", None),
    ],
)
def test_what_is_no_whole_file_is_told(tmp_path: Path, data: bytes, state: str, reason: str | None) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    found = judge(path)
    assert found[0] == state
    assert reason is None or found[1] == reason


def tensor(begin: Any, end: Any, *, dtype: Any = "U8", shape: Any = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "header",
    [
        {"a": tensor(0, 4), "b": tensor(6, 8)},
        {"a": tensor(0, 4), "b": tensor(3, 8)},
        {"a": tensor(1, 8)},
        {"a": tensor(0, 8, shape=[7])},
        {"a": tensor(0, 8, dtype="F32", shape=[3])},
        {"a": {"dtype": "F32"}},
        {"a": 3},
        {"a": tensor(0, 8), "b": {"dtype": "U8", "shape": [1], "data_offsets": "ab"}},
        {"a": {"dtype": [], "shape": [1], "data_offsets": [0, 1]}},
    ],
)
def test_a_header_that_contradicts_itself_is_damaged(tmp_path: Path, header: Any) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(packed(header, bytes(8)))
    state, reason = judge(path)
    assert (state, reason[:32]) == ("damaged", "a.safetensors has a damaged head")


def test_a_header_with_a_hole_is_damaged(tmp_path: Path) -> None:
    path, data = tmp_path / "a.safetensors", bytearray(written())
    data[40:80] = bytes(40)
    path.write_bytes(data)
    assert judge(path)[0] == "damaged"


def test_types_that_are_not_known_are_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(packed({"a": tensor(0, 8, dtype="F4_NEW", shape=[16])}, bytes(8)))
    assert judge(path)[0] == "complete"


def test_a_deep_look_says_that_nothing_tells_of_a_hole(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(written())
    assert judge(path, deep=True)[1].endswith(HOLE)


@pytest.mark.parametrize(("key", "prefix"), [("modelspec.hash_sha256", "0x"), ("sshs_model_hash", "")])
def test_a_checksum_in_the_header_finds_a_hole(tmp_path: Path, key: str, prefix: str) -> None:
    path, digest = tmp_path / "a.safetensors", hashlib.sha256(torchlike.floats(1500)).hexdigest()
    data = bytearray(written(metadata={key: prefix + digest}))
    path.write_bytes(data)
    assert judge(path, deep=True)[0] == "complete"
    assert HOLE not in judge(path, deep=True)[1]
    data[-3000:-2000] = bytes(1000)
    path.write_bytes(data)
    assert judge(path)[0] == "complete"
    assert judge(path, deep=True) == (
        "damaged", "a.safetensors is damaged: its data fail the checksum in its header"
    )  # fmt: skip


@pytest.mark.parametrize("deep", [False, True])
def test_an_index_and_all_that_it_names_are_complete(sharded: Path, deep: bool) -> None:
    verdict = safetensors.verify(sharded, deep)
    assert verdict.state == "complete"
    assert (HOLE in verdict.reason) is deep
    assert len(verdict.rests_on) == 4
    assert verdict.saved == (sharded / "model.safetensors.index.json").stat().st_mtime


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_file_that_is_gone_is_told(sharded: Path, number: int) -> None:
    name = f"model-{number:05}-of-00003.safetensors"
    (sharded / name).unlink()
    assert judge(sharded) == ("incomplete", f"{name} is not there")


def test_an_index_that_lacks_one_of_n_is_incomplete(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    index.write_text(
        json.dumps(
            {"weight_map": {"a": "model-00001-of-00003.safetensors", "b": "model-00003-of-00003.safetensors"}}
        )
    )
    assert judge(sharded) == (
        "incomplete", "model.safetensors.index.json does not name model-00002-of-00003.safetensors"
    )  # fmt: skip


def test_shards_without_their_index_are_incomplete(sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").unlink()
    assert judge(sharded) == (
        "incomplete", "model-00001-of-00003.safetensors is one of several, and their index is not there"
    )  # fmt: skip


def test_trap_112_an_index_cut_anywhere_is_incomplete(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    whole = index.read_bytes()
    for size in torchlike.cuts(len(whole)):
        index.write_bytes(whole[:size])
        assert judge(sharded)[0] == "incomplete", size


def test_trap_112_a_shard_cut_anywhere_is_incomplete(sharded: Path) -> None:
    shard = sharded / "model-00002-of-00003.safetensors"
    whole = shard.read_bytes()
    for size in torchlike.cuts(len(whole)):
        shard.write_bytes(whole[:size])
        torchlike.aged(shard, 1)
        assert judge(sharded)[0] == "incomplete", size


def test_a_second_save_killed_midway_is_damaged(sharded: Path) -> None:
    torchlike.aged(sharded, 100)
    (sharded / "model-00001-of-00003.safetensors").write_bytes(written(seed=5))
    state, reason = judge(sharded)
    assert state == "damaged"
    assert reason == (
        "a second save into it was not finished: "
        "model-00001-of-00003.safetensors is newer than model.safetensors.index.json"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"weight_map": []}',
        '{"weight_map": {}}',
        '{"weight_map": {"a": "../x.safetensors"}}',
        '{"weight_map": {"a": "/etc/passwd"}}',
        "[" * 100_000,
    ],
)
def test_an_index_that_names_nothing_of_use_is_incomplete(sharded: Path, text: str) -> None:
    (sharded / "model.safetensors.index.json").write_text(text)
    assert judge(sharded)[0] == "incomplete"


def test_a_foreign_file_in_place_of_a_shard_is_damaged(sharded: Path) -> None:
    (sharded / "model-00002-of-00003.safetensors").write_bytes(b"hello, this is none")
    assert judge(sharded)[0] == "damaged"


def test_an_index_of_files_of_torch_save_is_followed_too(tmp_path: Path) -> None:
    names = [f"pytorch_model-{number:05}-of-00002.bin" for number in (1, 2)]
    for name in names:
        (tmp_path / name).write_bytes(torchlike.saved({"w": torchlike.Tensor(torchlike.floats(100))}))
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": dict(enumerate(names))}))
    assert safetensors.verify_index(index, True).state == "complete"
    (tmp_path / names[1]).write_bytes(b"PK")
    assert safetensors.verify_index(index, False).state == "incomplete"


def test_a_directory_of_single_files_is_complete_when_each_is(tmp_path: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors", ".model.safetensors.tmp"):
        (tmp_path / name).write_bytes(written())
    assert safetensors.LAYOUT.is_one(tmp_path)
    assert judge(tmp_path)[0] == "complete"
    (tmp_path / "optimizer.safetensors").write_bytes(written()[:-1])
    assert judge(tmp_path) == ("incomplete", "optimizer.safetensors has 6,223 bytes of 6,224")


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "empty").mkdir()
    found = {
        name: judge(tmp_path / name)[0] for name in ("loop.safetensors", "pipe.safetensors", "empty", "gone")
    }
    assert found == {
        "loop.safetensors": "damaged",
        "pipe.safetensors": "foreign",
        "empty": "foreign",
        "gone": "incomplete",
    }
    assert not safetensors.LAYOUT.is_one(tmp_path / "empty")
