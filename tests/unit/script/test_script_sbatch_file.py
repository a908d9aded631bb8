"""Scripts as sbatch reads them. Every row was tried on sbatch 22.05."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.script.quoting import directive_quoted as quoted
from slurmkit.script.sbatch_file import parse


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("#SBATCH -N2", {"nodes": "2"}),
        ("#SBATCH -N 2", {"nodes": "2"}),
        ("#SBATCH --nodes=2", {"nodes": "2"}),
        ("#SBATCH --nodes 2", {"nodes": "2"}),
        ("#SBATCH\t-N\t2", {"nodes": "2"}),
        ("#SBATCH-N2", {"nodes": "2"}),
        ("#SBATCH --ntasks-per-n 2 -N1-2", {"ntasks_per_node": "2", "nodes": "1-2"}),
        ("#SBATCH --tasks-per-node=2", {"ntasks_per_node": "2"}),
        ("#SBATCH -sHt7", {"oversubscribe": None, "hold": None, "time": "7"}),
        ("#SBATCH -k -t 9", {"no_kill": None, "time": "9"}),
        ("#SBATCH --exclusive -t 9", {"exclusive": None, "time": "9"}),
        ("#SBATCH --exclusive=user", {"exclusive": "user"}),
        ("#SBATCH -t 5 # five minutes", {"time": "5"}),
        ("#SBATCH --comment=a#b -t 7", {"comment": "a"}),
        ('#SBATCH --comment="a #b" -t 7', {"comment": "a #b", "time": "7"}),
        (r"""#SBATCH --comment='a\\\"b' -t 7""", {"comment": r"a\"b", "time": "7"}),
        (r"#SBATCH --comment=a\ b", {"comment": "a b"}),
        ("#SBATCH -t 5\n#SBATCH -t 6", {"time": "6"}),
        ("#SBATCH --comment\n#SBATCH word", {"comment": "word"}),
        ("# a comment\n\n#SBATCH -t 5", {"time": "5"}),
        ("# SBATCH -t 5", {}),
        ("##SBATCH -t 5", {}),
        (" #SBATCH -t 5", {}),
        ("set -eu\n#SBATCH -t 5", {}),
        ("#SBATCH -t 5\r\n#SBATCH -N 2\r", {"time": "5", "nodes": "2"}),
    ],
)
def test_directives_are_read_as_sbatch_reads_them(line: str, values: dict[str, str | None]) -> None:
    script = parse(f"#!/bin/bash\n{line}\n")
    assert script.values == values
    assert not script.faults


@pytest.mark.parametrize(
    ("line", "word", "fault"),
    [
        ("#SBATCH -t 5 (five)", "(five)", "stray word"),
        ("#SBATCH -J big sim", "sim", "stray word"),
        ("#SBATCH --exclusive user", "user", "stray word"),
        ("#SBATCH -t 5 -- foo", "foo", "stray word"),
        ("#SBATCH --tim=7", "--tim", "ambiguous"),
        ("#SBATCH --TIME=5", "--TIME", "unknown"),
        ("#SBATCH --cpus_per_task=5", "--cpus_per_task", "unknown"),
        ("#SBATCH -z", "-z", "unknown"),
        ('#SBATCH --comment ""', "--comment", "no value"),
        ("#SBATCH --hold=yes", "--hold=yes", "unwanted value"),
        ('#SBATCH --comment="a', "--comment=a", "open quote"),
    ],
)
def test_what_sbatch_refuses_is_a_fault_with_its_line(line: str, word: str, fault: str) -> None:
    found = parse(f"#!/bin/bash\n\n{line}\n").faults
    assert [(one.line, one.word, one.fault) for one in found] == [(3, word, fault)]


def test_the_body_is_what_is_no_directive_with_its_line_numbers() -> None:
    script = parse("#!/bin/bash\n#SBATCH -t 5\n# note\nset -eu\n#SBATCH -N 2\n")
    assert [(line.number, line.text) for line in script.body] == [
        (3, "# note"),
        (4, "set -eu"),
        (5, "#SBATCH -N 2"),
        (6, ""),
    ]
    assert script.first_command == 4
    assert script.shebang == "#!/bin/bash"


def test_a_script_without_a_first_line_for_the_kernel_has_no_shebang() -> None:
    assert parse("\n#!/bin/bash\n#SBATCH -t 5\n").shebang is None


@given(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), min_size=1))
def test_a_quoted_value_is_read_back_as_it_was(value: str) -> None:
    script = parse(f"#!/bin/bash\n#SBATCH --comment={quoted(value)} -t 5\n")
    assert script.values == {"comment": value, "time": "5"}


@given(st.text())
def test_no_text_makes_reading_fail(text: str) -> None:
    parse(f"#!/bin/bash\n#SBATCH {text}\n")
