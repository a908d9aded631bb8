"""Scripts of every style become job files that load, and give the same directives back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.script import render
from slurmkit.script.importing import Imported, import_script, to_toml
from slurmkit.script.sbatch_file import SbatchFile, parse
from slurmkit.spec import load
from slurmkit.spec.conflicts import conflicts, pair_conflicts
from slurmkit.spec.convert import convert
from slurmkit.spec.model import JobSpec
from slurmkit.spec.options import BY_NAME
from slurmkit.spec.values import normalise

SCRIPTS = sorted((Path(__file__).parent / "sbatch").glob("*.sbatch"))
WRONG = {"wrong_values"}
"""Scripts that sbatch refuses: their job file has what is right of them."""


def imported(name: str) -> Imported:
    path = Path(__file__).parent / "sbatch" / f"{name}.sbatch"
    return import_script(path.read_bytes().decode(), file_name=path.name)


def from_body(body: str, directives: str = "") -> dict[str, Any]:
    """The tables of a script with that body."""
    return import_script(f"#!/bin/bash\n{directives}\n{body}\n", file_name="x.sbatch").tables


def loaded(made: Imported, directory: Path) -> JobSpec:
    job = directory / "job.toml"
    job.write_text(to_toml(made, file_name="x.sbatch"), encoding="utf-8")
    return load(job, site=None, user=None).spec


def normal(script: SbatchFile, *, file_name: str) -> dict[str, object]:
    """The directives of a script in Slurm's own form, without those that only steer the call of sbatch."""
    values: dict[str, object] = {"job_name": file_name}
    for name, value in script.values.items():
        option = BY_NAME[name]
        if name == "job_name":
            values[name] = value
        elif name == "export" and "=" in str(value):
            continue
        elif option.refused is None:
            values[name] = normalise(option, True if value is None else value)
    return values


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_imported_script_loads_and_gives_its_directives_back(path: Path, tmp_path: Path) -> None:
    text = path.read_bytes().decode()
    made = import_script(text, file_name=path.name)
    spec = loaded(made, tmp_path)
    rendered = render(
        spec, run_directory=tmp_path / "run", run_id="run", template="plain", directory=tmp_path
    )
    given = normal(parse(text), file_name=path.name)
    back = normal(parse(rendered.text), file_name=path.name)
    assert str(back.pop("comment")).removesuffix("slurmkit:run").strip() == given.pop("comment", "")
    for own in ("output", "open_mode"):
        if own not in given:
            del back[own]
    if path.stem in WRONG:
        assert made.problems
        del back["output"]
        assert back.items() <= given.items()
    else:
        assert not made.problems
        assert back == given


def test_there_are_scripts_of_many_styles() -> None:
    assert len(SCRIPTS) >= 25


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ('srun python t.py --x "a b" --y \\$HOME', ["python", "t.py", "--x", "a b", "--y", "$HOME"]),
        ("srun -n 4 --label -- ./a.out -n 7", ["./a.out", "-n", "7"]),
        ("python t.py --lr $LR", "python t.py --lr $LR"),
        ("time srun python t.py", ["python", "t.py"]),
        ("mpirun -np 4 --map-by node -x LD_LIBRARY_PATH ./a.out in", ["./a.out", "in"]),
        ("cd run && srun ./a.out", ["./a.out"]),
        ('ARGS=(--x "a b")\nsrun ./a "${ARGS[@]}"', ["./a", "--x", "a b"]),
        ('ARGS=(--x "a b")\nsrun ./a "${ARGS[@]}" $Y', './a --x "a b" $Y'),
        ('ARGS=(--x "$Y")\nsrun ./a "${ARGS[@]}"', './a "${ARGS[@]}"'),
        ("srun ./first\nsrun ./second", ["./second"]),
        ("srun ./a.out > log 2>&1", ["./a.out"]),
        ("srun ./a.out # the program", ["./a.out"]),
        ("cat > x <<END\nsrun no\nEND\n./a.out", ["./a.out"]),
        ("srun bash -c 'echo $SLURM_PROCID'", ["bash", "-c", "echo $SLURM_PROCID"]),
        ("if true; then\n  srun ./a\nfi", "if true; then\n  srun ./a\nfi"),
        ("", "true"),
    ],
)
def test_the_program_is_found(body: str, command: str | list[str]) -> None:
    assert from_body(body)["command"] == command


@pytest.mark.parametrize(
    ("body", "environment"),
    [
        ("module load a b/1\nml c\n./x", {"modules": ["a", "b/1", "c"]}),
        ("ml purge; ml a; ml b\n./x", {"modules": ["a", "b"]}),
        ("source venv/bin/activate\n./x", {"venv": "venv"}),
        (". $HOME/venv/bin/activate\n./x", {"venv": "~/venv"}),
        ('source "$SLURM_SUBMIT_DIR/my env/bin/activate"\n./x', {"venv": "my env"}),
        ('eval "$(conda shell.bash hook)"\nconda activate e\n./x', {"conda": "e"}),
        ("export A='b c' D=\n./x", {"variables": {"A": "b c", "D": ""}}),
        ("A=1 srun ./x", {"variables": {"A": "1"}}),
        ("srun --export=ALL,A=1 ./x", {"variables": {"A": "1"}}),
        ("export MASTER_PORT=29500\n./x", {}),
        ("set -e\nexport A=$B\nC=$D\n./x", {"setup": ["set -e", "export A=$B", "export C=$D"]}),
        ("echo hello\n./x", {"setup": ["echo hello"]}),
        ("source ~/.bashrc\nconda activate e\n./x",
         {"setup": ["set +eu", "source ~/.bashrc", "conda activate e"]}),
        ("export PATH=/a:$PATH\nmodule load b\n./x",
         {"setup": ["set +eu", "export PATH=/a:$PATH", "module load b"]}),
        ("export A=$B\nexport A=1\n./x", {"setup": ["set +eu", "export A=$B", "export A=1"]}),
        ("cd run && ./x", {"setup": ["set +eu", "cd run || exit"]}),
        ("# why\ntouch a\n./x", {"setup": ["set +eu", "# why", "touch a"]}),
    ],
)  # fmt: skip
def test_the_environment_is_found_and_keeps_its_order(body: str, environment: dict[str, Any]) -> None:
    assert from_body(body).get("environment", {}) == environment


