"""The states of jobs and nodes: one table each, read by parsers, waiters, reports and docs alike.

A word that is not in the table (Slurm adds some with most releases) is kept as it came and is not final.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["pending", "running", "ending", "final", "unknown"]


class _Job(NamedTuple):
    name: str
    compact: str
    kind: Kind
    severity: int = 0


JOB_STATES: tuple[_Job, ...] = (
    _Job("PENDING", "PD", "pending"),
    _Job("RUNNING", "R", "running"),
    _Job("SUSPENDED", "S", "running"),
    _Job("COMPLETED", "CD", "final", 0),
    _Job("CANCELLED", "CA", "final", 1),
    _Job("FAILED", "F", "final", 4),
    _Job("TIMEOUT", "TO", "final", 5),
    _Job("NODE_FAIL", "NF", "final", 6),
    _Job("PREEMPTED", "PR", "final", 3),
    _Job("BOOT_FAIL", "BF", "final", 7),
    _Job("DEADLINE", "DL", "final", 2),
    _Job("OUT_OF_MEMORY", "OOM", "final", 8),
    # Flags. The text commands print a flag in place of the base state.
    _Job("COMPLETING", "CG", "ending"),
    _Job("STAGE_OUT", "SO", "ending"),
    _Job("CONFIGURING", "CF", "running"),
    _Job("RESIZING", "RS", "running"),
    _Job("EXPEDITING", "EX", "pending"),
    _Job("REQUEUED", "RQ", "pending"),
    _Job("REQUEUE_FED", "RF", "pending"),
    _Job("REQUEUE_HOLD", "RH", "pending"),
    _Job("SPECIAL_EXIT", "SE", "pending"),
    _Job("STOPPED", "ST", "running"),
    _Job("REVOKED", "RV", "final", 1),  # another cluster of the federation runs it: over for this one
    _Job("RESV_DEL_HOLD", "RD", "pending"),
    _Job("SIGNALING", "SI", "running"),
)
"""Name, the two letters of `squeue -t`, what it means for a waiter, and how bad an end is (higher wins)."""

_JOB_BY_WORD = {word: row for row in JOB_STATES for word in (row.name, row.compact)}


class JobState(NamedTuple):
    """A job's state: its base, and the flags that Slurm showed beside it."""

    name: str
    flags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> JobState:
        """Read `RUNNING`, `CG`, `CANCELLED by 1000` (see `cancelled_by`) or `COMPLETED+COMPLETING`.

        Raises:
            ValueError: the text is empty, or was cut short by a column's width (`CANCELLED+`).
        """
        word = text.strip().partition(" ")[0]
        if not word or word.endswith("+"):
            raise ValueError(f"not a job state: {text!r}" + (", cut to a column's width" if word else ""))
        name, *flags = (_full_name(part) for part in word.split("+"))
        return cls(name, tuple(flags))

    @property
    def kind(self) -> Kind:
        """Pending, running, ending, final or unknown; a flag that is in the way of the end decides."""
        kinds = [_JOB_BY_WORD[word].kind if word in _JOB_BY_WORD else "unknown" for word in self._words()]
        return next((kind for kind in kinds if kind != "final"), "final")

    @property
    def is_known(self) -> bool:
        """Whether every word of it stands in the table."""
        return all(word in _JOB_BY_WORD for word in self._words())

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen. COMPLETING is not final, and no state that we do not know."""
        return self.kind == "final"

    @property
    def is_running(self) -> bool:
        """Whether the job holds an allocation that it can use or could a moment ago."""
        return self.kind == "running"

    @property
    def is_pending(self) -> bool:
        """Whether the job waits in the queue, held or not."""
        return self.kind == "pending"

    @property
    def is_success(self) -> bool:
        """Whether the job ended as COMPLETED."""
        return self.is_final and self.name == "COMPLETED"

    @property
    def severity(self) -> int:
        """How bad this end is: of several, the highest speaks for all."""
        return max((_JOB_BY_WORD[word].severity for word in self._words() if word in _JOB_BY_WORD), default=0)

    def _words(self) -> tuple[str, ...]:
        # Flags first: what hinders the end has the say.
        return (*self.flags, self.name)

    def __str__(self) -> str:
        """Slurm's long form, flags joined by `+`."""
        return "+".join((self.name, *self.flags))


def cancelled_by(text: str) -> int | None:
    """The uid in `CANCELLED by 1000`; None where none is named."""
    uid = text.strip().partition(" by ")[2].strip()
    return int(uid) if uid.isascii() and uid.isdigit() else None


def _full_name(word: str) -> str:
    upper = word.upper()
    return _JOB_BY_WORD[upper].name if upper in _JOB_BY_WORD else upper


NODE_BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})

NODE_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""The letter that sinfo sets behind a state, and the flag that it stands for."""

_NODE_WORDS: dict[str, tuple[str, ...]] = {
    # What sinfo prints in place of base and flags; the base is then not told, but for what follows.
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "UNK": ("UNKNOWN",),
    "FUTR": ("FUTURE",),
    "ERR": ("ERROR",),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAIN": ("DRAIN",),
    "COMP": ("COMPLETING",),
    "RESV": ("RESERVED",),
    "MAINT": ("MAINTENANCE",),
    "PLND": ("PLANNED",),
    "FAILG": ("ALLOCATED", "FAIL"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "BOOT": ("REBOOT_ISSUED",),
    "INVAL": ("INVALID_REG",),
    "INVAL_REG": ("INVALID_REG",),
    "BLOCK": ("BLOCKED",),
    "POW_UP": ("POWERING_UP",),
    "POW_DN": ("POWERING_DOWN",),
}

HARMLESS_NODE_FLAGS = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "DYNAMIC", "PERFCTRS"})
"""Flags under which a node takes jobs like any other; every other flag, known or not, stands in the way."""


class NodeState(NamedTuple):
    """A node's state: its base (UNKNOWN where only a flag was shown) and its flags."""

    name: str
    flags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> NodeState:
        """Read `IDLE+DRAIN`, `MIXED+CLOUD`, `down*`, `idle~`, `drng@`.

        Raises:
            ValueError: the text is empty.
        """
        words: list[str] = []
        for part in text.strip().split("+"):
            suffixes = [NODE_SUFFIXES[letter] for letter in part if letter in NODE_SUFFIXES]
            word = part.rstrip("".join(NODE_SUFFIXES)).upper()
            words += [*_NODE_WORDS.get(word, (word,)), *suffixes]
        base = next((word for word in words if word in NODE_BASES), "UNKNOWN")
        flags = tuple(dict.fromkeys(word for word in words if word and word not in NODE_BASES))
        if base == "UNKNOWN" and "UNKNOWN" not in words and not flags:
            raise ValueError(f"not a node state: {text!r}")
        return cls(base, flags)

    @property
    def is_down(self) -> bool:
        """Whether jobs on the node are lost."""
        return self.name in {"DOWN", "ERROR"} or "NOT_RESPONDING" in self.flags

    @property
    def is_drained(self) -> bool:
        """Whether the node takes no new job, by an admin's or Slurm's own decision."""
        return not {"DRAIN", "FAIL"}.isdisjoint(self.flags)

    @property
    def is_available(self) -> bool:
        """Whether a job could start there now, as far as the state tells."""
        return self.name in {"IDLE", "MIXED"} and HARMLESS_NODE_FLAGS.issuperset(self.flags)

    def __str__(self) -> str:
        """The form of `scontrol show node`: base and flags joined by `+`."""
        return "+".join((self.name, *self.flags))
