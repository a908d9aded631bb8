"""Files of torch.save, whole and damaged."""

from __future__ import annotations

import errno
import io
import os
import random
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from slurmkit.checkpoint import zips
from tests.unit.checkpoint import torchlike

if TYPE_CHECKING:
    from pathlib import Path

STATE = {
    "model": {f"layer{number}": torchlike.Tensor(torchlike.floats(500, number)) for number in range(8)},
    "global_step": 40,
    "epoch": 2,
    "loss": 0.25,
    "name": "small",
    "big": torchlike.Tensor(torchlike.floats(40_000)),
}


def judge(path: Path, data: bytes | bytearray, *, deep: bool = False) -> str:
    path.write_bytes(data)
    return zips.verify_file(path, deep).state


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize(
    "value", [STATE, {}, [1, 2], torchlike.Tensor(b"")], ids=["state", "empty", "list", "one"]
)
def test_a_whole_file_is_complete(tmp_path: Path, value: object, checksums: bool, deep: bool) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(torchlike.saved(value, checksums=checksums))
    verdict = zips.verify_file(path, deep)
    assert (verdict.state, verdict.rests_on, verdict.saved) == ("complete", ("",), path.stat().st_mtime)


def test_trap_112_a_file_cut_anywhere_is_incomplete(tmp_path: Path) -> None:
    data = torchlike.saved(STATE)
    for size in torchlike.cuts(len(data)):
        assert judge(tmp_path / "a.pt", data[:size]) == "incomplete", size


def test_trap_112_the_reason_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "step_20.pt"
    path.touch()
    assert zips.verify_file(path, False).reason == "step_20.pt is empty"
    path.write_bytes(torchlike.saved(STATE)[:1000])
    assert zips.verify_file(path, False).reason == (
        "step_20.pt has no central directory at its end: it was cut short, or is still being written"
    )


def test_a_file_cut_after_a_saved_file_inside_it_is_damaged(tmp_path: Path) -> None:
    """The end of an inner file must not pass for that of the outer one."""
    inner = torchlike.saved(STATE)
    data = torchlike.saved({"blob": torchlike.Tensor(inner), "more": torchlike.Tensor(torchlike.floats(500))})
    assert judge(tmp_path / "a.pt", data) == "complete"
    end = data.index(inner) + len(inner)
    assert judge(tmp_path / "a.pt", data[:end]) == "damaged"


@pytest.mark.parametrize(("zeros", "state"), [(1, "complete"), (60_000, "complete"), (70_000, "incomplete")])
def test_zeros_after_the_end_are_padding_as_long_as_torch_finds_the_end(
    tmp_path: Path, zeros: int, state: str
) -> None:
    assert judge(tmp_path / "a.pt", torchlike.saved(STATE) + bytes(zeros)) == state


def test_space_that_was_set_aside_and_never_written_is_damaged(tmp_path: Path) -> None:
    assert judge(tmp_path / "a.pt", bytes(1 << 20)) == "damaged"


def test_a_start_that_was_written_into_space_set_aside_is_not_complete(tmp_path: Path) -> None:
    data = torchlike.saved(STATE)
    for size in torchlike.cuts(len(data) - 100, 50):
        assert judge(tmp_path / "a.pt", data[:size] + bytes(len(data) - size)) != "complete"


def test_a_hole_in_a_tensor_is_found_by_a_deep_look_alone(tmp_path: Path) -> None:
    data = bytearray(torchlike.saved(STATE))
    at = data.index(torchlike.floats(40_000)) + 8192
    data[at : at + 4096] = bytes(4096)
    assert judge(tmp_path / "a.pt", data) == "complete"
    assert judge(tmp_path / "a.pt", data, deep=True) == "damaged"
    assert zips.verify_file(tmp_path / "a.pt", True).reason == (
        "a.pt is damaged: its entry archive/data/8 fails its checksum"
    )


