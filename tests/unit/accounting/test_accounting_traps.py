"""What breaks readers of sacct, each with the right value. Numbers are those of the list of quirks."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from slurmkit.errors import UsageError
from slurmkit.slurm.states import JOB_STATES
from tests.unit.accounting.dumps import RAN, asked, numbered, of_texts, text_of

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024**2
GIB = 1024**3


def tres(folder: Path, texts: list[str], columns: str) -> list[object]:
    return of_texts(folder, "AllocTRES", texts, columns, **RAN)


def test_trap_001_the_state_is_one_word_and_who_cancelled_is_kept(tmp_path: Path) -> None:
    states = ["CANCELLED by 1000", "CANCELLED by 0", "CANCELLED"]
    assert of_texts(tmp_path, "State", states, "state, cancelled_by") == [
        ("CANCELLED", "1000"),
        ("CANCELLED", "0"),
        ("CANCELLED", None),
    ]


@pytest.mark.parametrize("cut", ["1|CANCELLED+", "15236+|COMPLETED", "1|OUT_OF_ME+", "123_4.b+|COMPLETED"])
def test_trap_002_a_dump_that_was_cut_to_a_width_is_refused(tmp_path: Path, cut: str) -> None:
    whole = "".join(f"{number}|COMPLETED\n" for number in range(1, 301))
    with pytest.raises(UsageError, match="cut to the width") as caught:
        asked(tmp_path, f"JobID|State\n{whole}{cut}\n", "*")
    assert caught.value.where == f"{tmp_path / 'dump'}:302"


def test_trap_002_a_table_for_people_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cut to the width"):
        asked(tmp_path, "JobID           State\n------------ ----------\n1             COMPLETED\n", "*")


def test_trap_003_delimiters_in_free_text_belong_to_it(tmp_path: Path) -> None:
    dump = "JobID|JobName|State|ExitCode|Comment\n4|a|b|COMPLETED|0:0|x|y\n5|c|COMPLETED|0:0|\n"
    assert asked(tmp_path, dump, "name, state, comment") == [
        ("a|b", "COMPLETED", "x|y"),
        ("c", "COMPLETED", None),
    ]


def test_trap_004_a_newline_in_a_field_does_not_end_the_record(tmp_path: Path) -> None:
    dump = "JobID\x1fJobName\x1fState\n5\x1fline1\nline2\x1fCOMPLETED\n6\x1fok\x1fCOMPLETED\n"
    assert asked(tmp_path, dump, "job_id, name") == [("5", "line1\nline2"), ("6", "ok")]


def test_trap_006_a_byte_that_is_no_text_costs_no_record(tmp_path: Path) -> None:
    dump = b"JobID\x1fJobName\x1fState\n12\x1flat\xedn\x1fCOMPLETED\n13\x1fx\x1fCOMPLETED\n"
    assert asked(tmp_path, dump, "job_id, name") == [("12", "lat�n"), ("13", "x")]


def test_trap_007_elapsed_has_days(tmp_path: Path) -> None:
    texts = ["1-02:03:04", "12:25:02", "00:00:00", "100-00:00:01"]
    assert of_texts(tmp_path, "Elapsed", texts, "elapsed", **RAN) == [93784, 44702, 0, 8640001]


def test_trap_008_cpu_time_has_three_shapes_and_empty_is_not_zero(tmp_path: Path) -> None:
    texts = ["00:03.211", "45:10.500", "01:00:00", "2-04:00:00", "", "00:00.004"]
    assert of_texts(tmp_path, "TotalCPU", texts, "total_cpu", Elapsed="01:00:00", **RAN) == [
        3.211,
        2710.5,
        3600,
        187200,
        None,
        0.004,
    ]


def test_trap_009_a_time_limit_is_not_always_a_time(tmp_path: Path) -> None:
    right = [math.inf, None, 259200, None, 600]
    texts = ["UNLIMITED", "Partition_Limit", "3-00:00:00", "", "00:10:00"]
    assert of_texts(tmp_path, "Timelimit", texts, "time_limit") == right
    raw = ["UNLIMITED", "Partition_Limit", "4320", "", "10"]
    assert of_texts(tmp_path, "TimelimitRaw", raw, "time_limit") == right


def test_trap_010_what_never_started_has_no_start_and_used_nothing(tmp_path: Path) -> None:
    row = {"Elapsed": "00:00:00", "NodeList": "None assigned", "AllocTRES": "", "AllocCPUS": "1"}
    cancelled = {"State": "CANCELLED by 0", "End": "2026-12-01T16:37:13", **row}
    rows = [
        cancelled | {"Start": "None"},
        cancelled | {"Start": "2026-12-01T16:37:13"},
        {"State": "PENDING", "End": "Unknown", **row, "Start": "Unknown"},
    ]
    end = datetime(2026, 12, 1, 16, 37, 13, tzinfo=UTC)
    got = asked(
        tmp_path,
        text_of(list(numbered(rows))),
        "start_time, end_time, node_list, elapsed, cpus, nodes, gpus, is_final, problems",
    )
    nothing = (0, 0, 0, 0)
    assert got == [
        (None, end, None, *nothing, True, None),
        (None, end, None, *nothing, True, None),
        (None, None, None, *nothing, False, None),
    ]


def test_trap_010_without_a_node_list_the_state_tells(tmp_path: Path) -> None:
    rows = [
        {"State": state, "Start": "2026-12-01T16:37:13", "Elapsed": "00:00:00", "AllocCPUS": "1"}
        for state in ("CANCELLED by 0", "COMPLETED")
    ]
    assert asked(tmp_path, text_of(list(numbered(rows))), "start_time IS NULL, cpus") == [
        (True, 0),
        (False, 1),
    ]


def test_trap_011_memory_asked_for_per_node_and_per_cpu(tmp_path: Path) -> None:
    cases = [
        ("3Gn", "2", "8", 6144 * MIB),
        ("5000Mc", "1", "4", 20000 * MIB),
        ("0n", "1", "1", 0),
        ("0c", "1", "1", 0),
        ("36G", "1", "1", 36864 * MIB),
        ("62.50G", "1", "1", 64000 * MIB),
        ("", "1", "1", None),
        # 2^31 + 3000: Slurm's own mark for "per CPU", which old sacct printed as if it were a size.
        ("2147486648Mn", "1", "4", 12000 * MIB),
    ]
    rows = [{"ReqMem": size, "NNodes": nodes, "AllocCPUS": cpus} for size, nodes, cpus, _ in cases]
    got = asked(tmp_path, text_of(list(numbered(rows))), "requested_memory")
    assert got == [right for *_, right in cases]


def test_trap_013_memory_used_stands_on_steps_alone(tmp_path: Path) -> None:
    dump = "JobID|MaxRSS\n92|\n92.0|3.5G\n92.1|\n92.batch|16444K\n92.extern|0\n"
    assert asked(tmp_path, dump, "step, max_rss", "steps") == [
        ("0", 3584 * MIB),
        ("1", None),
        ("batch", 16444 * 1024),
        ("extern", 0),
    ]


def test_trap_014_every_unit_of_memory(tmp_path: Path) -> None:
    sizes = {"472K": 483328, "16.5M": 17301504, "1.50T": 1649267441664, "2P": 2251799813685248, "0": 0}
    dump = "JobID|MaxRSS\n1|\n" + "".join(f"1.{n}|{text}\n" for n, text in enumerate([*sizes, "12X"]))
    *right, unknown = asked(tmp_path, dump, "max_rss, problems", "steps")
    assert right == [(size, None) for size in sizes.values()]
    assert unknown == (None, "MaxRSS=12X")


def test_trap_015_zero_cpu_time_does_not_mean_idle(tmp_path: Path) -> None:
    row = {"Elapsed": "2-00:00:00", "TotalCPU": "00:00:00", **RAN}
    rows = [
        {"JobID": "311", **row, "TRESUsageInTot": ""},
        {"JobID": "312", **row, "TRESUsageInTot": ""},
        {"JobID": "312.0", **row, "TRESUsageInTot": "cpu=05:10:00,energy=0,mem=2G"},
    ]
    assert asked(tmp_path, text_of(rows), "total_cpu") == [None, None]
    assert asked(tmp_path, text_of(rows), "total_cpu, memory_used", "steps") == [(18600, 2 * GIB)]


def test_trap_017_a_job_has_the_state_of_its_own_row(tmp_path: Path) -> None:
    dump = "JobID|State|ExitCode\n94|TIMEOUT|0:0\n94.batch|CANCELLED|0:9\n94.0|CANCELLED|0:9\n"
    assert asked(tmp_path, dump, "state, exit_signal") == [("TIMEOUT", 0)]
    assert asked(tmp_path, dump, "state, exit_signal", "steps") == [("CANCELLED", 9)] * 2


def test_trap_019_both_halves_of_the_exit_code_are_kept(tmp_path: Path) -> None:
    codes = ["0:125", "0:9", "3:0", "0:15", ""]
    assert of_texts(tmp_path, "ExitCode", codes, "exit_code, exit_signal") == [
        (0, 125),
        (0, 9),
        (3, 0),
        (0, 15),
        (None, None),
    ]


def test_trap_025_tasks_that_wait_together_are_counted(tmp_path: Path) -> None:
    ids = {
        "5_[1%1]": 1, "12_[60-89,91-94,96-98]": 37, "41_[0,4,8,12]": 4, "123_[9201-10000%500]": 800,
        "188_[1-99:2]": 50, "4400_[5-100]": 96,
    }  # fmt: skip
    dump = "JobID\n" + "\n".join(ids) + "\n"
    got = asked(tmp_path, dump, "array_job, array_task, array_tasks")
    assert got == [(int(name.split("_")[0]), None, count) for name, count in ids.items()]


def test_trap_025_one_task_is_one_and_tasks_have_numbers_of_their_own(tmp_path: Path) -> None:
    dump = "JobID\n123_7\n123_8\n"
    assert asked(tmp_path, dump, "array_job, array_task, array_tasks") == [(123, 8, 1), (123, 7, 1)]
    assert len(set(asked(tmp_path, dump, "job_number"))) == 2


def test_trap_028_ids_of_steps_of_every_kind(tmp_path: Path) -> None:
    steps = ["123.batch", "123.extern", "123.interactive", "123.0", "123_4.batch", "123_4.0", "159+1.0"]
    got = asked(tmp_path, "JobID\n" + "\n".join(steps) + "\n", "job_id, step", "steps")
    assert sorted(got) == sorted(tuple(step.split(".")) for step in steps)
    assert asked(tmp_path, "JobID\n" + "\n".join(steps) + "\n", "job_id") == []


def test_trap_029_components_of_a_het_job_keep_their_own_numbers(tmp_path: Path) -> None:
    dump = "JobID|JobIDRaw\n159+0|159\n159+1|160\n"
    right = [("159+0", 159, 159, 0), ("159+1", 160, 159, 1)]
    assert asked(tmp_path, dump, "job_id, job_number, het_job, het_offset") == right


def test_trap_030_every_attempt_counts_and_has_its_own_steps(tmp_path: Path) -> None:
    row = {"JobID": "83", "NodeList": "n1"}
    first = row | {"Submit": "2026-01-01T16:28:50", "Start": "2026-01-01T16:28:55", "ElapsedRaw": "4"}
    second = row | {"Submit": "2026-01-01T16:29:00", "Start": "2026-01-01T16:31:00", "ElapsedRaw": "60"}
    lost = {"JobID": "83.0", "Start": "Unknown"}
    rows = [first, first | {"JobID": "83.batch"}, first | lost, second, second | {"JobID": "83.batch"}]
    assert sum(asked(tmp_path, text_of(rows), "elapsed")) == 64
    got = asked(tmp_path, text_of(rows), "step, job_submit_time, job_start_time", "steps")
    times = [
        (datetime.fromisoformat(one["Submit"] + "+00:00"), datetime.fromisoformat(one["Start"] + "+00:00"))
        for one in (first, second)
    ]
    assert got == [("0", *times[0]), ("batch", *times[0]), ("batch", *times[1])]


def test_trap_033_a_number_that_comes_again_is_another_attempt(tmp_path: Path) -> None:
    rows = [
        {"JobID": "120", "User": user, "Submit": time}
        for user, time in (("old", "2018-02-01T10:00:00"), ("new", "2026-05-04T09:00:00"))
    ]
    assert sorted(asked(tmp_path, text_of(rows), '"user"')) == ["new", "old"]


def test_trap_038_suspended_time_is_not_charged(tmp_path: Path) -> None:
    row = {
        "JobID": "145", "Start": "2026-01-01T16:37:08", "End": "2026-01-01T16:37:28",
        "Elapsed": "00:00:14", "Suspended": "00:00:06", "NodeList": "n1",
    }  # fmt: skip
    got = asked(tmp_path, text_of([row]), "elapsed, suspended, until_time = end_time, problems")
    assert got == [(14, 6, True, None)]


def test_trap_038_a_job_that_runs_is_known_until_what_it_ran_and_was_suspended(tmp_path: Path) -> None:
    row = {
        "JobID": "145", "Start": "2026-01-01T00:00:00", "End": "Unknown", "ElapsedRaw": "100",
        "Suspended": "00:00:20", "State": "RUNNING", "NodeList": "n1",
    }  # fmt: skip
    got = asked(tmp_path, text_of([row]), "end_time, until_time")
    assert got == [(None, datetime(2026, 1, 1, 0, 2, tzinfo=UTC))]


def test_trap_039_a_clock_that_goes_back_makes_no_negative_time(tmp_path: Path) -> None:
    row = {
        "JobID": "1", "Start": "2024-11-03T01:50:00", "End": "2024-11-03T01:10:00", "ElapsedRaw": "1200",
        "NodeList": "n1",
    }  # fmt: skip
    lasted = "epoch(until_time) - epoch(start_time), epoch(end_time) - epoch(start_time)"
    (got,) = asked(
        tmp_path, text_of([row]), f"elapsed, {lasted}, problems", zone=ZoneInfo("America/New_York")
    )
    assert got == (1200, 1200, 1200, "End=2024-11-03T01:10:00")


def test_trap_041_times_for_people_are_told_as_unread(tmp_path: Path) -> None:
    times = ["16:26:22", "Ystday 09:10"]
    assert of_texts(tmp_path, "Submit", times, "submit_time, problems") == [
        (None, "Submit=16:26:22"),
        (None, "Submit=Ystday 09:10"),
    ]


def test_trap_042_typed_and_untyped_gpus_together_count_once(tmp_path: Path) -> None:
    texts = [
        "billing=1,cpu=1,gres/gpu:a100=2,gres/gpu=2,mem=50M,node=1",
        "gres/gpu:a100=2,gres/gpu:h100=1,gres/gpu=3",
        "gres/gpu=8,gres/gpu:a100=8",
        "cpu=1,gres/gpu=4",
        "cpu=1,mem=1G",
    ]
    right = [(2, "a100"), (3, "a100=2,h100=1"), (8, "a100"), (4, ""), (0, None)]
    assert tres(tmp_path, texts, "gpus, gpu_type") == right


def test_trap_043_typed_gpus_alone_are_summed(tmp_path: Path) -> None:
    text = "cpu=4,gres/gpu:nvidia_geforce_rtx_2080_ti=1,gres/gpu:v100=2,mem=8G,node=1"
    assert tres(tmp_path, [text], "gpus, gpu_type") == [(3, "nvidia_geforce_rtx_2080_ti=1,v100=2")]


def test_trap_044_mig_types_have_dots(tmp_path: Path) -> None:
    texts = ["gres/gpu:a100_1g.5gb=1,gres/gpu=1", "gres/gpu:nvidia_h100_80gb_hbm3_4g.40gb=2"]
    right = [(1, "a100_1g.5gb"), (2, "nvidia_h100_80gb_hbm3_4g.40gb")]
    assert tres(tmp_path, texts, "gpus, gpu_type") == right


def test_trap_046_energy_is_joules_and_marks_for_nothing_are_none(tmp_path: Path) -> None:
    raw = ["4580000", "18446744073709551614", "18446744073709551615", "4294967294", "0"]
    assert of_texts(tmp_path, "ConsumedEnergyRaw", raw, "energy") == [4580000, None, None, None, None]
    assert of_texts(tmp_path, "ConsumedEnergy", ["101.63K", "4.58M", "0"], "energy") == [
        101630,
        4580000,
        None,
    ]


def test_trap_047_steps_are_no_jobs(tmp_path: Path) -> None:
    row = {"ElapsedRaw": "19", "AllocTRES": "cpu=4,gres/gpu=4", **RAN}
    rows = [{"JobID": name, **row} for name in ("143", "143.batch", *(f"143.{n}" for n in range(10)))]
    assert asked(tmp_path, text_of(rows), "gpus * elapsed") == [4 * 19]
    assert len(asked(tmp_path, text_of(rows), "*", "steps")) == 11


def test_trap_048_what_runs_far_beyond_its_limit_is_a_runaway(tmp_path: Path) -> None:
    row = {"State": "RUNNING", "End": "Unknown", **RAN}
    cases = [("275-00:00:00", "1-00:00:00", True), ("275-00:00:00", "UNLIMITED", False)]
    cases += [("1-12:00:00", "1-00:00:00", False), ("2-00:00:01", "1-00:00:00", True)]
    rows = [row | {"Elapsed": elapsed, "Timelimit": limit} for elapsed, limit, _ in cases]
    got = asked(tmp_path, text_of(list(numbered(rows))), "is_runaway")
    assert got == [right for *_, right in cases]


def test_trap_050_every_state_is_known_as_final_or_not(tmp_path: Path) -> None:
    names = [state.name for state in JOB_STATES]
    got = of_texts(tmp_path, "State", names, "state, is_final", End="2026-01-01T00:00:00")
    open_yet = {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "STAGE_OUT", "CONFIGURING", "STOPPED"}
    open_yet |= {"EXPEDITING", "SIGNALING", "RESV_DEL_HOLD"}
    assert got == [(name, name not in open_yet) for name in names]


def test_trap_050_a_state_that_nobody_knows_is_final_once_it_has_an_end(tmp_path: Path) -> None:
    rows = [
        {"State": state, "End": end}
        for state in ("WHATEVER", "REQUEUED", "PREEMPTED", "NODE_FAIL")
        for end in ("Unknown", "2026-01-01T00:00:00")
    ]
    got = asked(tmp_path, text_of(list(numbered(rows))), "state, is_final")
    assert got == [(row["State"], row["End"] != "Unknown") for row in rows]


def test_trap_070_shards_are_no_gpus(tmp_path: Path) -> None:
    texts = ["cpu=2,gres/gpu=1,gres/shard=4,mem=8G", "cpu=2,gres/shard=4", "gres/shard:a100=3"]
    assert tres(tmp_path, texts, "gpus, shards, gpu_type") == [(1, 4, ""), (0, 4, None), (0, 3, None)]


def test_old_slurm_tells_gpus_in_allocgres_alone(tmp_path: Path) -> None:
    lists = {
        "gpu:4": (4, ""), "gpu:a100:2": (2, "a100"), "gpu": (1, ""), "gpu:h100:3(IDX:0,4-5)": (3, "h100"),
        "gpu:turing:1,gpu:ampere:3": (4, "ampere=3,turing=1"), "gpu:tesla:no_consume:2": (2, "tesla"),
        "craynetwork:1": (0, None), "": (0, None),
    }  # fmt: skip
    got = of_texts(tmp_path, "AllocGRES", list(lists), "gpus, gpu_type", AllocTRES="cpu=1,mem=1G", **RAN)
    assert got == list(lists.values())


def test_memory_that_no_node_has_is_unread(tmp_path: Path) -> None:
    got = tres(tmp_path, ["mem=62.50G", "mem=2147486648M", "mem=1000"], "memory, problems")
    assert got == [
        (64000 * MIB, None),
        (None, "AllocTRES=mem=2147486648M"),
        (1000 * MIB, None),
    ]


def test_what_a_dump_does_not_tell_is_null_and_not_zero(tmp_path: Path) -> None:
    dump = text_of([{"JobID": "1", "State": "COMPLETED", **RAN}])
    assert asked(tmp_path, dump, "gpus, cpus, memory, billing, shards, total_cpu") == [(None,) * 6]


def test_a_job_may_be_called_none(tmp_path: Path) -> None:
    assert of_texts(tmp_path, "JobName", ["None", "Unknown", "12"], "name") == ["None", "Unknown", "12"]
