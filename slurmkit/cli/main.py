"""`slurmkit`: the group of all commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn

import click

from slurmkit import __version__
from slurmkit.cli.table import COMMANDS, GROUPS
from slurmkit.errors import SlurmkitError

if TYPE_CHECKING:
    from types import TracebackType

    from click.shell_completion import CompletionItem

INTERRUPTED = 130
BROKEN_PIPE = 141
BUG = 70
"""128 + SIGINT, 128 + SIGPIPE, and EX_SOFTWARE of sysexits.h."""


class LazyCommands(MutableMapping[str, click.Command]):
    """The table as the mapping that click wants: all names known, a command imported when asked for."""

    def __init__(self) -> None:
        self._modules = {command.name: command.module for command in COMMANDS}
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            module = self._modules[name]
            # __import__ with a from-list is import_module without the import of importlib.
            command: click.Command = __import__(module, fromlist=["command"]).command
            self._added[name] = command
        return self._added[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class LifeCycle(click.Group):
    """A group whose help and completion come from the table instead of from its commands."""

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - the signature is click's
        formatter: click.HelpFormatter,
    ) -> None:
        """The commands under the headings of the life cycle, in one column throughout."""
        width = max(len(command.name) for command in COMMANDS)
        for group in GROUPS:
            with formatter.section(group):
                formatter.write_dl([(f"{c.name:<{width}}", c.summary) for c in COMMANDS if c.group == group])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and summaries of the commands, then the group's own options."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(c.name, help=c.summary) for c in COMMANDS if c.name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - whatever the command returns
        """Run the command; a reader that went away, as in `slurmkit runs | head`, is no error to speak of."""
        try:
            result = super().invoke(ctx)
            click.echo(nl=False)  # flushes, also where there is no stdout at all
        except BrokenPipeError:
            # The interpreter flushes stdout once more at its end: let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result


@click.group(cls=LifeCycle, commands=LazyCommands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slurmkit", message="%(prog)s %(version)s")
def group() -> None:
    """Carry a GPU training job through its whole life on a Slurm cluster.

    `slurmkit COMMAND --help` explains each command. RUN is a run id or the start of one, a job id, the path
    of a run directory, or `last`.
    """


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors have become messages on stderr."""
    try:
        code = group.main(arguments, prog_name="slurmkit", standalone_mode=False)
    except SlurmkitError as error:
        print_error(error)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0


def print_error(error: SlurmkitError) -> None:
    """What is wrong, where, and what to try, on stderr; colour only on a terminal."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    text = f"error: {error}"
    if colour:
        text = click.style("error:", fg="red", bold=True) + text.removeprefix("error:")
    click.echo(text, err=True, color=colour)


def report_bug(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Keep the traceback of an error that nobody expected in a file, and say so in two lines."""
    if issubclass(kind, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    import tempfile
    from traceback import format_exception

    descriptor, path = tempfile.mkstemp(prefix="slurmkit-bug-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"slurmkit {__version__}, Python {sys.version}\n{sys.argv!r}\n\n")
        file.writelines(format_exception(kind, error, traceback))
    click.echo(f"error: a bug in slurmkit: {kind.__name__}: {error}\n  at: {path}", err=True)
    click.echo(
        "  try: report it with that file; it names your command line and paths, no variables", err=True
    )
    sys.exit(BUG)


def main() -> NoReturn:
    """The entry point of the command."""
    sys.excepthook = report_bug
    code = run(sys.argv[1:])
    # All is printed. To take its modules apart one by one costs the interpreter a tenth of a short command.
    os._exit(code)
