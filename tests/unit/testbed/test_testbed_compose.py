"""What compose is told of a testbed of containers, before any container runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slurmkit.errors import MissingRequirement, UsageError
from slurmkit.testbed import compose
from slurmkit.testbed.compose import ComposeTestbed, override, up
from slurmkit.testbed.options import Options

CHECKOUT = Path(__file__).parents[3]


def containers(root: Path, options: Options, mounts: tuple[str, ...] = ()) -> ComposeTestbed:
    return ComposeTestbed(root, options, "24.11", CHECKOUT / "docker", mounts=mounts)


def test_the_nodes_that_are_wanted_take_the_place_of_those_of_compose_yaml(tmp_path: Path) -> None:
    services = override(containers(tmp_path, Options(nodes=2)))["services"]
    extends = {"file": str(CHECKOUT / "docker" / "compose.yaml"), "service": "c1"}
    assert services["n2"] == {"extends": extends, "hostname": "n2"}
    assert {name for name, service in services.items() if service.get("profiles") == ["absent"]} == {
        "c1",
        "c2",
        "c3",
        "c4",
    }


def test_a_node_that_compose_yaml_has_is_its_own(tmp_path: Path) -> None:
    services = override(containers(tmp_path, Options(nodes=5, prefix="c")))["services"]
    assert [name for name, service in services.items() if "extends" in service] == ["c5"]


def test_more_volumes_are_those_of_login_and_of_every_node(tmp_path: Path) -> None:
    services = override(containers(tmp_path, Options(nodes=1), ("/a:/b:ro",)))["services"]
    assert services["login"]["volumes"] == services["n1"]["volumes"] == ["/a:/b:ro"]


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    saved = containers(tmp_path / "t", Options(nodes=3, config=("KillWait=9",)), ("/a:/b",))
    saved.save()
    assert compose.load(tmp_path / "t") == saved


def test_two_testbeds_of_one_name_are_two_projects(tmp_path: Path) -> None:
    clusters = {containers(tmp_path / user / "default", Options()).cluster for user in ("a", "b")}
    assert len(clusters) == 2


def test_a_version_that_no_suite_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no image with Slurm '23\.02'"):
        up(Options(), tmp_path / "t", slurm="23.02")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="not empty"):
        up(Options(), tmp_path)


def test_without_docker_the_error_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingRequirement, match="needs docker"):
        compose.docker()
