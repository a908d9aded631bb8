"""One contract over all clients of one live cluster: the same calls, assertions and records."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from slurmkit.errors import JobUnknown, Refused
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.commands import Commands
from slurmkit.slurm.ids import JobId
from slurmkit.slurm.request import Submission
from slurmkit.slurm.rest import token
from slurmkit.slurm.rest.client import Rest
from slurmkit.slurm.rest.server import Server
from slurmkit.testbed.daemons import wait_for
from slurmkit.testbed.options import Options
from tests.cluster.contract import CANNOT, FORCED, differences

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.slurm.protocol import Slurm
    from slurmkit.slurm.records import Job
    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

NOW = datetime.now(UTC)
LONG = 120.0
CLIENTS = ("commands", "rest", "rest over a unix socket")
ITS_OWN = frozenset(
    {"JobId", "ArrayJobId", "Command", "SubmitTime", "AccrueTime", "EligibleTime", "StartTime", "Priority"}
    | {"StdErr", "StdOut", "StdIn", "LastSchedEval", "OOMKillStep", "Scheduler", "AllocNode:Sid"}
    | {"SubmitLine"}
)
"""Of what scontrol shows of a job: what no two jobs have alike, and on which slurmctld acts by itself."""
HOSTILE = ["a|b", "x y", "é", "-x $HOME `id` 'q'", "12_[1-3]", 'say "hi"']


class Cluster(NamedTuple):
    """The testbed, a client of each kind, and how a job is submitted through one of them."""

    testbed: Testbed
    clients: dict[str, Slurm]
    folder: Path

    @property
    def api(self) -> str:
        rest = self.clients["rest"]
        assert isinstance(rest, Rest)
        return rest.api

    def submit(self, client: str, body: str, *options: str, tag: str = "none") -> JobId:
        script = self.folder / f"job {uuid.uuid4()}.sh"
        script.write_text(f"#!/bin/bash\n{body}\n")
        return (
            self.clients[client]
            .submit(
                Submission(
                    script=script,
                    tag=tag,
                    directory=self.folder,
                    arguments=("--output=/dev/null", *options),
                    environment={"PATH": os.environ["PATH"], "GIVEN": "a 'b' $c"},
                )
            )
            .id
        )

    def shown(self, job: JobId) -> Job:
        (one,) = self.clients["commands"].jobs([job])
        return one

    def reaches(self, job: JobId, condition: Callable[[Job], bool]) -> Job:
        assert wait_for(lambda: condition(self.shown(job)), LONG, 0.2), self.shown(job)
        return self.shown(job)


@pytest.fixture(scope="module")
def cluster(make_testbed: Callable[[Options], Testbed], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    testbed = make_testbed(
        Options(
            nodes=3,
            gpus="a100:2",
            cpus=8,
            memory=16_000,
            features=("fast=n1",),
            partitions=("short=n[1-2] MaxTime=10 DefaultTime=5 MaxNodes=1",),
            rest=True,
        )
    )
    kept = {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("kept"))}
    environ = {**os.environ, **testbed.environment, **kept}
    tokens = token.from_anywhere(environ, SystemClock())
    return Cluster(
        testbed,
        {
            "commands": Commands(environment=environ),
            "rest": Rest(Server(testbed.rest_url), tokens),
            "rest over a unix socket": Rest(Server(f"unix:{testbed.layout.rest_socket}"), tokens),
        },
        tmp_path_factory.mktemp("jobs of 'x' $y"),
    )


@pytest.fixture(params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(cluster: Cluster, name: str) -> Slurm:
    return cluster.clients[name]


def refused(cluster: Cluster, name: str, what: str) -> bool:
    return name != "commands" and cluster.api in CANNOT[what]


@pytest.fixture(scope="module")
def population(cluster: Cluster) -> dict[str, JobId]:
    """Jobs in every state that is compared, each for long enough."""
    made = {
        "ended": cluster.submit("commands", "true", "--nodes=1", "--comment=a comment"),
        "failed": cluster.submit("commands", "srun -n1 false; exit 3"),
        "killed": cluster.submit("commands", "kill -KILL $$"),
        "failed with 137": cluster.submit("commands", "exit 137"),
        "running": cluster.submit(
            "commands", "srun --gpus=1 sleep 900", "--nodes=1", "--gpus=1", "--time=1-2", "--mem=500M"
        ),
        "unlimited": cluster.submit("commands", "sleep 900", "--time=UNLIMITED", "--ntasks=2"),
        "array": cluster.submit("commands", "sleep 900", "--array=0-9:3%2"),
        "het": cluster.submit("commands", "sleep 900", "--gpus=1", ":", "--ntasks=2"),
        "held": cluster.submit("commands", "true", "--hold", "--partition=short"),
        "later": cluster.submit("commands", "true", "--begin=now+1hour", "--exclude=n1"),
    }
    made["dependent"] = cluster.submit("commands", "true", f"--dependency=afterok:{made['running']}")
    made["too large"] = cluster.submit("commands", "true", "--ntasks=9", "--nodes=2", "--mem=15G")
    made["cancelled"] = cluster.submit("commands", "sleep 900", "--nodes=1")
    made["requeued"] = cluster.submit("commands", "sleep 900", "--nodes=1", "--requeue")
    made["cancelled while waiting"] = cluster.submit("commands", "true", "--begin=now+1hour")
    made |= {
        f"named {text}": cluster.submit("commands", "true", f"--job-name={text}", f"--comment={text}")
        for text in HOSTILE
    }
    for job in (made["running"], made["cancelled"], made["requeued"]):
        cluster.reaches(job, lambda one: one.state.name == "RUNNING")
    # What slurmdbd has not heard of an attempt before the next one begins, it never learns.
    assert wait_for(lambda: is_recorded(cluster, made["requeued"]), LONG, 0.5)
    cluster.clients["commands"].requeue(made["requeued"])
    cluster.clients["commands"].cancel([made["cancelled"], made["cancelled while waiting"]])
    over = [job for word, job in made.items() if word.split()[0] in {"ended", "failed", "killed", "named"}]
    for job in (*over, made["cancelled"], made["cancelled while waiting"]):
        cluster.reaches(job, lambda one: one.state.is_final)
    cluster.reaches(made["requeued"], lambda one: one.state.name == "RUNNING" and one.restarts == 1)
    # Last, as those behind it would wait for it.
    made["exclusive"] = cluster.submit("commands", "true", "--exclusive", "--nodes=3")
    assert wait_for(lambda: is_settled(cluster, made), LONG, 0.5)
    return made


def is_recorded(cluster: Cluster, job: JobId) -> bool:
    """Whether slurmdbd has the start of a job, and its limit."""
    told = cluster.clients["commands"].accounting([job])
    return bool(told) and all(one.start_time and one.time_limit for one in told)


def is_settled(cluster: Cluster, made: dict[str, JobId]) -> bool:
    """Whether slurmdbd knows what slurmctld knows: names and ends reach it some seconds later."""
    commands = cluster.clients["commands"]
    recorded = {job.id: job for job in commands.accounting(list(made.values()))}
    steps = [step for job in recorded.values() if job.state.is_final for step in job.steps]
    waiting = {"array", "het"}
    return (
        all(
            made[word] in recorded and recorded[made[word]].state.name == cluster.shown(made[word]).state.name
            for word in made.keys() - waiting
        )
        and all(job.partition for job in recorded.values())
        and recorded[made["requeued"]].time_limit is not None
        and all(step.end_time for step in steps)
        and len(recorded[made["running"]].steps) >= 2
    )


def queues(cluster: Cluster, other: str) -> tuple[list[Job], list[Job]]:
    """The queue as the commands and as another client tell it, while slurmctld left it as it was."""
    commands = cluster.clients["commands"]
    told: list[tuple[list[Job], list[Job]]] = []

    def is_still() -> bool:
        before, its, after = commands.jobs(), cluster.clients[other].jobs(), commands.jobs()
        told.append((before, its))
        return differences("queue", "", before, after) == []

    assert wait_for(is_still, LONG, 0.2)
    return told[-1]


@pytest.mark.usefixtures("population")
@pytest.mark.parametrize("other", CLIENTS[1:])
class TestTheSameRecords:
    """Field by field, for every record, as the commands tell it."""

    def test_of_the_queue(self, cluster: Cluster, other: str) -> None:
        mine, its = queues(cluster, other)
        assert len(mine) >= 20
        assert differences("queue", cluster.api, mine, its) == []

    def test_of_one_job(self, cluster: Cluster, other: str, population: dict[str, JobId]) -> None:
        for job in population.values():
            mine, its = (cluster.clients[name].jobs([job]) for name in ("commands", other))
            assert differences("queue", cluster.api, mine, its) == []

    def test_of_accounting_and_its_steps(self, cluster: Cluster, other: str) -> None:
        mine, its = (cluster.clients[name].accounting() for name in ("commands", other))
        assert sum(bool(job.steps) for job in mine) >= 5
        assert differences("accounting", cluster.api, mine, its) == []

    @pytest.mark.parametrize(
        "asked",
        [
            {"steps": False},
            {"duplicates": True},
            {"user": "root"},
            {"user": str(os.getuid())},
            {"user": "daemon"},
            {"since": NOW - timedelta(hours=1), "until": NOW + timedelta(hours=1)},
            {"since": NOW - timedelta(hours=3), "until": NOW - timedelta(hours=2)},
        ],
        ids=[
            *("without steps", "with duplicates", "of root", "of a uid", "of a user without jobs"),
            *("around now", "of hours ago"),
        ],
    )
    def test_of_accounting_however_it_is_asked(
        self, cluster: Cluster, other: str, asked: dict[str, Any]
    ) -> None:
        if "user" in asked:
            cluster.clients[other].jobs()  # by which it learns of the uids
        mine, its = (cluster.clients[name].accounting(**asked) for name in ("commands", other))
        assert differences("accounting", cluster.api, mine, its) == []

    def test_of_accounting_of_some_jobs(
        self, cluster: Cluster, other: str, population: dict[str, JobId]
    ) -> None:
        some = [population[word] for word in ("ended", "running", "het", "array", "cancelled")]
        mine, its = (cluster.clients[name].accounting(some) for name in ("commands", other))
        assert len(mine) >= 6
        assert differences("accounting", cluster.api, mine, its) == []

    def test_of_nodes(self, cluster: Cluster, other: str) -> None:
        mine, its = (cluster.clients[name].nodes() for name in ("commands", other))
        assert any(node.cpus_allocated for node in mine)
        assert differences("node", cluster.api, mine, its) == []

    def test_of_a_node_that_takes_no_jobs(self, cluster: Cluster, other: str) -> None:
        drained = cluster.testbed.command(
            ["scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=bad 'fan' at n3"]
        )
        assert drained.returncode == 0
        try:
            mine, its = (cluster.clients[name].nodes(["n3"]) for name in ("commands", other))
            assert mine[0].state.is_drained
            assert differences("node", cluster.api, mine, its) == []
        finally:
            cluster.testbed.command(["scontrol", "update", "NodeName=n3", "State=RESUME"])

    def test_of_partitions(self, cluster: Cluster, other: str) -> None:
        mine, its = (cluster.clients[name].partitions() for name in ("commands", other))
        assert differences("partition", cluster.api, mine, its) == []

    def test_of_what_it_tells_of_the_configuration(self, cluster: Cluster, other: str) -> None:
        mine, its = (cluster.clients[name].config() for name in ("commands", other))
        assert its
        assert {key: mine[key] for key in its} == its

    def test_of_the_version(self, cluster: Cluster, other: str) -> None:
        mine, its = (cluster.clients[name].version() for name in ("commands", other))
        assert mine == its


def test_every_difference_that_is_allowed_has_its_reason() -> None:
    assert all(row.why and row.apis for row in FORCED)


def test_a_job_that_was_submitted_is_found_by_its_tag(cluster: Cluster, name: str, client: Slurm) -> None:
    tag = f"run-{uuid.uuid4()}"
    began = datetime.now(UTC) - timedelta(seconds=5)
    job = cluster.submit(name, "true", f"--comment=mine slurmkit:{tag}", "--hold", tag=tag)
    for other in cluster.clients.values():
        found = other.find(tag, since=began)
        assert found is not None
        assert found.id == job
        assert other.find(tag[:-1], since=began) is None
    client.cancel([job])


def test_the_options_in_a_script_count_and_those_beside_it_beat_them(cluster: Cluster, name: str) -> None:
    lines = (
        "#SBATCH --job-name='two words'\n#SBATCH -N 1 --time=30 --mem=100M\n#SBATCH --comment=\"it's\"\ntrue"
    )
    job = cluster.shown(cluster.submit(name, lines, "--time=1:30:00", "--hold"))
    assert (job.name, job.comment, job.time_limit) == ("two words", "it's", timedelta(minutes=90))
    cluster.clients[name].cancel([job.id])


def test_a_job_gets_the_variables_that_it_was_given_and_no_others(cluster: Cluster, name: str) -> None:
    told = cluster.folder / f"told {uuid.uuid4()}"
    file = shlex.quote(str(told))
    job = cluster.submit(name, f"umask >{file}; env >>{file}", "--ntasks=2", "--gpus-per-task=1")
    cluster.reaches(job, lambda one: one.state.is_final)
    lines = told.read_text().splitlines()
    variables = dict(line.partition("=")[::2] for line in lines[1:])
    mask = os.umask(0o077)
    os.umask(mask)
    assert int(lines[0], 8) == mask
    assert variables["GIVEN"] == "a 'b' $c"
    assert variables["SLURM_NTASKS"] == "2"
    assert variables["SLURM_SUBMIT_DIR"] == str(cluster.folder)
    assert {"HOME", "SLURM_JWT", "SLURM_CONF_SERVER"} & variables.keys() <= {"HOME"}


def details(cluster: Cluster, job: JobId) -> dict[str, str]:
    """What slurmctld knows of a job."""
    text = cluster.testbed.command(["scontrol", "--oneliner", "show", "job", str(job)]).stdout.strip()
    return dict(part.partition("=")[::2] for part in re.split(r" (?=[A-Z][\w:/]*=)", text))


@pytest.mark.parametrize(
    "options",
    [
        ("--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=2", "--gpus-per-node=a100:1", "--mem=1G"),
        ("--ntasks=3", "--mem-per-cpu=100M", "--time=2:00:00"),
        ("--nodes=1-2", "--gpus=a100:2", "--constraint=fast", "--partition=main,short"),
        ("--exclusive", "--nodes=2", "--signal=USR1@120", "--no-kill", "--requeue"),
        ("--array=0-3%2", "--gres=gpu:a100:1", "--nice=5", "--dependency=singleton"),
        ("--begin=now+1hour", "--nodelist=n2", "--exclude=n3", "--no-requeue", "--open-mode=append"),
        ("--time=UNLIMITED", "--licenses=", "--mail-type=END,FAIL", "--use-min-nodes", "--prefer=fast"),
    ],
    ids=" ".join,
)
def test_what_is_asked_for_is_asked_for_alike(cluster: Cluster, options: tuple[str, ...]) -> None:
    """slurmctld's own words on two jobs: one submitted by sbatch, one through slurmrestd."""
    asked = [option for option in options if not option.endswith("=")]
    jobs = [cluster.submit(name, "true", "--hold", "--job-name=j", *asked) for name in ("commands", "rest")]
    told = [details(cluster, job) for job in jobs]
    mine, its = ({key: value for key, value in one.items() if key not in ITS_OWN} for one in told)
    assert its == mine
    cluster.clients["commands"].cancel(jobs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--partition=nix",), "There is no such partition"),
        (("--mem=900G",), "No node|memory"),
        (("--array=0-5000",), "array"),
    ],
)
def test_a_refusal_is_told_in_the_same_words(
    cluster: Cluster, name: str, options: tuple[str, ...], words: str
) -> None:
    with pytest.raises(Refused, match=words) as caught:
        cluster.submit(name, "true", *options)
    assert not caught.value.passing


