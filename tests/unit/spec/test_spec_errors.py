"""What a wrong job file is answered with, text by text; and that nothing else is ever answered."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmkit.errors import JobFileError
from slurmkit.spec.conflicts import PAIRS
from slurmkit.spec.loading import load

CASES = Path(__file__).parent / "cases"
WRONG = sorted(CASES.glob("*.toml"))
GOOD = (CASES / "good" / "every_section.toml").read_text()


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.stem)
def test_a_wrong_file_is_answered_with_exactly_this(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(case, "job.toml")
    with pytest.raises(JobFileError) as caught:
        load("job.toml", site=None, user=None)
    assert str(caught.value) == case.with_suffix(".txt").read_text().removesuffix("\n")


def test_every_case_has_its_text_and_every_text_its_case() -> None:
    assert {one.stem for one in CASES.glob("*.txt")} == {one.stem for one in WRONG}


def test_the_case_of_every_pair_has_every_pair() -> None:
    text = (CASES / "contradictions_of_every_pair.txt").read_text()
    assert all(f"resources.{second} contradicts resources.{first}: " in text for first, second, _ in PAIRS)


def loads_or_is_refused(content: bytes) -> None:
    """Whatever the file holds: a spec, or problems that name a place and never steer a terminal."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "job.toml")
        path.write_bytes(content)
        problems: tuple[str, ...] = ()
        try:
            load(path, site=None, user=None)
        except JobFileError as error:
            problems = error.problems or ("no problem at all",)
    for problem in problems:
        assert "job.toml" in problem
        assert all(letter.isprintable() or letter in "\n\t" for letter in problem)


@given(st.binary(max_size=200))
@example(b"\0" * 100)
@example(b"\xff\xfe" + "name = 1".encode("utf-16-le"))
def test_any_bytes_are_a_job_or_a_job_file_error(content: bytes) -> None:
    loads_or_is_refused(content)


TOML_LETTERS = st.text(alphabet="[]{}=\"'#.,\\\n\r\t -+_0123456789aenutx:T\x00\x7f\u2028é漢", max_size=80)


@given(TOML_LETTERS)
@example("a = [" * 2_000)
@example("a" + ".a" * 3_000 + " = 1")
@example("a = " + "9" * 5_000)
@example("x = 1\r\ny = 2\rz = 3\n")
def test_any_text_like_toml_is_a_job_or_a_job_file_error(text: str) -> None:
    loads_or_is_refused(text.encode())


@given(st.integers(0, len(GOOD)), st.integers(0, 30), TOML_LETTERS)
def test_any_change_of_a_good_file_is_a_job_or_a_job_file_error(start: int, length: int, put: str) -> None:
    loads_or_is_refused((GOOD[:start] + put + GOOD[start + length :]).encode())


VALUES = st.sampled_from(
    ["-1", "0", "1.5", "nan", "true", "false", '""', '"\\u0000"', '"a\\nb"', "[]", "[[]]", "{}", "{ a = 1 }",
     "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "9223372036854775808", '"--"', '"%z"', '"é漢 $x `y`"',
     "[1, 'a', true]", "[{}]", '["a,b", ""]', "1e400"]
)  # fmt: skip
KEYS_OF_GOOD = [number for number, line in enumerate(GOOD.splitlines()) if " = " in line]


@given(st.lists(st.tuples(st.sampled_from(KEYS_OF_GOOD), VALUES), min_size=1, max_size=4))
def test_any_value_at_any_key_is_a_job_or_a_job_file_error(changes: list[tuple[int, str]]) -> None:
    lines = GOOD.splitlines()
    for number, value in changes:
        lines[number] = f"{lines[number].partition(' = ')[0]} = {value}"
    loads_or_is_refused("\n".join(lines).encode())
