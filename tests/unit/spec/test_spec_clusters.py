"""`[clusters.NAME]`: one folder with two names, and keys of the site's and the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.errors import UsageError
from slurmkit.spec.clusters import KEYS, Cluster
from slurmkit.spec.profile import read_profile

FAR = Cluster("far", url="https://h", local_path="/mnt/far", cluster_path="/home/ada")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("/mnt/far", "/home/ada"),
        ("/mnt/far/a b/runs/x", "/home/ada/a b/runs/x"),
        ("/mnt/far/../far/x", "/home/ada/x"),
        ("/mnt/far/..x", "/home/ada/..x"),
    ],
)
def test_a_folder_here_has_its_name_there(here: str, there: str) -> None:
    assert FAR.there(Path(here)) == Path(there)


@pytest.mark.parametrize("path", ["/mnt", "/mnt/farther/x", "/home/ada/x", "/mnt/far/../x", "/"])
def test_what_the_cluster_does_not_see_is_an_error(path: str) -> None:
    with pytest.raises(UsageError, match="cluster 'far' does not see this folder"):
        FAR.there(Path(path))


def test_without_another_name_both_are_the_same() -> None:
    same = FAR._replace(cluster_path=None)
    assert same.there(Path("/mnt/far/x")) == Path("/mnt/far/x")
    assert same.here(Path("/mnt/far/x")) == Path("/mnt/far/x")


def test_without_a_shared_folder_nothing_can_be_sent() -> None:
    with pytest.raises(UsageError, match="where its file system is mounted here is not known"):
        Cluster("far", url="https://h").there(Path("/x"))


@pytest.mark.parametrize(
    ("there", "here"), [("/home/ada/x", Path("/mnt/far/x")), ("/home/adam/x", None), ("/scratch", None)]
)
def test_a_folder_there_has_its_name_here_or_none(there: str, here: Path | None) -> None:
    assert FAR.here(Path(there)) == here


def test_the_keys_are_the_fields() -> None:
    assert ("name", *KEYS) == Cluster._fields


def test_the_users_keys_lie_over_the_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    site, user = tmp_path / "site.toml", tmp_path / "config.toml"
    site.write_text(
        '[clusters.far]\nurl = "https://site"\nallow_http = true\n[clusters.near]\nurl = "unix:/s"\n'
    )
    user.write_text('[clusters.far]\nuser = "ada"\nca_file = "~/ca.pem"\n')
    remotes = read_profile(site=site, user=user).remotes
    assert remotes["far"] == Cluster(
        "far", url="https://site", allow_http=True, user="ada", ca_file="/h/ca.pem"
    )
    assert remotes["near"].url == "unix:/s"
