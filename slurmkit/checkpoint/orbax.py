"""Orbax: a directory for each step that gets its name when it is whole, with `_CHECKPOINT_METADATA` in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmkit.checkpoint import ocdbt, pieces, zarr
from slurmkit.checkpoint.layout import Layout, Verdict
from slurmkit.checkpoint.names import numbered
from slurmkit.checkpoint.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA = "_CHECKPOINT_METADATA"
TEMPORARY = ".orbax-checkpoint-tmp"
COMMITTED = "commit_success.txt"
step_of = numbered(r"(?:.*_)?(\d+)")
"""The number of `<step>` or `<prefix>_<step>`."""
_ARRAYS = "array_metadatas"
_TREE = frozenset({"_METADATA", "_sharding", "manifest.ocdbt", _ARRAYS})
"""What stands in the directory of an item of arrays."""
_DESCRIPTIONS = frozenset({"_METADATA", "_sharding", "_strings.json", "metadata"})
"""Of arrays what they are and where they belong; `metadata` is an item of JSON."""
_NEEDED = {
    "JsonCheckpointHandler": "metadata",
    "StandardCheckpointHandler": "_METADATA",
    "PyTreeCheckpointHandler": "_METADATA",
}
"""What there must be, by what wrote the item."""


@pieces.from_outside
def verify(path: Path, deep: bool) -> Verdict:  # noqa: FBT001
    """Whether it was committed and its items are all there."""
    names = pieces.names_in(path)
    step = step_of(path.name)
    if TEMPORARY in path.name:
        return pieces.partial(f"{path.name} is the name of one that is being written", step=step)
    if METADATA not in names:
        state = "incomplete" if names & (_TREE | {COMMITTED}) or step is not None else "foreign"
        return Verdict(state, f"{METADATA} is not there", step, rests_on=("",))
    try:
        about = pieces.read_json(path / METADATA)
    except ValueError as fault:
        return pieces.partial(f"{METADATA} {fault}", METADATA, step=step)
    if not pieces.nested(about, "commit_timestamp_nsecs"):
        return pieces.partial(f"{METADATA} has no time of its commit", METADATA, step=step)
    items = _items(about)
    if any("/" in item or item in {"", ".."} for item in items):
        return Verdict("damaged", f"{METADATA} names an item outside", step, rests_on=("", METADATA))
    committed = Verdict("complete", "", rests_on=("",), saved=(path / METADATA).stat().st_mtime)
    every = [piece for item, kind in items.items() for piece in _verify_item(path, item, kind, deep=deep)]
    trust = "; arrays have no checksums, so a hole in one would not be seen" if deep else ""
    return pieces.whole(
        path,
        [*every, Piece(METADATA, committed)],
        reason=f"committed, and {'it' if '.' in items else ', '.join(items)} is all there and whole{trust}",
        step=step,
    )


def _items(about: dict[str, Any]) -> dict[str, str]:
    """The directories of the items, and what wrote each; the checkpoint itself where it is a single one."""
    handlers = about.get("item_handlers")
    named = handlers if isinstance(handlers, dict) else {".": handlers}
    return {item: str(kind).rpartition(".")[2] for item, kind in sorted(named.items())}


def _verify_item(path: Path, item: str, kind: str, *, deep: bool) -> Iterator[Piece]:
    """The pieces of one item: its descriptions, and its arrays in OCDBT or as Zarr."""
    folder, prefix = path / item, "" if item == "." else f"{item}/"
    names = pieces.names_in(folder)
    if unfinished := sorted(name for name in names if TEMPORARY in name):
        yield Piece(item, pieces.partial(f"{unfinished[0]} was not finished"))
    if (needed := _NEEDED.get(kind)) and needed not in names:
        yield Piece(item, pieces.partial(f"{needed} is not there"))
    tree: dict[str, Any] = {}
    of_arrays = pieces.names_in(folder / _ARRAYS) if _ARRAYS in names else frozenset()
    for name in sorted(names & _DESCRIPTIONS | {f"{_ARRAYS}/{one}" for one in of_arrays}):
        verdict, read = _description(folder / name)
        tree |= read if name == "_METADATA" else {}
        yield Piece(f"{prefix}{name}", verdict)
    if ocdbt.MANIFEST in names:
        yield Piece(prefix.removesuffix("/"), ocdbt.verify(folder, deep))
    elif tree.get("use_ocdbt") is False:
        try:
            arrays = sorted(_arrays(tree))
        except (KeyError, TypeError, AttributeError):
            yield Piece(
                f"{prefix}_METADATA", Verdict("damaged", "_METADATA does not say what arrays there are")
            )
            return
        yield from (Piece(f"{prefix}{name}", zarr.verify(folder / name, deep)) for name in arrays)
    elif tree:
        yield Piece(item, pieces.partial(f"{ocdbt.MANIFEST} is not there"))


def _arrays(tree: dict[str, Any]) -> Iterator[str]:
    """The directories of the arrays of a tree that is not in OCDBT."""
    entries = tree.get("tree_metadata")
    for entry in entries.values() if isinstance(entries, dict) else ():
        about = entry["value_metadata"]
        if about["value_type"] != "string" and not about.get("skip_deserialize"):
            yield ".".join(str(key["key"]) for key in entry["key_metadata"]).replace("/", "%2F")


def _description(file: Path) -> tuple[Verdict, dict[str, Any]]:
    try:
        read = pieces.read_json(file)
    except ValueError as fault:
        return Verdict("damaged", f"{file.name} {fault}", rests_on=("",)), {}
    return Verdict("complete", "", rests_on=("",), saved=file.stat().st_mtime), read


LAYOUT = Layout(
    name="orbax",
    summary="Orbax: <step>/ with _CHECKPOINT_METADATA, as of CheckpointManager",
    resume=(),
    reshards=True,
    step_of=step_of,
    is_named=lambda name: not name.startswith(".") and TEMPORARY not in name,
    is_one=lambda path: pieces.holds(path, lambda names: METADATA in names or "manifest.ocdbt" in names),
    verify=verify,
)
