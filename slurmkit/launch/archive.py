"""launch.pyz: this package as one file that any python3 from 3.8 on starts, with nothing installed."""

from __future__ import annotations

import os
from importlib.util import MAGIC_NUMBER, source_hash

from slurmkit.launch.files import write_atomically

MAIN = b"""import sys
if sys.argv[1:2] == ["fitness"]:
    from slurmkit.launch.fitness import main
elif sys.argv[1:2] == ["stacks"]:
    from slurmkit.launch.stacks import main
elif sys.argv[1:2] == ["signal"]:
    from slurmkit.launch.signals import main
else:
    from slurmkit.launch.parent import main
main(sys.argv[1:])
"""
FOR_PROGRAMS = ("checkpoint/__init__.py", "progress.py")
"""What programs import beside this package. Of a checkpoint's, only what stands in this package is there."""
UNCHECKED_HASH = b"\1\0\0\0"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
END_OF_ARCHIVE = b"PK\5\6"


def build(path: str | os.PathLike[str]) -> None:
    """Write the archive; equal sources and an equal Python make equal bytes.

    Each module is there as `.pyc` of this Python, which starts in half the time, and as `.py` for any other.
    The bytes are kept under $XDG_CACHE_HOME: compiling them anew would cost a submit as much as sbatch.

    Raises:
        OSError: `path` cannot be written.
    """
    modules = _modules()
    kept = _cache(modules)
    data = _read(kept)
    if data is None:
        data = _archive(modules)
        try:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            write_atomically(kept, data)
        except OSError:
            pass  # a home that cannot be written costs time, nothing else
    write_atomically(path, data)


def _cache(modules: list[tuple[str, bytes]]) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    key = source_hash(MAGIC_NUMBER + b"".join(name.encode() + source for name, source in modules)).hex()
    return os.path.join(base, "slurmkit", f"launch-{key}.pyz")


def _read(path: str) -> bytes | None:
    """What is kept, if it is whole."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return data if data[-22:-18] == END_OF_ARCHIVE else None


def _archive(modules: list[tuple[str, bytes]]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    # Stored, not deflated: the start of a rank then needs no zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, source in modules:
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), source)
            archive.writestr(zipfile.ZipInfo(name + "c", LONG_AGO), _compiled(name, source))
    return buffer.getvalue()


def _modules() -> list[tuple[str, bytes]]:
    """The names inside the archive and their sources: this package, and the names programs know a part by."""
    folder = os.path.dirname(__file__)
    modules = [("__main__.py", MAIN), ("slurmkit/__init__.py", b"")]
    for name in FOR_PROGRAMS:
        with open(os.path.join(folder, os.pardir, *name.split("/")), "rb") as source:
            modules.append((f"slurmkit/{name}", source.read()))
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "archive.py":
            with open(os.path.join(folder, file), "rb") as source:
                modules.append((f"slurmkit/launch/{file}", source.read()))
    return modules


def _compiled(name: str, source: bytes) -> bytes:
    import marshal

    # Docstrings are for readers of the source: a rank need not load them.
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    return MAGIC_NUMBER + UNCHECKED_HASH + source_hash(source) + marshal.dumps(code)
