"""What a testbed asks of the machine: programs, ports, devices, cgroups."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from slurmkit.errors import MissingRequirement, UsageError
from slurmkit.testbed import cgroup, devices, requirements
from slurmkit.testbed.ports import free_ports, is_free, listens


def test_missing_programs_are_named_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "search_path", lambda: "/nowhere")
    with pytest.raises(MissingRequirement) as caught:
        requirements.find_programs(accounting=True)
    assert (
        "slurmctld, slurmd, sinfo, scontrol, sacct, sacctmgr, munged, slurmdbd, mariadbd" in caught.value.what
    )
    assert caught.value.hint == (
        "apt-get install --no-install-recommends slurmctld slurm-wlm-basic-plugins slurmd slurm-client munge "
        "slurmdbd slurm-wlm-mysql-plugin mariadb-server util-linux"
    )


def test_a_testbed_without_accounting_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "search_path", lambda: "/nowhere")
    with pytest.raises(MissingRequirement) as caught:
        requirements.find_programs(accounting=False)
    assert "mariadb" not in str(caught.value)


def test_slurmrestd_is_needed_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "search_path", lambda: "/nowhere")
    for rest in (False, True):
        with pytest.raises(MissingRequirement) as caught:
            requirements.find_programs(accounting=False, rest=rest)
        assert ("slurmrestd slurm-wlm-jwt-plugin" in str(caught.value.hint)) == rest


def test_daemons_are_found_where_the_path_of_a_user_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    assert "/usr/sbin" in requirements.search_path().split(":")


def test_ports_are_free_distinct_and_outside_the_range_of_clients() -> None:
    ports = free_ports([f"slurmd-n{number}" for number in range(20)])
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports.values())) == 20
    assert all(10_000 <= port < lowest for port in ports.values())
    assert all(map(is_free, ports.values()))


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(port)
        assert not is_free(port)
    assert not listens(port)


def test_a_unix_socket_file_that_nobody_serves_does_not_listen(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not listens(path)
        server.listen()
        assert listens(path)
    assert path.exists()
    assert not listens(path)


def test_borrowed_devices_are_character_devices() -> None:
    for file in devices.borrow_devices(4):
        assert stat.S_ISCHR(Path(file).stat().st_mode)


def test_more_gpus_than_devices_is_an_error() -> None:
    with pytest.raises(UsageError, match="character devices"):
        devices.borrow_devices(10_000)


def test_no_driver_answers_to_the_fake_gpus() -> None:
    assert devices.free_major() in devices.EXPERIMENTAL_MAJORS
    assert f"\n{devices.free_major():3d} " not in Path("/proc/devices").read_text()


def test_a_machine_without_cgroups_has_none_to_use(tmp_path: Path) -> None:
    assert not cgroup.is_usable(tmp_path)
