"""Layers of values: which one wins, where each value came from, and what taking one back does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.errors import JobFileError
from slurmkit.spec.layers import Merged, add_override
from slurmkit.spec.loading import Loaded, load, load_resolved

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = 'name = "x"\ncommand = "true"\n'


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def loaded(text: str, overrides: Sequence[str] = (), site: str = "", user: str = "") -> Loaded:
    return load(
        write("job.toml", text),
        overrides,
        site=write("site.toml", site) if site else None,
        user=write("user.toml", user) if user else None,
    )


def told(text: str, overrides: Sequence[str] = (), site: str = "", user: str = "") -> str:
    with pytest.raises(JobFileError) as caught:
        loaded(text, overrides, site, user)
    return str(caught.value)


LAYERS = ("built-in default", "site.toml", "user.toml", "base.toml", "job.toml", '--set run.directory="set"')


@pytest.mark.parametrize("strongest", range(len(LAYERS)))
def test_the_strongest_layer_that_says_something_wins(strongest: int) -> None:
    def run(layer: int, table: str = "run") -> str:
        return f'[{table}]\ndirectory = "{layer}"\n' if layer <= strongest else "[run]\n"

    write("base.toml", run(3))
    made = loaded(
        'extends = "base.toml"\n' + JOB + run(4),
        ['run.directory="set"'] if strongest == 5 else [],
        site=run(1, "defaults.run") if strongest >= 1 else "",
        user=run(2, "defaults.run") if strongest >= 2 else "",
    )
    expected = {0: "runs", 5: "set"}.get(strongest, str(strongest))
    assert made.spec.run.directory == expected
    assert made.origins.get("run.directory", LAYERS[0]) == LAYERS[strongest]


def test_tables_merge_and_all_else_is_replaced() -> None:
    write(
        "base.toml",
        '[environment]\nmodules = ["a", "b"]\nvenv = "v"\n[environment.variables]\nA = "1"\nB = "1"\n',
    )
    made = loaded(
        'extends = "base.toml"\n' + JOB + '[environment]\nmodules = ["c"]\nvariables = { B = "2", C = "2" }\n'
    )
    assert made.spec.environment.modules == ("c",)
    assert made.spec.environment.venv == "v"
    assert made.spec.environment.variables == {"A": "1", "B": "2", "C": "2"}
    assert {key: made.origins[f"environment.variables.{key}"] for key in "ABC"} == {
        "A": "base.toml", "B": "job.toml", "C": "job.toml",
    }  # fmt: skip


def test_a_stronger_choice_puts_out_the_weaker_alternative() -> None:
    made = loaded(
        JOB + '[resources]\nmem_per_cpu = "1G"\nexclusive = true',
        ["resources.oversubscribe=true"],
        site='[defaults.resources]\nmem = "4G"\nrequeue = true\n',
    )
    assert made.spec.resources == {"mem_per_cpu": "1024M", "oversubscribe": True, "requeue": True}


def test_false_takes_back_what_a_weaker_layer_set() -> None:
    made = loaded(
        JOB + "checkpoint = false\nresources = { partition = false, contiguous = false }\n"
        "environment = { venv = false }\n",
        ["launch.mpi=false"],
        site='[defaults]\ncheckpoint = { path = "c" }\nresources = { partition = "p", contiguous = true }\n'
        'environment = { venv = "v" }\nlaunch = { mpi = "pmix" }\n',
    )
    assert made.spec.checkpoint is None
    assert made.spec.resources == {}
    assert made.spec.environment.venv is None
    assert made.spec.launch.mpi is None


def test_false_for_requeue_says_that_the_job_may_not_be_requeued() -> None:
    assert loaded(JOB + "[resources]\nrequeue = false").spec.resources == {"no_requeue": True}


def test_false_is_no_value_for_what_must_be_there() -> None:
    assert "name: expected text, got false" in told('name = false\ncommand = "true"\n')


def test_a_problem_names_the_layer_and_the_line_that_it_came_from() -> None:
    text = told(
        JOB + "[resources]\nnodes = 0\n",
        ["resources.time=1:2:3:4"],
        site='[defaults.resources]\nmem = "2Gn"\n',
    )
    places = [problem.splitlines()[0].partition(": resources")[0] for problem in text.split("\n\n")]
    assert sorted(places) == ["--set resources.time=1:2:3:4", "job.toml:4:9", "site.toml:2:7"]


def test_problems_of_all_layers_come_at_once() -> None:
    text = told("name = \n", ["nonsense"], user="[poling]\n")
    assert "user.toml:1:2: unknown key `poling` in a profile\n" in text
    assert "job.toml:1:8: not TOML" in text
    assert "--set nonsense: is not `key.path=value`" in text


def test_a_contradiction_of_one_layer_with_another_names_both() -> None:
    text = told(JOB + "[resources]\nnodes = 4\n", ["resources.ntasks=2"])
    assert text.splitlines()[0].startswith("--set resources.ntasks=2: resources.ntasks contradicts")
    assert text.splitlines()[-1] == "  the other one: resources.nodes at job.toml:4:1"


# extends


def test_extends_counts_from_the_file_that_says_it() -> None:
    write("teams/base.toml", 'extends = "../org.toml"\n[run]\ndirectory = "of base"\n')
    write("org.toml", '[run]\ndirectory = "of org"\n[launch]\nmpi = "pmix"\n')
    made = loaded('extends = "teams/base.toml"\n' + JOB)
    assert made.spec.run.directory == "of base"
    assert made.origins["run.directory"] == "teams/base.toml"
    assert made.origins["launch.mpi"] == "teams/../org.toml"
    assert made.directory == Path.cwd()


def test_extends_takes_an_absolute_path_and_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    base = write("home/my base.toml", '[run]\ndirectory = "b"\n').absolute()
    monkeypatch.setenv("HOME", str(base.parent))
    for name in (str(base), "~/my base.toml"):
        assert loaded(f'extends = "{name}"\n' + JOB).spec.run.directory == "b"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two.toml", "the files extend each other: job.toml -> two.toml -> job.toml"),
        ("./job.toml", "the files extend each other: job.toml -> job.toml"),
        ("link.toml", "the files extend each other: job.toml -> link.toml"),
        ("missing.toml", "missing.toml: there is no such file"),
        ("directory", "directory: this is a directory"),
        ("", "expected the name of one file"),
        ("a\\u0000b", "expected the name of one file"),
        ("~nobody-of-that-name/x.toml", "extends: "),
    ],
)
def test_what_cannot_be_extended_is_told_where_it_is_said(name: str, words: str) -> None:
    write("two.toml", 'extends = "job.toml"\n')
    Path("directory").mkdir()
    Path("link.toml").symlink_to("job.toml")
    text = told(f'extends = "{name}"\n' + JOB)
    assert words in text
    assert text.startswith("two.toml:1:11: " if name == "two.toml" else "job.toml:1:11: ")


def test_a_chain_of_files_ends_somewhere() -> None:
    for number in range(40):
        write(f"{number}.toml", f'extends = "{number + 1}.toml"\n')
    assert "the files extend each other" in told('extends = "0.toml"\n' + JOB)


def test_a_syntax_error_of_an_extended_file_is_told_at_its_own_place() -> None:
    write("base.toml", "[run\n")
    assert told('extends = "base.toml"\n' + JOB).startswith("base.toml:1:5: not TOML")


def test_extends_cannot_be_set_at_submit() -> None:
    assert "unknown key `extends`" in told(JOB, ["extends=base.toml"])


# --set


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("resources.nodes=4", "nodes", 4),
        ("resources.nodes = 4", "nodes", 4),
        ("resources.nodes=2-4", "nodes", "2-4"),
        ('resources.partition=["a","b"]', "partition", "a,b"),
        ("resources.partition=a,b", "partition", "a,b"),
        ("resources.time=1:30:00", "time", "1:30:00"),
        ("resources.time=04:00:00", "time", "4:00:00"),
        ("resources.account=2023001", "account", "2023001"),
        ("resources.comment=a=b # c", "comment", "a=b # c"),
        ("resources.comment=true", "comment", "true"),
        ("resources.comment=1.10", "comment", "1.10"),
        ("resources.begin=2026-12-24", "begin", "2026-12-24"),
        ("resources.constraint=[rack1|rack2]", "constraint", "[rack1|rack2]"),
        ('resources."mem"=4G', "mem", "4096M"),
        ("resources.exclusive=true", "exclusive", True),
    ],
)
def test_a_value_of_set_is_toml_where_it_parses_and_text_where_not(
    argument: str, key: str, value: object
) -> None:
    made = loaded(JOB, [argument])
    assert made.spec.resources == {key: value}
    assert made.origins[f"resources.{key}"] == f"--set {argument}"


@pytest.mark.parametrize("value", ["1.10", "007", "true", "2026-12-24", "$HOME `x` 'y'", "a=b", "[1]", "é漢"])
def test_a_variable_of_set_is_its_text_letter_for_letter(value: str) -> None:
    made = loaded(JOB, [f"environment.variables.A={value}"])
    assert made.spec.environment.variables == {"A": value}


def test_the_last_set_wins() -> None:
    assert loaded(JOB, ["name=1", "name=two"]).spec.name == "two"
    assert loaded(JOB, ["name=two", "name=1"]).spec.name == "1"


def test_set_may_replace_a_whole_table() -> None:
    assert loaded(JOB, ["launch={mpi='pmix', grace='1m'}"]).spec.launch.mpi == "pmix"


@pytest.mark.parametrize(
    "argument",
    ["", "=", "=1", "nodes", "a b=1", ".nodes=1", "resources.=1", "resources..nodes=1", "[resources]=1",
     "#=1", "a\nb=1", '"a=1', "a." * 5_000 + "a=1"],
)  # fmt: skip
def test_what_is_no_key_and_value_is_told(argument: str) -> None:
    assert told(JOB, [argument]).startswith("--set ")
    assert "\n" not in told(JOB, [argument])


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("resources.nodees=4", "unknown key `nodees` in [resources]\n  did you mean `nodes`?"),
        ("nodes=4", "unknown key `nodes`\n  `nodes` belongs in [resources]"),
        ("resources.nodes=two", "resources.nodes: `two` is not a count"),
        ("resources.nodes=[[1]]", "expected text, got a list"),
        ("resources=none", "resources: expected a table, got"),
        ("name.x=1", "name: expected text, got a table"),
        ("launch.grace=\x1b[31m", "`\\x1b[31m` is not a duration"),
        ("name=a\nb", "name: contains a line break"),
    ],
)
def test_a_wrong_value_of_set_is_told_with_the_argument(argument: str, words: str) -> None:
    text = told(JOB, [argument])
    assert text.startswith("--set ")
    assert words in text


@given(st.text(max_size=30))
def test_any_argument_of_set_is_laid_over_or_a_job_file_error(argument: str) -> None:
    for one in (argument, f"resources.{argument}", f"name={argument}"):
        told = ""
        try:
            add_override(Merged(), one)
        except JobFileError as error:
            told = str(error)
        assert all(letter.isprintable() for letter in told)


# profiles, warnings, cost


def test_a_profile_without_the_keys_of_a_job_changes_nothing() -> None:
    made = loaded(JOB, user='[polling]\nleast_interval = "5s"\n[slurm]\nclusters = "a"\n')
    assert made.profile.least_interval == 5
    assert made.profile.clusters == "a"
    assert set(made.origins) == {"name", "command"}


def test_the_users_setting_is_stronger_than_the_sites() -> None:
    made = loaded(
        JOB, site='[polling]\nleast_interval = "5s"\ngreatest_interval = "90s"\n',
        user='[polling]\nleast_interval = "10s"\n',
    )  # fmt: skip
    assert (made.profile.least_interval, made.profile.greatest_interval) == (10, 90)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[polling]\nleast = '1s'", "profile.toml:2:1: unknown key `least` in [polling]"),
        ("[polling]\nleast_interval = 5", "polling.least_interval: expected text, got 5"),
        ("[polling]\nleast_interval = '0s'", "once a second at most"),
        ("[polling]\nleast_interval = 'soon'", "`soon` is not a duration"),
        ("polling = 1", "polling: expected a table"),
        ("defaults = 1", "defaults: expected a table"),
        ("[resources]\nnodes = 1", "unknown key `resources` in a profile"),
    ],
)
def test_a_wrong_profile_is_told_at_its_place(text: str, words: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load(write("job.toml", JOB), site=None, user=write("profile.toml", text))
    assert words in str(caught.value)
    assert str(caught.value).startswith("profile.toml:")


def test_a_resolved_job_takes_nothing_from_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    write("config/slurmkit/config.toml", '[defaults.run]\ndirectory = "mine"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("config").absolute()))
    path = write("job.toml", JOB)
    assert load(path, site=None).spec.run.directory == "mine"
    assert load_resolved(path).run.directory == "runs"


def test_trap_129_minutes_and_seconds_are_warned_of_at_their_place() -> None:
    made = loaded(JOB + '[resources]\ntime = "4:00"\n')
    assert made.spec.resources["time"] == "0:04:00"
    (warning,) = made.warnings
    assert warning == (
        "job.toml:4:8: resources.time: `4:00` is 4 minutes 0 seconds to Slurm; "
        "write `4m00s`, or `4h00m` where hours are meant"
    )


@pytest.mark.parametrize("value", ['"1:30:00"', "90", '"4m"', "04:00:00"])
def test_trap_129_what_is_plain_is_not_warned_of(value: str) -> None:
    assert loaded(JOB + f"[resources]\ntime = {value}\n").warnings == ()


def test_a_sound_file_is_loaded_without_a_parser_of_places_and_without_templates() -> None:
    write("job.toml", JOB + '[resources]\nnodes = 2\ntime = "1h"\ngpus_per_node = 4\n')
    code = (
        "import sys; from slurmkit.spec import load; load('job.toml', site=None, user=None); "
        "print(sorted({'tree_sitter', 'tree_sitter_toml', 'jinja2', 'click', 'rich', 'difflib', 'tomli_w'} "
        "& set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"
