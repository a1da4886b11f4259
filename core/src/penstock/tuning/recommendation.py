"""The recommended setting: the smallest one that is about as fast as the fastest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from penstock.tuning.measurements import Figures, Recommendation

TOLERANCE = 0.05
"""The difference from the fastest time that is ignored, as a share of that time."""
# Seconds by which starting and ending a copy may vary by chance.
CHANCE = 0.3
# With more noise, measurements say little, and must not make all settings equal.
MOST_NOISE = 0.25


def recommend(figures: Sequence[Figures]) -> Recommendation:
    """Return the recommended setting, with the reasons.

    Args:
        figures: the measurements by setting; at least one.
    """
    fastest = min(figures, key=lambda each: each.seconds)
    noise = noise_of(figures)
    tolerance = max(TOLERANCE, noise, CHANCE / max(fastest.seconds, 0.001))
    near = [each for each in figures if each.seconds <= fastest.seconds * (1 + tolerance)]
    # Prefer fewer options: each has a price, in a crash or while the copy runs.
    best = min(near, key=lambda each: (len(each.setting.options), each.setting.degree))
    return Recommendation(best.setting, _reason(figures, fastest, best, noise))


def noise_of(figures: Sequence[Figures]) -> float:
    """Return how far the times of one setting are from their median, as a share of it.

    The result is 0 if each setting was tried once.
    """
    shares = [
        (each.most - each.least) / 2 / each.seconds
        for each in figures
        if len(each.copies) > 1 and each.seconds > 0
    ]
    return min(median(shares), MOST_NOISE) if shares else 0.0


def _reason(figures: Sequence[Figures], fastest: Figures, best: Figures, noise: float) -> str:
    rate = f"{best.bytes_a_second / 1e6:,.1f} MB/s"
    varies = f", and times vary by {noise:.0%}" if noise > TOLERANCE else ""
    if best is not fastest:
        more = best.seconds / max(fastest.seconds, 0.001) - 1
        return f"{rate}; {fastest.setting} is fastest, but only by {more:.0%}{varies}"
    alternatives = [each for each in figures if each is not best]
    if not alternatives:
        return f"{rate}; the only setting tried"
    second = min(alternatives, key=lambda each: each.seconds)
    more = second.seconds / max(best.seconds, 0.001) - 1
    return f"{rate}, the fastest; next: {second.setting}, {more:.0%} slower{varies}"