@pytest.mark.parametrize(
    ("directives", "body", "launch"),
    [
        ("", "srun ./x", {"ntasks_per_node": 1}),
        ("#SBATCH -N2 --ntasks-per-node=4", "srun -N 2 -n 8 ./x", {}),
        ("#SBATCH -n8 -c2", "srun -n8 -c2 --mpi=pmi2 ./x", {"mpi": "pmi2"}),
        ("#SBATCH -n8", "srun -n4 -l ./x", {"srun": ["--ntasks=4", "--label"]}),
        ("#SBATCH -n8", "srun -n $SLURM_NTASKS -K0 ./x", {"kill_on_bad_exit": False}),
        ("#SBATCH -n8", "srun --cpu-bind cores ./x", {"srun": ["--cpu-bind=cores"]}),
        ("#SBATCH -n8", "mpirun ./x", {"mpi": "pmix"}),
        ("#SBATCH -n8", "./x", {"srun": ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1"]}),
        ("#SBATCH -N2 --gpus-per-node=4", "srun torchrun t.py", {"launcher": "torchrun"}),
        ("#SBATCH --gpus-per-node=4", "torchrun --standalone t.py", {"launcher": "torchrun"}),
        ("#SBATCH -N2 --ntasks-per-node=4", "srun torchrun t.py", {}),
    ],
)
def test_the_step_keeps_its_shape(directives: str, body: str, launch: dict[str, Any]) -> None:
    assert from_body(body, directives).get("launch", {}) == launch


@pytest.mark.parametrize(
    ("name", "line", "part"),
    [
        ("pbs_leftovers", 3, "another scheduler"),
        ("directives_too_late", 3, "blank after the `#`"),
        ("directives_too_late", 4, "two `#`"),
        ("directives_too_late", 5, "indented"),
        ("directives_too_late", 7, "after the first command (line 6)"),
        ("pipeline", 5, "tee train.log"),
        ("pipeline", 6, "end with the program"),
        ("torchrun_trap", 8, "once for each task"),
        ("torchrun_trap", 6, "MASTER_ADDR"),
        ("torchrun_trap", 7, "MASTER_PORT"),
        ("mpi_hybrid", 1, "login shell"),
        ("everything_else", 16, "slurmkit submit --wait"),
        ("wrong_values", 4, "contradicts"),
        ("wrong_values", 6, "`--partitoin` is not an option"),
        ("wrong_values", 8, "`(two)`"),
    ],
)
def test_what_is_left_behind_is_said_with_its_line(name: str, line: int, part: str) -> None:
    made = imported(name)
    assert [note for note in (*made.problems, *made.notes) if note.line == line and part in note.text]
    assert part in to_toml(made, file_name=name)


def test_an_imported_job_runs_its_program_as_the_script_did() -> None:
    assert imported("quotes").tables["command"] == [
        "python3", "sim.py", "--title", 'it\'s "fine"', "--path", "a b/c", "--dollar", "$HOME",
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", ["\0", "\x1b[31m", "'", '"""', "\\", "$(", "é", "\u2028"])
def test_no_text_of_a_script_breaks_the_job_file(hostile: str, tmp_path: Path) -> None:
    text = f"#!/bin/bash\n#SBATCH --comment={hostile}\n#SBATCH {hostile}\necho {hostile}\n./x {hostile}\n"
    made = import_script(text, file_name=f"a{hostile}b")
    toml = to_toml(made, file_name=f"a{hostile}b")
    assert tomllib.loads(toml) == made.tables
    loaded(made, tmp_path)


_LINES = sorted({line for path in SCRIPTS for line in path.read_bytes().decode().split("\n")})


@given(st.lists(st.sampled_from(_LINES) | st.text(max_size=20), max_size=30))
@settings(max_examples=200)
def test_whatever_the_script_its_job_file_is_sound(lines: list[str]) -> None:
    made = import_script("\n".join(["#!/bin/bash", *lines]), file_name="x")
    tables = tomllib.loads(to_toml(made, file_name="x"))
    assert tables == made.tables
    spec, problems = convert(tables)
    assert spec is not None
    assert not [*problems, *pair_conflicts(tables["resources"]), *conflicts(spec)]


@pytest.mark.parametrize("text", ["$(" * 2000, "a=(" * 2000, '"$(' * 2000, "{" * 2000, "if x\n" * 2000])
@pytest.mark.timeout(20)
def test_a_script_that_ends_in_the_middle_is_not_tried_in_all_ways(text: str) -> None:
    import_script(f"#!/bin/bash\n{text}", file_name="x")
