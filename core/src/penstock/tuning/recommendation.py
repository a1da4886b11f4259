"""Which setting to take: the smallest that is about as fast as the fastest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from penstock.tuning.measurements import Figures, Recommendation

TOLERANCE = 0.05
"""Share of the fastest's time that does not count."""
# Seconds that starting and ending a copy may take more or less, by chance.
CHANCE = 0.3
# Beyond that measurements say little, and must not make everything equal.
MOST_NOISE = 0.25


def recommend(found: Sequence[Figures]) -> Recommendation:
    """
    Parameters:
        found: at least one.
    """
    fastest = min(found, key=lambda each: each.seconds)
    noise = noise_of(found)
    tolerance = max(TOLERANCE, noise, CHANCE / max(fastest.seconds, 0.001))
    near = [each for each in found if each.seconds <= fastest.seconds * (1 + tolerance)]
    # Fewer options first: each is a price to pay, in case of a crash or while the copy runs.
    best = min(near, key=lambda each: (len(each.setting.options), each.setting.degree))
    return Recommendation(best.setting, _reason(found, fastest, best, noise))


def noise_of(found: Sequence[Figures]) -> float:
    """How far times of one setting are from their median, as a share of it; 0 where each was
    tried once."""
    shares = [
        (each.most - each.least) / 2 / each.seconds
        for each in found
        if len(each.copies) > 1 and each.seconds > 0
    ]
    return min(median(shares), MOST_NOISE) if shares else 0.0


def _reason(found: Sequence[Figures], fastest: Figures, best: Figures, noise: float) -> str:
    rate = f"{best.bytes_a_second / 1e6:,.1f} MB/s"
    varies = f", and times vary by {noise:.0%}" if noise > TOLERANCE else ""
    if best is not fastest:
        more = best.seconds / max(fastest.seconds, 0.001) - 1
        return f"{rate}; {fastest.setting} is the fastest, by only {more:.0%}{varies}"
    others = [each for each in found if each is not best]
    if not others:
        return f"{rate}; nothing else was tried"
    second = min(others, key=lambda each: each.seconds)
    more = second.seconds / max(best.seconds, 0.001) - 1
    return f"{rate}, the fastest; next {second.setting}, which takes {more:.0%} longer{varies}"
