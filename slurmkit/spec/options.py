"""Every long option of sbatch from Slurm 22.05 to 26.05, in one typed table.

The job file, its JSON Schema, the rendered script, the importer, lint and the reference read this table.
Facts from sbatch's manual and its option table at each release. The order is that of a rendered script.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal[
    "text", "list", "export", "choice", "path", "pattern", "count", "integer", "nodes", "time", "memory",
    "flag", "signal", "array", "dependency", "gres", "gpus", "tres", "moment", "switches", "margin",
]  # fmt: skip
Takes = Literal["value", "optional value", "flag"]
Version = tuple[int, int]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One long option of sbatch. `name` has underscores; `flag_text` is how sbatch spells it."""

    name: str
    kind: Kind
    about: str
    takes: Takes = "value"
    short: str | None = None
    since: Version | None = None
    """The first release that has it; None: 22.05 has it already."""
    until: Version | None = None
    """The last release that has it; None: it is still there."""
    choices: tuple[str, ...] = ()
    least: int = 1
    """The smallest count."""
    repeatable: bool = False
    where: Literal["script", "command line"] = "script"
    """`script`: may stand in a #SBATCH line as well as on the command line."""
    alias_of: str | None = None
    refused: str | None = None
    """Why a job file may not have it, and what to write instead."""

    @property
    def flag_text(self) -> str:
        """The option as it stands in a script: `--cpus-per-task`."""
        return "--" + self.name.replace("_", "-")

    def exists_in(self, version: tuple[int, ...]) -> bool:
        """Whether that release of Slurm, e.g. (24, 11, 0), knows the option."""
        release = version[:2]
        return (self.since is None or release >= self.since) and (self.until is None or release <= self.until)


def _value(name: str, kind: Kind, about: str, short: str | None = None, **more: object) -> Option:
    return Option(name=name, kind=kind, about=about, short=short, **more)  # type: ignore[arg-type]


def _flag(name: str, about: str, short: str | None = None, **more: object) -> Option:
    return Option(name=name, kind="flag", about=about, short=short, takes="flag", **more)  # type: ignore[arg-type]


def _maybe(name: str, kind: Kind, about: str, short: str | None = None, **more: object) -> Option:
    return Option(name=name, kind=kind, about=about, short=short, takes="optional value", **more)  # type: ignore[arg-type]


def _refused(
    name: str, why: str, short: str | None = None, *, takes: Takes = "flag", **more: object
) -> Option:
    kind: Kind = "flag" if takes == "flag" else "text"
    return Option(name=name, kind=kind, about=why, refused=why, short=short, takes=takes, **more)  # type: ignore[arg-type]


_ON_SUBMIT: Final = "sbatch's own output is slurmkit's to read"

