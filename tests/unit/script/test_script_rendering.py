"""Whole scripts: cases as files, and what holds for every script of every job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmkit.errors import UsageError
from slurmkit.script.directives import job_options
from slurmkit.script.sbatch_file import parse
from slurmkit.script.step import program, srun_arguments
from slurmkit.spec import load
from slurmkit.spec.model import Container, Environment, JobSpec, Launch, Parallel
from slurmkit.spec.options import ALLOWED, BY_NAME
from tests.unit.script.conftest import complaints, rendered

if TYPE_CHECKING:
    from slurmkit.script import Rendered

CASES = sorted(Path(__file__).with_name("cases").glob("*.case"))
EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*/job.toml"))
MARK = "\n#### script\n"
TEMPLATES = ("managed", "plain")


def assert_is_sound(spec: JobSpec, made: Rendered, template: str) -> None:
    """What sbatch and bash ask of every script."""
    assert made.text.startswith("#!/bin/bash\n")
    assert made.text.endswith("\n")
    assert "\r" not in made.text
    script = parse(made.text)
    assert not script.faults
    assert script.first_command is not None
    assert max(one.line for one in script.directives) < script.first_command
    assert script.body[script.first_command - len(script.directives) - 2].text == "set -euo pipefail"
    warns = {"managed": "batch", "plain": "steps"}[template]
    asked = job_options(spec, log=Path("/data/runs/r-1/logs"), run_id="r-1", warns=warns)
    assert script.values == {
        "job_name": spec.name,
        **{name: None if value is True else str(value) for name, value in asked.items()},
    }


def read_case(path: Path) -> tuple[str, str, str]:
    job, _, expected = path.read_text(encoding="utf-8").partition(MARK)
    return job, job.splitlines()[0].removeprefix("# template: "), expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_renders_as_it_stands(path: Path, tmp_path: Path) -> None:
    job, template, expected = read_case(path)
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    made = rendered(load(tmp_path / "job.toml", site=None, user=None).spec, template)
    if "UPDATE_CASES" in os.environ:
        path.write_text(f"{job}{MARK}{made.text}", encoding="utf-8")
    assert made.text == expected
    assert complaints([made.text], tmp_path) == ""


@pytest.mark.parametrize("path", [*CASES, *EXAMPLES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_job_makes_a_sound_script_with_either_template(path: Path, tmp_path: Path) -> None:
    job = path.read_text(encoding="utf-8").partition(MARK)[0]
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    spec = load(tmp_path / "job.toml", site=None, user=None).spec
    made = [rendered(spec, template) for template in TEMPLATES]
    for one, template in zip(made, TEMPLATES, strict=True):
        assert_is_sound(spec, one, template)
    assert complaints([one.text for one in made], tmp_path) == ""
    assert made == [rendered(spec, template) for template in TEMPLATES]


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)
LINES = st.text(st.characters(exclude_categories=("C", "Z"), codec="utf-8"), min_size=1, max_size=20)
NAMES = st.from_regex(r"[A-Z][A-Z0-9]{1,6}_X", fullmatch=True)
FREE = [name for name in ALLOWED if BY_NAME[name].kind in {"text", "pattern", "path", "list"}]


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Jobs with texts of any kind in every place that takes a text."""
    resources: dict[str, Any] = draw(st.dictionaries(st.sampled_from(FREE), LINES, max_size=4))
    resources |= {"nodes": draw(st.integers(1, 9)), "exclusive": True}
    image, mounts = draw(LINES), tuple(draw(st.lists(LINES, max_size=2)))
    apptainer = Container(runtime="apptainer", image=image, mounts=mounts)
    pyxis = Container(runtime="pyxis", image=image, mounts=mounts)
    return JobSpec(
        name=draw(LINES),
        command=draw(TEXTS.filter(str.strip) | st.lists(TEXTS, min_size=1, max_size=4).map(tuple)),
        resources={name: resources[name] for name in ALLOWED if name in resources},
        environment=Environment(
            modules=tuple(draw(st.lists(LINES, max_size=2))),
            venv=draw(st.none() | LINES.filter(lambda text: not text.startswith("~"))),  # the home of nobody
            conda=draw(st.none() | LINES),
            variables=draw(st.dictionaries(NAMES, TEXTS, max_size=3)),
            setup=draw(st.sampled_from([(), ("cd /data",), ("ulimit -n 4096", "mkdir -p out")])),
        ),
        container=draw(st.sampled_from([None, apptainer, pyxis])),
        launch=Launch(srun=tuple(draw(st.lists(TEXTS, max_size=2)))),
        parallel=draw(st.sampled_from([None, Parallel(tensor=2)])),
    )


@settings(max_examples=8)
@given(st.lists(specs(), min_size=6, max_size=6))
def test_whatever_a_job_says_its_scripts_are_sound_and_shellcheck_is_content(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[JobSpec]
) -> None:
    made = [(spec, template, rendered(spec, template)) for spec in jobs for template in TEMPLATES]
    for spec, template, one in made:
        assert_is_sound(spec, one, template)
    assert complaints([one.text for *_, one in made], tmp_path_factory.mktemp("scripts")) == ""


