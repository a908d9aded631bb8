"""Fairness: shares against what sshare has as targets, evenness, and slowdown."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from math import isclose
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.accounting.question import question
from slurmkit.accounting.report import columns_of
from slurmkit.accounting.reports.fairness import REPORT
from slurmkit.errors import MissingRequirement
from slurmkit.slurm import shares
from slurmkit.slurm.shares import Targets, parse, targets
from tests.unit.accounting.records import NOON, ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pandas import DataFrame

Job = dict[str, object]
HOUR = 3600

SSHARE = """\
test|root||
test| root|root|1
test| physics||60
test|  theory||parent
test|   theory|carl|10
test|  physics|anna|30
test|  physics|bob|10
test| chemistry||39
test|  chemistry|dora|parent
"""


ABSENT = MissingRequirement("sshare is not installed")


def answer(live: Targets | Exception) -> Targets:
    if isinstance(live, Exception):
        raise live
    return live


def frames(
    jobs: Sequence[Mapping[str, object]], *by: str, live: Targets | Exception = ABSENT, **how: Any
) -> dict[str, DataFrame]:
    asked = question(by=by, **({"zone": UTC} | how))
    with pytest.MonkeyPatch.context() as patched, closing(ledger_of(jobs)) as ledger:
        patched.setattr(shares, "read_targets", lambda: answer(live))
        built = {table.name: table.build(ledger, asked) for table in REPORT.tables}
    for table in REPORT.tables:
        assert list(built[table.name]) == [column.name for column in columns_of(table, asked)]
    return built


def rows(frame: DataFrame, key: str) -> Any:
    return frame.set_index(key).to_dict("index")


JOBS: list[Job] = [
    {"account": "physics", "user": "anna", "gpus": 6},
    {"account": "physics", "user": "bob", "gpus": 1},
    {"account": "chemistry", "user": "dora", "gpus": 1},
]


def test_parts_of_a_cluster_follow_the_shares_of_all_levels_and_add_up() -> None:
    found = targets(parse(SSHARE))
    physics = 60 / 100
    assert found.of_users["test", "physics", "anna"] == pytest.approx(physics * 30 / 50)
    # An account with Fairshare=parent stands among the users of the account above it.
    assert found.of_users["test", "theory", "carl"] == pytest.approx(physics * 10 / 50)
    assert found.of_accounts["test", "physics"] == pytest.approx(physics * 40 / 50)
    # Users with Fairshare=parent have no part of their own: the account has it.
    assert found.of_accounts["test", "chemistry"] == pytest.approx(0.39)
    assert ("test", "chemistry", "dora") not in found.of_users
    assert isclose(sum(found.of_accounts.values()), 1.0)


def test_shares_of_one_user_in_several_partitions_are_summed() -> None:
    text = "c|root||\nc| a||1\nc|  a|anna|1\nc|  a|anna|2\nc|  a|bob|1\n"
    assert targets(parse(text)).of_users == {("c", "a", "anna"): 0.75, ("c", "a", "bob"): 0.25}


@pytest.mark.parametrize("text", ["c|root|\n", "c|root||x\n", "Unable to contact slurmctld\n"])
def test_what_sshare_does_not_print_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"x|root|contact"):
        parse(text)


def test_a_share_is_set_against_the_target_of_its_account() -> None:
    accounts = rows(frames(JOBS, "account", live=targets(parse(SSHARE)))["fairness"], "account")
    physics, chemistry = accounts["physics"], accounts["chemistry"]
    assert (physics["gpu_seconds"], physics["share"]) == (7 * HOUR, 0.875)
    assert isclose(physics["target"], 0.48)
    assert isclose(physics["of_target"], 0.875 / 0.48)
    assert isclose(chemistry["of_target"], 0.125 / 0.39)


def test_an_account_that_ran_nothing_has_a_row_where_it_has_a_target() -> None:
    accounts = rows(frames(JOBS, "account", live=targets(parse(SSHARE)))["fairness"], "account")
    assert accounts.keys() == {"physics", "chemistry", "theory"}
    assert (accounts["theory"]["jobs"], accounts["theory"]["of_target"]) == (0, 0.0)


def test_users_have_the_target_of_all_their_accounts() -> None:
    live = targets(parse(SSHARE + "test|  chemistry|anna|3\n"))
    by_user = rows(frames(JOBS, "user", live=live)["fairness"], "user")
    assert isclose(by_user["anna"]["target"], 0.36 + 0.39)
    both = frames(JOBS, "user", "account", live=live)["fairness"]
    assert isclose(both["target"][0], 0.36)


@pytest.mark.parametrize(
    ("by", "how", "more"),
    [
        (("partition",), {}, []),
        ((), {}, []),
        (("account",), {"users": ["anna"]}, []),
        (("account",), {"partitions": ["train"]}, []),
        (("account",), {}, [{"cluster": "other"}]),
    ],
)
def test_where_rows_are_not_parts_of_one_whole_cluster_there_are_no_targets(
    by: tuple[str, ...], how: Mapping[str, Any], more: list[Job]
) -> None:
    built = frames([*JOBS, *more], *by, live=targets(parse(SSHARE)), **how)
    assert built["fairness"]["target"].isna().all()
    assert "Without targets" in REPORT.stands_out(built)[0]


def test_targets_of_another_cluster_are_not_used() -> None:
    live = targets(parse(SSHARE.replace("test|", "other|")))
    assert frames(JOBS, "account", live=live)["fairness"]["target"].isna().all()


def test_where_sshare_answers_something_else_there_are_no_targets() -> None:
    strange = ValueError("a row of 1 columns instead of 4")
    assert frames(JOBS, "account", live=strange)["fairness"]["target"].isna().all()


def test_evenness_is_over_users_and_accounts_by_known_values() -> None:
    evenness = rows(frames(JOBS)["evenness"], "over")
    users, accounts = evenness["users"], evenness["accounts"]
    assert (users["of"], users["number"], users["largest"]) == ("GPU-hours", 3, 0.75)
    assert isclose(users["gini"], (1 * -2 + 1 * 0 + 6 * 2) / (3 * 8))
    assert isclose(users["jain"], 64 / (3 * 38))
    assert isclose(accounts["gini"], 0.375)
    assert isclose(accounts["jain"], 64 / (2 * 50))


def test_without_gpus_cpus_are_shared() -> None:
    built = frames([{"user": "a", "cpus": 3}, {"user": "b", "cpus": 1}], "user")
    assert built["evenness"]["of"].tolist() == ["CPU-hours", "CPU-hours"]
    assert built["fairness"]["share"].tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("wait", "run", "suspended", "slowdown"),
    [(3600, 3600, 0, 2.0), (0, 100, 0, 1.0), (90, 1, 0, 9.1), (0, 2, 0, 1.0), (100, 100, 100, 3.0)],
)
def test_slowdown_is_bounded_for_short_jobs_and_never_below_one(
    wait: int, run: int, suspended: int, slowdown: float
) -> None:
    from datetime import timedelta

    job = {"submit_time": NOON - timedelta(seconds=wait), "elapsed": run, "suspended": suspended}
    (row,) = frames([job])["fairness"].to_dict("records")
    assert [row[name] for name in ("slowdown_p50", "slowdown_p90", "slowdown_mean")] == [slowdown] * 3


def test_what_still_runs_has_no_slowdown_yet() -> None:
    (row,) = frames([{"end_time": None, "gpus": 1}])["fairness"].to_dict("records")
    assert (row["jobs"], row["gpu_seconds"]) == (1, HOUR)
    assert row["slowdown_p50"] != row["slowdown_p50"]


def test_groups_add_up_to_the_whole() -> None:
    (whole,) = frames(JOBS)["fairness"].to_dict("records")
    for by in ("user", "account", "partition", "day", "gpu_type"):
        grouped = frames(JOBS, by)["fairness"]
        assert [int(grouped[name].sum()) for name in ("jobs", "gpu_seconds", "cpu_seconds")] == [
            whole[name] for name in ("jobs", "gpu_seconds", "cpu_seconds")
        ]
        assert isclose(grouped["share"].sum(), 1.0)


def test_what_stands_out_are_the_accounts_off_their_targets() -> None:
    said = REPORT.stands_out(frames(JOBS, "account", live=targets(parse(SSHARE))))
    assert said[0] == "theory had 0.0%, less than its target of 12.0%."
    assert said[1] == "physics had 87.5%, more than its target of 48.0%."
    assert said[2].startswith("GPU-hours of 3 users: Gini index 0.42, Jain index 0.56")


def test_without_records_nothing_is_shared() -> None:
    built = frames([], "account")
    assert built["fairness"].empty
    assert len(REPORT.stands_out(built)) == 1


@given(given_shares=st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_targets_add_up_to_one_whatever_the_shares(given_shares: list[int]) -> None:
    lines = [f"c| a{index}||{share}" for index, share in enumerate(given_shares)]
    found = targets(parse("\n".join(["c|root||", *lines])))
    assert isclose(sum(found.of_accounts.values()), 1.0)
