"""Which name was meant."""

from __future__ import annotations

import pytest

from slurmkit.spec.convert import OWN, home_of_keys
from slurmkit.spec.names import _CALLED_ELSEWHERE, nearest, unknown_key
from slurmkit.spec.options import ALLOWED

HOMES = home_of_keys()
RESOURCES = (*ALLOWED, *OWN)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cores", "cpus_per_task"),
        ("walltime", "time"),
        ("queue", "partition"),
        ("memory", "mem"),
        ("ntasks-per-node", "ntasks_per_node"),
        ("--gpus-per-node", "gpus_per_node"),
        ("-N", "nodes"),
        ("partitoin", "partition"),
        ("NODES", "nodes"),
        ("spares", "spare_nodes"),
        ("zzzzzz", None),
    ],
)
def test_the_nearest_option_is_found(name: str, meant: str | None) -> None:
    assert nearest(name, RESOURCES) == meant


@pytest.mark.parametrize(
    ("name", "table", "told"),
    [
        ("nodes", "", "`nodes` belongs in [resources]"),
        ("gpus-per-node", "", "`gpus_per_node` belongs in [resources]"),
        ("modules", "resources", "`modules` belongs in [environment]"),
        ("command", "resources", "`command` belongs at the top of the file"),
        ("spare_nodes", "launch", "`spare_nodes` belongs in [resources]"),
        ("ntasks-per-node", "resources", "did you mean `ntasks_per_node`?"),
        ("cores", "resources", "did you mean `cpus_per_task`?"),
        ("modulse", "resources", "did you mean `modules` in [environment]?"),
        ("qqqqqq", "resources", "`slurmkit schema` lists what is known"),
    ],
)
def test_an_unknown_key_is_shown_the_way(name: str, table: str, told: str) -> None:
    known = RESOURCES if table == "resources" else [key for key, home in HOMES.items() if home == table]
    assert unknown_key(name, table, known, HOMES) == told


def test_a_short_table_names_all_that_it_knows() -> None:
    assert unknown_key("qqqqqq", "run", ["directory"], HOMES) == "known here: directory"


def test_what_other_tools_say_leads_to_names_that_exist() -> None:
    assert set(_CALLED_ELSEWHERE.values()) <= {*RESOURCES, *HOMES}