def test_an_option_that_the_api_has_no_field_for_is_refused(cluster: Cluster) -> None:
    with pytest.raises(Refused, match=f"slurmrestd {cluster.api} has no way to ask for --power"):
        cluster.submit("rest", "true", "--power=x")


def test_a_job_is_cancelled_and_once_more(cluster: Cluster, name: str, client: Slurm) -> None:
    job = cluster.submit(name, "sleep 900")
    cluster.reaches(job, lambda one: one.state.name == "RUNNING")
    client.cancel([job])
    cluster.reaches(job, lambda one: one.state.is_final)
    client.cancel([job, JobId(999_999)])


def test_one_task_of_an_array_is_cancelled(cluster: Cluster, name: str, client: Slurm) -> None:
    array = cluster.submit(name, "true", "--array=0-3", "--hold")
    client.cancel([JobId(array.job, task=2)])
    waiting = [job for job in client.jobs([array]) if job.state.is_pending]
    assert [str(job.id) for job in waiting] == [f"{array}_[0-1,3]"]
    client.cancel([array])


def test_a_job_is_held_and_released(cluster: Cluster, name: str, client: Slurm) -> None:
    job = cluster.submit(name, "true", "--begin=now+1hour")
    client.hold(job)
    assert (cluster.shown(job).reason or "").startswith("JobHeld")
    client.release(job)
    assert cluster.reaches(job, lambda one: not (one.reason or "").startswith("JobHeld")).state.is_pending
    client.cancel([job])


