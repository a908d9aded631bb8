from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slurmkit.errors import JobFailed, Unreachable
from slurmkit.launch.port import candidates, hold
from slurmkit.recovery import rendezvous
from slurmkit.recovery.rendezvous import choose_address, claim_port, is_resolvable, own_address

if TYPE_CHECKING:
    from collections.abc import Collection

EPHEMERAL = (32768, 60999)


class Nodes:
    """Slurm as far as the address of a node goes."""

    def __init__(self, address: str | Exception) -> None:
        self.address = address

    def nodes(self, names: Collection[str] | None = None) -> list[Any]:
        if isinstance(self.address, Exception):
            raise self.address
        return [SimpleNamespace(name=name, address=self.address) for name in names or ()]


@pytest.mark.parametrize(
    ("known", "address", "chosen", "said"),
    [
        ({"n1"}, "10.0.0.1", "n1", None),
        ({"10.0.0.1"}, "10.0.0.1", "10.0.0.1", "n1 does not resolve; Slurm reaches it as 10.0.0.1"),
        ({"n1-ib"}, "n1-ib", "n1-ib", "n1 does not resolve; Slurm reaches it as n1-ib"),
        (set(), "n1", "n1", "n1 does not resolve, nor does its address in Slurm, n1"),
        (set(), "n1-ib", "n1", "n1 does not resolve, nor does its address in Slurm, n1-ib"),
        (
            set(),
            Unreachable("silence"),
            "n1",
            "n1 does not resolve, and Slurm does not tell its address: silence",
        ),
    ],
)
def test_trap_087_the_name_is_preferred_and_else_the_address_by_which_slurm_reaches_the_node(
    known: set[str], address: str | Exception, chosen: str, said: str | None
) -> None:
    slurm: Any = Nodes(address)
    assert choose_address("n1", lambda: slurm, resolves=known.__contains__) == (chosen, said)


@pytest.mark.parametrize(
    ("name", "known"),
    [("127.0.0.1", True), ("::1", True), ("no-such-host.invalid", False), ("a" * 70, False)],
)
def test_what_resolves(name: str, known: bool) -> None:
    assert is_resolvable(name) == known


def test_a_port_that_another_run_holds_is_passed_over() -> None:
    first, claim = claim_port(990077, 0, 0, EPHEMERAL)
    with claim:
        second, other = claim_port(990077, 0, 0, EPHEMERAL)
        with other:
            order = list(candidates(990077, 0, 0))
            assert order.index(first) < order.index(second)
    again = hold(first)
    assert again is not None, "both are given back"
    again.close()


def test_without_a_free_port_there_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "hold", lambda _: None)
    with pytest.raises(JobFailed, match="none of 64 ports") as caught:
        claim_port(1, 0, 0, EPHEMERAL)
    assert "MASTER_PORT" in str(caught.value)


def test_the_agents_address_is_that_of_the_interface_that_leads_to_the_others() -> None:
    assert own_address(["127.0.0.2"]) == "127.0.0.1"


def test_alone_or_among_names_that_do_not_resolve_it_is_loopback() -> None:
    assert own_address([]) == "127.0.0.1"
    assert own_address(["no-such-host.invalid"]) == "127.0.0.1"
