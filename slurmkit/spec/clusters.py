"""`[clusters.NAME]` of a profile: a cluster elsewhere, and where its file system is seen from here.

[clusters.jupiter]
url = "https://rest.example.org:6820"          # or unix:/path, or http://localhost:PORT for a tunnel
token_command = "ssh jupiter scontrol token lifespan=3600"
local_path = "/mnt/jupiter"                    # what is mounted here ...
cluster_path = "/home/alice"                   # ... is this there
python = "/home/alice/venv/bin/python"         # one there that has slurmkit
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from slurmkit.errors import UsageError

KEYS: Final = {
    "url": "text",
    "token_command": "text",
    "token_variable": "text",
    "ca_file": "path",
    "user": "text",
    "allow_http": "flag",
    "local_path": "path",
    "cluster_path": "text",
    "python": "text",
}


class Cluster(NamedTuple):
    """One cluster that is reached through slurmrestd. Paths are absolute."""

    name: str
    url: str = ""
    token_command: str | None = None
    """What prints a token; without it, `token_variable`, else $SLURM_JWT, else `scontrol token`."""
    token_variable: str | None = None
    ca_file: str | None = None
    user: str | None = None
    allow_http: bool = False
    local_path: str | None = None
    """Where the cluster's shared file system is seen here; runs are made below it."""
    cluster_path: str | None = None
    """The same folder on the cluster; left out, its name is the same."""
    python: str | None = None
    """A Python on the cluster that has slurmkit, for the template `managed`."""

    def there(self, path: Path) -> Path:
        """The name that a path of this machine has on the cluster.

        Raises:
            UsageError: the cluster does not see it.
        """
        if self.local_path is None:
            raise UsageError(
                f"cluster {self.name!r}: where its file system is mounted here is not known",
                hint=f'set local_path = "/mnt/..." under [clusters.{self.name}], and submit from below it',
            )
        within = os.path.relpath(path, self.local_path)
        if within == os.pardir or within.startswith(os.pardir + os.sep):
            raise UsageError(
                f"cluster {self.name!r} does not see this folder",
                where=str(path),
                hint=f"work below {self.local_path}, where its file system is",
            )
        return Path(os.path.normpath(Path(self.cluster_path or self.local_path) / within))

    def here(self, path: Path) -> Path | None:
        """The name that a path of the cluster has on this machine; None where it has none."""
        base = self.cluster_path or self.local_path
        if base is None or self.local_path is None or not path.is_relative_to(base):
            return None
        return Path(self.local_path) / path.relative_to(base)


def setting(key: str, value: object) -> Any:  # noqa: ANN401 - text or a flag, as the table has it
    """A value of the table, checked.

    Raises:
        KeyError: there is no such key.
        ValueError: says what is wrong with the value.
    """
    kind = KEYS[key]
    if kind == "flag":
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value}")
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected text, got {value!r}")
    if kind == "text":
        return value
    path = os.path.expanduser(value)  # noqa: PTH111 - of nobody's home it makes no error
    if not path.startswith("/"):
        raise ValueError(f"expected an absolute path, got {value!r}")
    return path
