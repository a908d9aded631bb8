"""The programs that a testbed is made of, and where they come from."""

from __future__ import annotations

import os
import shutil

from slurmkit.errors import MissingRequirement

PACKAGE_OF = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "scontrol": "slurm-client",
    "sacct": "slurm-client",
    "sacctmgr": "slurm-client",
    "munged": "munge",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
}
FOR_ACCOUNTING = frozenset({"slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr"})
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def find_programs(*, accounting: bool, path: str = SEARCH_PATH) -> dict[str, str]:
    """Absolute paths of the programs, by name.

    Raises:
        MissingRequirement: naming every missing program and the Debian packages to install.
    """
    wanted = [name for name in PACKAGE_OF if accounting or name not in FOR_ACCOUNTING]
    found = {name: shutil.which(name, path=path) for name in wanted}
    missing = [name for name in wanted if found[name] is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGE_OF[name] for name in missing))
        raise MissingRequirement(
            f"a testbed needs programs that are not installed: {', '.join(missing)}",
            where=f"PATH and {path.split(os.pathsep)[-2]}",
            hint=f"apt-get install --no-install-recommends {packages}",
        )
    return {name: program for name, program in found.items() if program}
