"""Where the ranks meet, as each of them finds it for itself: the host of rank 0, and a port."""

from __future__ import annotations

from slurmkit.launch.hostlist import expand, first
from slurmkit.launch.tasks import step_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Mapping


def master_address(environ: Mapping[str, str]) -> str:
    """The agent's choice where it holds for this step, else the name of rank 0's host.

    SLURM_LAUNCH_NODE_IPADDR is never it: that is where srun was called.

    Raises:
        ValueError: nothing tells where rank 0 is.
    """
    chosen = environ.get("MASTER_ADDR")
    chosen_for = environ.get("SLURMKIT_MASTER_NODE")
    if chosen and not chosen_for:
        return chosen
    try:
        host = first_host(environ)
    except ValueError:
        if chosen:
            return chosen
        raise
    return chosen if chosen and host == chosen_for else host


def first_host(environ: Mapping[str, str]) -> str:
    """The host of rank 0. The list of a step's hosts begins with it, except in two kinds of step.

    Raises:
        ValueError: nothing tells where rank 0 is.
    """
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST")
    if not nodes:
        if environ.get("SLURM_STEP_NUM_NODES", environ.get("SLURM_NNODES")) == "1":
            return "localhost"
        raise ValueError("SLURM_STEP_NODELIST is missing: nothing tells where rank 0 is")
    if environ.get("SLURM_DISTRIBUTION") == "arbitrary" and environ.get("SLURM_HOSTFILE"):
        return _first_of_file(environ["SLURM_HOSTFILE"])
    if environ.get("SLURM_HET_SIZE"):
        return _first_of_components(environ, nodes)
    return first(nodes)


def common_port(environ: Mapping[str, str]) -> str | None:
    """Without an agent that tried one: the port on which all ranks agree untold."""
    step = step_of(environ)
    if step is None or not environ.get("SLURM_JOB_ID"):
        return None
    from slurmkit.launch.port import candidates

    restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
    return str(candidates(int(environ["SLURM_JOB_ID"]), int(step), restart)[0])


def host_and_port(host: str, port: str) -> str:
    """The two in one word; the address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _first_of_file(path: str) -> str:
    """With --distribution=arbitrary the file orders the ranks, while Slurm sorts the list of hosts."""
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                names = line.partition("#")[0].partition("*")[0].strip()
                if names:
                    return first(names)
    except OSError as error:
        raise ValueError(f"SLURM_HOSTFILE cannot be read here: {error}") from error
    raise ValueError(f"SLURM_HOSTFILE={path} names no host")


def _first_of_components(environ: Mapping[str, str], nodes: str) -> str:
    """Of a heterogeneous step Slurm sorts the hosts, while the ranks go by component."""
    hosts = expand(nodes)
    if len(hosts) == 1:
        return hosts[0]
    for component in range(int(environ["SLURM_HET_SIZE"])):
        for host in expand(environ.get(f"SLURM_JOB_NODELIST_HET_GROUP_{component}", "")):
            if host in hosts:
                return host
    raise ValueError(
        "nothing tells which host of this heterogeneous step has rank 0: "
        "start it inside of salloc or sbatch, or set MASTER_ADDR"
    )
