"""What lint finds in scripts and job files, and that it is silent about sound ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmkit.script import render
from slurmkit.script.lint import RULES, lint_script
from slurmkit.script.lint_job import lint_job
from slurmkit.spec import load

HEAD = "#!/bin/bash\n"


def found(text: str, *, version: tuple[int, ...] | None = None) -> list[tuple[int, str]]:
    return [
        (one.line, one.reference) for one in lint_script(text, Path("/nowhere/x.sbatch"), version=version)
    ]


def in_job(text: str, directory: Path, *, version: tuple[int, ...] | None = None) -> list[tuple[int, str]]:
    path = directory / "job.toml"
    path.write_text(text)
    return [(one.line, one.reference) for one in lint_job(path, version=version)]


@pytest.mark.parametrize("line", ["# SBATCH -t 5", "##SBATCH -t 5", "  #SBATCH -t 5", "set -e\n#SBATCH -t 5"])
def test_trap_123_directives_that_sbatch_does_not_read_are_errors(line: str) -> None:
    assert found(f"{HEAD}{line}\n./x\n") == [(2 + line.count("\n"), "directive-ignored")]


def test_trap_123_a_directive_inside_a_here_document_is_none() -> None:
    assert found(f"{HEAD}cat > y <<END\n#SBATCH -N 2\nEND\n./x\n") == []


@pytest.mark.parametrize(
    "line", ["#SBATCH -t 5 (five)", "#SBATCH --job-name=x the name", "#SBATCH -J big sim"]
)
def test_trap_124_prose_after_a_directive_is_an_error(line: str) -> None:
    assert {reference for _, reference in found(f"{HEAD}{line}\n./x\n")} == {"directive-refused"}


def test_trap_124_a_comment_after_a_directive_is_none() -> None:
    assert found(f"{HEAD}#SBATCH -t 5 # five\n./x\n") == []


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("#!/bin/bash\r\n#SBATCH -t 5\r\n./x\r\n", "dos-line-ends"),
        ("#SBATCH -t 5\n./x\n", "no-shebang"),
        ("\n#!/bin/bash\n./x\n", "no-shebang"),
        ("\ufeff#!/bin/bash\n./x\n", "no-shebang"),
    ],
)
def test_trap_125_a_file_that_sbatch_takes_for_no_script_is_an_error(text: str, reference: str) -> None:
    assert (1, reference) in found(text)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("srun ./x\necho done", 3),
        ("python t.py | tee log", 2),
        ("srun ./x &\nwait", 3),
        ("for i in 1 2; do\n  python t.py\ndone\ndate", 5),
    ],
)
def test_trap_128_a_status_that_gets_lost_is_a_warning(body: str, line: int) -> None:
    assert found(f"{HEAD}{body}\n") == [(line, "lost-status")]


@pytest.mark.parametrize(
    "body",
    [
        "set -e\nsrun ./x\necho done",
        "srun ./x\nexit $?",
        "set -euo pipefail\npython t.py | tee log\necho done",
        "./x",
    ],
)
def test_trap_128_a_status_that_is_kept_is_no_finding(body: str) -> None:
    assert found(f"{HEAD}{body}\n") == []


@pytest.mark.parametrize("value", ["NONE", "NIL", "FOO", "FOO=1"])
def test_trap_138_export_that_breaks_steps_is_a_warning(value: str) -> None:
    directive = f"{HEAD}#SBATCH --export={value}\n"
    assert found(f"{directive}srun ./x\n") == [(2, "export-none")]
    assert found(f"{directive}export SLURM_EXPORT_ENV=ALL\nsrun ./x\n") == []
    assert found(f"{directive}srun --export=ALL ./x\n") == []
    assert found(f"{directive}./x\n") == []


def test_trap_129_minutes_that_look_like_hours_are_a_warning() -> None:
    assert found(f"{HEAD}#SBATCH -t 4:00\n./x\n") == [(2, "minutes-seconds")]


@pytest.mark.parametrize(
    "body",
    [
        "export MASTER_PORT=29500",
        "srun torchrun --master_port 29500 t.py",
        "srun torchrun --rdzv_endpoint=$head:29500 t.py",
        "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 1000))",
        "export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))",
    ],
)
def test_trap_077_a_port_that_other_jobs_use_too_is_a_warning(body: str) -> None:
    assert found(f"{HEAD}{body}\n") == [(2, "fixed-port")]


@pytest.mark.parametrize("directive", ["-N2 --ntasks-per-node=8", "-N 2 -n 16"])
def test_trap_086_torchrun_in_several_tasks_of_a_node_is_an_error(directive: str) -> None:
    text = f"{HEAD}#SBATCH {directive}\nsrun \\\n  python -m torch.distributed.run t.py\n"
    assert found(text) == [(3, "torchrun-tasks")]


def test_trap_086_a_node_rank_that_the_batch_shell_expands_is_a_warning() -> None:
    assert found(f"{HEAD}srun torchrun --node_rank=$SLURM_NODEID t.py\n") == [(2, "node-rank")]
    assert found(f"{HEAD}srun bash -c 'torchrun --node_rank=$SLURM_NODEID t.py'\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#SBATCH --partitoin=x", [(2, "directive-refused")]),
        ("#SBATCH --mem=1G --mem-per-cpu=1G", [(2, "directive-wrong")]),
        ("#SBATCH -o logs/%j/out", [(2, "directive-wrong")]),
        ("#SBATCH -J a/b -o %x.out", [(2, "directive-wrong")]),
        ("#SBATCH -o logs/%j.out", [(2, "log-folder")]),
        ("#SBATCH -o /tmp/%j.out", []),
        ("#SBATCH --time=24h", [(2, "value-form")]),
        ("#SBATCH --mem=1.5G", [(2, "value-form")]),
        ("sbatch -n 2 --wrap='./a b'", [(2, "wrap")]),
    ],
)
def test_directives_and_lines_that_do_not_do_what_they_say(
    text: str, expected: list[tuple[int, str]]
) -> None:
    assert found(f"{HEAD}{text}\n") == expected


@pytest.mark.parametrize(("version", "count"), [((22, 5, 8), 1), ((23, 2), 1), ((23, 11, 1), 0), (None, 1)])
def test_srun_must_be_told_cpus_per_task_where_it_does_not_inherit_them(
    version: tuple[int, ...] | None, count: int
) -> None:
    script = f"{HEAD}#SBATCH -c 4\nsrun ./x\n"
    assert found(script, version=version) == [(3, "srun-cpus")] * count
    assert found(script.replace("srun", "srun -c $SLURM_CPUS_PER_TASK"), version=version) == []


def test_options_are_checked_against_a_version() -> None:
    script = f"{HEAD}#SBATCH --segment=4\n./x\n"
    assert found(script, version=(23, 11)) == [(2, "option-version")]
    assert found(script, version=(24, 5)) == found(script) == []


def test_what_slurmkit_renders_has_no_findings(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "a b"\ncommand = ["./x", "$HOME"]\n[resources]\nnodes = 2\ngpus_per_node = 4\n'
        'cpus_per_task = 2\nexport = "NONE"\n[environment]\nsetup = ["echo a"]\n'
    )
    (tmp_path / "logs").mkdir()
    for template in ("managed", "plain"):
        made = render(
            load(job).spec, run_directory=tmp_path, run_id="r", template=template, directory=tmp_path
        )
        assert lint_script(made.text, tmp_path / "x.sbatch") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name = "x"\ncommand = ["a"]\n', []),
        ('name = "x"\ncommand = "python t.py | tee log"\n', [(2, "lost-status")]),
        ('name = "x"\ncommand = "python t.py; echo done"\n', [(2, "lost-status")]),
        ('name = "x"\ncommand = "set -e; python t.py; echo done"\n', []),
        ('name = "x"\ncommand = ["srun", "a"]\n', [(2, "step-in-step")]),
        ('name = "x"\ncommand = "mpirun a"\n', [(2, "step-in-step")]),
        ('name = "x"\ncommand = "cd a && ./x"\n', []),
        ('name = "x"\ncommand = ["a"]\n[resources]\ntime = "4:00"\n', [(4, "minutes-seconds")]),
        ('name = "x"\ncommand = ["a"]\n[environment.variables]\nMASTER_PORT = 29500\n', [(4, "fixed-port")]),
        (
            'name = "x"\ncommand = ["a"]\n[resources]\nfoo = 1\nmem = "x"\n',
            [(4, "job-file"), (5, "job-file")],
        ),
        ("name = ", [(1, "job-file")]),
    ],
)
def test_job_files_are_linted_too(text: str, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    assert in_job(text, tmp_path) == expected


def test_a_job_file_is_checked_against_a_version(tmp_path: Path) -> None:
    text = 'name = "x"\ncommand = ["a"]\n[resources]\nsegment = 1\n'
    assert in_job(text, tmp_path, version=(23, 11)) == [(4, "option-version")]


def test_every_rule_says_what_to_do() -> None:
    assert len({rule.reference for rule in RULES}) == len(RULES)
    assert all(rule.fix for rule in RULES)


@pytest.mark.parametrize(
    ("command", "path", "lines"),
    [
        ('["train", "--run", "$SLURMKIT_RUN_ID"]', "saved", []),
        ('["train"]', "runs/%j", [4]),
        ('"train --out runs/$SLURM_JOB_ID"', "saved", [2]),
        ('"train --out runs/$(date +%F)"', "runs/$SLURM_JOBID", [2, 4]),
    ],
)
def test_trap_117_checkpoints_under_a_name_that_changes_with_the_job_are_warned_of(
    command: str, path: str, lines: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(f'name = "x"\ncommand = {command}\n[checkpoint]\npath = "{path}"\n')
    found = [one for one in lint_job(file) if one.reference == "changing-folder"]
    assert [one.line for one in found] == lines
