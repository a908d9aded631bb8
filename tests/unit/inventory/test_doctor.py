"""What doctor says of a host and of nodes, piece by piece: each is a value of what is looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import AccountingOff, Refused, Unreachable
from slurmkit.inventory import doctor, nodes_check
from slurmkit.inventory.nodes_check import Verdict, examine_nodes
from slurmkit.run.fitness import Fitness
from slurmkit.slurm.clock import SystemClock
from slurmkit.slurm.probing import parse_controller_time
from slurmkit.slurm.records import Node
from slurmkit.slurm.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = {
    "ClusterName": "one",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageTRES": "cpu,mem,gres/gpu",
    "AuthInfo": "socket=/run/munge,cred_expire=30",
}


class FakeSlurm:
    """The few answers that doctor asks for; an error in the place of one is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"version": (22, 5, 8), "config": CONFIG, "accounting": [], **answers}

    def __getattr__(self, name: str) -> Any:
        def answer(*_: object, **__: object) -> Any:
            found = self.answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def lines(slurm: FakeSlurm, theirs: float | None = 1000.0) -> dict[str, doctor.Line]:
    found = doctor.slurm_itself(slurm, lambda: theirs, lambda: 1000.5)
    return {line.what: line for line in found}


def test_all_is_well() -> None:
    found = lines(FakeSlurm())
    assert {line.verdict for line in found.values()} == {"ok"}
    assert found["Slurm"].text.startswith("22.05.8, without --tres-per-task (23.02), ")
    assert found["requeue"].text == "a requeued job may start again after about 31 s"


def test_a_slurm_that_can_do_everything_is_its_version_alone() -> None:
    assert doctor.what_it_can_do((99, 5, 0)) == "99.05.0"


@pytest.mark.parametrize(
    ("answers", "what", "verdict"),
    [
        ({"version": Unreachable("no sinfo")}, "Slurm", "unreachable"),
        ({"config": Unreachable("no answer")}, "slurmctld", "unreachable"),
        ({"accounting": Unreachable("no slurmdbd")}, "accounting", "problem"),
        ({"accounting": AccountingOff("none")}, "accounting", "problem"),
        ({"config": {**CONFIG, "AccountingStorageType": "(null)"}}, "accounting", "warning"),
        ({"config": {**CONFIG, "AccountingStorageTRES": "cpu,mem"}}, "accounting", "warning"),
    ],
)
def test_what_does_not_answer_is_named(answers: dict[str, Any], what: str, verdict: str) -> None:
    assert lines(FakeSlurm(**answers))[what].verdict == verdict


@pytest.mark.parametrize(
    ("theirs", "verdict", "text"),
    [
        (1000.0, "ok", "agrees with slurmctld's"),
        (1010.0, "warning", "is 10 s behind slurmctld's"),
        (900.0, "problem", "is 100 s ahead of slurmctld's"),
        (None, "warning", "slurmctld does not tell its time (sdiag is not allowed here)"),
    ],
)
def test_the_clock_is_compared_with_slurmctlds(theirs: float | None, verdict: str, text: str) -> None:
    line = doctor.clock(theirs, 1000.0)
    assert (line.verdict, line.text) == (verdict, text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("*****\nsdiag output at Wed Dec 02 08:43:12 2026 (1796200992)\n", 1796200992.0), ("", None)],
)
def test_sdiag_tells_the_controllers_time(text: str, seconds: float | None) -> None:
    assert parse_controller_time(text) == seconds


@pytest.mark.parametrize(
    ("mounts", "path", "kind"),
    [
        ("srv:/a /home nfs4 rw 0 0\n/dev/sda / ext4 rw 0 0\n", "/home/ada/runs", "nfs4"),
        ("/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n", "/tmp/runs", "tmpfs"),
        ("/dev/sda / ext4 rw 0 0\nx /mnt/my\\040disk lustre rw 0 0\n", "/mnt/my disk/runs", "lustre"),
        ("/dev/sda / ext4 rw 0 0\nx /ho nfs rw 0 0\n", "/home/ada", "ext4"),
        ("a /d nfs rw 0 0\nb /d beegfs rw 0 0\n", "/d/runs", "beegfs"),
        ("garbage\n", "/home", "an unknown file system"),
    ],
)
def test_the_file_system_is_that_of_the_deepest_mount(
    tmp_path: Path, mounts: str, path: str, kind: str
) -> None:
    file = tmp_path / "mounts"
    file.write_text(mounts)
    assert doctor.file_system(Path(path), file) == kind


def test_runs_on_a_file_system_of_one_host_are_warned_of(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    for kind, verdict in (("tmpfs", "warning"), ("ext4", "warning"), ("nfs4", "ok"), ("lustre", "ok")):
        mounts.write_text(f"x / {kind} rw 0 0\n")
        assert doctor.shared(tmp_path / "absent" / "runs", mounts).verdict == verdict


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_CPU_BIND": "quiet,mask_cpu:0xF", "SLURM_CPU_BIND_TYPE": "mask_cpu:"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
        {"SLURM_JOB_ID": "7"},
        {"SLURM_MEM_PER_CPU": "100"},
    ],
)
def test_trap_066_a_shell_that_inherits_from_a_job_is_warned_of(variables: dict[str, str]) -> None:
    line = doctor.inside_a_step({"HOME": "/home/ada", **variables})
    assert line.verdict == "warning"
    assert next(reversed(variables)) in line.text or "7" in line.text


