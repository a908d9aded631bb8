"""Where the ranks meet: ports that nobody else has, addresses that work."""

from __future__ import annotations

import functools
import socket
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from slurmkit.launch.port import candidates, ephemeral_range, hold
from slurmkit.testbed import cgroup, namespace
from slurmkit.testbed.native import down
from slurmkit.testbed.options import Options
from tests.cluster import ranks
from tests.cluster.site import Site, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster

MEETING = "import os; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])"


@pytest.fixture
def site(slurm_testbed: Testbed, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(slurm_testbed, tmp_path)) as site:
        yield site


def submit_held(site: Site, job: str) -> tuple[str, int]:
    """Submit a job that waits for `release`; its run id and job id."""
    run = site.submit(job, "--set", "resources.hold=true")
    return run, int(site.json("status", run)[0]["job_id"])


def release(site: Site, run: str, job_id: int) -> str:
    """Let the job go and wait for its end; where its ranks met."""
    assert site.testbed.command(["scontrol", "release", str(job_id)]).returncode == 0
    site.run("wait", run)
    return ranks.printed(site, run)[0].strip()


def test_trap_077_ports_in_use_on_the_first_host_are_passed_over(site: Site) -> None:
    run, job_id = submit_held(site, ranks.write_job(site, ranks.python(MEETING), nodes=1, ntasks=1))
    order = candidates(job_id, 0, 0, ephemeral_range())
    with ExitStack() as stack:
        stack.enter_context(socket.create_server(("", order[0])))  # another program listens
        claim = hold(order[1])  # another run of slurmkit has chosen it, and does not listen yet
        assert claim is not None
        stack.enter_context(closing(claim))
        assert release(site, run, job_id) == f"n1 {order[2]}"


def test_trap_077_two_jobs_at_once_on_one_node_have_different_ports(site: Site) -> None:
    program = (
        "import os, pathlib, time\n"
        "print(os.environ['MASTER_PORT'], flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    )
    job = ranks.write_job(site, ranks.python(program), nodes=1, ntasks=1, nodelist="n1")
    runs = [site.submit(job) for _ in range(2)]
    until(lambda: all("".join(ranks.printed(site, run)) for run in runs), "both run at once")
    (site.work / "go").touch()
    ports = [ranks.printed(site, run)[0].strip() for run in runs]
    assert ports[0] != ports[1]
    for run in runs:
        site.run("wait", run)


def test_a_port_that_is_lost_before_rank_0_starts_is_chosen_anew(site: Site) -> None:
    """Another program takes it after the agent's trial: here, the first srun is preceded by such a one."""
    listen = site.work / "listen.py"
    listen.write_text(
        "import os, pathlib, socket, time\n"
        "server = socket.create_server(('', int(os.environ['MASTER_PORT'])))\n"
        "pathlib.Path('listening').touch()\n"
        "time.sleep(600)\n"
    )
    site.wrap(
        "srun",
        f"""
        if [[ ! -e listening ]]; then
          {sys.executable} listen.py &
          until [[ -e listening ]]; do sleep 0.05; done
        fi
        exec "$REAL" "$@"
        """,
    )
    job = ranks.write_job(site, ranks.python(MEETING), nodes=2, ntasks=2)
    run = ranks.run(site, job)
    first, second = ranks.events(site, run, "step-started")
    assert first["master_port"] != second["master_port"]
    ends = ranks.events(site, run, "step-ended")
    assert [end.get("port_taken") for end in ends] == [True, None]
    assert ranks.printed(site, run)[1].splitlines()[-1] == f"n1 {second['master_port']}"
    assert "the step starts again, with another port" in ranks.said(site, run)


def test_a_port_that_is_always_taken_ends_the_attempt_with_the_reason(site: Site) -> None:
    site.wrap(
        "srun",
        f"""
        {sys.executable} -c 'if True:
            import os, socket, time
            server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
            open("listening", "w").close()
            time.sleep(600)' &
        until [[ -e listening ]]; do sleep 0.05; done
        rm listening
        exec "$REAL" "$@"
        """,
    )
    run = ranks.run(site, ranks.write_job(site, ranks.python(MEETING), nodes=1, ntasks=1), code=98)
    assert len(ranks.events(site, run, "step-started")) == 5
    assert ranks.said(site, run).count("was taken by another program") == 5


@pytest.fixture
def nameless(
    make_testbed: Callable[[Options], Testbed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """A cluster whose node names do not resolve, and which tracks processes by their parents."""
    monkeypatch.setattr(namespace, "is_usable", lambda: False)
    monkeypatch.setattr(cgroup, "is_usable", lambda: False)
    testbed = make_testbed(Options(nodes=2, gpus="", prefix="no-such-host", accounting=False))
    with closing(Site(testbed, tmp_path)) as site:
        yield site
    down(testbed.root)


def test_trap_087_where_names_do_not_resolve_the_ranks_meet_at_slurms_address(nameless: Site) -> None:
    program = (
        "import os, signal, socket, time\n"
        "meeting = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
        "if os.environ['RANK'] == '0':\n"
        "    with socket.create_server(('', meeting[1])) as server:\n"
        "        peer = server.accept()[0]\n"
        "else:\n"
        "    while True:\n"
        "        try:\n"
        "            peer = socket.create_connection(meeting); break\n"
        "        except ConnectionRefusedError: time.sleep(0.05)\n"
        "print('met at', meeting[0])\n"
    )
    run = ranks.run(nameless, ranks.write_job(nameless, ranks.python(program), nodes=2, ntasks=2))
    assert ranks.printed(nameless, run) == ["met at 127.0.0.1\n"] * 2
    assert "no-such-host1 does not resolve; Slurm reaches it as 127.0.0.1" in ranks.said(nameless, run)


def test_where_slurm_signals_every_process_itself_a_signal_still_comes_once(nameless: Site) -> None:
    program = (
        "import os, signal\n"
        "def note(number, frame): os.write(1, b'%d\\n' % number)\n"
        "signal.signal(signal.SIGUSR1, note); signal.signal(signal.SIGUSR2, note)\n"
        "os.write(1, b'ready\\n')\n"
        "while True:\n"
        "    signal.pause()\n"
    )
    run = nameless.submit(ranks.write_job(nameless, ranks.python(program), nodes=1, ntasks=2))
    until(functools.partial(both_printed, nameless, run, "ready\n"), "both ranks are ready")
    job_id = nameless.json("status", run)[0]["job_id"]
    expected = "ready\n"
    # Whatever had come twice would stand before the next one.
    for number, options in (
        (10, ["--signal=USR1"]),
        (12, ["--batch", "--signal=USR2"]),
        (10, ["--signal=USR1"]),
    ):
        nameless.testbed.command(["scancel", *options, job_id])
        expected += f"{number}\n"
        until(functools.partial(both_printed, nameless, run, expected), f"{expected!r} and nothing else")


def both_printed(site: Site, run: str, text: str) -> bool:
    return ranks.printed(site, run) == [text] * 2
