"""A resolved job: written out it loads again as it was, and every value says where it came from."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.launch.mesh import ORDER
from slurmkit.spec.checks import SIGNALS
from slurmkit.spec.loading import load, load_resolved
from slurmkit.spec.model import (
    Checkpoint,
    Container,
    Environment,
    JobSpec,
    Launch,
    Parallel,
    Progress,
    Retry,
    RunSection,
)
from slurmkit.spec.resolve import explain, resolved_toml
from slurmkit.spec.units import format_duration, format_memory, format_time

GOOD = sorted((Path(__file__).parent / "cases" / "good").glob("*.toml"))

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=20)
LINES = st.lists(LINE, max_size=3).map(tuple)
ARGUMENTS = st.lists(TEXT, max_size=4).map(tuple)
VARIABLE = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
BASH = TEXT.map(lambda text: text.replace("\r\n", "\n"))
NAME = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zs", "Zl", "Zp")), min_size=1,
               max_size=20)  # fmt: skip
DURATION = st.integers(0, 10**6).map(format_duration)
POSITIVE = st.integers(1, 2**40)

RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "account": NAME.filter(str.isalnum),
        "nodes": st.integers(1, 9_999),
        "cpus_per_task": st.integers(1, 512),
        "mem": st.integers(0, 2**30).map(format_memory),
        "gpus_per_node": st.integers(1, 16) | st.sampled_from(["a100:4", "1g.10gb:2", "a100:2,v100:1"]),
        "time": st.integers(130, 10**7).map(format_time) | st.just("UNLIMITED"),
        "exclusive": st.booleans().filter(bool) | st.sampled_from(["user", "topo"]),
        "no_requeue": st.just(True),
        "contiguous": st.just(True),
        "constraint": LINE,
        "comment": LINE,
        "nice": st.integers(-(10**9), 10**9),
        "chdir": LINE,
    },
)
OPTIONAL_CHECKPOINT = st.none() | st.builds(
    Checkpoint, path=LINE, resume=ARGUMENTS, signal=st.sampled_from(SIGNALS), keep=st.none() | POSITIVE,
    lead_time=st.integers(0, 120).map(format_duration),
)  # fmt: skip
SPECS = st.builds(
    JobSpec,
    name=NAME,
    command=BASH.filter(str.strip) | st.tuples(LINE, TEXT, TEXT),
    resources=RESOURCES,
    spare_nodes=st.integers(0, 9),
    environment=st.builds(
        Environment,
        modules=LINES,
        venv=st.none() | LINE,
        conda=st.none() | LINE,
        setup=st.lists(BASH, max_size=3).map(tuple),
        variables=st.dictionaries(VARIABLE, TEXT, max_size=4),
        keep=st.lists(st.sampled_from(["SLURM_*", "A", "?B"]), max_size=2).map(tuple),
    ),
    container=st.none()
    | st.builds(Container, runtime=st.sampled_from(["apptainer", "pyxis"]), image=LINE, arguments=ARGUMENTS),
    launch=st.builds(
        Launch, ntasks_per_node=st.none() | POSITIVE, mpi=st.none() | LINE, grace=DURATION,
        kill_on_bad_exit=st.booleans(), srun=ARGUMENTS,
    ),
    # Sizes that come out whatever the number of ranks.
    parallel=st.none() | st.builds(Parallel, allow_cross_node=st.booleans(),
                                   order=st.permutations(ORDER).map(tuple)),
    progress=st.none() | st.builds(Progress, total=st.none() | POSITIVE, hang_after=st.none() | DURATION,
                                   pattern=st.none() | st.just(r"step (\d+)")),
    checkpoint=OPTIONAL_CHECKPOINT,
    retry=st.builds(Retry, restarts=st.integers(0, 9), stop_on=st.lists(st.integers(1, 255)).map(tuple),
                    memory_factor=st.none() | st.floats(1.001, 1e6)),
    run=st.builds(RunSection, directory=LINE),
)  # fmt: skip


def reloaded(text: str) -> JobSpec:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "job.toml")
        path.write_bytes(text.encode())
        return load_resolved(path)


@given(SPECS)
def test_a_resolved_job_loads_again_as_it_was(spec: JobSpec) -> None:
    assert reloaded(resolved_toml(spec)) == spec


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.stem)
def test_a_good_file_resolves_to_a_file_that_resolves_to_itself(case: Path) -> None:
    text = resolved_toml(load_resolved(case))
    assert resolved_toml(reloaded(text)) == text


def explained(tmp_path: Path, text: str, *overrides: str) -> dict[str, tuple[object, str]]:
    path = tmp_path / "job.toml"
    path.write_text(f'name = "x"\ncommand = ["true"]\n{text}')
    rows = explain(load(path, overrides, site=None, user=None))
    return {key: (value, origin.replace(f"{tmp_path}/", "")) for key, value, origin in rows}


def test_every_value_is_explained_by_its_place(tmp_path: Path) -> None:
    text = '[resources]\ntime = "90"\nrequeue = false\nnodes = 2\n[environment.variables]\n"A" = "x"\n'
    rows = explained(tmp_path, text, "resources.nodes=4", "run.directory=here")
    assert rows["name"] == ("x", "job.toml:1:1")
    assert rows["command"] == (("true",), "job.toml:2:1")
    assert rows["resources.time"] == ("1:30:00", "job.toml:4:1")
    assert rows["resources.no_requeue"] == (True, "job.toml:5:1")
    assert rows["resources.nodes"] == (4, "--set resources.nodes=4")
    assert rows["resources.spare_nodes"] == (0, "built-in default")
    assert rows["environment.variables.A"] == ("x", "job.toml:8:1")
    assert rows["run.directory"] == ("here", "--set run.directory=here")
    assert rows["launch.grace"] == ("30s", "built-in default")


def test_what_has_no_value_is_not_explained(tmp_path: Path) -> None:
    assert not {"environment.venv", "checkpoint", "parallel"} & set(explained(tmp_path, ""))


def test_the_default_of_a_section_that_the_file_begins_is_built_in(tmp_path: Path) -> None:
    rows = explained(tmp_path, '[checkpoint]\npath = "c"\n')
    assert rows["checkpoint.path"] == ("c", "job.toml:4:1")
    assert rows["checkpoint.lead_time"] == ("2m", "built-in default")
