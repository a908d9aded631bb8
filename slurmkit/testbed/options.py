"""What a testbed is asked to be: its nodes, GPUs, partitions, and lines of slurm.conf."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from slurmkit.errors import UsageError
from slurmkit.launch.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Options:
    """The shape of a testbed. Two testbeds with equal options are interchangeable.

    `gpus` is "TYPE:COUNT[,TYPE:COUNT...]" per node, or empty; `memory` is MiB per node; a partition is
    "NAME=NODES [Key=Value ...]", a feature "NAME[=NODES]", a configuration line "Key=Value" of slurm.conf.
    `rest` adds slurmrestd and the tokens that it asks for.
    """

    nodes: int = 4
    gpus: str = "a100:8"
    cpus: int = 64
    memory: int = 256_000
    prefix: str = "n"
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    topology: str = ""
    cred_expire: int = 5
    min_job_age: int = 300
    config: tuple[str, ...] = ()
    accounting: bool = True
    rest: bool = False

    def __post_init__(self) -> None:
        """Refuse what Slurm would only refuse later, in a log file."""
        for field in ("nodes", "cpus", "memory", "cred_expire", "min_job_age"):
            if getattr(self, field) < 1:
                raise UsageError(f"a testbed's {field} must be at least 1, not {getattr(self, field)}")
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z-])?", self.prefix):
            raise UsageError(
                f"{self.prefix!r} cannot start a node's name",
                hint="lower-case letters, digits and '-', with a letter first and no digit last",
            )
        for text, pattern, form in (
            *((line, r"\w+=[^\n]*", "Key=Value") for line in self.config),
            *((line, r"[\w-]+=\S+( +\w+=\S+)*", "NAME=NODES [Key=Value ...]") for line in self.partitions),
            *((line, r"[\w.-]+(=\S+)?", "NAME[=NODES]") for line in self.features),
            (self.topology, r"(tree(:[1-9]\d*)?)?", "tree or tree:NODES_PER_SWITCH"),
        ):
            if not re.fullmatch(pattern, text):
                raise UsageError(f"{text!r} is not of the form {form}")
        if self.rest and not self.accounting:
            raise UsageError("a testbed's slurmrestd needs accounting: it ends at once without slurmdbd")
        self.gpus_by_type()
        self.features_by_node()

    def node_names(self) -> tuple[str, ...]:
        """The nodes' names, in order: n1, n2, ..."""
        return tuple(f"{self.prefix}{number}" for number in range(1, self.nodes + 1))

    def daemons(self) -> list[str]:
        """All daemons in the order in which they are started."""
        accounting = ["mariadbd", "slurmdbd"] if self.accounting else []
        rest = ["slurmrestd"] if self.rest else []
        nodes = (f"slurmd-{node}" for node in self.node_names())
        return ["munged", *accounting, "slurmctld", *rest, *nodes]

    def daemons_with_port(self) -> list[str]:
        """Those that listen on a TCP port."""
        return [name for name in self.daemons() if name.startswith("slurm")]

    def gpus_by_type(self) -> dict[str, int]:
        """GPUs of one node, by type."""
        if not self.gpus:
            return {}
        counts: dict[str, int] = {}
        for part in self.gpus.split(","):
            found = re.fullmatch(r"([\w.-]+):([1-9]\d*)", part)
            if not found or found[1] in counts:
                raise UsageError(
                    f"{self.gpus!r} is not of the form TYPE:COUNT[,TYPE:COUNT...]", hint="a100:8"
                )
            counts[found[1]] = int(found[2])
        return counts

    def features_by_node(self) -> dict[str, list[str]]:
        """The features of each node."""
        features: dict[str, list[str]] = {name: [] for name in self.node_names()}
        for text in self.features:
            feature, _, nodes = text.partition("=")
            try:
                for name in expand(nodes) if nodes else self.node_names():
                    features[name].append(feature)
            except ValueError as error:
                raise UsageError(f"feature {text!r}: {error}") from error
            except KeyError as error:
                raise UsageError(f"feature {text!r}: the testbed has no node {error}") from error
        return features

    def as_json(self) -> dict[str, Any]:
        """A form that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Options:
        """The options that `as_json` wrote; what a later version wrote besides is left out."""
        known = {field.name for field in fields(cls)}
        kept: dict[str, Any] = {name: value for name, value in values.items() if name in known}
        for name, value in kept.items():
            if isinstance(value, list):
                kept[name] = tuple(value)
        return cls(**kept)

    def differences(self, other: Options) -> list[str]:
        """The options that differ, as "name: this, not that"."""
        return [
            f"{field.name}: {getattr(self, field.name)!r}, not {getattr(other, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        ]
