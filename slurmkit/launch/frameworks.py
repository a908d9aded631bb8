"""What single frameworks read beside PyTorch's names, and torchrun's arguments as variables. Pure."""

from __future__ import annotations

from slurmkit.launch.devices import own_devices, visible
from slurmkit.launch.rendezvous import host_and_port

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs a rank milliseconds
    from collections.abc import Iterator, Mapping, Sequence

NAMES = (
    "JAX_COORDINATOR_ADDRESS",
    "JAX_LOCAL_DEVICE_IDS",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
SEPARATORS = "\"'`;|&(){}\n\t"
TORCHRUN = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}


def is_torchrun(environ: Mapping[str, str], command: Sequence[str]) -> bool:
    """Whether the ranks are torchrun's: the program of this task is torchrun, or leads to it."""
    if environ.get("SLURMKIT_LAUNCHER") == "torchrun":
        return True
    before = ""
    for word in _words(command):
        is_value = before.startswith("--") and before != "--"
        if word.rsplit("/", 1)[-1] in TORCHRUN and not is_value:
            return True
        before = word
    return False


def torchrun_variables(
    environ: Mapping[str, str], given: Mapping[str, str], command: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """The defaults of torchrun's arguments, before which its command line goes, and what is to be said.

    Nothing where torchrun is to stay on its node (`--standalone`, `--nnodes=1`). `given` are the task's
    PyTorch variables: each node is one task, so the ranks of tasks number the nodes, in rank 0's order.
    """
    words = _words(command)
    if "--standalone" in words or _value_of("--nnodes", words) == "1":
        return {}, []
    size = given.get("LOCAL_WORLD_SIZE", "1")
    if size != "1":
        return {}, [
            f"torchrun starts ranks of its own in each of this node's {size} tasks: "
            "start it once on each node, with --ntasks-per-node=1"
        ]
    variables = {"PET_NNODES": given["WORLD_SIZE"], "PET_NODE_RANK": given["RANK"]}
    if given.get("MASTER_PORT"):
        variables["PET_MASTER_ADDR"] = given["MASTER_ADDR"]
        variables["PET_MASTER_PORT"] = given["MASTER_PORT"]
    count = visible(environ)
    if count:
        variables["PET_NPROC_PER_NODE"] = str(count)
    return variables, []


def jax_variables(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What `jax.distributed.initialize` would else guess: a port from the job id, one GPU by local rank."""
    variables = {}
    if given.get("MASTER_PORT"):
        variables["JAX_COORDINATOR_ADDRESS"] = host_and_port(given["MASTER_ADDR"], given["MASTER_PORT"])
    size = given.get("LOCAL_WORLD_SIZE", "")
    devices = own_devices(environ, int(given["LOCAL_RANK"]), int(size) if size.isdigit() else None)
    if devices:
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, devices))
    return variables


def _words(command: Sequence[str]) -> list[str]:
    """The words of a command line, those of a shell's line inside it included."""
    text = " ".join(command)
    for separator in SEPARATORS:
        text = text.replace(separator, " ")
    return text.split()


def _value_of(option: str, words: Sequence[str]) -> str | None:
    """The value that an option has among the words, after `=` or as the next one."""
    following: Iterator[str] = iter(words)
    for word in following:
        if word == option:
            return next(following, None)
        if word.startswith(option + "="):
            return word[len(option) + 1 :]
    return None