def test_trap_066_a_shell_of_its_own_is_well() -> None:
    assert doctor.inside_a_step({"HOME": "/home/ada", "SLURM_CONF": "/etc/slurm.conf"}).verdict == "ok"


def network(folder: Path, chosen: str | None, **links: str) -> doctor.Line:
    for name, state in links.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "operstate").write_text(f"{state}\n")
    environ = {} if chosen is None else {"NCCL_SOCKET_IFNAME": chosen}
    return doctor.interfaces(environ, folder)


LINKS = {"lo": "unknown", "eth0": "up", "ib0": "up", "eno2": "down", "docker0": "up", "veth12": "up"}


def test_trap_088_candidates_are_the_interfaces_that_are_up_and_no_virtual_ones(tmp_path: Path) -> None:
    line = network(tmp_path, None, **LINKS)
    assert (line.verdict, line.text) == ("ok", "interfaces for NCCL_SOCKET_IFNAME on this host: eth0, ib0")
    assert line.advice.endswith("^docker,lo")
    assert "none but virtual ones" in network(tmp_path / "none", None, lo="unknown").text


@pytest.mark.parametrize(
    ("chosen", "verdict"),
    [
        ("^docker0", "warning"),
        ("^lo", "warning"),
        ("^docker,lo", "ok"),
        ("^lo,docker0,veth", "ok"),
        ("ens3", "warning"),
        ("eth", "ok"),
        ("=ib0", "ok"),
        ("ib,eth0", "ok"),
    ],
)
def test_trap_088_a_users_own_choice_is_looked_at(tmp_path: Path, chosen: str, verdict: str) -> None:
    line = network(tmp_path, chosen, **LINKS)
    assert line.verdict == verdict
    assert verdict == "ok" or f"NCCL_SOCKET_IFNAME={chosen}" in line.text


def test_no_extra_is_imported_to_see_whether_it_is_there() -> None:
    code = (
        "import sys; from slurmkit.inventory.doctor import EXTRAS, extras; extras();"
        "sys.exit(any(name in sys.modules for names in EXTRAS.values() for name in names))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def node(name: str, state: str, gres: str | None = None, used: str | None = None) -> Node:
    return Node(
        name=name,
        address=name,
        hostname=name,
        state=NodeState.parse(state),
        reason="disk $x" if "DRAIN" in state else None,
        gres=gres,
        gres_used=used,
    )


NODES = [
    node("n1", "IDLE", "gpu:a100:8", "gpu:a100:0"),
    node("n2", "MIXED", "gpu:a100:8(S:0-1)", "gpu:a100:3(IDX:0-2)"),
    node("n3", "IDLE+DRAIN", "gpu:a100:8"),
    node("n4", "ALLOCATED"),
    node("n5", "IDLE", "gpu:a100:8"),
    node("n6", "DOWN*"),
    node("n7", "IDLE"),
]


def examined(
    monkeypatch: pytest.MonkeyPatch, answers: dict[int, Fitness | Refused], nodes: Sequence[Node] = NODES
) -> tuple[list[Verdict], list[tuple[list[str], int]]]:
    """The verdicts, and the jobs that were asked for: nodes and GPUs of each."""
    jobs: list[tuple[list[str], int]] = []

    def check(names: list[str], gpus: int, options: Sequence[str], **_: object) -> Fitness:
        jobs.append((names, gpus))
        answer = answers.get(gpus, Fitness())
        if isinstance(answer, Refused):
            raise answer
        return answer

    monkeypatch.setattr(nodes_check, "check", check)
    found = examine_nodes(
        nodes,
        [],
        directory=Path("/x"),
        programs=(),
        environment={},
        clock=SystemClock(),
        check_time=1.0,
        queue_time=1.0,
    )
    return found, jobs


def test_nodes_are_looked_at_by_their_free_gpus_and_told_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = Fitness(unfit={"n5": ("no link",)}, warnings={"n1": ("slow",), "n5": ("odd",)})
    found, jobs = examined(monkeypatch, {8: bad})
    assert jobs == [(["n7"], 0), (["n2"], 5), (["n1", "n5"], 8)]
    assert [tuple(one) for one in found] == [
        ("n1", "fit", ["slow"]),
        ("n2", "fit", ["3 of 8 GPUs are in use and were not looked at"]),
        ("n3", "unfit", ["Slurm has it as IDLE+DRAIN: disk $x"]),
        ("n4", "unknown", ["Slurm has it as ALLOCATED"]),
        ("n5", "unfit", ["no link", "odd"]),
        ("n6", "unfit", ["Slurm has it as DOWN+NOT_RESPONDING"]),
        ("n7", "fit", []),
    ]


def test_nodes_that_slurm_does_not_let_us_look_at_are_not_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = examined(monkeypatch, {5: Refused("busy")})
    assert found[1] == Verdict("n2", "unknown", ["busy"])
    with pytest.raises(Refused):
        examined(monkeypatch, {8: Refused("busy")}, [NODES[0], NODES[4]])
