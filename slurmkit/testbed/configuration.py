"""The configuration files of a testbed, rendered from templates/testbed."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurmkit.launch.files import write_atomically
from slurmkit.templating import environment
from slurmkit.testbed.cgroup import can_be_switched_off
from slurmkit.testbed.devices import borrow_devices, make_devices
from slurmkit.testbed.process import user_name

if TYPE_CHECKING:
    from slurmkit.testbed.layout import Layout
    from slurmkit.testbed.options import Options
    from slurmkit.testbed.testbed import Testbed

DEFAULT_PARTITION = "main"
NODES_PER_SWITCH = 2
# Lines of these keys stand side by side; any other key has one value, and a later line replaces it.
REPEATABLE = frozenset({"nodename", "partitionname", "nodeset", "downnodes", "slurmctldhost"})


@dataclass(frozen=True, slots=True)
class Gpu:
    """One fake GPU: its type and the device file that stands for it."""

    type: str
    file: str


@dataclass(frozen=True, slots=True)
class NodeLine:
    """What the configuration says of one node."""

    name: str
    resources: str
    gpus: tuple[Gpu, ...]


def write_configuration(testbed: Testbed) -> None:
    """Write slurm.conf and all that stands beside it; a key that exists stays."""
    layout, options = testbed.layout, testbed.options
    values = {
        **shape(testbed),
        "cgroup": testbed.cgroup,
        "cores": options.cpus <= (os.cpu_count() or 1),
        "host": os.uname().nodename.partition(".")[0],
        "named": testbed.named,
        "ports": testbed.ports,
        "user": user_name(),
    }
    wanted = {
        "slurm.conf": True,
        "gres.conf": bool(options.gpus),
        "cgroup.conf": testbed.cgroup or can_be_switched_off(),
        "topology.conf": bool(options.topology),
        "slurmdbd.conf": options.accounting,
        "my.cnf": options.accounting,
    }
    for name in (name for name, is_wanted in wanted.items() if is_wanted):
        text = environment().get_template(f"testbed/{name}.j2").render(values)
        if name == "slurm.conf":
            text = with_lines(text, options.config)
        # slurmdbd insists that nobody else can read its file.
        mode = 0o600 if name == "slurmdbd.conf" else 0o644
        write_atomically(layout.conf.with_name(name), text.encode(), mode)
    for key in (layout.munge_key, *([layout.jwt_key] if options.rest else [])):
        if not key.exists():
            write_atomically(key, secrets.token_bytes(128), 0o600)


def shape(testbed: Testbed) -> dict[str, Any]:
    """What every kind of testbed's templates are given: its place, name, nodes and partitions."""
    layout, options = testbed.layout, testbed.options
    return {
        "base": layout.base,
        "cluster": testbed.cluster,
        "gpu_types": list(options.gpus_by_type()),
        "leaves": switches(options),
        "nodes": node_lines(layout, options),
        "options": options,
        "partitions": partition_lines(options),
    }


def with_lines(text: str, lines: tuple[str, ...]) -> str:
    """slurm.conf with more "Key=Value" lines: one that has its key already takes that line's place."""
    result = text.splitlines()
    for line in lines:
        key = line.partition("=")[0].strip().lower()
        places = [at for at, old in enumerate(result) if old.partition("=")[0].strip().lower() == key]
        if places and key not in REPEATABLE:
            result[places[0]] = line
        else:
            result.append(line)
    return "\n".join(result) + "\n"


def node_lines(layout: Layout, options: Options) -> list[NodeLine]:
    """The nodes, with their resources as slurm.conf writes them."""
    names = options.node_names()
    counts = options.gpus_by_type()
    types = [kind for kind, count in counts.items() for _ in range(count)]
    files = gpu_files(layout, names, len(types))
    features = options.features_by_node()
    sockets = 2 if options.cpus % 2 == 0 else 1
    resources = [
        f"CPUs={options.cpus} Sockets={sockets} CoresPerSocket={options.cpus // sockets} ThreadsPerCore=1",
        f"RealMemory={options.memory}",
        *([f"Gres={','.join(f'gpu:{kind}:{count}' for kind, count in counts.items())}"] if counts else []),
    ]
    return [
        NodeLine(
            name,
            " ".join([*resources, *([f"Feature={','.join(features[name])}"] if features[name] else [])]),
            tuple(Gpu(kind, file) for kind, file in zip(types, files[name], strict=True)),
        )
        for name in names
    ]


def gpu_files(layout: Layout, nodes: tuple[str, ...], count: int) -> dict[str, list[str]]:
    """The device files of each node: made where that is allowed, else borrowed from /dev."""
    if not count:
        return {node: [] for node in nodes}
    try:
        return make_devices(layout.base / "dev", nodes, count)
    except PermissionError:
        return dict.fromkeys(nodes, borrow_devices(count))


def partition_lines(options: Options) -> list[str]:
    """What slurm.conf writes after `PartitionName=`; `main` is the default unless another says so."""
    given = [re.sub(r"=", " Nodes=", text, count=1) for text in options.partitions]
    names = {text.split()[0] for text in given}
    has_default = any(re.search(r"\bdefault=yes\b", text, re.IGNORECASE) for text in given)
    default = "" if has_default else " Default=YES"
    if DEFAULT_PARTITION in names:
        return given
    return [f"{DEFAULT_PARTITION} Nodes=ALL{default} MaxTime=INFINITE State=UP", *given]


def switches(options: Options) -> list[tuple[str, ...]]:
    """The nodes of each leaf switch of a two-level tree."""
    width = int(options.topology.partition(":")[2] or NODES_PER_SWITCH)
    names = options.node_names()
    return [names[start : start + width] for start in range(0, len(names), width)]