def test_a_deep_look_says_where_no_checksums_were_saved(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(torchlike.saved(STATE, checksums=False))
    assert zips.verify_file(tmp_path / "a.pt", True).reason.endswith(zips.ON_TRUST)


def test_a_hole_anywhere_is_found_by_a_deep_look(tmp_path: Path) -> None:
    data, chosen = torchlike.saved(STATE), random.Random(1)
    for _ in range(60):
        at = chosen.randrange(len(data) - 64)
        holed = data[:at] + bytes(64) + data[at + 64 :]
        assert judge(tmp_path / "a.pt", holed, deep=True) != "complete", at


def test_a_lost_header_in_the_middle_is_found(tmp_path: Path) -> None:
    data = bytearray(torchlike.saved(STATE))
    at = data.index(b"PK\x03\x04", 100)
    data[at : at + 4] = bytes(4)
    assert judge(tmp_path / "a.pt", data) == "damaged"


def test_an_entry_that_reaches_past_its_place_is_damaged(tmp_path: Path) -> None:
    data = bytearray(torchlike.saved(STATE))
    for field in (20, 24):
        at = data.index(b"PK\x01\x02") + field
        data[at : at + 4] = struct.pack("<I", 1 << 20)
    verdict = zips.verify_file(tmp_path / "a.pt", False) if judge(tmp_path / "a.pt", data) else None
    assert verdict
    assert verdict.state == "damaged"
    assert "its entry archive/data.pkl reaches to byte" in verdict.reason


def other_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("notes.txt", "hello")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"hello, this is no checkpoint", "foreign"),
        (b"\x7fELF\x02\x01", "foreign"),
        (b"\x80\x04K\x01.", "foreign"),
        (other_zip(), "foreign"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "unverified"),
    ],
)
def test_what_torch_did_not_write_as_a_zip_is_told_apart(tmp_path: Path, data: bytes, state: str) -> None:
    assert judge(tmp_path / "a.pt", data) == state


def test_noise_never_raises_and_is_never_complete(tmp_path: Path) -> None:
    chosen, good = random.Random(2), torchlike.saved({"a": torchlike.Tensor(torchlike.floats(20)), "step": 1})
    directory = good.index(b"PK\x01\x02")
    for deep in (False, True):
        for _ in range(300):
            data = bytearray(good)
            for _byte in range(chosen.randrange(1, 8)):
                data[chosen.randrange(directory, len(data))] = chosen.randrange(256)
            judge(tmp_path / "a.pt", data, deep=deep)
            zips.scalars(tmp_path / "a.pt", ["step"])
        assert judge(tmp_path / "a.pt", b"PK\x03\x04" + chosen.randbytes(500), deep=deep) == "incomplete"


def test_what_cannot_be_opened_is_a_verdict_too(tmp_path: Path) -> None:
    (tmp_path / "loop.pt").symlink_to("loop.pt")
    (tmp_path / "nothing.pt").symlink_to("gone.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    told = {
        name: zips.verify_file(tmp_path / name, True)[:2]
        for name in ("loop.pt", "nothing.pt", "pipe.pt", ".")
    }
    assert told == {
        "loop.pt": ("damaged", "loop.pt is a symbolic link that leads back to itself"),
        "nothing.pt": ("incomplete", "nothing.pt is not there"),
        "pipe.pt": ("foreign", "pipe.pt is no file"),
        ".": ("foreign", f"{tmp_path.name} is no file"),
    }


def test_the_system_s_refusal_is_told(tmp_path: Path) -> None:
    denied = OSError(errno.EACCES, "Permission denied", str(tmp_path / "a.pt"))
    assert zips.unreadable(tmp_path, denied)[:2] == ("incomplete", "a.pt cannot be read: Permission denied")
    assert zips.unreadable(tmp_path / "b", OSError(errno.EIO, "Input/output error")).reason == (
        "b cannot be read: Input/output error"
    )


def test_scalars_are_read_without_a_load(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(torchlike.saved(STATE))
    wanted = ["global_step", "epoch", "loss", "name", "model", "nothing"]
    assert zips.scalars(path, wanted) == {"global_step": 40, "epoch": 2, "loss": 0.25, "name": "small"}


@pytest.mark.parametrize(
    "data", [b"", b"PK", other_zip(), torchlike.saved(STATE)[:-1], torchlike.saved([1]), torchlike.saved(7)]
)
def test_a_file_that_tells_no_scalars_gives_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(data)
    assert zips.scalars(path, ["global_step"]) == {}


def test_a_part_of_a_file_reads_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        part = zips.Window(file, 2, 5)
        assert (part.read(2), part.tell(), part.read(), part.read()) == (b"23", 2, b"456", b"")
        assert (part.seek(-2, os.SEEK_END), part.read(9)) == (3, b"56")
        with pytest.raises(ValueError, match="before the start"):
            part.seek(-9, os.SEEK_END)


def test_a_big_file_is_not_read_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(torchlike.saved({"big": torchlike.Tensor(bytes(8 << 20)), "step": 1}))
    read = 0

    class Counted(zips.Window):
        def read(self, size: int = -1, /) -> bytes:
            nonlocal read
            data = super().read(size)
            read += len(data)
            return data

    monkeypatch.setattr(zips, "Window", Counted)
    assert zips.verify_file(path, False).state == "complete"
    assert read < 10_000
