"""Each row is in exactly one partition, whatever the key, with every strategy and backend.

Listing, ordering, partitioning, selecting and deleting must agree on which values are equal.
Planning rejects a key that a strategy cannot partition by.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from penstock import CopySpec, PartitionPlan, PlanningError
from penstock.engine.connections import connect
from penstock.planning.asking.rounds import plan_table
from penstock.planning.request import PlanRequest
from penstock.spec.degrees import Streams
from penstock.spec.modes import APPEND, REPLACE
from penstock.spec.strategies import HASH, NTILE, RANGE, TIME, VALUES

from .copying import Pair
from .database import Database
from .key_tables import KeyTable
from .keys import KEYS, Keys, keys_in_batches

# Each example has different values, and a different choice of keys.
EXAMPLES = int(os.environ.get("PENSTOCK_KEY_EXAMPLES", "1"))
ROWS = 40
CUTS: tuple[dict[str, Any], ...] = (
    {"strategy": RANGE.name, "partitions": 9},
    {"strategy": NTILE.name, "partitions": 9},
    {"strategy": VALUES.name},
    {"strategy": HASH.name, "partitions": 4},
    {"strategy": TIME.name, "interval": "1000 years"},
)


@pytest.fixture(params=KEYS)
def name(request: pytest.FixtureRequest) -> str:
    """Return each backend with hard keys in turn."""
    found: str = request.param
    return found


class Example:
    """Two databases of one backend, with a table in which each column is a key."""

    def __init__(self, keys: Keys, pair: Pair, chance: random.Random) -> None:
        self._keys, self._pair = keys, pair
        self._chance = chance
        known = pair.mine.backend.source_capabilities.strategies
        self._cuts = [cut for cut in CUTS if cut["strategy"] in {each.name for each in known}]
        self.theirs = KeyTable(pair.theirs, self._keys)
        KeyTable(pair.mine, self._keys).fill(ROWS, chance)
        if pair.theirs.needs_table:
            self.theirs.make()
        # Opened once for many plans.
        self._ends = connect(pair.ends["source"], pair.ends["target"])
        self._source = self._ends.open_source()
        self._target = self._ends.open_target("penstock")

    def close(self) -> None:
        self._source.close()
        self._target.close()

    @property
    def modes(self) -> Sequence[str]:
        able = self._pair.theirs.backend.target_capabilities.modes
        return [mode.name for mode in (APPEND, REPLACE) if mode in able]

    def plans(self) -> Iterator[tuple[CopySpec, PartitionPlan]]:
        """Yield plans by some of the keys, with each strategy that accepts the key."""
        keys = [*self._keys.columns, *self._keys.expressions]
        for key in self._chance.sample(keys, min(len(keys), self._keys.drawn)):
            for cut in self._cuts:
                spec = self._pair.spec(key=key, mode=self._chance.choice(self.modes), **cut)
                try:
                    able = self._ends.capabilities
                    request = PlanRequest.of(spec, Streams(1, 1), "example", able)
                    plan = plan_table(request, self._source, self._target)
                except PlanningError:
                    continue
                yield spec, plan

    def wrong(self, spec: CopySpec, plan: PartitionPlan) -> str:
        """Return the rows that are not in exactly one partition."""
        pairs = [each for each in plan.pairs if each.source == "id"]
        found = Counter(
            int(row)
            for partition in plan.partitions
            for row, _ in self._source.row_digests(
                spec.relation, spec.where, partition.extent, pairs, ["id"]
            )
        )
        expected = Counter(range(ROWS))
        if found == expected:
            return ""
        return (
            f"{spec.key} by {spec.strategy} in mode {spec.mode}: missing "
            f"{sorted(expected - found)}, several times {sorted(found - expected)}"
        )


@pytest.fixture(params=range(EXAMPLES))
def example(
    name: str, request: pytest.FixtureRequest, open_database: Callable[[str], Database]
) -> Iterator[Example]:
    pair = Pair(open_database(name), open_database(name))
    with closing(Example(KEYS[name], pair, random.Random(request.param))) as opened:
        yield opened


def test_each_row_is_in_one_partition(example: Example) -> None:
    planned = list(example.plans())
    assert planned
    found = [example.wrong(spec, plan) for spec, plan in planned]
    assert [each for each in found if each] == []


def test_each_row_arrives_once(name: str, open_database: Callable[[str], Database]) -> None:
    """Mode replace runs over rows that were loaded by another key; append adds to them."""
    chance = random.Random(EXAMPLES)
    pair = Pair(open_database(name), open_database(name))
    with closing(Example(keys_in_batches(name), pair, chance)) as example:
        specs: dict[str, list[CopySpec]] = {mode: [] for mode in example.modes}
        for spec, _ in example.plans():
            specs[spec.mode].append(spec)
    replacing = chance.sample(specs.get(REPLACE.name, []), 2) if REPLACE.name in specs else []
    if not pair.theirs.backend.target_capabilities.replaces_by_condition:
        # Replace only replaces rows that the same partition has loaded.
        replacing = replacing[:1] * 2
    for spec in replacing:
        pair.copy(**chosen(spec))
        assert example.theirs.ids() == list(range(ROWS)), spec
    (spec,) = chance.sample(specs[APPEND.name], 1)
    pair.copy(**chosen(spec))
    times = 2 if replacing else 1
    assert example.theirs.ids() == sorted([*range(ROWS)] * times), spec


def chosen(spec: CopySpec) -> dict[str, Any]:
    names = ("strategy", "key", "mode", "partitions", "interval")
    return {name: getattr(spec, name) for name in names}
