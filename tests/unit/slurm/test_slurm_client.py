"""Which client is chosen, and why: real files, a scontrol that tells a version, a pyslurm that is a stub."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import MissingRequirement
from slurmkit.slurm import client
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.slurm.client import Choice


class Site:
    """A machine with a slurm.conf, a scontrol, and a pyslurm of the same release."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "site-packages"
        self.package = self.packages / "pyslurm"
        self.info = self.packages / "pyslurm-25.11.2.dist-info"
        self.package.mkdir(parents=True)
        self.info.mkdir()
        self.imports = folder / "imports"
        self.initialise("")
        self.conf = folder / "slurm.conf"
        self.conf.touch()
        self.scontrol = folder / "scontrol"
        self.slurm("25.11.3")
        self.environ = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "PYTHONPATH": str(self.packages),
            "SLURM_CONF": str(self.conf),
            "XDG_RUNTIME_DIR": str(folder),
        }

    def initialise(self, code: str) -> None:
        """What an import of pyslurm does, beside leaving a line in a file."""
        line = f"open({str(self.imports)!r}, 'a').write('x')"
        (self.package / "__init__.py").write_text(f"{line}\n{code}\n")

    def slurm(self, version: str) -> None:
        self.scontrol.write_text(f"#!/bin/sh\necho slurm-wlm {version}\n")
        self.scontrol.chmod(0o755)
        os.utime(self.scontrol, ns=(0, hash(version) & 0xFFFFFFFF))

    def choose(self, wanted: str = "auto", *, clusters: str | None = None) -> Choice:
        return client.choose(wanted, clusters=clusters, clock=SystemClock(), environ=self.environ)

    def tries(self) -> int:
        return len(self.imports.read_text()) if self.imports.exists() else 0


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    monkeypatch.setattr(sys, "path", [str(site.packages), *sys.path])
    monkeypatch.setattr(client, "CONFIGURATIONS", ())
    return site


def test_pyslurm_is_taken_where_it_imports_and_was_built_for_this_slurm(site: Site) -> None:
    assert site.choose().client == "pyslurm"
    assert "pyslurm" not in sys.modules


def test_it_is_tried_once_an_hour_until_something_changes(site: Site) -> None:
    assert [site.choose().client for _ in range(3)] == ["pyslurm"] * 3
    assert site.tries() == 1
    site.slurm("26.05.1")
    assert site.choose() == client.Choice("commands", "pyslurm was built for Slurm 25.11, and this is 26.05")
    assert site.tries() == 1


def test_a_note_of_the_recipe_says_what_it_was_built_for(site: Site) -> None:
    site.slurm("26.05.5")
    (site.info / client.BUILT_FOR).write_text("26.05\n")
    assert site.choose().client == "pyslurm"


def test_an_import_that_ends_the_interpreter_is_only_a_reason(site: Site) -> None:
    site.initialise("import os, sys; print('fatal: no source', file=sys.stderr, flush=True); os._exit(1)")
    assert site.choose() == client.Choice("commands", "pyslurm cannot be imported: fatal: no source")


@pytest.mark.parametrize("conf", ["/nonexistent/slurm.conf", ""])
def test_without_a_slurm_conf_nothing_is_tried(site: Site, conf: str) -> None:
    site.environ["SLURM_CONF"] = conf
    assert site.choose().client == "commands"
    assert site.tries() == 0


def test_other_clusters_are_reached_by_the_commands(site: Site) -> None:
    assert "clusters" in site.choose(clusters="a,b").reason
    assert site.tries() == 0


def test_where_pyslurm_is_not_installed_nothing_else_is_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(site.packages)])
    if PathFinder.find_spec("pyslurm") is None:  # it may be installed beside these tests
        assert site.choose() == client.Choice("commands", "pyslurm is not installed")


def test_the_commands_can_be_asked_for(site: Site) -> None:
    assert site.choose("commands").client == "commands"
    opened = client.open_client("commands", clusters=None, clock=SystemClock(), environ=site.environ)
    assert isinstance(opened, Commands)


def test_pyslurm_asked_for_by_name_is_an_error_where_it_cannot_be(site: Site) -> None:
    site.slurm("24.11.5")
    with pytest.raises(MissingRequirement, match=r"built for Slurm 25\.11, and this is 24\.11"):
        site.choose("pyslurm")
