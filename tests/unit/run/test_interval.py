"""The golden numbers of the paper's formulas; the last digits were computed by hand."""

from __future__ import annotations

import pytest

from slurmkit.run.interval import best_interval, expected_ettr, failure_rate

MINUTE = 60.0


def test_a_job_on_16000_gpus_fails_every_two_hours() -> None:
    assert 1 / failure_rate(2048, 6.5e-3) / 3600 == pytest.approx(1.80, abs=0.005)
    assert 1 / failure_rate(1, 6.5e-3) / 86400 == pytest.approx(153.8, abs=0.1)


@pytest.mark.parametrize(("interval", "expected"), [(60, 0.684), (5, 0.932)])
def test_saving_without_cost_on_16000_gpus(interval: float, expected: float) -> None:
    rate = failure_rate(2000, 6.5e-3)
    ettr = expected_ettr(rate=rate, restart=5 * MINUTE, interval=interval * MINUTE, write=0)
    assert ettr == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("per_node_day", "write", "interval", "expected"),
    [(6.5e-3, 5 * MINUTE, 38.4, 0.740), (6.5e-3, 10, 7.0, 0.921), (1e-3, 5 * MINUTE, 98, 0.898)],
)
def test_the_best_interval_on_12000_gpus(
    per_node_day: float, write: float, interval: float, expected: float
) -> None:
    rate = failure_rate(1500, per_node_day)
    best = best_interval(rate=rate, write=write)
    assert best / MINUTE == pytest.approx(interval, abs=0.06)
    ettr = expected_ettr(rate=rate, restart=5 * MINUTE, interval=best, write=write)
    assert ettr == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_half_and_twice_the_best_interval_are_worse(factor: float) -> None:
    rate = failure_rate(8, 6.5e-3)
    best = best_interval(rate=rate, write=30)
    assert expected_ettr(rate=rate, restart=0, interval=best, write=30) > expected_ettr(
        rate=rate, restart=0, interval=best * factor, write=30
    )


def test_where_failures_outrun_the_checkpoints_nothing_is_left_and_no_less() -> None:
    assert expected_ettr(rate=1 / 60, restart=300, interval=600, write=0) == 0.0
