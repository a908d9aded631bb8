"""Pickles are read, and nothing that they hold is run."""

from __future__ import annotations

import copyreg
import gc
import io
import os
import pickle
import random
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.checkpoint import pickles

if TYPE_CHECKING:
    from collections.abc import Callable


def load(data: bytes, limit: int = pickles.LIMIT) -> Any:
    return pickles.load(io.BytesIO(data), limit)


class Calls:
    """An object that asks, when it is loaded, for a call of a function."""

    def __init__(self, function: Callable[..., Any], *args: Any, state: Any = None) -> None:
        self.reduced = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self.reduced


class Opens:
    """An object whose state, when it is set, opens a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        Path(state["path"]).touch()


def touching(marker: str) -> dict[str, bytes]:
    """Pickles that write a file when they are loaded."""
    shell, code = f"touch {marker}", f'open("{marker}", "w").close()'
    quoted = b"S'" + code.encode() + b"'\n"
    rebuilt = Calls(copyreg._reconstructor, Opens, object, None, state={"path": marker})  # type: ignore[attr-defined]
    return {
        **{f"os.system, protocol {n}": pickle.dumps(Calls(os.system, shell), n) for n in range(6)},
        "builtins.eval": pickle.dumps(Calls(eval, code)),
        "builtins.exec": pickle.dumps(Calls(exec, code)),
        "a process": pickle.dumps(Calls(subprocess.check_call, ["touch", marker])),
        "nested": pickle.dumps({"model": [1, ({"x": Calls(exec, code)},)]}),
        "as the key of a dict": pickle.dumps({Calls(os.system, shell): 1}),
        "in the state of another": pickle.dumps(
            Calls(Opens, "x", state={"path": marker, "y": Calls(exec, code)})
        ),
        "by the state that an object is given": pickle.dumps(rebuilt),
        "INST": b"(" + quoted + b"ibuiltins\nexec\n.",
        "OBJ": b"(cbuiltins\nexec\n" + quoted + b"o.",
        "by getattr": b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'"
        + shell.encode()
        + b"'\ntR.",
        "a name from the stack": b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93" + quoted + b"\x85R.",
        "in the middle": b"\x80\x04}\x8c\x01acbuiltins\nexec\n(" + quoted + b"tRs.",
    }


NAMES = sorted(touching("/nowhere"))


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    data = touching(str(marker))[name]
    load(data)
    assert not marker.exists()
    pickle.loads(data)
    assert marker.exists(), "the pickle is not hostile at all"


def test_a_hostile_pickle_of_two_parts_runs_nothing(tmp_path: Path) -> None:
    """What a stand-in is asked to be - called, filled, given a state - it takes and does nothing with."""
    marker = tmp_path / "marker"
    shell = f"touch {marker}".encode()
    made = load(b"cos\nsystem\n(S'" + shell + b"'\ntR(S'x'\ntR}S'a'\nI1\nsbS'k'\nI2\ns.")
    assert isinstance(made, pickles.Inert)
    assert not marker.exists()


def test_plain_values_are_what_they_were() -> None:
    value = {"step": 7, "loss": 0.5, "name": "é", "list": [1, (2, None)], "true": True, "big": 1 << 200}
    for protocol in range(6):
        assert load(pickle.dumps(value, protocol)) == value


class Config:
    def __init__(self) -> None:
        self.width = 3


def test_an_object_is_read_as_its_fields() -> None:
    found = load(pickle.dumps({"args": Config()}))["args"]
    assert found.named.endswith("Config")
    assert pickles.fields(found) == {"width": 3}


def test_an_ordered_dict_is_read_as_its_entries() -> None:
    data = b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00bK\x02u."
    assert pickles.fields(load(data)) == {"a": 1, "b": 2}


@pytest.mark.parametrize("value", [7, "text", [1], None])
def test_what_has_no_fields_has_none(value: object) -> None:
    assert pickles.fields(value) == {}


def q(number: int) -> bytes:
    return struct.pack("<Q", number)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8e" + q(1 << 62) + b"abc.",
        b"\x80\x04\x8d" + q((1 << 64) - 1) + b"abc.",
        b"\x80\x05\x96" + q(1 << 40) + b"abc.",
        b"\x80\x04\x95" + q(1 << 62) + b"N.",
        b"\x80\x02B\xff\xff\xff\xffabc.",
        b"\x80\x02T\xff\xff\xff\xffabc.",
        b"\x80\x02\x8b\xff\xff\xff\xffabc.",
        b"\x80\x02Nr\xff\xff\xff\xff.",
        b"Np4294967295\n.",
        b"Np" + b"9" * 5000 + b"\n.",
        b"Npabc\n.",
        b"\x80\x02I" + b"9" * 5000 + b"\n.",
        b"\x82\x01.",
        b"\x80\x63N.",
        b"\x00" * 4096,
        b"",
        b".",
        b"N",
        b"cos\nsystem",
        b"]]s.",
        b"(.",
        b"cx\ny\n}b.",
        b"cx\ny\nK\x01K\x01s.",
        b"K\x01K\x01R.",
        b"}]K\x01s.",
        b"h\x05.",
        b"\x97.",
    ],
)
def test_what_is_no_pickle_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it (is|asks)|^byte"):
        load(data)


def test_trap_112_a_pickle_cut_anywhere_is_a_value_error() -> None:
    value = {f"layer{number}": [number, b"x" * 300, Config()] for number in range(20)}
    for protocol in (0, 2, 4, 5):
        data = pickle.dumps(value, protocol)
        for length in range(0, len(data), 7):
            with pytest.raises(ValueError, match="it is "):
                load(data[:length])


@given(st.binary(max_size=200))
def test_noise_is_a_value_or_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        load(data)


@pytest.mark.parametrize("seed", range(20))
def test_a_pickle_with_a_few_wrong_bytes_is_a_value_or_a_value_error(seed: int) -> None:
    chosen = random.Random(seed)
    value = {f"layer{number}": [number, "x" * 30, Config(), {1.5}] for number in range(5)}
    data = pickle.dumps(value, chosen.randrange(6))
    for _ in range(100):
        wrong = bytearray(data)
        for _byte in range(chosen.randrange(1, 5)):
            wrong[chosen.randrange(len(wrong))] = chosen.randrange(256)
        with suppress(ValueError):
            load(bytes(wrong))


def test_a_pickle_longer_than_the_limit_is_not_read() -> None:
    with pytest.raises(ValueError, match="it is longer than 1,000 bytes"):
        load(pickle.dumps(b"x" * 2000), 1000)


def test_a_pickle_that_names_no_end_of_classes_is_not_read() -> None:
    data = b"".join(b"cm\nname%d\n0" % number for number in range(pickles.MOST_NAMES + 1)) + b"N."
    with pytest.raises(ValueError, match="names more than 10,000 classes"):
        load(data)


@pytest.mark.parametrize("data", [pickle.dumps(1), b"(."])
def test_the_garbage_collector_goes_on_afterwards(data: bytes) -> None:
    with suppress(ValueError):
        load(data)
    assert gc.isenabled()