def test_a_job_is_changed(cluster: Cluster, name: str, client: Slurm) -> None:
    job = cluster.submit(name, "true", "--hold", "--time=30", "--exclude=n3")
    client.update(job, {"Comment": "it's 'new'", "TimeLimit": "45", "Partition": "short", "Requeue": "0"})
    changed = cluster.shown(job)
    assert (changed.comment, changed.time_limit) == ("it's 'new'", timedelta(minutes=45))
    assert changed.partition == "short"
    client.exclude(job, ["n1"])
    for other in ("commands", "rest"):
        assert cluster.clients[other].excluded(job) == ("n1", "n3")  # type: ignore[attr-defined]
    client.cancel([job])


@pytest.mark.parametrize("change", ["hold", "release", "update"])
def test_a_job_that_there_is_not_cannot_be_changed(client: Slurm, change: str) -> None:
    extra = [{"Comment": "x"}] if change == "update" else []
    with pytest.raises(JobUnknown):
        getattr(client, change)(JobId(999_999), *extra)


def test_an_id_that_slurm_does_not_know_is_absent(client: Slurm, cluster: Cluster, name: str) -> None:
    job = cluster.submit(name, "true", "--hold")
    assert client.jobs([JobId(999_999)]) == []
    assert client.jobs([]) == []
    assert client.accounting([JobId(999_999)]) == []
    assert [one.id for one in client.jobs([job, JobId(999_999)])] == [job]
    client.cancel([job])


