"""Orbax: when a step is committed, and what of it is looked at."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.checkpoint import ocdbt, zarr
from slurmkit.checkpoint.ocdbt import crc32c
from slurmkit.checkpoint.orbax import LAYOUT
from tests.unit.checkpoint import orbaxlike, otherlike
from tests.unit.checkpoint.orbaxlike import STANDARD, Place

if TYPE_CHECKING:
    from pathlib import Path

OPTIONAL = ("_sharding", "process_0")
SPARED = ("commit_success.txt",)
FRAME = base64.b64decode("KLUv/SAUoQAAAAAAAAEAAAACAAAAAwAAAAQAAAA=")


def array(**about: Any) -> bytes:
    return json.dumps({"shape": [4, 3], "chunks": [2, 3], "compressor": {"id": "zstd"}, **about}).encode()


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_one_is_complete_and_a_torn_one_never(tmp_path: Path, deep: bool) -> None:
    path = orbaxlike.checkpoint(tmp_path / "steps" / "1200")
    verdict = LAYOUT.verify(path, deep)
    assert (verdict.state, verdict.step, verdict.world_size) == ("complete", 1200, None)
    assert ("no checksums" in verdict.reason) == deep
    assert otherlike.check_refusals(path, LAYOUT, spared=SPARED, optional=OPTIONAL, deep=deep) > 200
    otherlike.check_rests_on(path, LAYOUT)


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    otherlike.check_outside(tmp_path, orbaxlike.checkpoint(tmp_path / "7"), LAYOUT)
    (tmp_path / "8").mkdir()
    assert LAYOUT.verify(tmp_path / "8", False).state == "incomplete"


def test_a_single_item_is_verified_in_place(tmp_path: Path) -> None:
    path = orbaxlike.write_tree(tmp_path / "step_3")
    otherlike.write(path, {**orbaxlike.tree_metadata("w"), **orbaxlike.metadata(STANDARD)})
    assert LAYOUT.verify(path, False).step == 3
    assert otherlike.check_refusals(path, LAYOUT) > 200


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", *(orbaxlike.metadata({}, commit)["_CHECKPOINT_METADATA"] for commit in (None, 0))],
)
def test_without_the_time_of_its_commit_it_is_incomplete(tmp_path: Path, text: bytes) -> None:
    path = orbaxlike.checkpoint(tmp_path / "7")
    (path / "_CHECKPOINT_METADATA").write_bytes(text)
    assert LAYOUT.verify(path, False).state == "incomplete"


@pytest.mark.parametrize("name", ["7.orbax-checkpoint-tmp", "7.orbax-checkpoint-tmp-1700000000", ".hidden"])
def test_a_name_of_one_being_written_is_none(tmp_path: Path, name: str) -> None:
    assert not LAYOUT.is_named(name)
    if not name.startswith("."):
        assert LAYOUT.verify(orbaxlike.checkpoint(tmp_path / name), False).state == "incomplete"


def test_an_item_that_is_being_written_makes_it_incomplete(tmp_path: Path) -> None:
    path = orbaxlike.checkpoint(tmp_path / "7")
    (path / "state" / "w.orbax-checkpoint-tmp").mkdir()
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, "w.orbax-checkpoint-tmp was not finished" in verdict.reason) == (
        "incomplete",
        True,
    )


def test_an_item_that_is_missing_is_named(tmp_path: Path) -> None:
    path = orbaxlike.checkpoint(tmp_path / "7")
    (path / "meta").rename(tmp_path / "elsewhere")
    verdict = LAYOUT.verify(path, False)
    assert (verdict.state, verdict.reason) == ("incomplete", "meta is not there")


@pytest.mark.parametrize("item", ["../other", "..", ""])
def test_an_item_that_leads_outside_is_refused(tmp_path: Path, item: str) -> None:
    path = otherlike.write(tmp_path / "7", orbaxlike.metadata({item: STANDARD}))
    assert LAYOUT.verify(path, False).state == "damaged"


def test_arrays_as_zarr_are_counted(tmp_path: Path) -> None:
    files = {
        "a.w/.zarray": array(),
        "a.w/0.0": FRAME,
        "a.w/1.0": FRAME,
        "n/.zarray": array(shape=[], chunks=[]),
    }
    described = {**orbaxlike.tree_metadata("a.w", "n", ocdbt=False), **orbaxlike.metadata(STANDARD)}
    path = otherlike.write(tmp_path / "7", {**files, "n/0": FRAME, **described})
    assert otherlike.check_refusals(path, LAYOUT, deep=True) > 200
    otherlike.check_rests_on(path, LAYOUT)
    (path / "n").rename(tmp_path / "elsewhere")
    otherlike.torn(LAYOUT.verify(path, False), "an array is missing")


def test_a_tree_that_does_not_say_what_arrays_there_are_is_refused(tmp_path: Path) -> None:
    broken = {"_METADATA": json.dumps({"tree_metadata": {"x": {}}, "use_ocdbt": False}).encode()}
    path = otherlike.write(tmp_path / "7", {**broken, **orbaxlike.metadata(STANDARD)})
    assert LAYOUT.verify(path, False).state == "damaged"


def test_a_file_of_many_chunks_is_known_by_the_index_at_its_end(tmp_path: Path) -> None:
    codec = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": [2], "index_codecs": [{"name": "bytes"}, {"name": "crc32c"}]},
    }
    about = {"shape": [4], "chunk_grid": {"configuration": {"chunk_shape": [4]}}, "codecs": [codec]}
    index = struct.pack("<4Q", 0, 20, 2**64 - 1, 2**64 - 1)
    shard = bytes(20) + index + struct.pack("<I", crc32c(index))
    path = otherlike.write(tmp_path / "w", {"zarr.json": json.dumps(about).encode(), "c/0": shard})
    assert zarr.verify(path, False).state == "complete"
    for place in range(len(shard)):
        (path / "c" / "0").write_bytes(shard[place + 1 :])
        assert zarr.verify(path, False).state == "damaged"
        (path / "c" / "0").write_bytes(shard[:place])
        assert zarr.verify(path, False).state == "damaged"


def test_what_no_tree_leads_to_may_be_anything(tmp_path: Path) -> None:
    path = orbaxlike.write_tree(tmp_path / "db")
    (path / "d" / "older").write_bytes(b"")
    assert ocdbt.verify(path, True).state == "complete"


def test_a_bit_that_is_turned_in_a_node_is_found(tmp_path: Path) -> None:
    path = orbaxlike.write_tree(tmp_path / "db")
    for name, spared in (("manifest.ocdbt", 0), ("d/1b", 13), ("ocdbt.process_0/d/0a", 1200)):
        whole = (path / name).read_bytes()
        for place in range(spared, len(whole)):
            data = bytearray(whole)
            data[place] ^= 4
            (path / name).write_bytes(data)
            verdict = ocdbt.verify(path, False)
            is_version = "version unknown" in verdict.reason
            assert verdict.state in ({"complete"} if is_version else {"damaged", "incomplete"}), (name, place)
        (path / name).write_bytes(whole)


def test_a_file_cut_in_its_values_says_how_much_is_missing(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "db", {"d/values": bytes(500)})
    node = orbaxlike.leaf([Place("", "d/values", 200, 300)])
    tree = {"d/node": node, "manifest.ocdbt": orbaxlike.manifest(Place("", "d/node", 0, len(node)))}
    otherlike.write(path, tree)
    assert ocdbt.verify(path, True).state == "complete"
    (path / "d" / "values").write_bytes(bytes(499))
    assert ocdbt.verify(path, False).reason == "d/values has 499 bytes of 500"


def test_deep_finds_a_compressed_value_without_its_end(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "db", {"d/values": FRAME[:6] + b"\xff" * (len(FRAME) - 6)})
    node = orbaxlike.leaf([Place("", "d/values", 0, len(FRAME))])
    tree = {"d/node": node, "manifest.ocdbt": orbaxlike.manifest(Place("", "d/node", 0, len(node)))}
    otherlike.write(path, tree)
    assert ocdbt.verify(path, False).state == "complete"
    assert ocdbt.verify(path, True).state == "damaged"


def test_a_large_tree_is_read_in_part_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = orbaxlike.write_tree(tmp_path / "db", values=10)
    monkeypatch.setattr(ocdbt, "BUDGET", 100)
    assert "nodes were not read (deep reads all)" in ocdbt.verify(path, False).reason
    assert "not read" not in ocdbt.verify(path, True).reason


def test_an_empty_database_is_whole(tmp_path: Path) -> None:
    path = otherlike.write(tmp_path / "db", {"manifest.ocdbt": orbaxlike.manifest(None)})
    assert ocdbt.verify(path, True).state == "complete"


@pytest.mark.parametrize("options", [{"version": 1}, {"compression": 7}, {"kind": 1}])
def test_what_is_not_known_is_said_and_not_refused(tmp_path: Path, options: dict[str, int]) -> None:
    path = otherlike.write(tmp_path / "db", {"manifest.ocdbt": orbaxlike.manifest(None, **options)})
    verdict = ocdbt.verify(path, False)
    assert (verdict.state, "taken as they are" in verdict.reason) == ("complete", True)


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "a\0b"])
def test_a_node_that_leads_outside_is_refused(tmp_path: Path, file: str) -> None:
    path = otherlike.write(tmp_path / "db", {"manifest.ocdbt": orbaxlike.manifest(Place("", file, 0, 9))})
    assert ocdbt.verify(path, False).state == "damaged"


def test_a_node_that_leads_to_itself_comes_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocdbt, "_MOST_NODES", 50)
    size = len(orbaxlike.interior([Place("", "d/node", 0, 50)]))
    node = orbaxlike.interior([Place("", "d/node", 0, size)])
    tree = {"d/node": node, "manifest.ocdbt": orbaxlike.manifest(Place("", "d/node", 0, len(node)))}
    verdict = ocdbt.verify(otherlike.write(tmp_path / "db", tree), True)
    assert (verdict.state, "more than 50 nodes" in verdict.reason) == ("damaged", True)


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_trap_108_steps_are_numbers() -> None:
    names = ["9", "10", "ckpt_000100", "1080000"]
    assert otherlike.steps(LAYOUT, reversed(names)) == names
    assert LAYOUT.step_of("final") is None
