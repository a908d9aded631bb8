"""Public tools that read Slurm's accounting, with sacct replaced by a program that prints a generated trace.

Each peer runs once while the program only notes what it is asked for; then that is prepared, in the form in
which the peer wants it. What is measured afterwards is the peer alone: sacct costs as much as `cat`. No name
in it is odd and no value in the form of old Slurm, at the first of which some peers would end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import trace_text
from tests.bench.measure import Program
from tests.bench.trace import DAY, moved_to, without_earlier_attempts
from tests.bench.trace_cluster import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.bench.trace import Trace

BINARIES = Path(os.environ.get("SLURMKIT_BENCH_PEERS", Path(sys.executable).parent))
"""Where the peers are installed: the environment of the bench, unless this names another folder."""

SACCT = """\
#!/bin/sh
here=${0%/*}
delimiter='|' header=yes fields='' trailing=no duplicates=no
while [ $# -gt 0 ]; do
  case $1 in
    --helpformat) exec cat "$here/helpformat" ;;
    --version) echo "slurm 24.05.4"; exit ;;
    --delimiter=*) delimiter=${1#*=} ;;
    --format=*) fields=${1#*=} ;;
    -o) fields=$2; shift ;;
    -n | --noheader) header=no ;;
    -p | --parsable) trailing=yes ;;
    -D | --duplicates) duplicates=yes ;;
  esac
  shift
done
question=$(printf '%s\\n' "$fields" "$delimiter" "$header" "$trailing" "$duplicates")
key=$(echo "$question" | cksum | cut -d' ' -f1)
if [ -f "$here/$key.answer" ]; then
  # Who asks in several portions gets all with the first, and nothing with the others.
  mkdir "$here/$key.given" 2> /dev/null && exec cat "$here/$key.answer"
  exit 0
fi
echo "$question" > "$here/$key.asked"
"""

# What a real sacct also knows and peers ask for; no record here has it.
_EMPTY = (
    "AdminComment", "Group", "UID", "GID", "Priority", "Reservation", "WorkDir", "SubmitLine", "UserCPU",
    "SystemCPU", "AveRSS", "MaxVMSize", "Reason", "Flags", "Constraints", "DerivedExitCode", "Layout",
    "MinCPU", "AveCPU",
)  # fmt: skip
KNOWN = (*trace_text.FIELDS, *trace_text.ALSO, *trace_text.STEP_FIELDS, *_EMPTY)


class Peer(NamedTuple):
    """A tool, and how it is asked for something like usage of everybody."""

    name: str
    argv: tuple[str, ...]
    takes_a_day: bool = False
    """It takes only jobs of the day that it asks for: all are moved to today."""


PEERS = (
    Peer(
        "reportseff",
        ("reportseff", "--since", "2025-01-01", "--extra-args", "--allusers --duplicates", "--parsable"),
    ),
    Peer("slurm2sql", ("slurm2sql", "jobs.db", "-a", "-S", "2025-01-01")),
    Peer(
        "slurm-usage",
        ("slurm-usage", "collect", "--days", "0", "--data-dir", "data", "--summary"),
        takes_a_day=True,
    ),
    Peer(
        "slurmpast",
        ("slurmpast", "--all-users", "--overview", "--plain", "--no-logs", "--no-cache", "-S", "2025-01-01"),
    ),
)


def programs(trace: Trace, directory: Path, names: Iterable[str] = ()) -> list[Program]:
    """The peers that are installed, ready to read this trace.

    Raises:
        RuntimeError: one of them fails.
    """
    wanted = set(names)
    found = []
    for peer in PEERS:
        if shutil.which(peer.argv[0], path=str(BINARIES)) and (not wanted or peer.name in wanted):
            folder = directory / peer.name
            folder.mkdir(parents=True)
            found.append(_prepared(peer, trace, folder))
    return found


def _prepared(peer: Peer, trace: Trace, folder: Path) -> Program:
    binaries = folder / "bin"
    binaries.mkdir()
    limits = "".join(f"PartitionName={one.name} MaxTime=7-00:00:00\\n" for one in PARTITIONS)
    for name, text in [("sacct", SACCT), ("scontrol", f"#!/bin/sh\nprintf '{limits}'\n")]:
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    (binaries / "helpformat").write_text(" ".join(KNOWN) + "\n")
    if peer.takes_a_day:
        trace = moved_to(trace, int(time.time()) // DAY * DAY)
    environment = {
        "PATH": f"{binaries}:{BINARIES}:/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    # Without an answer it may well fail: what counts is what it asked for.
    while not list(binaries.glob("*.answer")) or list(binaries.glob("*.asked")):
        subprocess.run(peer.argv, env=environment, cwd=folder, capture_output=True, check=False)
        asked = list(binaries.glob("*.asked"))
        if not asked and not list(binaries.glob("*.answer")):
            raise RuntimeError(f"{peer.name} asks nothing of sacct")
        for request in asked:
            _answer(trace, request)
        for given in binaries.glob("*.given"):
            given.rmdir()
    afresh = ("sh", "-c", 'rm -rf jobs.db data cache bin/*.given; exec "$@"', "sh")
    return Program(name=peer.name, argv=(*afresh, *peer.argv), environment=environment, directory=folder)


def _answer(trace: Trace, request: Path) -> None:
    """What sacct would print for the noted request; the fields by sacct's own spelling of their names."""
    fields, delimiter, header, trailing, duplicates = request.read_text().split("\n")[:5]
    records = trace if duplicates == "yes" else without_earlier_attempts(trace)
    spelled = {name.lower(): name for name in KNOWN}
    names = [spelled.get(name.partition("%")[0].lower(), name) for name in fields.split(",")]
    with request.with_suffix(".answer").open("wb") as file:
        # --parsable ends each line with a delimiter, as an empty field more would.
        trace_text.write(
            records,
            file,
            fields=[*names, *([""] if trailing == "yes" else [])],
            delimiter=delimiter,
            header=header == "yes",
            odd=0,
        )
    request.unlink()
