"""The text of a testbed's configuration files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.testbed import configuration
from slurmkit.testbed.configuration import partition_lines, switches, with_lines, write_configuration
from slurmkit.testbed.layout import Layout
from slurmkit.testbed.options import Options
from slurmkit.testbed.testbed import Testbed

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def no_devices(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(configuration, "make_devices", no_devices)
    monkeypatch.setattr(configuration, "borrow_devices", lambda count: [f"/dev/tty{n}" for n in range(count)])

    def write(options: Options, *, cgroup: bool = False, named: bool = False) -> Path:
        testbed = Testbed(
            root=tmp_path,
            layout=Layout(tmp_path),
            options=options,
            cluster="tb",
            ports={name: 20_000 + at for at, name in enumerate(options.daemons_with_port())},
            cgroup=cgroup,
            named=named,
        )
        testbed.layout.make_directories(testbed.nodes)
        write_configuration(testbed)
        return tmp_path / "etc"

    return write


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    ("added", "result"),
    [
        (("KillWait=30",), ["KillWait=30", "NodeName=n1", "PartitionName=a Nodes=n1"]),
        (("killwait=30",), ["killwait=30", "NodeName=n1", "PartitionName=a Nodes=n1"]),
        (("Epilog=/x=y",), ["KillWait=5", "NodeName=n1", "PartitionName=a Nodes=n1", "Epilog=/x=y"]),
        (
            ("PartitionName=b Nodes=n1",),
            ["KillWait=5", "NodeName=n1", "PartitionName=a Nodes=n1", "PartitionName=b Nodes=n1"],
        ),
        (("KillWait=1", "KillWait=2"), ["KillWait=2", "NodeName=n1", "PartitionName=a Nodes=n1"]),
    ],
)
def test_a_line_of_a_known_key_takes_its_place(added: tuple[str, ...], result: list[str]) -> None:
    assert with_lines("KillWait=5\nNodeName=n1\nPartitionName=a Nodes=n1\n", added).splitlines() == result


def test_slurm_conf_says_what_the_options_say(write: Callable[..., Path]) -> None:
    text = lines(write(Options(nodes=2, min_job_age=10, cred_expire=7)) / "slurm.conf")
    assert "MinJobAge=10" in text
    assert any(line.startswith("AuthInfo=") and line.endswith(",cred_expire=7") for line in text)
    assert "AccountingStorageTRES=gres/gpu,gres/gpu:a100" in text
    assert [line.split()[0] for line in text if line.startswith("NodeName=")] == [
        "NodeName=n1",
        "NodeName=n2",
    ]


def test_a_node_that_answers_is_not_set_down_with_one_that_holds_the_answers_up(
    write: Callable[..., Path],
) -> None:
    values = dict(line.split("=", 1) for line in lines(write(Options()) / "slurm.conf") if "=" in line)
    timeout, message = int(values["SlurmdTimeout"]), int(values["MessageTimeout"])
    left_out = timeout / 3  # slurmctld does not ask a node that it has heard of within that time
    held_up = 2 * message + 1
    assert timeout > left_out + held_up + 5


def test_every_daemon_has_a_port_of_its_own(write: Callable[..., Path]) -> None:
    text = (write(Options(nodes=2)) / "slurm.conf").read_text()
    assert "SlurmctldPort=20001" in text
    assert "NodeAddr=127.0.0.1 Port=20002" in text
    assert "NodeAddr=127.0.0.1 Port=20003" in text


def test_each_gpu_has_its_line_and_file(write: Callable[..., Path]) -> None:
    text = lines(write(Options(nodes=1, gpus="a100:1,h100:1")) / "gres.conf")
    assert text == [
        "AutoDetect=off",
        "NodeName=n1 Name=gpu Type=a100 File=/dev/tty0",
        "NodeName=n1 Name=gpu Type=h100 File=/dev/tty1",
    ]


def test_a_testbed_without_gpus_knows_no_gres(write: Callable[..., Path]) -> None:
    etc = write(Options(gpus=""))
    assert "gres" not in (etc / "slurm.conf").read_text().lower()
    assert not (etc / "gres.conf").exists()


def test_without_accounting_there_is_no_slurmdbd(write: Callable[..., Path]) -> None:
    etc = write(Options(accounting=False))
    assert "AccountingStorageType=accounting_storage/none" in lines(etc / "slurm.conf")
    assert not (etc / "slurmdbd.conf").exists()
    assert not (etc / "my.cnf").exists()


@pytest.mark.parametrize(("cgroup", "tracking"), [(True, "proctrack/cgroup"), (False, "proctrack/linuxproc")])
def test_cgroups_are_used_where_there_are_some(
    write: Callable[..., Path], *, cgroup: bool, tracking: str
) -> None:
    etc = write(Options(), cgroup=cgroup)
    assert f"ProctrackType={tracking}" in lines(etc / "slurm.conf")


@pytest.mark.parametrize(("known", "text"), [(True, ["CgroupPlugin=disabled"]), (False, [])])
def test_cgroups_are_switched_off_where_slurmd_knows_the_word(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, *, known: bool, text: list[str]
) -> None:
    monkeypatch.setattr(configuration, "can_be_switched_off", lambda: known)
    etc = write(Options(), cgroup=False)
    file = etc / "cgroup.conf"
    assert [line for line in (lines(file) if file.exists() else []) if line.startswith("Cgroup")] == text


def test_cores_are_constrained_only_where_the_machine_has_them(write: Callable[..., Path]) -> None:
    more = (os.cpu_count() or 1) + 1
    assert "ConstrainCores=no" in lines(write(Options(cpus=more), cgroup=True) / "cgroup.conf")
    assert "ConstrainCores=yes" in lines(write(Options(cpus=1), cgroup=True) / "cgroup.conf")


@pytest.mark.parametrize(("named", "host"), [(True, "n1"), (False, os.uname().nodename.partition(".")[0])])
def test_the_host_name_is_the_nodes_where_it_can_have_one(
    write: Callable[..., Path], *, named: bool, host: str
) -> None:
    text = (write(Options(nodes=1), named=named) / "slurm.conf").read_text()
    assert f"NodeName=n1 NodeHostname={host} " in text


def test_secrets_are_for_the_owner_alone(write: Callable[..., Path]) -> None:
    etc = write(Options())
    assert stat.S_IMODE((etc / "munge.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((etc / "slurmdbd.conf").stat().st_mode) == 0o600


def test_tokens_are_known_to_slurmctld_and_slurmdbd_where_there_is_slurmrestd(
    write: Callable[..., Path],
) -> None:
    etc = write(Options(rest=True))
    assert stat.S_IMODE((etc / "jwt.key").stat().st_mode) == 0o600
    for file in ("slurm.conf", "slurmdbd.conf"):
        assert "AuthAltTypes=auth/jwt" in lines(etc / file)
        assert f"AuthAltParameters=jwt_key={etc / 'jwt.key'}" in lines(etc / file)


def test_without_slurmrestd_there_are_no_tokens(write: Callable[..., Path]) -> None:
    etc = write(Options())
    assert not (etc / "jwt.key").exists()
    assert "jwt" not in (etc / "slurm.conf").read_text() + (etc / "slurmdbd.conf").read_text()


def test_the_database_shares_no_directory(write: Callable[..., Path], tmp_path: Path) -> None:
    places = [line.partition("=")[2] for line in lines(write(Options()) / "my.cnf") if "=/" in line]
    assert len(places) == 4
    assert all(place.startswith(f"{tmp_path}/") for place in places)


def test_writing_again_keeps_the_key(write: Callable[..., Path]) -> None:
    key = (write(Options()) / "munge.key").read_bytes()
    assert (write(Options()) / "munge.key").read_bytes() == key


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((), ["main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]),
        (
            ("short=n[1-2] MaxTime=10",),
            ["main Nodes=ALL Default=YES MaxTime=INFINITE State=UP", "short Nodes=n[1-2] MaxTime=10"],
        ),
        (
            ("short=n1 Default=YES",),
            ["main Nodes=ALL MaxTime=INFINITE State=UP", "short Nodes=n1 Default=YES"],
        ),
        (("main=n1 Default=YES",), ["main Nodes=n1 Default=YES"]),
    ],
)
def test_partitions_stand_beside_main(given: tuple[str, ...], result: list[str]) -> None:
    assert partition_lines(Options(partitions=given)) == result


@pytest.mark.parametrize(
    ("topology", "leaves"),
    [
        ("tree", [("n1", "n2"), ("n3", "n4"), ("n5",)]),
        ("tree:4", [("n1", "n2", "n3", "n4"), ("n5",)]),
    ],
)
def test_nodes_are_spread_over_leaf_switches(topology: str, leaves: list[tuple[str, ...]]) -> None:
    assert switches(Options(nodes=5, topology=topology)) == leaves


def test_the_topology_has_a_spine(write: Callable[..., Path]) -> None:
    etc = write(Options(nodes=4, topology="tree"))
    assert lines(etc / "topology.conf") == [
        "SwitchName=leaf1 Nodes=n1,n2",
        "SwitchName=leaf2 Nodes=n3,n4",
        "SwitchName=spine Switches=leaf1,leaf2",
    ]
