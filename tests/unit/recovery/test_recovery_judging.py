"""What an attempt makes of the one before it, of which its agent left no last word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from slurmkit.recovery import judging
from slurmkit.run import events
from slurmkit.slurm.states import JobState
from slurmkit.spec.model import Retry

if TYPE_CHECKING:
    import pytest

    from slurmkit.recovery.policy import Decision
    from tests.unit.recovery.conftest import Made


def after(made: Made, state: str, *, failed_before: int = 0, **spec: Any) -> Decision | None:
    """What an attempt does whose job's start before has this state in accounting."""
    paths = made.setting.paths
    for number in range(failed_before):
        told: dict[str, Any] = {"attempt": f"12-{number}", "kind": "node-died", "signature": "node-died"}
        events.append(paths, "diagnosed", **told)
        events.append(paths, "decided", attempt=f"12-{number}", action="requeue")
    events.append(paths, "attempt-started", attempt="12-9", job_id="12", nodes=["n1"], host="n1")
    made.queue.recorded = (made.queue.job._replace(state=JobState.parse(state), restarts=9),)
    object.__setattr__(made.setting, "spec", replace(made.setting.spec, **spec))
    return judging.past_allows(made.setting)


def test_trap_101_an_earlier_start_that_slurm_took_back_is_explained_and_the_run_goes_on(made: Made) -> None:
    assert after(made, "NODE_FAIL") is None
    assert [(one["attempt"], one["kind"]) for one in made.events("diagnosed")] == [("12-9", "node-died")]
    assert [one["action"] for one in made.events("decided")] == ["leave"]


def test_trap_104_a_run_whose_nodes_die_again_and_again_is_not_started_for_ever(made: Made) -> None:
    decision = after(made, "NODE_FAIL", failed_before=5)
    assert decision is not None
    assert decision.action == "stop"


def test_what_the_job_file_leaves_to_slurm_slurm_decides(made: Made) -> None:
    assert after(made, "NODE_FAIL", checkpoint=None) is None
    assert [one["action"] for one in made.events("decided")] == ["leave"]


def test_an_attempt_that_has_been_explained_is_not_explained_again(made: Made) -> None:
    after(made, "NODE_FAIL")
    assert judging.past_allows(made.setting) is None
    assert len(made.events("diagnosed")) == 1


def test_a_diagnosis_of_an_earlier_step_does_not_explain_the_end_of_the_attempt(made: Made) -> None:
    paths = made.setting.paths
    events.append(paths, "attempt-started", attempt="12-9", job_id="12", nodes=["n1"], host="n1")
    events.append(paths, "diagnosed", attempt="12-9", kind="crashed")
    events.append(paths, "decided", attempt="12-9", action="restart")
    events.append(paths, "step-started", attempt="12-9", step=1)
    made.queue.recorded = (made.queue.job._replace(state=JobState.parse("REQUEUED"), restarts=9),)
    assert judging.past_allows(made.setting) is None
    assert [one["kind"] for one in made.events("diagnosed")] == ["crashed", "requeued"]


def test_where_no_memory_was_asked_for_there_is_no_more_to_ask_for(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurmkit.recovery.diagnosis import Evidence

    spec = replace(made.setting.spec, retry=Retry(memory_factor=2.0))
    object.__setattr__(made.setting, "spec", spec)
    monkeypatch.setattr(judging, "pool", lambda _: None)
    evidence = Evidence(exit_code=1, step_state="OUT_OF_MEMORY")
    _, decision = judging.judge(made.setting, evidence, ("n1", "n2"), None)
    assert decision.action == "stop"
    assert "add `mem` to [resources]" in decision.reason
