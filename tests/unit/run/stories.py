"""Event logs as stories: what happened at which minute, to be told in as few words as a test needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Self

from slurmkit.run.course import Course, Heard, courses
from slurmkit.run.events import KINDS, Event

BEGIN = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def minute(number: float) -> datetime:
    return BEGIN + timedelta(minutes=number)


def stamp(number: float) -> float:
    return minute(number).timestamp()


class Story:
    """The log of one run, which was submitted at minute 0. All times are minutes."""

    def __init__(self, *, nodes: int = 2, job: str = "12") -> None:
        self.events: list[Event] = []
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.job, self.restart, self.number = job, -1, -1
        self.say(0, "submitting").say(0, "submitted", job_id=job)

    def say(self, at: float, event: str, /, **fields: Any) -> Self:
        assert event in KINDS
        self.events.append(Event(minute(at), event, fields))
        return self

    def own(self, at: float, event: str, /, **fields: Any) -> Self:
        """An event of the attempt and the step start that go on."""
        step = {"step": self.number} if self.number >= 0 and "step" not in fields else {}
        return self.say(at, event, attempt=f"{self.job}-{self.restart}", **step, **fields)

    def attempt(self, at: float, **fields: Any) -> Self:
        self.restart, self.number = self.restart + 1, -1
        return self.own(at, "attempt-started", job_id=self.job, nodes=self.nodes, host="n1", **fields)

    def step(self, at: float, *, chosen: int | None = -1, refused: int | None = None) -> Self:
        """A start of the step; from checkpoint `chosen`, from none (None), or none was looked for (-1)."""
        self.number += 1
        if chosen != -1:
            worse = [{"checkpoint": f"/c/step-{refused}", "state": "damaged", "reason": "a shard is short"}]
            path = None if chosen is None else f"/c/step-{chosen}"
            self.own(at, "checkpoint-chosen", checkpoint=path, at_step=chosen, layout="torch-dcp",
                     refused=worse if refused is not None else [])  # fmt: skip
        return self.own(at, "step-started", master_addr="n1", master_port=31000,
                        from_step=None if chosen == -1 else chosen or 0)  # fmt: skip

    def saved(self, *marks: tuple[float, int]) -> Self:
        """Complete checkpoints: when, and of which step."""
        for at, number in marks:
            self.own(at, "checkpoint-complete", checkpoint=f"/c/step-{number}", at_step=number,
                     layout="torch-dcp", saved=stamp(at))  # fmt: skip
        return self

    def fails(self, at: float, kind: str = "crashed", *, action: str = "restart", **fields: Any) -> Self:
        """The step ends, and what became of that."""
        told: dict[str, Any] = {
            name: fields.pop(name) for name in ("computing_since", "saving") if name in fields
        }
        if "at_step" in fields:
            told["at_step"] = fields["at_step"]
        self.own(at, "step-ended", exit_code=1, **told)
        self.own(at, "diagnosed", kind=kind, sentence=f"it {kind}", transient=True, by="agent", **fields)
        return self.own(at, "decided", action=action, reason="the first failure", delay=0.0, by="agent")

    def leaves(self, at: float, following: str, exit_code: int = 1) -> Self:
        """The attempt ends."""
        if following == "requeue":
            self.own(at, "requeueing", job_id=self.job, hold=False, exclude=[])
        return self.own(at, "attempt-ended", exit_code=exit_code, next=following)

    def succeeds(self, at: float, **told: Any) -> Self:
        self.own(at, "step-ended", exit_code=0, **told)
        self.leaves(at, "done", 0)
        return self.say(at, "run-ended", outcome="completed", exit_code=0)

    def resubmitted(self, asked: float, job: str) -> Self:
        self.job, self.restart = job, -1
        return self.say(asked, "submitting", number=2).say(asked, "submitted", job_id=job, number=2)

    def course(self, state: str = "completed", *, now: float = 1000, heard: Heard | None = None) -> Course:
        """The only course, as it is seen at minute `now`; `heard` is of the last attempt."""
        told = {f"{self.job}-{self.restart}": heard} if heard else {}
        (one,) = courses(self.events, state=state, now=stamp(now), heard=told)
        return one
