"""The few figures of statistics that reports need, exact where they are said to be."""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

STEPS = 200
"""Halvings after which an interval is as narrow as floats are."""


class Stratum(NamedTuple):
    """Cases that can be compared: `marked` of `total` have a property, and `drawn` of them are looked at."""

    total: int
    marked: int
    drawn: int


def hypergeometric(stratum: Stratum) -> tuple[int, NDArray[np.float64]]:
    """How likely it is that chance alone marks 0, 1, ... of those drawn: the first that can be, and on."""
    import numpy as np

    total, marked, drawn = stratum
    lowest, highest = max(0, drawn + marked - total), min(drawn, marked)
    first = (
        _log_choose(marked, lowest) + _log_choose(total - marked, drawn - lowest) - _log_choose(total, drawn)
    )
    at = np.arange(lowest, highest, dtype=np.float64)
    ratios = np.log((marked - at) * (drawn - at) / ((at + 1) * (total - marked - drawn + at + 1)))
    return lowest, np.exp(first + np.concatenate(([0.0], np.cumsum(ratios))))


def upper_tail(strata: Sequence[Stratum], seen: int) -> float:
    """How likely chance alone marks `seen` or more of those drawn in all strata together.

    Exact: the sum of independent hypergeometric numbers. With one stratum it is Fisher's one-sided test
    (R. A. Fisher, The Design of Experiments, 1935), with several the exact test of Mantel and Haenszel's
    setting (Journal of the National Cancer Institute 22, 1959).
    """
    import numpy as np

    each = [hypergeometric(stratum) for stratum in strata]
    lowest, sums = sum(least for least, _ in each), [likely for _, likely in each]
    while len(sums) > 1:  # two and two: short ones with short ones
        pairs = zip(sums[::2], sums[1::2], strict=False)
        sums = [np.convolve(*pair) for pair in pairs] + sums[len(sums) // 2 * 2 :]
    likely = sums[0] if sums else np.ones(1)
    return min(1.0, float(likely[max(seen - lowest, 0) :].sum()))


def benjamini_hochberg(probabilities: Sequence[float]) -> list[float]:
    """Each p-value as the smallest rate of false discoveries at which it counts.

    Y. Benjamini, Y. Hochberg, Journal of the Royal Statistical Society B 57 (1995): the step-up procedure.
    """
    count = len(probabilities)
    ranked = sorted(range(count), key=probabilities.__getitem__, reverse=True)
    adjusted = [1.0] * count
    least = 1.0
    for below, place in enumerate(ranked):
        least = min(least, probabilities[place] * count / (count - below))
        adjusted[place] = least
    return adjusted


def poisson_interval(count: int, level: float = 0.9) -> tuple[float, float]:
    """Between which rates the true one lies, where `count` events were seen; exact, both tails equal.

    F. Garwood, Biometrika 28 (1936).
    """
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else _rate(count - 1, 1 - tail)
    return low, _rate(count, tail)


def _rate(count: int, probability: float) -> float:
    """The rate at which so many events or fewer come with that probability."""
    low, high = 0.0, count + 10 * sqrt(count + 1) + 10
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _at_most(count, middle) > probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _at_most(count: int, rate: float) -> float:
    """The probability of so many Poisson events or fewer, summed from the likeliest term down."""
    if rate <= 0:
        return 1.0
    term = exp(count * log(rate) - rate - lgamma(count + 1))
    if count > rate:  # the upper tail is the smaller one
        total, number = 0.0, count
        while True:
            number += 1
            term *= rate / number
            total += term
            if term <= total * 1e-17:
                return 1.0 - total
    total, number = 0.0, count
    while number >= 0 and term > total * 1e-17:
        total += term
        term *= number / rate
        number -= 1
    return total


def gini(values: Sequence[float]) -> float | None:
    """How uneven shares are: 0 where all are equal, near 1 where one has all. None without any.

    C. Gini, 1912, as half the mean difference of all pairs in parts of the mean.
    """
    ranked = sorted(values)
    whole, count = sum(ranked), len(ranked)
    if not whole:
        return None
    return sum((2 * place - count - 1) * value for place, value in enumerate(ranked, 1)) / (count * whole)


def jain(values: Sequence[float]) -> float | None:
    """How even shares are: 1 where all are equal, 1/n where one of n has all. None without any.

    R. Jain, D. Chiu, W. Hawe, A quantitative measure of fairness, DEC-TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def _log_choose(count: int, chosen: int) -> float:
    return lgamma(count + 1) - lgamma(chosen + 1) - lgamma(count - chosen + 1)
