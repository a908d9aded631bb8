from __future__ import annotations

from importlib import import_module

import click
import pytest

from slurmkit.cli.main import group
from slurmkit.cli.table import COMMANDS, GROUPS, Command

NAMES = [command.name for command in COMMANDS]


def named(command: Command) -> str:
    return command.name


@pytest.mark.parametrize("entry", COMMANDS, ids=named)
def test_every_module_of_the_table_exports_its_command(entry: Command) -> None:
    assert isinstance(import_module(entry.module).command, click.Command)


@pytest.mark.parametrize("entry", COMMANDS, ids=named)
def test_every_command_and_each_of_its_options_says_what_it_does(entry: Command) -> None:
    command = import_module(entry.module).command
    assert command.help
    assert entry.summary.endswith(".")
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


def test_every_command_is_in_a_group_of_the_life_cycle_and_no_name_comes_twice() -> None:
    assert {command.group for command in COMMANDS} == set(GROUPS)
    assert len(set(NAMES)) == len(NAMES)


def test_click_sees_all_commands_as_a_mapping() -> None:
    assert list(group.commands) == NAMES
    assert isinstance(group.commands["status"], click.Command)
    with pytest.raises(KeyError):
        group.commands["statsu"]
