"""The job that is rehearsed: what it has of the user's, and where its checkpoints go."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from slurmkit.errors import UsageError
from slurmkit.recovery.rehearsal_job import Rehearsed, is_filled, rehearsed
from slurmkit.spec import load

JOB = """\
name = "long"
command = {command}
[resources]
time = "{time}"
nodes = 2
output = "train.log"
begin = "tomorrow"
dependency = "afterok:12"
[environment]
variables = {{ OUT = "{variable}" }}
[checkpoint]
path = "{path}"
resume = ["--load", "{path}/latest"]
keep = 3
[retry]
restarts = 0
requeues = 20
without_progress = 1
"""


def made(
    folder: Path,
    command: str = '["python", "train.py"]',
    *,
    path: str = "saved",
    variable: str = "none",
    time: str = "7d",
    in_place: bool = False,
) -> Rehearsed:
    file = folder / "job.toml"
    file.write_text(JOB.format(command=command, path=path, variable=variable, time=time))
    return rehearsed(load(file, site=None, user=None), seconds=900, in_place=in_place)


def test_it_is_short_and_says_by_its_name_what_it_is(tmp_path: Path) -> None:
    spec = made(tmp_path).loaded.spec
    assert spec.name == "long-rehearsal"
    assert spec.resources == {"nodes": 2, "time": "0:15:00"}
    assert made(tmp_path, time="5m").loaded.spec.resources["time"] == "0:05:00"


def test_it_starts_again_in_place_and_never_comes_back_by_itself(tmp_path: Path) -> None:
    retry = made(tmp_path).loaded.spec.retry
    assert retry is not None
    assert (retry.restarts, retry.requeues, retry.without_progress) == (1, 0, 2)


@pytest.mark.parametrize(
    ("path", "command", "wanted"),
    [
        ("saved", '["python", "t.py", "--save", "saved"]', '("python", "t.py", "--save", "NEW")'),
        ("saved", '["python", "t.py", "--save=./saved/"]', '("python", "t.py", "--save=./NEW/")'),
        ("saved", '["python", "saved.py", "saved/a"]', '("python", "saved.py", "NEW/a")'),
        ("saved/", '"python t.py --saved saved >log"', "'python t.py --saved NEW >log'"),
        (
            "/big/saved",
            '["t", "--save=/big/saved/now", "x/big/saved"]',
            '("t", "--save=NEW/now", "x/big/saved")',
        ),
        ("saved", '["t", "dir=saved,saved-2,../saved,a/saved"]', '("t", "dir=NEW,saved-2,../saved,a/saved")'),
    ],
)
def test_a_folder_on_the_command_line_becomes_the_rehearsals_own(
    path: str, command: str, wanted: str, tmp_path: Path
) -> None:
    job = made(tmp_path, command, path=path)
    section = job.loaded.spec.checkpoint
    assert section is not None
    assert job.is_own
    assert section.path.startswith(f"{path.rstrip('/')}-rehearsal-")
    assert job.loaded.spec.command == ast.literal_eval(wanted.replace("NEW", section.path))
    assert section.resume == ("--load", f"{section.path}{'/' * path.count('saved/')}/latest")
    assert section.keep is None
    assert job.folder == tmp_path / section.path
    assert job.real == tmp_path / path


def test_a_folder_in_a_variable_becomes_the_rehearsals_own(tmp_path: Path) -> None:
    job = made(tmp_path, variable="saved")
    assert job.is_own
    assert job.loaded.spec.environment.variables["OUT"] == job.folder.name


@pytest.mark.parametrize(
    "command",
    ['["python", "train.py"]', '["bash", "-c", "exec python train.py"]', "'srun python \"train.py\"'"],
)
def test_a_program_that_reads_the_variable_is_told_by_it(command: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("folder = os.environ['SLURMKIT_CHECKPOINTS']")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "step-1").touch()
    job = made(tmp_path, command)
    assert job.is_own
    assert "as SLURMKIT_CHECKPOINTS tells the program" in job.notes[0]


def test_a_program_that_nobody_knows_of_is_rehearsed_in_an_empty_folder_alone(tmp_path: Path) -> None:
    assert made(tmp_path).folder == tmp_path / "saved"
    (tmp_path / "saved").mkdir()
    job = made(tmp_path)
    assert (job.is_own, job.folder) == (False, tmp_path / "saved")
    assert "what it saves there stays" in job.notes[0]
    (tmp_path / "saved" / "step-1").touch()
    with pytest.raises(UsageError, match="among the run's own checkpoints") as caught:
        made(tmp_path)
    assert "--in-place" in (caught.value.hint or "")


def test_in_place_goes_on_from_what_is_there_and_prunes_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "step-1").touch()
    job = made(tmp_path, '["python", "t.py", "--save", "saved"]', in_place=True)
    section = job.loaded.spec.checkpoint
    assert section is not None
    assert (job.is_own, section.path, section.keep) == (False, "saved", None)
    assert job.loaded.spec.command == ("python", "t.py", "--save", "saved")


def test_what_cannot_be_looked_into_counts_as_filled(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_filled(tmp_path / "file")
    assert not is_filled(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('name = "a"\ncommand = ["a"]\n', r"no \[checkpoint\]"),
        (
            'name = "a"\ncommand = ["a"]\nresources = { array = "0-3" }\ncheckpoint = { path = "p" }\n',
            "array",
        ),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=why):
        rehearsed(load(file, site=None, user=None), seconds=900)


def test_a_folder_that_a_container_mounts_is_mounted_from_the_rehearsals_own(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'name = "a"\ncommand = ["train", "/ckpt"]\ncheckpoint = { path = "/big/saved" }\n'
        'container = { runtime = "apptainer", image = "a.sif", mounts = ["/big/saved:/ckpt"] }\n'
    )
    job = rehearsed(load(file, site=None, user=None), seconds=900)
    assert job.is_own
    assert job.loaded.spec.container is not None
    assert job.loaded.spec.container.mounts == (f"{job.folder}:/ckpt",)


def test_a_folder_is_found_by_its_whole_path_too_though_the_program_knows_the_variable(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("default = os.environ['SLURMKIT_CHECKPOINTS']")
    job = made(tmp_path, f'["python", "train.py", "--save={tmp_path}/saved", "saved"]')
    folder = job.folder
    assert job.loaded.spec.command == ("python", "train.py", f"--save={folder}", folder.name)
    other = made(tmp_path, '["python", "train.py", "--save=saved"]', path=f"{tmp_path}/saved")
    assert other.loaded.spec.command == ("python", "train.py", f"--save={other.folder.name}")
