"""Combinations of values for parameters: a few that cover them, in place of the product.

With `PENSTOCK_CONTRACT_MATRIX=all`, tests run the product.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

EVERY = os.environ.get("PENSTOCK_CONTRACT_MATRIX") == "all"


def each_value(first: Iterable[Any], second: Iterable[Any], rounds: int = 1) -> list[Any]:
    """Return combinations in which every value of both dimensions occurs.

    Args:
        first: the values of a parameter.
        second: those of another.
        rounds: how many values of the shorter dimension each value of the longer one meets.
    """
    one, other = list(first), list(second)
    if EVERY:
        return list(product(one, other))
    longest = max(len(one), len(other))
    return [
        (one[place % len(one)], other[(place + turn) % len(other)])
        for turn in range(rounds)
        for place in range(longest)
    ]


def each_pair(*dimensions: Iterable[Any]) -> list[Any]:
    """Return combinations in which each two values of different dimensions occur together.

    Args:
        dimensions: the values of three or more parameters.
    """
    values = [list(each) for each in dimensions]
    every = list(product(*(range(len(each)) for each in values)))
    pairs = {places: set(combinations(enumerate(places), 2)) for places in every}
    missing = set().union(*pairs.values())
    found = every if EVERY else []
    while missing and not EVERY:
        best = max(every, key=lambda places: len(missing & pairs[places]))
        missing -= pairs[best]
        found.append(best)
    return [tuple(each[p] for each, p in zip(values, places, strict=True)) for places in found]
