"""The room as others see it: its names, what a start-up pays for, the protocol that every client keeps."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import slurmkit.slurm
from slurmkit.slurm.commands import Commands

if TYPE_CHECKING:
    from slurmkit.slurm.protocol import Slurm


def loaded_by(code: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())


@pytest.mark.parametrize("name", slurmkit.slurm.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(slurmkit.slurm, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(slurmkit.slurm, "nonsense")  # noqa: B009  (mypy would see through an attribute)


def test_importing_the_room_loads_nothing_else() -> None:
    assert {name for name in loaded_by("import slurmkit.slurm") if "." in name} == {"slurmkit.slurm"}


def test_making_a_client_starts_no_process_and_loads_no_parser() -> None:
    loaded = loaded_by("from slurmkit.slurm.commands import Commands; Commands()")
    assert loaded.isdisjoint(
        {"subprocess", "ClusterShell", "msgspec", "json", "random", "shutil", "tempfile", "hashlib"}
        | {f"slurmkit.slurm.{name}" for name in ("squeue", "sacct", "scontrol", "records", "sharing")}
    )


def test_reading_the_queue_does_not_load_what_only_sets_of_hosts_need() -> None:
    loaded = loaded_by("import slurmkit.slurm.squeue, slurmkit.slurm.sacct, slurmkit.slurm.hostlist")
    assert loaded.isdisjoint({"ClusterShell", "msgspec", "subprocess"})


def test_the_client_keeps_the_protocol() -> None:
    client: Slurm = Commands(environment={})
    protocol = slurmkit.slurm.Slurm
    for name, method in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(type(client), name)).parameters
            assert list(ours) == list(inspect.signature(method).parameters), name
