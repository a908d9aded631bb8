"""What is wrong or unwise in a script or a job file: one table of rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from slurmkit.script.body import STARTS_INSIDE
from slurmkit.script.importing import fault_note, import_script
from slurmkit.script.launch_line import starts_program
from slurmkit.script.sbatch_file import ignored_directives, parse
from slurmkit.script.shell import Command, commands
from slurmkit.spec.patterns import KNOWN_BEFORE_SUBMIT, fields
from slurmkit.spec.units import is_minutes_and_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurmkit.script.sbatch_file import SbatchFile

Severity = Literal["error", "warning"]
Found = tuple[int, str]
"""A line and what is wrong there."""


class Finding(NamedTuple):
    """One thing that a rule found. Line 0 is the file as a whole."""

    line: int
    reference: str
    severity: str
    what: str
    fix: str


class Rule(NamedTuple):
    """`find` yields what is wrong; `fix` is what to do about it."""

    reference: str
    severity: str
    fix: str
    find: Callable[[Script], Iterator[Found]]


@dataclass(frozen=True)
class Script:
    """A script, read once for all rules."""

    text: str
    path: Path
    version: tuple[int, ...] | None = None
    parsed: SbatchFile = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parsed", parse(self.text))

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """The commands of the body; comments are left out."""
        return tuple(one for one in commands(self.parsed.body) if not one.is_comment)

    @cached_property
    def code(self) -> str:
        """The commands, without the text of here-documents."""
        return "\n".join(_code(one) for one in self.commands)

    def value(self, name: str) -> str:
        """The value of a directive; empty where it has none."""
        return self.parsed.values.get(name) or ""

    def line_of(self, name: str) -> int:
        """The line of a directive."""
        return next((one.line for one in self.parsed.directives if one.option.name == name), 0)


def lint_script(text: str, path: Path, *, version: tuple[int, ...] | None = None) -> tuple[Finding, ...]:
    """All findings in a script, by line; `version` is that of the Slurm it is for, where it is known."""
    script = Script(text, path, version)
    found = [
        Finding(line, rule.reference, rule.severity, what, rule.fix)
        for rule in RULES
        for line, what in rule.find(script)
    ]
    return tuple(sorted(found))


def _code(command: Command) -> str:
    return command.text.partition("\n")[0] if "<<" in command.text else command.text


def _matches(script: Script, pattern: str) -> Iterator[tuple[int, re.Match[str]]]:
    for one in script.commands:
        for match in re.finditer(pattern, _code(one)):
            yield one.line + one.text[: match.start()].count("\n"), match


def _ignored(script: Script) -> Iterator[Found]:
    for line, why in ignored_directives(script.parsed):
        yield line.number, f"`{line.text.strip()}` {why}"


def _refused(script: Script) -> Iterator[Found]:
    for fault in script.parsed.faults:
        note = fault_note(fault)
        yield note.line, note.text


def _wrong(script: Script) -> Iterator[Found]:
    faults = {fault_note(fault) for fault in script.parsed.faults}
    for note in import_script(script.text, file_name=script.path.name).problems:
        if note not in faults:
            yield note.line, note.text


def _not_slurms_form(script: Script) -> Iterator[Found]:
    forms = {
        "time": r"(?:\d+-)?\d+(?::\d+){0,2}|(?i:unlimited|infinite)",
        "memory": r"\d+(?i:[KMGT]B?)?",
    }
    for one in script.parsed.directives:
        form = forms.get(one.option.kind)
        if form and one.value and not re.fullmatch(form, one.value, re.ASCII):
            yield one.line, f"`{one.option.flag_text}={one.value}`: sbatch does not know that form"


def _minutes(script: Script) -> Iterator[Found]:
    for one in script.parsed.directives:
        if one.option.kind == "time" and is_minutes_and_seconds(one.value):
            yield (
                one.line,
                f"`{one.option.flag_text}={one.value}` is minutes and seconds",
            )


def _dos(script: Script) -> Iterator[Found]:
    if script.parsed.has_dos_line_ends:
        yield 1, "the lines end as on Windows (CRLF), which sbatch refuses"


def _shebang(script: Script) -> Iterator[Found]:
    if script.parsed.shebang is None:
        yield 1, "the first line does not begin with `#!`, which sbatch refuses"


def _versions(script: Script) -> Iterator[Found]:
    for one in script.parsed.directives:
        if script.version and not one.option.exists_in(script.version):
            release = ".".join(f"{number:02d}" for number in script.version[:2])
            yield one.line, f"Slurm {release} has no `{one.option.flag_text}`"


def _log_folder(script: Script) -> Iterator[Found]:
    start = script.path.parent / script.value("chdir")
    for name in ("output", "error"):
        folder, slash, _ = script.value(name).rpartition("/")
        if slash and not set(fields(folder)) and not (start / folder.replace("%%", "%")).is_dir():
            yield script.line_of(name), f"the folder `{folder}` does not exist, and sbatch makes none"
        elif set(fields(folder)) & KNOWN_BEFORE_SUBMIT:
            yield script.line_of(name), f"the folder `{folder}` must exist before the job starts"


def _lost_status(script: Script) -> Iterator[Found]:
    starts = [place for place, one in enumerate(script.commands) if _starts(one)]
    if not starts:
        return
    stops = re.search(r"(?m)^\s*set\s+(?:-\w*e|-o errexit)", script.code)
    after = script.commands[starts[-1] + 1 :]
    if after and after[-1].text.strip() == "wait":
        yield after[-1].line, "`wait` alone has the status 0, whatever the programs end with: name their ids"
    elif after and not stops and not re.match(r"\s*(?:exit|return)\b", after[-1].text):
        what = "the job's status is that of its last command: a program that fails before it counts as done"
        yield after[-1].line, what
    if re.search(r"pipefail", script.code):
        return
    for place in starts:
        if any(word.raw == "|" for word in script.commands[place].words):
            yield script.commands[place].line, "the status of a pipeline is that of its last part"


def _starts(command: Command) -> bool:
    return starts_program(command.parts[-1]) or STARTS_INSIDE.search(_code(command)) is not None


def _export(script: Script) -> Iterator[Found]:
    value = script.value("export")
    if not value or value == "ALL" or value.startswith("ALL,"):
        return
    if re.search(r"\bsrun\b", script.code) and not re.search(
        r"SLURM_EXPORT_ENV|srun\b[^\n]*--export[= ]", script.code
    ):
        yield script.line_of("export"), f"`--export={value}` reaches srun too: its tasks start without PATH"


def _fixed_port(script: Script) -> Iterator[Found]:
    for line, match in _matches(script, r"(?i)MASTER[_-]PORT[= ][\"']?(\d+)|endpoint[= ]\S*:(\d+)\b"):
        if not re.search(r"--standalone", script.code):
            yield line, f"port {match[1] or match[2]} is fixed: two jobs on one node collide"
    pattern = r"(?i)port=[^\n]*SLURM_JOB_?ID[^\n]*(?:%|tail -c|: *-\d)"
    if not re.search(r"/dev/tcp/|\bss -|\bnc -z", script.code):
        for line, _ in _matches(script, pattern):
            yield line, "a port from the digits of the job id, untried: jobs whose ids end alike collide"


def _torchrun(script: Script) -> Iterator[Found]:
    per_node = script.value("ntasks_per_node") or "1"
    ntasks, nodes = script.value("ntasks"), script.value("nodes") or "1"
    several = per_node not in {"", "1"} or (ntasks.isdigit() and nodes.isdigit() and int(ntasks) > int(nodes))
    pattern = r"\bsrun\b(?:[^\n]|\\\n)*?\b(?:torchrun|torch\.distributed\.(?:run|launch))\b"
    for line, match in _matches(script, pattern):
        if several and not re.search(r"--ntasks-per-node[= ]1\b", match[0]):
            yield line, "srun starts torchrun once for each task, and each starts ranks of its own"


def _node_rank(script: Script) -> Iterator[Found]:
    for one in script.commands:
        for word in one.words:
            if word.value is None and re.match(
                r"\"?(?:--node[_-]rank=)?\"?\$\{?SLURM_(?:NODEID|PROCID|LOCALID)\b", word.raw
            ):
                yield one.line, f"`{word.raw}` is expanded by the batch shell: 0 on every node"


def _cpus(script: Script) -> Iterator[Found]:
    touched = script.version is None or (22, 5) <= script.version[:2] <= (23, 2)
    if not script.value("cpus_per_task") or not touched or "SRUN_CPUS_PER_TASK" in script.code:
        return
    for line, match in _matches(script, r"(?m)^\s*(?:\w+=\S+ )*srun\b(?:\\\n|[^\n])*"):
        if not re.search(r"--cpus-per-task|\s-c\s*\S", match[0]):
            yield line, "srun does not take `--cpus-per-task` from the job (Slurm 22.05 to 23.02)"


def _wrap(script: Script) -> Iterator[Found]:
    for line, _ in _matches(script, r"\bsbatch\b[^\n]*\s--wrap\b"):
        yield line, "`--wrap` takes a command as one text, which two shells expand"


RULES: Final = (
    Rule("directive-ignored", "error", "move it up, and begin the line with `#SBATCH`", _ignored),
    Rule("directive-refused", "error", "quote values with blanks; begin remarks with `#`", _refused),
    Rule("directive-wrong", "error", "correct or remove it", _wrong),
    Rule("value-form", "error", "write time as 1-12:30:00, memory as 1536M", _not_slurms_form),
    Rule("minutes-seconds", "warning", "write 4:00:00 for hours, 4 for minutes", _minutes),
    Rule("dos-line-ends", "error", "convert it: `sed -i 's/\\r$//' FILE`", _dos),
    Rule("no-shebang", "error", "make `#!/bin/bash` the very first line", _shebang),
    Rule("option-version", "error", "leave it out, or ask with an option that is there", _versions),
    Rule(
        "log-folder",
        "warning",
        "make it: else the job ends at once, without a log",
        _log_folder,
    ),
    Rule(
        "lost-status",
        "warning",
        "begin with `set -euo pipefail`, or `exit` with its status",
        _lost_status,
    ),
    Rule("export-none", "warning", "add `export SLURM_EXPORT_ENV=ALL` before the steps", _export),
    Rule("fixed-port", "warning", "try ports on the first host; slurmkit's launch does", _fixed_port),
    Rule("torchrun-tasks", "error", "ask for one task on each node: `--ntasks-per-node=1`", _torchrun),
    Rule("node-rank", "warning", "expand it in the task: `srun bash -c '... $SLURM_NODEID'`", _node_rank),
    Rule("srun-cpus", "warning", "add `--cpus-per-task=$SLURM_CPUS_PER_TASK` to srun", _cpus),
    Rule("wrap", "warning", "write the command into a script", _wrap),
)
"""In the order of what they look at: directives, values, the file, the body."""
