"""Directories of torch.distributed.checkpoint, whole, half-written and damaged."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import torch_dcp
from tests.unit.checkpoint import torchlike

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return torchlike.write_dcp(tmp_path / "step-100")


def judge(folder: Path, *, deep: bool = False) -> tuple[str, str]:
    return torch_dcp.verify(folder, deep)[:2]


def newer(path: Path, than: Path, seconds: float) -> None:
    """Let a file have been written so many seconds after another."""
    at = than.stat().st_mtime + seconds
    os.utime(path, (at, at))


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("ranks", "items"), [(1, 1), (3, 4), (70, 2)])
def test_a_finished_save_is_complete(tmp_path: Path, ranks: int, items: int, deep: bool) -> None:
    folder = torchlike.write_dcp(tmp_path / "a", ranks=ranks, items=items)
    verdict = torch_dcp.verify(folder, deep)
    assert verdict.state == "complete", verdict.reason
    assert sorted(verdict.rests_on) == sorted([".metadata", *(f"__{rank}_0.distcp" for rank in range(ranks))])
    assert verdict.saved == (folder / ".metadata").stat().st_mtime
    assert verdict.world_size is None, "a rank with nothing to save need have no file"


def test_trap_111_a_directory_without_metadata_is_incomplete(tmp_path: Path) -> None:
    folder = torchlike.write_dcp(tmp_path / "step_300", finish=False)
    assert judge(folder) == ("incomplete", ".metadata is not there, which is written last")
    assert torch_dcp.LAYOUT.is_one(folder)


def test_metadata_that_was_not_renamed_yet_is_incomplete(folder: Path) -> None:
    (folder / ".metadata").rename(folder / ".metadata.tmp")
    state, reason = judge(folder)
    assert (state, reason[:14]) == ("incomplete", ".metadata.tmp ")


def test_trap_112_metadata_cut_anywhere_are_damaged(folder: Path) -> None:
    whole = (folder / ".metadata").read_bytes()
    for size in torchlike.cuts(len(whole)):
        (folder / ".metadata").write_bytes(whole[:size])
        state, reason = judge(folder)
        assert (state, reason[:9]) == ("damaged", ".metadata"), size


def test_trap_112_a_data_file_cut_anywhere_is_incomplete(folder: Path) -> None:
    path = folder / "__1_0.distcp"
    whole = path.read_bytes()
    for size in torchlike.cuts(len(whole)):
        path.write_bytes(whole[:size])
        expected = f"has {size:,} bytes of {len(whole):,}" if size else "is empty"
        assert judge(folder) == ("incomplete", f"__1_0.distcp {expected}")


def test_a_data_file_that_is_gone_is_told(folder: Path) -> None:
    (folder / "__2_0.distcp").unlink()
    assert judge(folder) == ("incomplete", "__2_0.distcp is not there")


def test_a_data_file_that_is_too_long_is_damaged(folder: Path) -> None:
    size = (folder / "__0_0.distcp").stat().st_size
    with (folder / "__0_0.distcp").open("ab") as file:
        file.write(bytes(4096))
    assert judge(folder) == ("damaged", f"__0_0.distcp has {size + 4096:,} bytes of {size:,}")


def test_space_set_aside_for_a_data_file_is_damaged(folder: Path) -> None:
    path = folder / "__0_0.distcp"
    path.write_bytes(bytes(path.stat().st_size))
    assert judge(folder) == ("damaged", "__0_0.distcp from byte 0 on holds no tensor")


def test_a_data_file_that_ends_in_zeros_is_damaged(folder: Path) -> None:
    path = folder / "__0_0.distcp"
    data = path.read_bytes()
    path.write_bytes(data[:-500] + bytes(500))
    state, reason = judge(folder)
    assert state == "damaged"
    assert reason.endswith("holds a tensor without its end")


def test_a_hole_in_a_tensor_is_found_by_a_deep_look_alone(folder: Path) -> None:
    path = folder / "__1_0.distcp"
    data, tensor = bytearray(path.read_bytes()), torchlike.floats(300, 101)
    at = data.index(tensor) + 200
    data[at : at + 512] = bytes(512)
    path.write_bytes(data)
    torchlike.aged(path, 1)
    assert judge(folder)[0] == "complete"
    state, reason = judge(folder, deep=True)
    assert state == "damaged"
    assert reason.startswith("__1_0.distcp from byte ")
    assert reason.endswith("its entry archive/data/0 fails its checksum")


def test_a_hole_anywhere_is_found_by_a_deep_look(folder: Path) -> None:
    chosen, path = random.Random(3), folder / "__1_0.distcp"
    whole = path.read_bytes()
    for _ in range(60):
        at = chosen.randrange(len(whole) - 64)
        path.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
        assert judge(folder, deep=True)[0] == "damaged", at


def test_a_second_save_killed_midway_is_damaged_though_all_sizes_are_right(tmp_path: Path) -> None:
    folder = torchlike.aged(torchlike.write_dcp(tmp_path / "a", seed=0), 100)
    assert judge(folder)[0] == "complete"
    again = torchlike.write_dcp(tmp_path / "b", seed=7)
    (folder / "__1_0.distcp").write_bytes((again / "__1_0.distcp").read_bytes())
    state, reason = judge(folder)
    assert state == "damaged"
    assert reason.startswith("a second save into it was not finished: __1_0.distcp is newer than .metadata")


def test_a_second_save_that_was_finished_is_complete(tmp_path: Path) -> None:
    folder = torchlike.aged(torchlike.write_dcp(tmp_path / "a", seed=0), 100)
    torchlike.write_dcp(folder, seed=7)
    assert judge(folder, deep=True)[0] == "complete"


def test_a_second_save_by_more_ranks_leaves_data_that_no_metadata_name(folder: Path) -> None:
    stranger = folder / "__7_0.distcp"
    stranger.write_bytes(b"PK")
    newer(stranger, folder / ".metadata", 60)
    state, reason = judge(folder)
    assert state == "damaged"
    assert "__7_0.distcp is newer than .metadata" in reason


def test_data_that_an_earlier_save_by_more_ranks_left_do_no_harm(folder: Path) -> None:
    stranger = folder / "__7_0.distcp"
    stranger.write_bytes(b"PK")
    newer(stranger, folder / ".metadata", -60)
    assert judge(folder)[0] == "complete"


@pytest.mark.parametrize(("seconds", "state"), [(-60, "complete"), (0, "damaged"), (60, "damaged")])
def test_metadata_of_a_second_save_that_were_not_renamed_are_told(
    folder: Path, seconds: float, state: str
) -> None:
    temporary = folder / ".metadata.tmp"
    temporary.write_bytes(b"cut")
    newer(temporary, folder / ".metadata", seconds)
    assert judge(folder)[0] == state


@pytest.mark.parametrize(("seconds", "state"), [(-3600, "complete"), (0.9, "complete"), (1.5, "damaged")])
def test_clocks_of_two_nodes_may_differ_by_a_second(folder: Path, seconds: float, state: str) -> None:
    newer(folder / "__0_0.distcp", folder / ".metadata", seconds)
    assert judge(folder)[0] == state


def test_trap_110_files_that_were_restored_with_one_time_are_complete(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert judge(folder)[0] == "complete"


def one_item(
    folder: Path, data: bytes, *, name: str = "__0_0.distcp", length: int | None = None, **more: object
) -> None:
    folder.mkdir()
    (folder / name).write_bytes(data)
    length = len(data) if length is None else length
    extra = {key: value for key, value in more.items() if key != "objects"}
    text = torchlike.metadata([("w", name, 0, length)], extra=extra, objects="objects" in more)
    (folder / ".metadata").write_bytes(text)


def test_compressed_items_are_not_measured(tmp_path: Path) -> None:
    one_item(tmp_path / "a", b"squeezed", length=4000, transform_descriptors=["zstd"])
    assert judge(tmp_path / "a")[0] == "complete"
    assert "without checksums" in judge(tmp_path / "a", deep=True)[1]
    (tmp_path / "a" / "__0_0.distcp").write_bytes(b"")
    assert judge(tmp_path / "a")[0] == "incomplete"


def test_items_in_safetensors_are_measured_by_their_own_header(tmp_path: Path) -> None:
    text = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
    data = len(text).to_bytes(8, "little") + text + b"abcd"
    one_item(tmp_path / "a", data, name="shard-00001-model-00001-of-00001.safetensors", length=99)
    assert judge(tmp_path / "a")[0] == "complete"
    (tmp_path / "a" / "shard-00001-model-00001-of-00001.safetensors").write_bytes(data[:-1])
    assert judge(tmp_path / "a")[0] == "incomplete"


def test_an_object_in_a_form_of_the_program_s_own_is_measured_only(tmp_path: Path) -> None:
    one_item(tmp_path / "a", b"whatever", objects=True)
    assert judge(tmp_path / "a", deep=True)[0] == "complete"
    one_item(tmp_path / "b", b"whatever")
    assert judge(tmp_path / "b")[0] == "damaged"
    one_item(tmp_path / "c", bytes(20), objects=True)
    assert judge(tmp_path / "c") == ("damaged", "__0_0.distcp from byte 0 on holds nothing but zeros")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/__0_0.distcp", "a/../../x", "a\0b"])
def test_metadata_that_lead_out_of_the_directory_are_damaged(tmp_path: Path, name: str) -> None:
    (tmp_path / ".metadata").write_bytes(torchlike.metadata([("w", name, 0, 5)]))
    state, reason = judge(tmp_path)
    assert state == "damaged"
    assert "outside its directory" in reason


def test_metadata_of_another_storage_are_unverified(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(torchlike.metadata([("w", "x", "here", 5)]))  # type: ignore[list-item]
    assert judge(tmp_path)[0] == "unverified"
    (tmp_path / ".metadata").write_bytes(torchlike.metadata([]))
    assert judge(tmp_path)[0] == "unverified"


def test_foreign_and_unreadable_directories_are_told(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".metadata").write_bytes(b"K\x01.")
    found = {name: judge(tmp_path / name)[0] for name in ("notes", "loop", "file", "gone", "other")}
    assert found == {
        "notes": "foreign", "loop": "damaged", "file": "incomplete", "gone": "incomplete", "other": "foreign"
    }  # fmt: skip
    assert not torch_dcp.LAYOUT.is_one(tmp_path / "notes")
    assert not torch_dcp.LAYOUT.is_one(tmp_path / "file")


@pytest.mark.parametrize("kind", ["loop", "pipe", "directory", "dangling"])
def test_a_data_file_that_is_no_file_is_refused(folder: Path, kind: str) -> None:
    path = folder / "__0_0.distcp"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("__0_0.distcp" if kind == "loop" else "gone")
    assert judge(folder, deep=True)[0] in {"damaged", "incomplete"}


@pytest.mark.parametrize("deep", [False, True])
def test_a_save_without_collectives_is_complete_and_tells_its_ranks(tmp_path: Path, deep: bool) -> None:
    verdict = torch_dcp.verify(torchlike.write_dcp_per_rank(tmp_path / "a", 4), deep)
    assert (verdict.state, verdict.world_size) == ("complete", 4)
    assert len(verdict.rests_on) == 8


@pytest.mark.parametrize("gone", ["__1.metadata", "__3.metadata", "__2_0.distcp"])
def test_a_save_without_collectives_that_lacks_a_file_is_incomplete(tmp_path: Path, gone: str) -> None:
    folder = torchlike.write_dcp_per_rank(tmp_path / "a", 4)
    (folder / gone).unlink()
    assert judge(folder) == ("incomplete", f"{gone} is not there")


def test_a_save_without_collectives_that_lacks_its_last_rank_does_not_cover_its_tensors(
    tmp_path: Path,
) -> None:
    state, reason = judge(torchlike.write_dcp_per_rank(tmp_path / "a", 3, whole=4))
    assert (state, reason) == ("incomplete", "the ranks' .metadata place 300 of 400 numbers of w")


def test_names_tell_the_step() -> None:
    assert torch_dcp.LAYOUT.step_of("step-100") == 100
    assert not torch_dcp.LAYOUT.is_named("step-100.tmp")
    assert torch_dcp.LAYOUT.is_named("step-100")


def test_a_default_look_reads_a_bounded_part_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = torchlike.write_dcp(tmp_path / "a", ranks=100, items=3)
    monkeypatch.setattr(torch_dcp, "SPOTS", 32)
    looked: list[str] = []
    inner = torch_dcp._check_items

    def counted(path: Path, name: str, items: list[torch_dcp._Item], *, deep: bool) -> bool:
        looked.extend([name] * len(items))
        return inner(path, name, items, deep=deep)

    monkeypatch.setattr(torch_dcp, "_check_items", counted)
    assert torch_dcp.verify(folder, False).state == "complete"
    assert len(looked) == 2 * 32
