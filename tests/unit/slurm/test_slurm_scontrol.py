from __future__ import annotations

from datetime import timedelta

import pytest

from slurmkit.slurm.scontrol import parse_config, parse_nodes, parse_partitions, parse_version
from slurmkit.slurm.times import UNLIMITED

NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=32  CPUAlloc=4 CPUEfctv=64 CPUTot=64 CPULoad=0.09"
    " AvailableFeatures=a100,ib ActiveFeatures=a100,ib Gres=gpu:a100:8(S:0-1) GresDrain=N/A"
    " GresUsed=gpu:a100:2(IDX:0-1) NodeAddr=127.0.0.1 NodeHostName=vm Port=24129 Version=22.05.8"
    " OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=256000 AllocMem=16000 FreeMem=23494"
    " Sockets=2 Boards=1 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A"
    " Partitions=main,gpu  BootTime=1796184441 SlurmdStartTime=1796186393 LastBusyTime=1796186394"
    " CfgTRES=cpu=64,mem=250G,billing=64,gres/gpu=8 AllocTRES=cpu=4,mem=16000M,gres/gpu=2 CapWatts=n/a"
    " CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)
PARTITION = (
    "PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A"
    " DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=2"
    " MaxTime=7-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] PriorityJobFactor=1"
    " State=UP TotalCPUs=256 TotalNodes=4 JobDefaults=(null) TRES=cpu=256,mem=1000G,node=4,gres/gpu=32"
)


def test_a_node_is_read_with_memory_in_bytes() -> None:
    (node,) = parse_nodes(NODE + "\n")
    assert (node.name, node.address, node.hostname, str(node.state)) == (
        "n1",
        "127.0.0.1",
        "vm",
        "MIXED+DRAIN",
    )
    assert (node.cpus, node.cpus_allocated) == (64, 4)
    assert (node.memory, node.memory_allocated) == (256000 * 2**20, 16000 * 2**20)
    assert (node.gres, node.gres_used) == ("gpu:a100:8(S:0-1)", "gpu:a100:2(IDX:0-1)")
    assert node.tres
    assert node.tres_allocated
    assert (node.tres.gpus, node.tres_allocated.gpus, node.reason) == (8, 2, None)
    assert (node.features, node.partitions) == (("a100", "ib"), ("main", "gpu"))


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (" Reason=Kill task failed [root@1796186461]", "Kill task failed"),
        (" Reason=bad Foo=bar State=IDLE  x [root@1796186461]        y", "bad Foo=bar State=IDLE  x\ny"),
        (" Reason=first [root@1796186461]\n   second\n   third", "first\nsecond\nthird"),
        (" Reason=it's [not] me@x [root@1] Comment=c d Extra=e", "it's [not] me@x"),
        (" Comment=Reason=none", None),
    ],
)
def test_what_an_admin_typed_as_the_reason_is_kept_and_changes_nothing_else(
    shown: str, reason: str | None
) -> None:
    nodes = parse_nodes(f"{NODE}{shown}\n{NODE.replace('n1', 'n2')}\n")
    assert [node.name for node in nodes] == ["n1", "n2"]
    assert (nodes[0].reason, str(nodes[0].state)) == (reason, "MIXED+DRAIN")


def test_a_node_without_gpus_or_features_has_none() -> None:
    text = "NodeName=c1 Gres=(null) NodeAddr=c1 State=IDLE ActiveFeatures=(null) Partitions= AllocTRES=\n"
    (node,) = parse_nodes(text)
    assert (node.gres, node.features, node.partitions, node.tres_allocated) == (None, (), (), None)


def test_a_partition_is_read() -> None:
    (partition,) = parse_partitions(PARTITION + "\n")
    assert (partition.name, partition.is_default, partition.state) == ("main", True, "UP")
    assert partition.nodes == ("n1", "n2", "n3", "n4")
    assert (partition.max_time, partition.default_time) == (timedelta(days=7), timedelta(hours=1))
    assert partition.max_nodes == 2
    assert partition.tres
    assert partition.tres.gpus == 32


def test_limits_that_are_none_are_told_apart_from_limits_that_are_open() -> None:
    text = "PartitionName=p Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED DefaultTime=NONE Nodes=(null)\n"
    (partition,) = parse_partitions(text)
    assert (partition.max_nodes, partition.max_time, partition.default_time) == (None, UNLIMITED, None)
    assert (partition.nodes, partition.is_default) == ((), False)


def test_the_configuration_is_read_key_by_key() -> None:
    text = (
        "Configuration data as of 1796186461\nAuthInfo                = socket=/run/m,cred_expire=5\n"
        "MinJobAge               = 20 sec\n\n"
        "Cgroup Support Configuration:\nAllowedRAMSpace         = 100.0%\n\n"
        "Slurmctld(primary) at vm is UP\n"
    )
    assert parse_config(text) == {
        "AuthInfo": "socket=/run/m,cred_expire=5",
        "MinJobAge": "20 sec",
        "AllowedRAMSpace": "100.0%",
    }


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm-wlm 22.05.8\n", (22, 5, 8)),
        ("slurm 24.11.5-1", (24, 11, 5)),
        ("slurm 26.05.0-0rc1", (26, 5, 0)),
        ("slurm 25.11", (25, 11, 0)),
    ],
)
def test_versions_are_numbers(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


def test_what_is_no_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a version"):
        parse_version("command not found")
