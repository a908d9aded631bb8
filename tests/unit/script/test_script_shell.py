"""What the importer knows of bash: commands, words, fixed text."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.script.sbatch_file import Line
from slurmkit.script.shell import Command, commands, fixed, words


def texts(script: str) -> list[str]:
    return [one.text for one in commands(Line(n, text) for n, text in enumerate(script.split("\n"), 1))]


@pytest.mark.parametrize(
    "command",
    [
        "a b",
        "a \\\n  b",
        "a |\n  b",
        "a &&\n  b ||\n  c",
        "for i in 1 2; do\n  echo $i\ndone",
        "while read -r x; do\n  if a; then\n    b\n  fi\ndone < file",
        "if a; then\n  b\nelif c; then\n  d\nelse\n  e\nfi",
        "case $x in\n  a) b ;;\n  c|d) e ;;\nesac",
        "f() {\n  a\n}",
        "( a\n  b )",
        "A=(1 # one\n  '2 3')",
        'echo "two\nlines"',
        "echo 'it\n\"is'",
        "cat <<END\nit's \"\n#SBATCH\nEND",
        "cat <<-'END' > x\n\ta\n\tEND",
        "cat <<A - <<B\n1\nA\n2\nB",
        'x=$(a "$b" | c)\t',
        'echo "$(echo ")" )"',
        "a # it's a comment",
        "# it's a comment (",
        "echo for if case",
        "a <<< 'text'",
        "x=$((1 + 2))",
        "[[ $a == 1 ]] && b",
    ],
)
def test_a_command_is_kept_whole(command: str) -> None:
    assert texts(f"first\n{command}\nlast") == ["first", command, "last"]


def test_a_command_that_does_not_end_takes_the_rest() -> None:
    assert texts('a\necho "open\nb\nc') == ["a", 'echo "open\nb\nc']


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("plain", "plain"),
        ("'a b'", "a b"),
        ("'$x'", "$x"),
        ('"a b"', "a b"),
        (r'"a\"b\$c\\d\e"', r'a"b$c\d\e'),
        (r"a\ b", "a b"),
        ("a'b'\"c\"", "abc"),
        ("''", ""),
        ("a\\\nb", "ab"),
        ("x=~/y", None),
        ("~/y", None),
        ("$x", None),
        ('"$x"', None),
        ("`x`", None),
        ("*.py", None),
        ("{a,b}", None),
        ("{1..3}", None),
        ("{}", "{}"),
        ("A=(1 2)", None),
    ],
)
def test_a_word_is_fixed_text_or_expanded(raw: str, value: str | None) -> None:
    assert fixed(raw) == value


def test_words_and_operators_are_told_apart() -> None:
    found = words('A=1 srun -n2 ./a "b c" > log 2>&1 & # note')
    assert [word.raw for word in found if not word.is_operator] == [
        "A=1",
        "srun",
        "-n2",
        "./a",
        '"b c"',
        "log",
    ]
    assert [word.raw for word in found if word.is_operator] == [">", "2>&1", "&"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a; b", ["a", "b"]),
        ("a && b", ["a", "b"]),
        ("a || b", ["a || b"]),
        ("if a; then b; fi", ["if a; then b; fi"]),
        ("echo 'a; b'", ["echo 'a; b'"]),
    ],
)
def test_a_list_has_parts(text: str, parts: list[str]) -> None:
    assert [one.text for one in Command(1, text).parts] == parts


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_quoted_words_are_read_back(values: list[str]) -> None:
    assert [word.value for word in words(shlex.join(values))] == values


@given(st.text(alphabet="ab \n'\"\\$(){}[];|&<>#=`~*-EOF") | st.text())
def test_every_line_of_a_script_is_in_one_command(script: str) -> None:
    assert "\n".join(texts(script)) == script
