"""The programs that a testbed is made of, and where they come from."""

from __future__ import annotations

import os
import shutil

from slurmkit.errors import MissingRequirement

PACKAGES_OF = {
    "slurmctld": "slurmctld slurm-wlm-basic-plugins",
    "slurmd": "slurmd slurm-wlm-basic-plugins",
    "sinfo": "slurm-client",
    "scontrol": "slurm-client",
    "sacct": "slurm-client",
    "sacctmgr": "slurm-client",
    "munged": "munge",
    "slurmdbd": "slurmdbd slurm-wlm-mysql-plugin",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "slurmrestd": "slurmrestd slurm-wlm-jwt-plugin",
    "setpriv": "util-linux",
    "setsid": "util-linux",
}
FOR_ACCOUNTING = frozenset({"slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr"})
FOR_REST = frozenset({"slurmrestd", "setpriv"})


def search_path() -> str:
    """PATH, and where Debian keeps daemons, which is on the PATH of root alone."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def find_programs(*, accounting: bool, rest: bool = False) -> dict[str, str]:
    """Absolute paths of the programs, by name.

    Raises:
        MissingRequirement: naming every missing program and the Debian packages to install.
    """
    path = search_path()
    unused = (frozenset() if accounting else FOR_ACCOUNTING) | (frozenset() if rest else FOR_REST)
    wanted = [name for name in PACKAGES_OF if name not in unused]
    found = {name: shutil.which(name, path=path) for name in wanted}
    missing = [name for name in wanted if found[name] is None]
    if missing:
        packages = " ".join(dict.fromkeys(" ".join(PACKAGES_OF[name] for name in missing).split()))
        raise MissingRequirement(
            f"a testbed needs programs that are not installed: {', '.join(missing)}",
            where=f"PATH={path}",
            hint=f"apt-get install --no-install-recommends {packages}",
        )
    return {name: program for name, program in found.items() if program}
