"""pyslurm as a library within this process: loaded late, kept quiet, its faults as one.

It is a wrapper of Slurm's own library, which prints its errors itself and reads the process's environment.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

STDERR = 2


class NotToBeHad(Exception):
    """pyslurm failed, or does not know enough: the commands are asked instead, and say what is wrong."""


@contextlib.contextmanager
def library() -> Iterator[ModuleType]:
    """Pyslurm for a question or a request; while it is at work, nothing else of this process may print.

    The import ends the process where Slurm's library finds no configuration: see `client.choose`.

    Raises:
        NotToBeHad: in place of whatever pyslurm raises.
    """
    with _quiet():
        pyslurm = _load()
        try:
            yield pyslurm
        # It raises ValueError for text that is not UTF-8 and for resources that it cannot cut into pieces.
        except (pyslurm.PyslurmError, ValueError, KeyError) as error:
            raise NotToBeHad(f"{type(error).__name__}: {error}") from error


def _load() -> ModuleType:
    flags = sys.getdlopenflags()
    try:
        import pyslurm
    finally:
        # It leaves flags behind that would bind the symbols of every later extension module in another way.
        sys.setdlopenflags(flags)
    return pyslurm


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Slurm's library and pyslurm print goes nowhere; tasks of long arrays are told in full."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    length = os.environ.get("SLURM_BITSTR_LEN")
    os.environ["SLURM_BITSTR_LEN"] = "0"
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDERR)
        os.close(nowhere)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        if length is None:
            del os.environ["SLURM_BITSTR_LEN"]
        else:
            os.environ["SLURM_BITSTR_LEN"] = length
