"""What a directive asks for is what the real sbatch understood, as scontrol shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.script.sbatch_file import parse
from tests.cluster.batch import Batch

if TYPE_CHECKING:
    from pathlib import Path

    from slurmkit.testbed.testbed import Testbed

pytestmark = pytest.mark.cluster


@pytest.fixture
def batch(slurm_testbed: Testbed, tmp_path: Path) -> Batch:
    return Batch(slurm_testbed, tmp_path)


def asked(batch: Batch, **resources: Any) -> dict[str, str]:
    """The fields of a job with these options, which is held and goes again."""
    job = batch.submit(batch.render(batch.spec(resources={"hold": True, **resources})))
    shown = batch.show(job)
    batch.testbed.command(["scancel", job])
    return shown


@pytest.mark.parametrize(
    ("resources", "fields"),
    [
        ({"nodes": 2}, {"NumNodes": "2-2"}),
        ({"nodes": "2-4"}, {"NumNodes": "2-4"}),
        ({"nodes": 2, "ntasks": 6}, {"NumTasks": "6"}),
        ({"nodes": 2, "ntasks_per_node": 3}, {"NumTasks": "6", "NtasksPerN:B:S:C": "3:0:*:*"}),
        ({"cpus_per_task": 3}, {"CPUs/Task": "3"}),
        ({"mem": "1536M"}, {"MinMemoryNode": "1.50G"}),
        ({"mem": None, "mem_per_cpu": "100M"}, {"MinMemoryCPU": "100M"}),
        ({"gpus_per_node": "a100:2"}, {"TresPerNode": "gres:gpu:a100:2"}),
        ({"gres": "gpu:a100:2"}, {"TresPerNode": "gres:gpu:a100:2"}),
        ({"gpus": 4, "ntasks": 4}, {"TresPerJob": "gres:gpu:4"}),
        ({"gpus_per_task": 1, "ntasks": 2}, {"TresPerTask": "gres:gpu:1"}),
        ({"time": "1:30:00"}, {"TimeLimit": "01:30:00"}),
        ({"time": "1-12:00:00"}, {"TimeLimit": "1-12:00:00"}),
        ({"time": "UNLIMITED"}, {"TimeLimit": "UNLIMITED"}),
        ({"time": "1:00:00", "time_min": "0:30:00"}, {"TimeMin": "00:30:00"}),
        ({"exclusive": True}, {"OverSubscribe": "NO"}),
        ({"exclusive": "user"}, {"OverSubscribe": "USER"}),
        ({"oversubscribe": True}, {"OverSubscribe": "YES"}),
        ({"nodelist": "n2"}, {"ReqNodeList": "n2"}),
        ({"exclude": "n1,n3"}, {"ExcNodeList": "n[1,3]"}),
        ({"contiguous": True}, {"Contiguous": "1"}),
        ({"threads_per_core": 1}, {"ReqB:S:C:T": "0:0:*:1"}),
        ({"nice": -5}, {"Nice": "-5"}),
        ({"nice": True}, {"Nice": "100"}),
        ({"requeue": True}, {"Requeue": "1"}),
        ({"no_requeue": True}, {"Requeue": "0"}),
        ({"reboot": True}, {"Reboot": "1"}),
        ({"comment": 'first # of "many" it\'s \\'}, {"Comment": 'first # of "many" it\'s \\ slurmkit:r-1'}),
        ({"output": "/tmp/my logs/%x #1.out"}, {"StdOut": "/tmp/my logs/job #1.out"}),
        ({"error": "/tmp/'e'.err"}, {"StdErr": "/tmp/'e'.err"}),
        ({"input": "/dev/zero"}, {"StdIn": "/dev/zero"}),
        ({"chdir": "/tmp/a b"}, {"WorkDir": "/tmp/a b"}),
        ({"mail_user": "ada@example.org", "mail_type": "END,FAIL"}, {"MailUser": "ada@example.org"}),
        ({"dependency": "afterany:1"}, {}),
        ({"array": "0-9%3"}, {"ArrayTaskThrottle": "3"}),
        ({"begin": "now+1hour"}, {"JobState": "PENDING"}),
        ({"wckey": "*x"}, {}),
        ({"kill_on_invalid_dep": "yes"}, {"KillOInInvalidDependent": "Yes"}),
        ({"delay_boot": "0:05:00"}, {"DelayBoot": "00:05:00"}),
        ({"sockets_per_node": 2}, {"Socks/Node": "2"}),
        ({"ntasks_per_core": 1}, {"NtasksPerN:B:S:C": "0:0:*:1"}),
        ({"ntasks_per_socket": 1}, {"NtasksPerN:B:S:C": "0:0:1:*"}),
        ({"switches": "1@1:00:00"}, {}),
        ({"profile": "none"}, {}),
        ({"signal": "B:USR1@120"}, {}),
        ({"acctg_freq": "task=5"}, {}),
        ({"cpu_freq": "high"}, {}),
        ({"hint": "nomultithread"}, {}),
        ({"mem_bind": "local"}, {}),
        ({"gpu_bind": "none", "gpus_per_node": 1}, {}),
        ({"propagate": "NONE"}, {}),
        ({"get_user_env": True}, {}),
        ({"wait_all_nodes": "1"}, {}),
        ({"spread_job": True}, {}),
        ({"use_min_nodes": True, "nodes": "1-2"}, {}),
        ({"overcommit": True}, {}),
        ({"tmp": "0"}, {}),
        ({"mincpus": 2}, {"MinCPUsNode": "2"}),
        ({"open_mode": "truncate"}, {}),
        ({"export": "NONE"}, {}),
        ({"ignore_pbs": True}, {}),
        ({"cpus_per_gpu": 2, "gpus_per_node": 1}, {"CpusPerTres": "gres:gpu:2"}),
        ({"mem": None, "mem_per_gpu": "200M", "gpus_per_node": 1}, {"MemPerTres": "gres:gpu:200"}),
        ({"ntasks_per_gpu": 2, "gpus_per_node": 1}, {}),
        ({"distribution": "block:cyclic"}, {}),
    ],
    ids=lambda value: " ".join(f"{name}={one}" for name, one in value.items()),
)
def test_an_option_is_understood_as_it_was_meant(
    batch: Batch, resources: dict[str, Any], fields: dict[str, str]
) -> None:
    shown = asked(batch, **resources)
    # 24.11 writes gres/gpu:2 and gres/gpu=1 where 22.05 has gres:gpu:2 and gres:gpu:1.
    as_before = {name: shown.get(name, "").replace("gres/", "gres:") for name in fields}
    assert {name: value.replace("gpu=", "gpu:") for name, value in as_before.items()} == fields


def test_trap_123_what_stands_after_the_first_command_is_no_directive(batch: Batch) -> None:
    script = batch.directory / "late.sh"
    script.write_text("#!/bin/bash\n#SBATCH --hold\n\n# note\n#SBATCH -t 7\nset -eu\n#SBATCH -t 5\n")
    job = batch.sbatch(str(script)).strip()
    assert batch.show(job)["TimeLimit"] == "00:07:00"
    batch.testbed.command(["scancel", job])
    assert parse(script.read_text()).values == {"hold": None, "time": "7"}


def test_trap_127_the_script_may_lie_at_any_path(batch: Batch) -> None:
    script = batch.directory / "log(kd)=-1 $x; 'y'.sh"
    script.write_text("#!/bin/bash\n#SBATCH --hold\ntrue\n")
    job = batch.sbatch(str(script)).strip()
    assert batch.show(job)["Command"] == str(script)
    batch.testbed.command(["scancel", job])


def test_trap_141_a_percent_sign_in_the_name_is_no_field(batch: Batch) -> None:
    job = batch.run(batch.spec(command="echo a", name="100%j", resources={"output": "%x-%j.out"}))
    assert job["JobState"] == "COMPLETED"
    assert (batch.directory / f"100%j-{job['JobId']}.out").exists()
