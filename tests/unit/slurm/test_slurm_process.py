from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import MissingRequirement, Refused, Unreachable
from slurmkit.slurm.process import NEVER, Answer, Retry, check, find_program, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.slurm.conftest import FakeClock, Stubs

FLAKY = """
test -e "$0.2" && { echo there; exit 0; }
test -e "$0.1" && touch "$0.2"
touch "$0.1"
echo "squeue: error: slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""


def test_arguments_arrive_byte_for_byte_without_a_shell(stubs: Stubs, clock: FakeClock) -> None:
    hostile = ["a b", "$HOME", "`id`", "it's", 'q"', "-x", "new\nline", "é", ""]
    stubs.add("squeue", "exit 0")
    run(["squeue", *hostile], environment=stubs.environment, clock=clock)
    assert stubs.calls() == [["squeue", *hostile]]


def test_trap_006_odd_bytes_lose_nothing_else(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("squeue", r"printf '12\037lat\355n\037COMPLETED\n13\037ok\037COMPLETED\n'")
    environment = stubs.environment | {"LANG": "C", "LC_ALL": "C"}
    assert run(["squeue"], environment=environment, clock=clock).stdout == (
        "12\x1flat\ufffdn\x1fCOMPLETED\n13\x1fok\x1fCOMPLETED\n"
    )


def test_standard_input_is_closed(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("sbatch", "cat; echo end")
    assert run(["sbatch"], environment=stubs.environment, clock=clock).stdout == "end\n"


def test_the_environment_is_exactly_the_one_given(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("squeue", "/usr/bin/env")
    given = {"PATH": stubs.environment["PATH"], "BAR": "x\ny", "BAZ": 'q"$`', "EMPTY": ""}
    printed = run(["squeue"], environment=given, clock=clock).stdout
    assert {"BAR=x", "y", 'BAZ=q"$`', "EMPTY="} <= set(printed.splitlines())
    assert "HOME=" not in printed


def test_a_command_that_hangs_is_stopped_with_its_children(stubs: Stubs, clock: FakeClock) -> None:
    # The child holds the output open: were it left alive, reading to the end would take ten minutes.
    stubs.add("squeue", "sleep 600 & echo early; wait")
    answer = run(["squeue"], environment=stubs.environment, clock=clock, timeout=2)
    assert (answer.code, answer.stdout) == (None, "early\n")
    with pytest.raises(Unreachable, match="did not end in time"):
        check("squeue", answer)


def test_a_passing_fault_is_tried_again_with_growing_pauses(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("squeue", FLAKY)
    answer = run(
        ["squeue"], environment=stubs.environment, clock=clock, retry=Retry(tries=5, first_pause=2, within=60)
    )
    assert answer.stdout == "there\n"
    assert len(clock.slept) == 2
    assert 1 <= clock.slept[0] <= 2 <= clock.slept[1] <= 4


def test_tries_are_bounded(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("squeue", "echo 'Socket timed out on send/recv operation' >&2; exit 1")
    answer = run(
        ["squeue"], environment=stubs.environment, clock=clock, retry=Retry(tries=4, longest_pause=3)
    )
    assert (answer.code, len(stubs.calls()), max(clock.slept) <= 3) == (1, 4, True)


def test_what_must_not_be_repeated_is_not(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("sbatch", FLAKY)
    run(["sbatch"], environment=stubs.environment, clock=clock, retry=NEVER)
    assert (len(stubs.calls()), clock.slept) == (1, [])


def test_a_refusal_is_not_tried_again(stubs: Stubs, clock: FakeClock) -> None:
    stubs.add("squeue", "echo 'squeue: error: Invalid user: x' >&2; exit 1")
    answer = run(["squeue"], environment=stubs.environment, clock=clock, retry=Retry())
    assert len(stubs.calls()) == 1
    with pytest.raises(Refused, match="squeue: error: Invalid user: x"):
        check("squeue", answer)


def test_a_command_that_is_not_there_is_named_with_what_to_do(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(MissingRequirement, match="sbatch is not on the PATH") as caught:
        run(["sbatch"], environment={"PATH": str(tmp_path)}, clock=clock)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "\x7fELF not really"])
def test_a_command_that_cannot_be_started_is_an_error_of_ours(
    tmp_path: Path, clock: FakeClock, text: str
) -> None:
    (tmp_path / "sbatch").write_text(text)
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(MissingRequirement, match="cannot be started"):
        run(["sbatch"], environment={"PATH": str(tmp_path)}, clock=clock)


def test_a_working_directory_that_is_gone_is_named(stubs: Stubs, clock: FakeClock, tmp_path: Path) -> None:
    stubs.add("sbatch", "exit 0")
    with pytest.raises(MissingRequirement, match="gone"):
        run(["sbatch"], environment=stubs.environment, clock=clock, directory=tmp_path / "gone")


def test_folders_and_plain_files_on_the_path_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "a" / "sbatch").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "sbatch").write_text("x")
    with pytest.raises(MissingRequirement):
        find_program("sbatch", f"{tmp_path}/a{os.pathsep}{tmp_path}/b")


def test_a_command_that_said_nothing_is_still_an_error() -> None:
    with pytest.raises(Refused, match="scancel failed"):
        check("scancel", Answer(3, "", ""))


def test_an_interruption_ends_the_command_before_it_is_passed_on(
    stubs: Stubs, clock: FakeClock, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    stubs.add("squeue", f"touch '{ready}'; sleep 600")

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        with pytest.raises(KeyboardInterrupt):
            run(["squeue"], environment=stubs.environment, clock=clock)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ready.exists()