OPTIONS: Final[tuple[Option, ...]] = (
    # Where it runs and who pays
    _value("clusters", "list", "Clusters to choose from; the one that starts the job first gets it.", "M"),
    _value("partition", "list", "Partition, or several: the first that can start the job is used.", "p"),
    _value("account", "text", "Account that is charged.", "A"),
    _value("qos", "list", "Quality of service, or several.", "q"),
    _value("reservation", "list", "Reservation to run in, or several."),
    _value("wckey", "text", "Workload characterisation key for accounting."),
    # How much of it
    _value("nodes", "nodes", "Nodes, or least and most: `2`, `2-4`; from 23.02 also lists of sizes.", "N"),
    _value("ntasks", "count", "Number of tasks in all.", "n"),
    _value("ntasks_per_node", "count", "Tasks on each node."),
    _value("ntasks_per_socket", "count", "Most tasks on each socket."),
    _value("ntasks_per_core", "count", "Most tasks on each core."),
    _value("ntasks_per_gpu", "count", "Tasks for each GPU."),
    _value("ntasks_per_tres", "count", "Older spelling of tasks for each GPU."),
    _value("cpus_per_task", "count", "CPUs of each task; reaches the step on every version.", "c"),
    _value("cpus_per_gpu", "count", "CPUs for each GPU."),
    _value("mincpus", "count", "Least number of CPUs that a node must have."),
    _value("mem", "memory", "Memory on each node; 0 is all of it."),
    _value("mem_per_cpu", "memory", "Memory for each CPU."),
    _value("mem_per_gpu", "memory", "Memory for each GPU."),
    _value("gpus", "gpus", "GPUs in all, with a type or without: `8`, `a100:8`.", "G"),
    _value("gpus_per_node", "gpus", "GPUs on each node: `4`, `a100:4`."),
    _value("gpus_per_socket", "gpus", "GPUs on each socket; needs `sockets_per_node`."),
    _value("gpus_per_task", "gpus", "GPUs of each task; needs a number of tasks, and binds them."),
    _value("gres", "gres", "Generic resources of each node: `gpu:a100:4`, `shard:2`, `mps:50`."),
    _value("tres_per_task", "tres", "Trackable resources of each task: `cpu=4,gres/gpu=1`.", since=(23, 2)),
    _value("licenses", "list", "Licences that the job needs, each with a count: `matlab:2`.", "L"),
    _value("tmp", "memory", "Least temporary disk space of a node."),
    _value("time", "time", "Time limit.", "t"),
    _value("time_min", "time", "Least time limit that Slurm may lower `time` to, to start earlier."),
    _maybe("exclusive", "choice", "No other job on the nodes; or only other users' jobs kept away.",
           choices=("user", "mcs", "topo", "exclusive", "oversubscribe")),
    _flag("oversubscribe", "Nodes may be shared with other jobs.", "s"),
    _flag("overcommit", "More tasks than CPUs.", "O"),
    # Which nodes
    _value("nodelist", "list", "Nodes that must be among those allocated.", "w"),
    _value("exclude", "list", "Nodes that must not be.", "x"),
    _value("nodefile", "path", "File with the list of nodes.", "F"),
    _value("constraint", "text", "Features that nodes must have: `a100&nvlink`, `[rack1|rack2]`.", "C"),
    _value("prefer", "text", "Features that nodes should have."),
    _value("cluster_constraint", "text", "Features that a cluster of the federation must have."),
    _value("batch", "text", "Features of the node that runs the script; part of `constraint`."),
    _flag("contiguous", "Nodes next to each other."),
    _value("switches", "switches", "Most leaf switches, and how long to wait for that: `1@12:00:00`."),
    _flag("spread_job", "Over as many nodes as possible."),
    _flag("use_min_nodes", "The smaller number of nodes where `nodes` is a range."),
    _value("segment", "count", "Nodes of one segment in block topology.", since=(24, 5)),
    _flag("spread_segments", "Each segment in a base block of its own.", since=(25, 11)),
    _flag("consolidate_segments", "Several segments in one base block where they fit.", since=(25, 11)),
    _value("resources", "list", "Further resources of the site that the job needs.", since=(25, 11)),
    _value("extra_node_info", "text", "Sockets, cores and threads of a node: `2:8:1`.", "B"),
    _value("sockets_per_node", "count", "Least number of sockets of a node."),
    _value("cores_per_socket", "count", "Least number of cores of a socket."),
    _value("threads_per_core", "count", "Threads of each core to use."),
    _value("core_spec", "count", "Cores of each node left to the system.", "S", least=0),
    _value("thread_spec", "count", "Threads of each node left to the system.", least=0),
    # When
    _value("array", "array", "Array of jobs: `0-99%10`, `0-15:4`, `1,3,7`.", "a"),
    _value("dependency", "dependency", "What must have happened before, on job ids or run ids.", "d"),
    _value("kill_on_invalid_dep", "choice", "Whether a dependency that can never be met ends the job.",
           choices=("yes", "no")),
    _value("begin", "moment", "Not before: `16:00`, `now+1hour`, `2026-12-24T08:00:00`.", "b"),
    _value("deadline", "moment", "Removed from the queue where it can't end before this."),
    _flag("hold", "Submitted held; `scontrol release` lets it go.", "H"),
    _value("priority", "text", "Priority: a number, or `TOP` (of the user's own jobs)."),
    _maybe("nice", "integer", "Lowers the priority by so much; without a number by 100."),
    _maybe("requeue", "choice", "Slurm may start the job again after a node failed; false: it may not.",
           choices=("expedite",)),
    _flag("no_requeue", "Slurm may not start the job again."),
    _flag("reboot", "Nodes are rebooted before the job starts."),
    _value("delay_boot", "time", "How long to wait before nodes are rebooted for a feature."),
    _value("wait_all_nodes", "choice", "1: the script starts when all nodes are booted.", choices=("0", "1")),
    _maybe("no_kill", "choice", "The job outlives the failure of a node.", "k", choices=("set", "off", "no")),
    _value("signal", "signal", "Signal before the time limit: `B:USR1@120`; `B:` to the script itself."),
    # What the job is and where it writes
    _value("chdir", "path", "Directory that the script starts in; it must exist on the nodes.", "D"),
    _value("output", "pattern", "The script's output: `logs/%x-%j.out`.", "o"),
    _value("error", "pattern", "The script's errors, where they shall not go to `output`.", "e"),
    _value("input", "pattern", "The script's input.", "i"),
    _value("open_mode", "choice", "Whether log files are continued.", choices=("append", "truncate")),
    _value("comment", "text", "Comment; slurmkit appends the run id."),
    _value("extra", "text", "Free text, for filters with the site's nodes' extra.", since=(23, 2)),
    _value("mail_type", "list", "Events that send mail.",
           choices=("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT",
                    "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS")),
    _value("mail_user", "text", "Who gets the mail."),
    _value("export", "export", "What the job sees of the shell's variables: `ALL`, `NONE`, `NIL` or names."),
    _value("export_file", "path", "File of NAME=value texts, each ended by a NUL byte, exported to the job."),
    _maybe("get_user_env", "text", "The user's login environment; a value only until 24.11."),
    _maybe("propagate", "list", "Limits of the submitting shell that the job gets."),
    # How tasks sit on it
    _value("distribution", "text", "How tasks are laid over nodes, sockets and cores: `block:cyclic`.", "m"),
    _value("hint", "choice", "Kind of program, for the binding.",
           choices=("compute_bound", "memory_bound", "multithread", "nomultithread")),
    _value("mem_bind", "text", "How tasks are bound to memory: `local`."),
    _value("gpu_bind", "text", "How tasks are bound to GPUs: `closest`, `single:1`, `none`."),
    _value("tres_bind", "text", "How tasks are bound to resources: `gres/gpu:closest`.", since=(23, 11)),
    _value("gpu_freq", "text", "Clock of the GPUs: `high`, `medium,memory=high`."),
    _value("cpu_freq", "text", "Clock of the CPUs: `2400000`, `Performance`."),
    _value("gres_flags", "list", "How generic resources are given: `enforce-binding` ..."),
    _value("network", "text", "Network settings of the step."),
    _maybe("resv_ports", "count", "Ports reserved on every node; else one for each task.", since=(24, 5),
           least=0),
    _flag("stepmgr", "Steps are managed on the first node instead of by the controller.", since=(24, 5)),
    _maybe("oom_kill_step", "choice", "1: a task out of memory ends the whole step.", since=(24, 11),
           choices=("0", "1")),
    _value("mem_update", "margin", "Memory falls to what is used plus a margin, after a delay: `20@1:00:00`.",
           since=(26, 5)),
    # Seldom used
    _value("container", "path", "OCI bundle that the script runs in."),
    _value("container_id", "text", "Name of the OCI container.", since=(23, 2)),
    _value("container_type", "text", "Kind of the OCI container.", since=(26, 5)),
    _value("bb", "text", "Burst buffer."),
    _value("bbf", "path", "File with the burst buffer's specification."),
    _value("acctg_freq", "list", "Sampling intervals of accounting in seconds: `task=30,energy=60`."),
    _value("profile", "list", "Time series that are recorded.",
           choices=("all", "none", "energy", "task", "filesystem", "lustre", "network")),
    _value("power", "text", "Power management.", until=(23, 11)),
    _value("mcs_label", "text", "Label of multi-category security."),
    _value("context", "text", "SELinux context."),
    _flag("ignore_pbs", "#PBS and #BSUB lines in the script are not read."),
    _value("uid", "text", "User to run as (root only)."),
    _value("gid", "text", "Group to run as (root only)."),
    # Not in a job file
    _refused("job_name", "the job's name is the top-level key `name`", "J", takes="value"),
    _refused("wrap", "the program is the top-level key `command`", takes="value", where="command line"),
    _refused("wait", "waiting is asked for at submit: `slurmkit submit --wait`", "W"),
    _refused("test_only", "trying without a job is asked for at submit: `slurmkit submit --dry-run`"),
    _refused("parsable", _ON_SUBMIT),
    _refused("quiet", _ON_SUBMIT, "Q", where="command line"),
    _refused("verbose", _ON_SUBMIT, "v", where="command line", repeatable=True),
    _refused("help", "it prints help instead of submitting", "h", where="command line"),
    _refused("usage", "it prints help instead of submitting", where="command line"),
    _refused("version", "it prints Slurm's version instead of submitting", "V", where="command line"),
    _refused("autocomplete", "it serves the shell", takes="value", where="command line", since=(23, 2)),
    _refused("external", "an external job runs no script, and slurmkit runs one", since=(25, 5)),
    _refused("cluster", "it is `clusters`", takes="value", alias_of="clusters"),
    _refused("tasks_per_node", "it is `ntasks_per_node`", takes="value", alias_of="ntasks_per_node"),
)  # fmt: skip

BY_NAME: Final = {option.name: option for option in OPTIONS}
BY_SHORT: Final = {option.short: option for option in OPTIONS if option.short}
ALLOWED: Final = tuple(option.name for option in OPTIONS if option.refused is None)


def find(spelled: str) -> Option | None:
    """The option that sbatch's spelling means: `--ntasks-per-node`, `-n` or the name with underscores."""
    if spelled.startswith("-") and not spelled.startswith("--"):
        return BY_SHORT.get(spelled[1:])
    option = BY_NAME.get(spelled.removeprefix("--").replace("-", "_"))
    return BY_NAME[option.alias_of] if option is not None and option.alias_of else option