def test_a_signal_reaches_the_script_or_the_steps(cluster: Cluster, name: str, client: Slurm) -> None:
    told = cluster.folder / f"told {uuid.uuid4()}"
    step = cluster.folder / f"step {uuid.uuid4()}"
    told.write_text("")
    file = shlex.quote(str(told))
    step.write_text(f"trap 'echo step >>\"$1\"' USR1\necho up >>{file}\nwhile :; do sleep 0.1; done\n")
    body = f"trap 'echo script >>\"$told\"' USR1\ntold={file}\n"
    body += f"srun -n1 bash {shlex.quote(str(step))} {file} &\nwhile :; do wait; done"
    job = cluster.submit(name, body, "--ntasks=1")
    try:
        if refused(cluster, name, "signal"):
            with pytest.raises(Refused, match="has no way to signal"):
                client.signal(job, "USR1", batch=True)
            return
        assert wait_for(lambda: "up" in told.read_text(), LONG)
        client.signal(job, "USR1", batch=True)
        assert wait_for(lambda: told.read_text().split() == ["up", "script"], 20)
        client.signal(job, "USR1")
        assert wait_for(lambda: told.read_text().split() == ["up", "script", "step"], 20)
    finally:
        client.cancel([job])


def test_a_job_is_requeued(cluster: Cluster, name: str, client: Slurm) -> None:
    job = cluster.submit(name, "sleep 900", "--requeue")
    cluster.reaches(job, lambda one: one.state.name == "RUNNING")
    try:
        if refused(cluster, name, "requeue"):
            with pytest.raises(Refused, match="has no way to requeue"):
                client.requeue(job)
            return
        client.requeue(job, hold=True)
        held = cluster.reaches(job, lambda one: one.state.is_pending and one.restarts == 1)
        assert "held" in str(held.reason).lower()
    finally:
        client.cancel([job])


@pytest.mark.parametrize("what", ["end_steps", "topology"])
def test_what_the_api_cannot_do_says_what_can(cluster: Cluster, what: str) -> None:
    arguments = [JobId(1)] if what == "end_steps" else []
    with pytest.raises(Refused) as caught:
        getattr(cluster.clients["rest"], what)(*arguments)
    assert "on the cluster: sc" in str(caught.value.hint)
