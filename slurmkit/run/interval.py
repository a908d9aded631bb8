"""How often to save: what failures, restarts and the saving itself leave of the time, and the best interval.

Pure; times in seconds, rates in failures a second. Sources: Kokolis et al., "Revisiting Reliability in
Large-Scale Machine Learning Research Clusters" (arXiv:2410.21680, HPCA 2025), for the expected effective
training time ratio and the interval that is best by it; that interval is Young's ("A first order
approximation to the optimum checkpoint interval", CACM 17, 1974) with 1 / (N r_f) between two failures.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from slurmkit.run.sentences import duration, seconds

if TYPE_CHECKING:
    from slurmkit.run.cost import Cost

DAY = 86400.0
FEWEST_FAILURES = 2
"""With fewer, the time between them says nothing."""
WORTH_SAYING = 0.01
"""A gain in ETTR below this is none: the best interval is a broad one."""


def failure_rate(nodes: float, per_node_day: float) -> float:
    """Failures a second of a job on so many nodes: N r_f, with r_f in failures a day and node."""
    return nodes * per_node_day / DAY


def expected_ettr(*, rate: float, restart: float, interval: float, write: float) -> float:
    """E[ETTR] = (1 - N r_f (u0 + dt / 2)) / (1 + w / dt), without the time in the queue.

    `rate` is N r_f; `restart` u0, what passes from a failure until it computes again; `interval` dt, from one
    checkpoint to the next; `write` w, for which saving one stops the training. Each failure costs a restart
    and on average half an interval. The formula is low where failures come nearly as often as checkpoints;
    here it is never below 0.
    """
    kept = 1 - rate * (restart + interval / 2)
    return max(kept, 0.0) / (1 + write / interval)


def best_interval(*, rate: float, write: float) -> float:
    """The interval at which failures and saving cost least: sqrt(2 w / (N r_f)), for w far below it."""
    return sqrt(2 * write / rate)


def best_for(cost: Cost) -> float | None:
    """The best interval for the failures of a run; None where there are too few, or saving is not told of."""
    if cost.failures < FEWEST_FAILURES or not cost.mtbf or not cost.write:
        return None
    return best_interval(rate=1 / cost.mtbf, write=cost.write)


def advice(cost: Cost) -> str | None:
    """The interval in use against the best one for the failures seen; None where no checkpoint was seen."""
    if cost.interval is None:
        return None
    used = f"a checkpoint every {duration(cost.interval)}"
    if cost.failures < FEWEST_FAILURES or not cost.mtbf:
        return f"{used}; too few failures to tell the best interval"
    seen = f"a failure every {duration(cost.mtbf)}"
    if not cost.write or (best := best_for(cost)) is None:
        return f'{used}, {seen}; how long saving takes is not known: mark it as the phase "checkpoint"'
    ratios = [
        expected_ettr(rate=1 / cost.mtbf, restart=cost.restart or 0.0, interval=interval, write=cost.write)
        for interval in (cost.interval, best)
    ]
    told = f"{used}, {seconds(cost.write)} each, and {seen}: "
    if ratios[1] - ratios[0] < WORTH_SAYING:
        return f"{told}near the best interval, {duration(best)} (expected ETTR {ratios[1]:.2f})"
    gain = f"expected ETTR {ratios[1]:.2f} instead of {ratios[0]:.2f}"
    return f"{told}every {duration(best)} would be best ({gain})"
