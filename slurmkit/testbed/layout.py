"""Where a testbed keeps its files, and the short name that its sockets need."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_LIMIT = 107
LONGEST_STEP = "4294967294.4294967294.4294967294"
STATE_FILE = "testbed.json"
LINKS = "/tmp"  # noqa: S108 - mkdtemp makes the folder, and TMPDIR may be the long path
LINK_PREFIX = "slurmkit-testbed-"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one testbed. `base` is its root, or a short symbolic link to it."""

    base: Path

    @property
    def conf(self) -> Path:
        """The slurm.conf; the other configuration files stand beside it."""
        return self.base / "etc" / "slurm.conf"

    @property
    def run(self) -> Path:
        """Sockets and process records."""
        return self.base / "run"

    @property
    def database(self) -> Path:
        """MariaDB's data."""
        return self.base / "database"

    @property
    def database_complete(self) -> Path:
        """Exists once the database has its system tables."""
        return self.base / "database.complete"

    @property
    def munge_key(self) -> Path:
        """The secret of this testbed's munged."""
        return self.base / "etc" / "munge.key"

    @property
    def munge_socket(self) -> Path:
        """The socket of this testbed's munged."""
        return self.run / "munge.socket"

    @property
    def database_socket(self) -> Path:
        """The socket of this testbed's mariadbd."""
        return self.run / "mariadb.socket"

    @property
    def jwt_key(self) -> Path:
        """The secret with which this testbed's tokens are signed."""
        return self.base / "etc" / "jwt.key"

    @property
    def rest_socket(self) -> Path:
        """The socket of this testbed's slurmrestd, which listens on a TCP port too."""
        return self.run / "slurmrestd.socket"

    @property
    def cgroup(self) -> Path:
        """What Slurm takes for /sys/fs/cgroup: one link per controller."""
        return self.base / "cgroup"

    @property
    def hosts(self) -> Path:
        """What the nodes' processes see as /etc/hosts."""
        return self.base / "etc" / "hosts"

    def log(self, daemon: str) -> Path:
        """The daemon's own log."""
        return self.base / "log" / f"{daemon}.log"

    def output(self, daemon: str) -> Path:
        """What the daemon prints before, or instead of, writing its log."""
        return self.base / "log" / f"{daemon}.out"

    def record(self, daemon: str) -> Path:
        """Which process the daemon is."""
        return self.run / f"{daemon}.json"

    def make_directories(self, nodes: tuple[str, ...]) -> None:
        """Make all directories that the daemons expect."""
        for name in (
            "etc",
            "run",
            "log",
            "state",
            "cgroup",
            "dev",
            "tmp",
            *(f"spool/{node}" for node in nodes),
        ):
            (self.base / name).mkdir(parents=True, exist_ok=True)


def default_root(name: str = "default") -> Path:
    """Where the testbed of this name lives: under $XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "slurmkit" / "testbeds" / name


def cluster_name(root: Path) -> str:
    """The name of a testbed's cluster: told by its place, and no other testbed's on this machine."""
    word = re.sub(r"[^a-z0-9]", "", root.name.lower())[:20] or "testbed"
    return f"{word}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:6]}"


def short_base(root: Path, longest_node: str) -> Path:
    """`root`, or a new symbolic link to it where sockets under `root` would have too long a path.

    A path with spaces or with characters that slurm.conf reads as its own gets a link too.
    """
    socket = root / "spool" / longest_node / f"{longest_node}_{LONGEST_STEP}"
    plain = all(
        character.isascii() and (character.isalnum() or character in "/._-+") for character in str(root)
    )
    if plain and len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return root
    holder = Path(tempfile.mkdtemp(prefix=LINK_PREFIX, dir=LINKS))
    holder.chmod(0o755)
    link = holder / "t"
    link.symlink_to(root)
    return link


def remove_link(base: Path) -> bool:
    """Remove the link that `short_base` made; False if this is none."""
    if not (base.is_symlink() and base.parent.name.startswith(LINK_PREFIX)):
        return False
    base.unlink()
    base.parent.rmdir()
    return True


def links_to(root: Path) -> list[Path]:
    """The short links that `short_base` made for `root`, whether it exists or not."""
    links = (holder / "t" for holder in Path(LINKS).glob(f"{LINK_PREFIX}*"))
    return [link for link in links if link.is_symlink() and link.readlink() == root]