STUBS = {
    "srun": 'printf "%s\\0" "$@" >"$CAUGHT"',
    "scontrol": "echo n1",
    "getent": "true",
}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name, line in STUBS.items():
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def run_plain(spec: JobSpec, stubs: Path) -> list[str]:
    """The arguments that the script of a job hands to srun."""
    caught = stubs / "caught"
    done = subprocess.run(
        ["bash"],
        input=rendered(spec).text.encode(),
        env={
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "CAUGHT": str(caught),
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_JOB_ID": "12",
        },
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return caught.read_bytes().decode().split("\0")[:-1]


@settings(max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.lists(LINES, max_size=3))
def test_trap_126_bash_hands_on_every_argument_as_it_is(
    stubs: Path, command: list[str], options: list[str]
) -> None:
    spec = JobSpec(name="x", command=tuple(command), launch=Launch(srun=tuple(options)))
    argv = run_plain(spec, stubs)
    before = srun_arguments(spec)
    assert tuple(argv[: len(before)]) == before
    assert tuple(argv[-len(command) :]) == program(spec) == tuple(command)
    assert argv[len(before) : len(before) + 2] == ["bash", "-c"]


def test_trap_125_windows_line_ends_do_not_reach_the_script() -> None:
    spec = JobSpec(
        name="x",
        command="echo a\r\necho b",
        environment=Environment(setup=("cd /a\r\ncd /b",), variables={"A": "x\r\ny\r\n"}),
    )
    for template in TEMPLATES:
        assert "\r" not in rendered(spec, template).text


def test_trap_126_nothing_is_wrapped() -> None:
    made = rendered(JobSpec(name="x", command=("python", "t.py", "$HOME")))
    assert not [word for word in made.arguments if word.startswith("--wrap")]
    assert "'$HOME'" in made.text


def test_the_value_of_a_secret_is_nowhere_in_the_script() -> None:
    spec = JobSpec(
        name="x",
        command=("true",),
        environment=Environment(variables={"HF_TOKEN": "s3cret", "NCCL_DEBUG": "WARN"}),
    )
    for template in TEMPLATES:
        made = rendered(spec, template)
        assert "s3cret" not in made.text
        assert "export NCCL_DEBUG=WARN\n" in made.text
        assert made.environment == {"HF_TOKEN": "s3cret"}
        assert made.notes == ("HF_TOKEN is passed through the environment, not written into the script",)


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        (None, None),
        ("ALL", "ALL"),
        ("ALL,FOO", "ALL,FOO"),
        ("NONE", "HF_TOKEN"),
        ("NIL", "HF_TOKEN"),
        ("FOO,BAR", "FOO,BAR,HF_TOKEN"),
    ],
)
def test_what_a_job_exports_is_joined_by_its_secrets(export: str | None, expected: str | None) -> None:
    resources = {} if export is None else {"export": export}
    variables = {"HF_TOKEN": "s"}
    spec = JobSpec(
        name="x", command=("true",), resources={**resources}, environment=Environment(variables=variables)
    )
    assert parse(rendered(spec).text).values.get("export") == expected


def test_a_template_of_the_users_own_is_filled(tmp_path: Path) -> None:
    (tmp_path / "part.j2").write_text("# {{ spec.name }}\n")
    own = tmp_path / "own.sh.j2"
    own.write_text(
        "#!/bin/bash\n{{ directives }}\n{% include 'part.j2' %}\n{{ preparation }}"
        "srun {{ srun }} {{ program }}"
    )
    made = rendered(JobSpec(name="x", command=("a b",)), str(own))
    assert made.text.startswith("#!/bin/bash\n#SBATCH --job-name=x\n")
    assert "# x\n" in made.text
    assert made.text.endswith(" 'a b'\n")


def test_a_template_of_the_users_own_may_build_on_ours(tmp_path: Path) -> None:
    own = tmp_path / "own.sh.j2"
    own.write_text("{% include 'sbatch/plain.sh.j2' %}\n")
    spec = JobSpec(name="x", command=("a b",))
    assert rendered(spec, str(own)).text == rendered(spec).text


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("#!/bin/bash\n{{ nothing }}\n", 2, "'nothing' is undefined"),
        ("#!/bin/bash\n\n{% if %}\n", 3, "Expected an expression"),
        ("#!/bin/bash\n{{ 1 / 0 }}\n", 2, "division by zero"),
        ("#!/bin/bash\n{{ 1 + 'a' }}\n", 2, "unsupported operand"),
        ("#!/bin/bash\n{{ spec.__class__.__mro__ }}\n", 2, "unsafe"),
        ("echo {{ program }}\n", 1, "must begin with #!"),
        ("", 1, "must begin with #!"),
    ],
)
def test_what_is_wrong_with_a_template_is_said_with_its_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    own = tmp_path / "own.j2"
    own.write_text(text)
    with pytest.raises(UsageError) as caught:
        rendered(JobSpec(name="x", command=("true",)), str(own))
    assert says in caught.value.what
    assert caught.value.where == f"{own}:{line}"


def test_an_error_in_an_included_template_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.j2").write_text("\n{{ nothing }}\n")
    (tmp_path / "own.j2").write_text("#!/bin/bash\n{% include 'part.j2' %}\n")
    with pytest.raises(UsageError) as caught:
        rendered(JobSpec(name="x", command=("true",)), str(tmp_path / "own.j2"))
    assert caught.value.where == f"{tmp_path / 'part.j2'}:2"


@pytest.mark.parametrize("name", ["gone.j2", ".", "sub/gone.j2"])
def test_a_template_that_is_not_there_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="there is no template"):
        rendered(JobSpec(name="x", command=("true",)), str(tmp_path / name))


def test_a_template_that_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_bytes(b"#!/bin/bash\n\xff\xfe\n")
    with pytest.raises(UsageError, match="cannot be read"):
        rendered(JobSpec(name="x", command=("true",)), str(tmp_path / "own.j2"))
