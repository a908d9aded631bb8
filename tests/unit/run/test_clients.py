"""Which client a command gets, and what of a shell reaches a job elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import MissingRequirement, UsageError
from slurmkit.run import clients, record
from slurmkit.run.paths import RunPaths
from slurmkit.run.submit import submitting_environment
from slurmkit.slurm.commands import Commands
from slurmkit.slurm.rest.client import Rest
from slurmkit.spec.clusters import Cluster
from slurmkit.spec.model import JobSpec
from slurmkit.spec.profile import Profile
from tests.unit.run.conftest import NOW

if TYPE_CHECKING:
    from tests.unit.run.conftest import FakeClock

FAR = Cluster("far", url="https://far")
NEAR = Cluster("near", url="unix:/near")


@pytest.mark.parametrize(
    ("profile", "cluster", "kind"),
    [
        (Profile(), None, Commands),
        (Profile(), "a,b", Commands),
        (Profile(client="commands", remotes={"far": FAR}), None, Commands),
        (Profile(remotes={"far": FAR}), "@far", Rest),
        (Profile(remotes={"far": FAR}), "far", Commands),  # a name of Slurm's own
        (Profile(), "@far", Commands),  # on the cluster itself
        (Profile(client="rest", remotes={"far": FAR}), None, Rest),
        (Profile(client="rest", cluster="far", remotes={"far": FAR, "near": NEAR}), None, Rest),
    ],
)
def test_the_client_is_the_one_that_the_profile_and_the_run_mean(
    profile: Profile, cluster: str | None, kind: type, clock: FakeClock
) -> None:
    assert type(clients.connect(profile, cluster, clock=clock)) is kind


@pytest.mark.parametrize(
    ("profile", "cluster", "words"),
    [
        (Profile(client="rest"), None, "needs to know of which cluster"),
        (Profile(client="rest", remotes={"far": FAR, "near": NEAR}), None, "needs to know of which cluster"),
        (Profile(client="rest", cluster="fat", remotes={"far": FAR}), None, "there is no cluster 'fat'"),
        (Profile(remotes={"far": Cluster("far")}), "@far", "cluster 'far' has no url"),
        (
            Profile(remotes={"far": FAR._replace(token_command="'open")}),
            "@far",
            "token_command of 'far': No closing quotation",
        ),
        (
            Profile(remotes={"far": FAR._replace(token_command=" ")}),
            "@far",
            "token_command of 'far' is empty",
        ),
    ],
)
def test_what_is_not_said_is_asked_for(
    profile: Profile, cluster: str | None, words: str, clock: FakeClock
) -> None:
    with pytest.raises(UsageError, match=words):
        clients.connect(profile, cluster, clock=clock)


def test_a_client_that_cannot_be_had_says_so(clock: FakeClock) -> None:
    with pytest.raises(MissingRequirement, match='client = "pyslurm", but'):
        clients.connect(Profile(client="pyslurm"), "a,b", clock=clock)


def test_a_token_is_no_variable_of_a_job() -> None:
    spec = JobSpec(name="x", command=("true",))
    kept, gone = submitting_environment(spec, {"SLURM_JWT": "secret", "SLURM_CONF": "/c", "A": "1"})
    assert kept == {"SLURM_CONF": "/c", "A": "1"}
    assert gone == ()


@pytest.mark.parametrize(
    ("root", "seen_as", "directory", "found"),
    [
        ("/work/runs/x", None, "/work", "/work"),
        ("/work/runs/x", "/work/runs/x", "/work", "/work"),
        ("/mnt/far/p/runs/x", "/home/ada/p/runs/x", "/home/ada/p", "/mnt/far/p"),
        ("/mnt/far/p/runs/x", "/home/ada/p/runs/x", "/home/ada/q", "/mnt/far/q"),
        ("/mnt/far/p/runs/x", "/home/ada/p/runs/x", "/scratch", "/scratch"),
        ("/runs/x", "/home/ada/runs/x", "/home/ada", "/"),
    ],
)
def test_where_a_job_starts_is_named_as_this_machine_names_it(
    root: str, seen_as: str | None, directory: str, found: str
) -> None:
    made = record.RunRecord("x", "x", NOW, "ada", "laptop", directory, seen_as=seen_as)
    assert record.start_directory(RunPaths(Path(root)), made) == Path(found)
