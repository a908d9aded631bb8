"""The verdict on nodes, what they are asked for, and the wait for their answers. A shell stands for srun."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slurmkit.recovery.fitness import LEAST_WRITTEN, WRITTEN, gpu_options, requirements
from slurmkit.run.fitness import Answers, Fitness, judge, read_answers
from slurmkit.spec.model import Checkpoint, Container, JobSpec, Launch

Record = dict[str, Any]
FIT: Record = {"problems": [], "warnings": [], "facts": {}, "topology": None}


def unfit(*problems: str) -> Record:
    return {**FIT, "problems": list(problems)}


def unreached(why: str = "n1:20000: refused") -> Record:
    return {**FIT, "facts": {"unreached": why}}


def verdict(
    records: dict[str, Record],
    said: tuple[str, ...] = (),
    *,
    nodes: tuple[str, ...] = ("n1", "n10"),
    late: bool = False,
    ahead: dict[str, float] | None = None,
    within: float = 10.0,
) -> Fitness:
    return judge(nodes, Answers(ahead=ahead or {}, records=records), said, within=within, is_late=late)


@pytest.mark.parametrize(
    ("records", "said", "late", "expected"),
    [
        pytest.param({"n1": FIT, "n10": FIT}, (), False, {}, id="all fit"),
        pytest.param({"n1": FIT, "n10": FIT}, (), True, {}, id="all fit, but srun did not end"),
        pytest.param(
            {"n1": FIT, "n10": unfit("7 of 8 GPUs", "no space is left")},
            ("srun: error: n10: task 1: Exited with exit code 1",),
            False,
            {"n10": ("7 of 8 GPUs", "no space is left")},
            id="a node's own word goes before srun's",
        ),
        pytest.param({"n1": FIT}, (), False, {"n10": ("no answer",)}, id="silent"),
        pytest.param({"n1": FIT}, (), True, {"n10": ("no answer within 10 s",)}, id="silent and late"),
        pytest.param(
            {"n1": FIT},
            ("srun: error: n10: first", "srun: error: n10: last ", "srun: error: Timed out"),
            True,
            {"n10": ("srun: error: n10: last",)},
            id="srun's last word on the node",
        ),
        pytest.param({}, ("srun: error: n1: no",), False, {}, id="nobody answered"),
    ],
)
def test_a_node_is_unfit_for_a_problem_or_its_silence(
    records: dict[str, Record], said: tuple[str, ...], late: bool, expected: dict[str, tuple[str, ...]]
) -> None:
    assert verdict(records, said, late=late).unfit == expected


@pytest.mark.parametrize("line", ["n10: lost", "gn1: lost", "rack-n1: lost", "n1-ib: lost", "n1x: lost"])
def test_another_nodes_name_that_holds_this_ones_is_not_this_one(line: str) -> None:
    assert verdict({"n2": FIT}, (line,), nodes=("n1", "n2")).unfit == {"n1": ("no answer",)}


@pytest.mark.parametrize("line", ["srun: error: n1: lost", "Node n1, is down", "n1.cluster: lost", "on n1"])
def test_srun_names_a_node_in_more_ways_than_one(line: str) -> None:
    assert verdict({"n2": FIT}, (line,), nodes=("n1", "n2")).unfit == {"n1": (line,)}


@pytest.mark.parametrize(
    ("records", "said", "late", "expected"),
    [
        ({}, ("srun: error: Unable to create step", " "), False, "srun: error: Unable to create step"),
        ({}, ("srun: error: Job step aborted",), True, "no node answered within 10 s"),
        ({}, (), False, "no node answered"),
        ({"n9": FIT}, (), False, "no node answered"),
        ({"n1": FIT}, ("srun: error: n10: lost",), False, None),
    ],
)
def test_where_no_node_answered_the_check_is_at_fault(
    records: dict[str, Record], said: tuple[str, ...], late: bool, expected: str | None
) -> None:
    fitness = verdict(records, said, late=late)
    assert fitness.why_not == expected
    assert expected is None or not fitness.unfit


def test_warnings_and_topology_are_kept_and_make_no_node_unfit() -> None:
    told = {**FIT, "warnings": ["GPU 3 is hot"], "topology": "core.leaf1.n1"}
    assert verdict({"n1": told, "n10": FIT}) == Fitness(
        warnings={"n1": ("GPU 3 is hot",)}, topology={"n1": "core.leaf1.n1"}
    )


THREE = ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("records", "at_fault"),
    [
        pytest.param({"n1": FIT, "n2": FIT, "n3": unreached()}, "n3", id="one cannot"),
        pytest.param({"n1": FIT, "n2": unreached(), "n3": unreached()}, "n1", id="none can"),
        pytest.param({"n2": unreached(), "n3": unreached()}, "n1", id="the first is silent"),
        pytest.param({"n1": FIT, "n2": unreached()}, "n3", id="a silent node speaks for nobody"),
    ],
)
def test_who_is_at_fault_where_the_first_node_is_not_reached(
    records: dict[str, Record], at_fault: str
) -> None:
    assert at_fault in verdict(records, nodes=THREE).unfit


def test_the_first_nodes_fault_is_not_laid_on_the_others() -> None:
    found = verdict({"n1": FIT, "n2": unreached(), "n3": unreached()}, nodes=THREE).unfit
    assert found == {"n1": ("no other node reaches it at n1:20000: refused",)}


def test_of_two_nodes_the_one_that_cannot_reach_the_other_is_at_fault() -> None:
    found = verdict({"n1": FIT, "n10": unreached()}).unfit
    assert found == {"n10": ("does not reach n1 at n1:20000: refused",)}


@pytest.mark.parametrize(
    ("skew", "unfit", "warned"),
    [
        (0.9, None, None),
        (-0.9, None, None),
        (2.0, None, "its clock is 2.0 s ahead of that of n1"),
        (-2.0, None, "its clock is 2.0 s behind that of n1"),
        (61.0, "its clock is 61.0 s ahead of that of n1", None),
        (-3600.0, "its clock is 3600.0 s behind that of n1", None),
    ],
)
def test_a_clock_is_judged_beside_the_first_nodes(skew: float, unfit: str | None, warned: str | None) -> None:
    # Both arrive with the same delay, which is no fault of the clocks.
    found = verdict({"n1": FIT, "n10": FIT}, ahead={"n1": -0.25, "n10": skew - 0.25})
    assert found.unfit == ({"n10": (unfit,)} if unfit else {})
    assert found.warnings == ({"n10": (warned,)} if warned else {})


def test_a_first_node_whose_port_is_taken_is_nobodys_fault() -> None:
    taken = {**FIT, "warnings": ["the port is taken"], "facts": {"port_taken": True}}
    found = verdict({"n1": taken, "n2": unreached(), "n3": unreached()}, nodes=THREE)
    assert found == Fitness(warnings={"n1": ("the port is taken",)})


def test_without_both_clocks_nothing_is_said_of_them() -> None:
    assert verdict({"n1": FIT, "n10": FIT}, ahead={"n10": 3600.0}) == Fitness()


def test_only_lines_of_this_check_are_answers() -> None:
    lines = [
        json.dumps({"token": "ours", "node": "n1", "hello": 105.0}),
        json.dumps({"token": "ours", "node": "n1", **FIT}),
        json.dumps({"token": "theirs", "node": "n2", **FIT}),
        json.dumps({"token": "ours", **FIT}),
        json.dumps({"token": "ours", "node": "n3", "hello": "late"}),
        '{"token": "ours", "node": "n4", "prob',
        "a prolog says hello",
        '["token"]',
        "null",
        "3",
        "",
    ]
    assert read_answers([(100.0, line) for line in lines], "ours") == Answers(
        ahead={"n1": 5.0}, records={"n1": {"token": "ours", "node": "n1", **FIT}}
    )


def asked(environ: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    resources = more.pop("resources", {"nodes": 2})
    return requirements(JobSpec(name="job", command=("python",), resources=resources, **more), environ or {})


def test_a_node_is_asked_for_no_more_than_the_job_wants() -> None:
    assert asked() == {"gpus": None, "memory": None, "directories": [], "programs": []}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"nodes": 2, "gpus_per_node": "a100:8"}, 8),
        ({"nodes": 2, "gpus_per_task": "a100:1", "ntasks_per_node": 2}, 2),
        ({"nodes": 2, "gres": "gpu:4"}, 4),
        ({"nodes": 2}, None),
    ],
)
def test_the_gpus_of_a_node_are_counted_however_they_are_asked_for(
    resources: dict[str, Any], expected: int | None
) -> None:
    assert asked(resources=resources)["gpus"] == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("2048", 2048), ("", None), ("2G", None), ("0", None), (None, None)]
)
def test_the_memory_is_slurms_own_number(text: str | None, expected: int | None) -> None:
    environ = {} if text is None else {"SLURM_MEM_PER_NODE": text}
    assert asked(environ)["memory"] == expected


def test_the_directory_of_the_checkpoints_is_written_to(tmp_path: Path) -> None:
    path = str(tmp_path / "check points' $HOME é")
    (found,) = asked(checkpoint=Checkpoint(path=path))["directories"]
    assert found == {"what": "the checkpoint directory", "path": path, "size": WRITTEN}


@pytest.mark.parametrize(("nodes", "size"), [("16", WRITTEN), ("64", 4 << 20), ("100000", LEAST_WRITTEN)])
def test_many_nodes_write_less_each_but_never_nothing(nodes: str, size: int) -> None:
    (found,) = asked({"SLURM_JOB_NUM_NODES": nodes}, checkpoint=Checkpoint(path="/c"))["directories"]
    assert found["size"] == size


def test_a_directory_inside_a_container_is_not_looked_at_from_outside() -> None:
    container = Container(image="image.sqsh", runtime="pyxis")
    assert asked(checkpoint=Checkpoint(path="/c"), container=container)["directories"] == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"nodes": 2}, []),
        ({"nodes": 2, "gpus_per_node": "a100:8"}, []),
        ({"nodes": 2, "gres": "gpu:4"}, []),
        ({"nodes": 2, "gpus_per_task": "a100:1", "ntasks_per_node": 2}, ["--gres=gpu:2"]),
        ({"nodes": 2, "gpus": 4}, ["--gres=gpu:1"]),
    ],
)
def test_the_check_is_given_all_gpus_of_the_job_on_each_node(
    resources: dict[str, Any], expected: list[str]
) -> None:
    assert gpu_options(JobSpec(name="job", command=("python",), resources=resources)) == expected


def test_a_relative_directory_is_beneath_the_working_directory() -> None:
    (found,) = asked(checkpoint=Checkpoint(path="checkpoints"))["directories"]
    assert found["path"] == str(Path.cwd() / "checkpoints")


def test_the_sites_own_checks_are_passed_on_as_they_are() -> None:
    words = ("/site/check --all", "check 'a b' $HOME")
    assert asked(launch=Launch(checks=words))["programs"] == list(words)


LISTEN = """
import json, os, signal, sys
from slurmkit.recovery import fitness, step, watching
from slurmkit.slurm.clock import SystemClock

