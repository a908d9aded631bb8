"""The site's and the user's profile: where they are, which wins, what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurmkit.errors import JobFileError
from slurmkit.spec.profile import Profile, read_profile, read_profile_files, user_profile

HOSTILE = "a b'c\"$x`y`\nz"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site.toml"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_without_profiles_the_built_in_settings_hold(site: Path, user: Path) -> None:
    assert read_profile(site=site, user=user) == Profile()


def test_the_users_settings_are_stronger_than_the_sites(site: Path, user: Path) -> None:
    site.write_text('[polling]\nleast_interval = "10s"\ngreatest_interval = "5m"\n')
    user.write_text('[polling]\nleast_interval = "20s"\n[slurm]\nclusters = "a,b"\n')
    profile = read_profile(site=site, user=user)
    assert profile == Profile(least_interval=20, greatest_interval=300, clusters="a,b")


def test_defaults_of_job_files_are_kept_for_the_loader(site: Path) -> None:
    site.write_text('[defaults.resources]\npartition = "train"\n')
    (one,) = read_profile_files(site=site, user=None)
    assert one.defaults == {"resources": {"partition": "train"}}
    assert one.settings == {}


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/slurmkit/config.toml"),
        ({"HOME": "/h"}, "/h/.config/slurmkit/config.toml"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/slurmkit/config.toml"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/slurmkit/config.toml"),
        ({"XDG_CONFIG_HOME": f"/{HOSTILE}"}, f"/{HOSTILE}/slurmkit/config.toml"),
    ],
)
def test_the_users_profile_is_where_xdg_says(environ: dict[str, str], path: str) -> None:
    assert user_profile(environ) == Path(path)


def test_without_a_home_there_is_no_users_profile() -> None:
    assert user_profile({}) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[polling]\nleast_intervall = '2s'\n", "did you mean `least_interval`?"),
        ("[poling]\n", "did you mean `polling`?"),
        ("polling = 3\n", "expected a table"),
        ("[polling]\nleast_interval = 2\n", "expected text, got 2"),
        ("[polling]\nleast_interval = '2'\n", "is not a duration"),
        ("[polling]\nleast_interval = '0s'\n", "once a second at most"),
        ("[slurm]\nclusters = ['a']\n", "expected text"),
        ("[slurm]\nclient = 'ssh'\n", "expected one of auto, commands, pyslurm, rest, got 'ssh'"),
        ("[clusters]\nfar = 3\n", "clusters.far: expected a table"),
        ("[clusters.far]\nulr = 'x'\n", "did you mean `url`?"),
        ("[clusters.far]\nurl = 3\n", "clusters.far.url: expected text, got 3"),
        ("[clusters.far]\nurl = ''\n", "expected text, got ''"),
        ("[clusters.far]\nallow_http = 'yes'\n", "expected true or false, got yes"),
        ("[clusters.far]\nca_file = 'ca.pem'\n", "expected an absolute path, got 'ca.pem'"),
        ("partition = 'x'\n", "unknown key `partition` in a profile"),
        ("[polling\n", "not TOML"),
    ],
)
def test_a_wrong_profile_is_told_with_its_place(site: Path, text: str, told: str) -> None:
    site.write_text(text)
    with pytest.raises(JobFileError) as caught:
        read_profile(site=site, user=None)
    assert told in str(caught.value)
    assert f"{site}:" in str(caught.value)


def test_all_problems_of_a_profile_come_at_once(site: Path) -> None:
    site.write_text("[polling]\nx = '1s'\nleast_interval = 'y'\n[other]\n")
    with pytest.raises(JobFileError) as caught:
        read_profile(site=site, user=None)
    assert len(caught.value.problems) == 3


def test_asking_for_the_profile_imports_neither_msgspec_nor_a_parser_where_there_is_none() -> None:
    program = (
        "import sys; from slurmkit.spec.profile import read_profile; from pathlib import Path;"
        "read_profile(site=None, user=Path('/nonexistent'));"
        "print(sorted({'msgspec', 'tomllib', 'tree_sitter', 'difflib'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
