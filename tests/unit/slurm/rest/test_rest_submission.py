"""sbatch's options as the fields of a job, for each shape of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import Refused
from slurmkit.slurm.request import Submission
from slurmkit.slurm.rest.changing import as_options
from slurmkit.slurm.rest.described import described, minutes
from slurmkit.slurm.rest.description import PLAIN, body, completed, plain
from slurmkit.slurm.rest.environment import job_environment, since_2411
from slurmkit.slurm.rest.script import SHORT, options
from slurmkit.slurm.rest.versions import APIS, Api
from slurmkit.spec.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

V45, V42, V38 = APIS
GIVEN = {"PATH": "/bin", "A": "1", "SLURM_JWT": "secret"}


def submission(folder: Path, text: str, *arguments: str) -> Submission:
    script = folder / "a job.sh"
    script.write_text(text)
    return Submission(script=script, tag="t", directory=folder, arguments=arguments, environment=GIVEN)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--nodes=2", {"nodes": "2"}),
        ("--nodes 2 -p main", {"nodes": "2", "partition": "main"}),
        ("-N2 -pmain", {"nodes": "2", "partition": "main"}),
        ("--comment='a b' # why", {"comment": "a b"}),
        ("--exclusive --hold", {"exclusive": None, "hold": None}),
        ("--exclusive=user", {"exclusive": "user"}),
        ("--tasks-per-node=2", {"ntasks-per-node": "2"}),
        ("--comment=", {"comment": ""}),
    ],
)
def test_a_directive_is_read_as_sbatch_reads_it(line: str, found: dict[str, str | None]) -> None:
    assert options(f"#!/bin/sh\n# a word\n\n#SBATCH {line}\n", ()) == found


def test_directives_end_at_the_first_command() -> None:
    assert options("#!/bin/sh\n#SBATCH -N1\ntrue\n#SBATCH -n9\n", ()) == {"nodes": "1"}


def test_the_command_line_beats_the_script() -> None:
    assert options("#SBATCH --time=1 --mem=1G\n", ["--time=2"]) == {"time": "2", "mem": "1G"}


@pytest.mark.parametrize("line", ["--nodes", "file", ":", "--comment='open"])
def test_what_sbatch_could_not_read_is_refused(line: str) -> None:
    with pytest.raises(Refused):
        options(f"#SBATCH {line}\n", ())


def test_short_options_are_those_of_the_table_of_options() -> None:
    known = {option.short: option.name.replace("_", "-") for option in OPTIONS if option.short}
    assert known | SHORT == SHORT | known
    assert {short: known[short] for short in SHORT if short in known} == {
        short: name for short, name in SHORT.items() if short in known
    }


@pytest.mark.parametrize(
    ("given", "ntasks"),
    [
        ({"nodes": "2"}, "2"),
        ({"nodes": "2", "ntasks-per-node": "4"}, "8"),
        ({"nodes": "2-4"}, None),
        ({"nodes": "2", "ntasks": "3"}, "3"),
        ({"nodes": "2", "ntasks-per-gpu": "1"}, None),
        ({}, None),
    ],
)
def test_the_number_of_tasks_is_reckoned_as_sbatch_does(
    given: dict[str, str | None], ntasks: str | None
) -> None:
    assert completed(given).get("ntasks") == ntasks


@pytest.mark.parametrize("api", [V45, V42])
@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"time": "1-2"}, {"time_limit": {"set": True, "infinite": False, "number": 1560}}),
        ({"time": "UNLIMITED"}, {"time_limit": {"set": False, "infinite": True, "number": 0}}),
        ({"mem": "1G"}, {"memory_per_node": {"set": True, "infinite": False, "number": 1024}}),
        ({"mem-per-gpu": "100"}, {"memory_per_tres": "gres/gpu:100"}),
        ({"gpus": "a100:4"}, {"tres_per_job": "gres/gpu:a100:4"}),
        ({"gpus-per-node": "2", "gres": "shard:1"}, {"tres_per_node": "gres/gpu:2,gres/shard:1"}),
        ({"gres": "NONE"}, {}),
        ({"exclusive": None}, {"shared": ["none"]}),
        ({"exclusive": "user"}, {"shared": ["user"]}),
        ({"no-kill": None}, {"kill_on_node_fail": False}),
        ({"no-requeue": None}, {"requeue": False}),
        ({"hold": None}, {"hold": True}),
        ({"nice": None}, {"nice": 100}),
        ({"open-mode": "append"}, {"open_mode": ["APPEND"]}),
        ({"mail-type": "END,TIME_LIMIT_80"}, {"mail_type": ["END", "TIME=80%"]}),
        ({"mail-type": "NONE"}, {"mail_type": []}),
        ({"priority": "TOP"}, {"flags": ["TOP_PRIORITY_JOB"]}),
        ({"kill-on-invalid-dep": "no"}, {"flags": ["NO_KILL_INVALID_DEPENDENCY"]}),
        ({"gres-flags": "enforce-binding"}, {"flags": ["GRES_BINDING_ENFORCED"]}),
        (
            {"signal": "B:USR1@120"},
            {
                "kill_warning_signal": "USR1",
                "kill_warning_delay": {"set": True, "infinite": False, "number": 120},
                "kill_warning_flags": ["BATCH_JOB"],
            },
        ),
        (
            {"switches": "2@1:00:00"},
            {"required_switches": {"set": True, "infinite": False, "number": 2}, "wait_for_switch": 3600},
        ),
        (
            {"ntasks": "4", "cpus-per-task": "2"},
            {
                "tasks": 4,
                "cpus_per_task": 2,
                "tres_per_task": "cpu=2",
                "minimum_cpus": 8,
                "flags": ["EXACT_TASK_COUNT_REQUESTED", "EXACT_CPU_COUNT_REQUESTED"],
            },
        ),
        (
            {"gpus-per-task": "a100:2"},
            {"tres_per_task": "gres/gpu:a100=2", "tres_bind": "gres/gpu:per_task:2"},
        ),
        (
            {"gpus-per-task": "1", "gpu-bind": "none"},
            {"tres_per_task": "gres/gpu=1", "tres_bind": "gres/gpu:none"},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_an_option_becomes_its_field(api: Api, given: dict[str, str | None], fields: dict[str, Any]) -> None:
    assert described(given, api) == fields


@pytest.mark.parametrize(
    ("text", "number"),
    [("30", 30), ("1:30", 2), ("1:00:00", 60), ("1-0", 1440), ("1-1:30", 1530), ("0-0:0:1", 1)],
)
def test_a_time_is_whole_minutes_rounded_up(text: str, number: int) -> None:
    assert minutes(text)["number"] == number


@pytest.mark.parametrize(
    "given", [{"time": "junk"}, {"ntasks": "two"}, {"signal": "@"}, {"mem": "1Q"}, {"gres-flags": "one-task"}]
)
def test_a_value_that_cannot_be_written_is_refused(given: dict[str, str | None]) -> None:
    with pytest.raises(Refused):
        described(given, V42)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_option_without_a_field_is_refused_by_its_name(api: Api, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"{api.name} has no way to ask for --power, --uid"):
        body(submission(tmp_path, "#!/bin/sh\n", "--power=x", "--uid=1"), api)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("option", [one for one in OPTIONS if one.refused is None], ids=lambda one: one.name)
def test_every_option_of_a_job_file_has_a_field_or_is_refused(api: Api, option: Any, tmp_path: Path) -> None:
    """Nothing that a job file asks for is left out without a word."""
    values = {"memory": "1G", "time": "10", "count": "1", "nodes": "1", "signal": "USR1@60", "switches": "1",
              "array": "0-1", "gpus": "1", "gres": "gpu:1", "choice": (*option.choices, "")[0]}  # fmt: skip
    flag = option.flag_text
    word = flag if option.takes == "flag" else f"{flag}={values.get(option.kind, '1')}"
    name = flag.removeprefix("--")
    try:
        made, notes = body(submission(tmp_path, "#!/bin/sh\n", word), api)
    except Refused as refused:
        assert flag in str(refused)  # noqa: PT017 - both ends are right, for one option each
        return
    job = made["job"]
    bare, _ = body(submission(tmp_path, "#!/bin/sh\n"), api)
    assert job != bare["job"] or notes or name in {"export", "ignore-pbs", "nice", "get-user-env", "chdir"}


def test_v0_0_38_takes_values_as_sbatch_writes_them() -> None:
    given = {"nodes": "2-4", "time": "1:30:00", "mem": "1G", "ntasks": "4", "hold": None, "exclusive": None}
    assert plain(given) == {
        "nodes": "2-4", "time_limit": "1:30:00", "memory_per_node": "1G", "tasks": 4, "hold": True,
        "exclusive": "exclusive",
    }  # fmt: skip
    assert len(set(PLAIN.values())) == len(PLAIN)


def test_a_comment_of_digits_stays_text() -> None:
    assert plain({"comment": "12", "job-name": "7"}) == {"comment": "12", "name": "7"}


def test_trap_v0_0_38_cannot_be_asked_to_warn_the_script_alone(tmp_path: Path) -> None:
    made, notes = body(submission(tmp_path, "#!/bin/sh\n#SBATCH --signal=B:USR1@60\n"), V38)
    assert "signal" not in made["job"]
    assert "cannot be asked for --signal=B:USR1@60" in notes[0]
    made, notes = body(submission(tmp_path, "#!/bin/sh\n#SBATCH --signal=USR1@60\n"), V38)
    assert (made["job"]["signal"], notes) == ("USR1@60", [])


def test_the_script_goes_where_each_version_wants_it(tmp_path: Path) -> None:
    text = "#!/bin/sh\n#SBATCH --job-name=x\ntrue\n"
    old, _ = body(submission(tmp_path, text), V38, umask=0o077)
    new, _ = body(submission(tmp_path, text), V42, umask=0o077)
    assert old["script"] == new["job"]["script"] == text
    assert old["job"]["environment"]["SLURM_UMASK"] == "0077"
    assert "SLURM_UMASK=0077" in new["job"]["environment"]
    assert old["job"]["name"] == new["job"]["name"] == "x"
    assert old["job"]["current_working_directory"] == str(tmp_path)


def test_a_job_without_a_name_bears_that_of_its_script(tmp_path: Path) -> None:
    assert body(submission(tmp_path, "#!/bin/sh\n"), V38)[0]["job"]["name"] == "a job.sh"


def test_a_script_that_is_no_text_is_refused(tmp_path: Path) -> None:
    one = submission(tmp_path, "")
    one.script.write_bytes(b"#!/bin/sh\n\xff\n")
    with pytest.raises(Refused, match="the script cannot be sent"):
        body(one, V42)


@pytest.mark.parametrize(
    ("export", "there", "gone"),
    [
        ("ALL", {"A": "1", "PATH": "/bin"}, {"SLURM_GET_USER_ENV"}),
        ("ALL,B=2", {"A": "1", "B": "2"}, set()),
        ("NONE", {"SLURM_GET_USER_ENV": "1", "PATH": "/usr/local/bin:/usr/bin:/bin"}, {"A"}),
        ("NIL", {"PATH": "/usr/local/bin:/usr/bin:/bin"}, {"A", "SLURM_GET_USER_ENV"}),
        ("A,C=3,SLURM_JWT", {"A": "1", "C": "3", "SLURM_GET_USER_ENV": "1"}, {"SLURM_JWT"}),
    ],
)
def test_variables_are_exported_as_export_says_and_the_token_never(
    export: str, there: dict[str, str], gone: set[str]
) -> None:
    made = job_environment(GIVEN, {"export": export}, "/work", umask=0o022)
    assert there.items() <= made.items()
    assert not (gone | {"SLURM_JWT"}) & made.keys()


def test_the_shape_is_told_as_srun_reads_it() -> None:
    given = {"ntasks": "4", "cpus-per-task": "2", "gpus-per-task": "a100:1", "gpus-per-node": "2"}
    made = job_environment({}, given, "/work", umask=0o022) | since_2411(given)
    assert made["SLURM_NTASKS"] == made["SLURM_NPROCS"] == "4"
    assert made["SLURM_TRES_PER_TASK"] == "cpu=2,gres/gpu:a100=1"
    assert made["SLURM_TRES_BIND"] == "gres/gpu:per_task:1"


def test_changes_have_the_names_of_scontrol_in_any_case() -> None:
    assert as_options({"ExcNodeList": "n1", "TIMELIMIT": "5", "Requeue": "0", "requeue": "1"}) == {
        "exclude": "n1", "time": "5", "no-requeue": None, "requeue": None,
    }  # fmt: skip
    with pytest.raises(Refused, match="cannot change ArrayTaskThrottle"):
        as_options({"ArrayTaskThrottle": "2"})
