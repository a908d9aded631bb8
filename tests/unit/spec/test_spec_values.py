"""Values of [resources] in Slurm's own form, one by one."""

from __future__ import annotations

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmkit.spec.options import BY_NAME, OPTIONS
from slurmkit.spec.values import normalise


@pytest.mark.parametrize(
    ("name", "value", "normal"),
    [
        ("time", "1h30m", "1:30:00"),
        ("time", 90, "1:30:00"),
        ("time", datetime.time(4, 0), "4:00:00"),
        ("time", "0", "UNLIMITED"),
        ("time", 0, "UNLIMITED"),
        ("time_min", 0, "0:00:00"),
        ("delay_boot", "5m", "0:05:00"),
        ("mem", "64G", "65536M"),
        ("mem", 0, "0"),
        ("mem_per_cpu", 2000, "2000M"),
        ("tmp", "1.5G", "1536M"),
        ("nodes", 2, 2),
        ("nodes", "2", 2),
        ("nodes", "2-4", "2-4"),
        ("nodes", "2-2", 2),
        ("nodes", "1k", 1024),
        ("nodes", "2, 4-8:2", "2,4-8:2"),
        ("ntasks", "8", 8),
        ("core_spec", 0, 0),
        ("partition", "train", "train"),
        ("partition", ["a", "b"], "a,b"),
        ("partition", "a, b", "a,b"),
        ("account", 2023001, "2023001"),
        ("priority", "TOP", "TOP"),
        ("nice", -5, -5),
        ("nice", True, True),
        ("exclusive", True, True),
        ("exclusive", "USER", "user"),
        ("no_kill", "off", "off"),
        ("contiguous", True, True),
        ("open_mode", "Append", "append"),
        ("wait_all_nodes", 1, "1"),
        ("mail_type", ["end", "fail"], "END,FAIL"),
        ("signal", "B:usr1@2m", "B:USR1@120"),
        ("signal", "SIGTERM", "TERM"),
        ("signal", 10, "10"),
        ("signal", "R:10@90", "R:10@90"),
        ("array", "0-99%10", "0-99%10"),
        ("array", "0-15:4", "0-12:4"),
        ("array", [1, 3, 7], "1,3,7"),
        ("array", 5, "5"),
        ("dependency", "afterok:12:13", "afterok:12:13"),
        ("dependency", ["afterok:12", "singleton"], "afterok:12,singleton"),
        ("dependency", 12, "afterany:12"),
        ("gres", ["gpu:a100:4", "shard:2"], "gpu:a100:4,shard:2"),
        ("gres", "gpu", "gpu:1"),
        ("gres", "none", "none"),
        ("gpus", 8, 8),
        ("gpus", "8", 8),
        ("gpus_per_node", "a100:4", "a100:4"),
        ("gpus_per_node", ["a100:2", "v100:2"], "a100:2,v100:2"),
        ("tres_per_task", "cpu=4, gres/gpu=1", "cpu=4,gres/gpu=1"),
        ("begin", "now+1hour", "now+1hour"),
        ("begin", "16:00", "16:00"),
        ("begin", datetime.datetime(2026, 12, 24, 8, 0), "2026-12-24T08:00:00"),
        ("begin", datetime.date(2026, 12, 24), "2026-12-24"),
        ("deadline", datetime.time(8, 30), "08:30:00"),
        ("switches", "1@2h", "1@2:00:00"),
        ("switches", 1, "1"),
        ("mem_update", "20@1h", "20@1:00:00"),
        ("export", ["ALL"], "ALL"),
        ("export", "none", "NONE"),
        ("export", ["HOME", "PATH"], "HOME,PATH"),
        ("comment", "  two words: 'quoted' $x `y` # z", "  two words: 'quoted' $x `y` # z"),
        ("comment", "--not-an-option", "--not-an-option"),
        ("output", "logs/my job %j.out", "logs/my job %j.out"),
        ("constraint", "[rack1*2&rack2*4]", "[rack1*2&rack2*4]"),
        ("cpu_freq", 2400000, "2400000"),
    ],
)
def test_a_value_becomes_slurms_own_form(name: str, value: object, normal: object) -> None:
    assert normalise(BY_NAME[name], value) == normal
    assert normalise(BY_NAME[name], normal) == normal


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("nodes", "two", "not a count"),
        ("nodes", 0, "at least 1"),
        ("nodes", "4-2", "write `2-4`"),
        ("nodes", "1,x", "list of node counts"),
        ("nodes", 2.5, "whole number"),
        ("ntasks", 0, "at least 1"),
        ("ntasks", ["8"], "got a list"),
        ("time", "1:2:3:4", "1:30:00"),
        ("time", 1.5, "whole number or text"),
        ("time", True, "needs a value"),
        ("mem", "2Gn", "not a memory size"),
        ("contiguous", "yes", "true or false"),
        ("exclusive", "users", "user, mcs, topo"),
        ("mail_type", "END,FIAL", "`FIAL` is not one of"),
        ("partition", "a,,b", "empty element"),
        ("partition", "", "is empty"),
        ("comment", "a\nb", "line break"),
        ("comment", "a\rb", "line break"),
        ("comment", "a\0b", "NUL"),
        ("account", 1.5, "expected text"),
        ("signal", "USR9", "not a signal"),
        ("signal", "X:USR1", "not a signal request"),
        ("signal", "USR1@2d", "too long"),
        ("array", "5-1", "empty range"),
        ("array", "0-9%0", "at least 1"),
        ("dependency", "afterk:12", "not a dependency"),
        ("gres", "gpu:a100:x", "not a resource request"),
        ("gpus", "a100:b:4", "a100:4"),
        ("tres_per_task", "mem=4", "Slurm refuses"),
        ("tres_per_task", "gpu", "gres/gpu=1"),
        ("begin", "next week", "not a moment"),
        ("begin", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "offset"),
        ("switches", "x@1", "not a count"),
        ("mem_update", "20", "no delay"),
        ("export", "FOO=c,d", "[environment] variables"),
        ("export", ["NONE", "FOO"], "stands alone"),
        ("export", "A-B", "cannot name a variable"),
        ("nice", "much", "not a whole number"),
        ("nice", 10**11, "not a whole number"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_right(name: str, value: object, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        normalise(BY_NAME[name], value)


def test_trap_137_a_variable_with_a_comma_does_not_go_through_export() -> None:
    with pytest.raises(ValueError, match="cuts values at commas"):
        normalise(BY_NAME["export"], "ALL,FOO=c,d")


SCALARS = st.one_of(
    st.text(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.from_regex(r"[0-9:,.@%GMKa-z-]{1,12}", fullmatch=True),
)


@given(st.sampled_from(OPTIONS), SCALARS | st.lists(st.text(max_size=8) | st.integers(), max_size=4))
def test_any_value_is_normalised_for_good_or_refused(option: object, value: object) -> None:
    assert isinstance(option, type(OPTIONS[0]))
    if option.refused or value is False:
        return
    try:
        normal = normalise(option, value)
    except ValueError:
        pass
    else:
        assert normalise(option, normal) == normal
        assert "\n" not in str(normal)