fitness.BESIDES = 0.3
mask = signal.pthread_sigmask(signal.SIG_BLOCK, watching.WATCHED)
argv = sys.argv[2:]
output, end = os.pipe()
srun, stderr = step.start(argv, argv[0], dict(PATH="/usr/bin:/bin"), mask, stdout=end)
os.close(end)
print(srun, flush=True)
are_all_in = lambda lines: any(line == "all" for _, line in lines)
heard = fitness.listen(srun, output, stderr, float(sys.argv[1]), SystemClock(), are_all_in=are_all_in)
try:
    os.kill(srun, 0)
    heard.said.append("srun is left behind")
except ProcessLookupError:
    pass
pending = signal.SIGTERM in signal.sigpending()
print(json.dumps([heard.is_late, heard.told_to_end, pending, [line for _, line in heard.lines], heard.said]))
"""
STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"


def listened(script: str, within: float, *, told: bool = False) -> tuple[list[Any], float]:
    """What it heard: late, told to end, SIGTERM still to be received, lines, stderr; and after how long."""
    bash = shutil.which("bash")
    assert bash
    argv = [sys.executable, "-c", LISTEN, str(within), bash, "-c", script]
    begun = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        srun = int(agent.stdout.readline())
        try:
            if told:
                agent.send_signal(signal.SIGTERM)
            said, _ = agent.communicate(timeout=60)
        finally:
            if agent.poll() is None:
                agent.kill()
                with suppress(ProcessLookupError):
                    os.kill(srun, signal.SIGKILL)
    assert agent.returncode == 0
    heard: list[Any] = json.loads(said)
    return heard, time.monotonic() - begun


def test_what_the_nodes_and_srun_say_is_taken_down_apart() -> None:
    script = (
        "echo one; echo 'srun: error' >&2; printf two; sleep 0.3; echo ' halves'; printf 'no end'; exit 1"
    )
    heard, _ = listened(script, 60)
    assert heard == [False, False, False, ["one", "two halves", "no end"], ["srun: error"]]


def test_long_and_broken_lines_come_through() -> None:
    heard, _ = listened("head -c 300000 /dev/zero | tr '\\0' x; echo; printf '\\xff\\n'", 60)
    assert heard[:3] == [False, False, False]
    assert heard[3] == ["x" * 300000, "\N{REPLACEMENT CHARACTER}"]


def test_a_check_whose_output_closes_early_is_waited_for() -> None:
    heard, _ = listened("echo one; exec >&- 2>&-; sleep 0.4", 60)
    assert heard == [False, False, False, ["one"], []]


@pytest.mark.parametrize("script", ["exec sleep 60", STUBBORN], ids=["minds", "does not mind"])
def test_a_check_that_is_late_is_ended_and_what_it_said_is_kept(script: str) -> None:
    heard, seconds = listened(f"echo early; {script}", 0.5)
    assert heard == [True, False, False, ["early"], []]
    assert seconds < 20


@pytest.mark.parametrize("script", ["exec sleep 60", STUBBORN], ids=["minds", "does not mind"])
def test_a_sigterm_ends_the_check_and_is_still_to_be_received(script: str) -> None:
    heard, seconds = listened(script, 60, told=True)
    assert heard == [False, True, True, [], []]
    assert seconds < 20


def test_where_all_have_answered_srun_is_not_waited_for_long() -> None:
    heard, seconds = listened("echo all; exec sleep 60", 60)
    assert heard[3:] == [["all"], []]
    assert seconds < 20
