"""The kinds of causes for which a rank fails: what each means, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(NamedTuple):
    """What a kind of cause means, and what to do about it."""

    sentence: str
    advice: str
    is_echo: bool = False
    """Often only what another rank's failure looks like from here."""


KINDS: Mapping[str, Kind] = {
    "gpu-out-of-memory": Kind(
        "the GPU's memory is full",
        "use a smaller batch per rank, activation checkpointing or sharding; or GPUs with more memory",
    ),
    "host-out-of-memory": Kind(
        "the host's memory, or the job's share of it, is full: the kernel killed a process",
        "ask for more under [resources] mem (or mem_per_gpu), or load data with fewer workers",
    ),
    "shared-memory-full": Kind(
        "the shared memory of the node, /dev/shm, is full",
        "use fewer data loader workers, share through files, or start the container with a larger /dev/shm",
    ),
    "bus-error": Kind(
        "the program touched memory that has nothing behind it (SIGBUS): most often /dev/shm is too small, "
        "or a mapped file was cut short",
        "look at the size of /dev/shm inside the job, and at files that were written anew while being read",
    ),
    "segmentation-fault": Kind(
        "the program touched memory that is not its own (SIGSEGV)",
        "read the stack in the rank's log; libraries of different builds in one environment are the "
        "usual reason",
    ),
    "illegal-instruction": Kind(
        "the program has an instruction that this processor does not know (SIGILL)",
        "build it on the kind of node where it runs, or ask for nodes of that kind with [resources] "
        "constraint",
    ),
    "arithmetic-error": Kind(
        "an integer division by zero or the like (SIGFPE)", "read the stack in the rank's log"
    ),
    "aborted": Kind(
        "the program aborted itself (SIGABRT): a failed assertion, or an exception that nobody caught",
        "the reason stands in the rank's log, above the stack",
    ),
    "disk-full": Kind(
        "a disk is full, or a quota is used up",
        "look with `df -h` and `df -i` (or the site's quota command); remove old checkpoints or "
        "write elsewhere",
    ),
    "storage-failed": Kind(
        "the file system failed under the program",
        "start again; if it comes back on the same node, exclude that node and tell the site",
    ),
    "missing-module": Kind(
        "a Python module is not installed where the job runs",
        "activate the right environment under [environment] setup, and install the module in it",
    ),
    "import-error": Kind(
        "a library that the program needs cannot be loaded on this node",
        "load the same modules as at the build under [environment] setup; `ldd` shows what is not found",
    ),
    "python-syntax": Kind(
        "Python does not understand the program's text",
        "look at the line that is named; an older Python than on the login node is a usual reason",
    ),
    "missing-file": Kind(
        "a file does not exist on this node",
        "check the path; a node's own /tmp and unmounted file systems differ from the login node's",
    ),
    "permission": Kind(
        "a file or folder must not be used in this way",
        "check owner and mode with `ls -ld`, and that the file system is mounted for writing there",
    ),
    "file-limit": Kind(
        "the program has too many files open",
        "raise the limit with `ulimit -n` under [environment] setup, or use fewer data loader workers",
    ),
    "process-limit": Kind(
        "no further process or thread can be started",
        "set OMP_NUM_THREADS, use fewer workers, or raise the limit with `ulimit -u` under "
        "[environment] setup",
    ),
    "file-size": Kind(
        "the program wrote a larger file than it may (SIGXFSZ)", "raise the limit with `ulimit -f`"
    ),
    "processor-time": Kind(
        "the program used more processor time than it may (SIGXCPU)", "raise the limit with `ulimit -t`"
    ),
    "port-in-use": Kind(
        "a port that the program listens on is taken",
        "leave MASTER_PORT to slurmkit, or take a port from the job id: other jobs share the node",
    ),
    "shared-gpu": Kind(
        "two ranks use one GPU",
        'each rank is to use its own: torch.cuda.set_device(int(os.environ["SLURMKIT_DEVICE"]))',
    ),
    "gpu-lost": Kind(
        "a GPU has failed, or is lost to the node",
        "exclude the node and tell the site: only a reset or a repair brings the GPU back",
    ),
    "no-gpu": Kind(
        "the program sees no GPU that it can use",
        "ask for GPUs under [resources], and use a build of the framework that has CUDA or ROCm in it",
    ),
    "gpu-driver": Kind(
        "the GPU's driver is older than the program's CUDA",
        "use a build for the CUDA that `nvidia-smi` shows on the node",
    ),
    "cuda-error": Kind(
        "the GPU's runtime reports an error",
        "run once with CUDA_LAUNCH_BLOCKING=1: the stack then shows the call that failed",
    ),
    "no-network": Kind(
        "the program wants to reach another site, and the compute node cannot",
        "fetch models and data beforehand on the login node, or set the site's proxy; HF_HUB_OFFLINE=1 "
        "keeps Hugging Face's libraries from asking",
    ),
    "nccl-error": Kind(
        "the GPUs cannot talk to each other",
        "set NCCL_DEBUG=INFO and read its lines in the log; `slurmkit fabric-check` finds a slow or "
        "broken path",
    ),
    "nccl-timeout": Kind(
        "a collective operation did not end in time: some rank did not take part in it",
        "look for the rank that hangs, is slow or has gone another way; only then raise the timeout",
        is_echo=True,
    ),
    "rendezvous-timeout": Kind(
        "the ranks did not find each other in time",
        "look for ranks that started late or ended early, and for a firewall; MASTER_ADDR and MASTER_PORT "
        "must be the same for all",
        is_echo=True,
    ),
    "connection-lost": Kind(
        "the connection to another rank broke",
        "another rank or its node ended: look for what happened there",
        is_echo=True,
    ),
    "killed": Kind(
        "somebody killed the program (SIGKILL), and the kernel's count of memory kills did not rise",
        "a watchdog, a user, or memory that ran out for the whole node: look at the node's log",
        is_echo=True,
    ),
    "node-failed": Kind(
        "a node failed under the step",
        "slurmkit's events and `sinfo --list-reasons` tell which; the run can go on without it",
    ),
    "hung": Kind(
        "the ranks made no progress for too long",
        "read the stacks in the run directory: the rank that waits for something else than the others is it",
    ),
    "launch-failed": Kind(
        "the program could not be started",
        "check the command, and the PATH that [environment] setup makes",
    ),
}
"""Every kind of cause."""
