"""Partitions that several executions of a run take: each takes those that are left.

An execution begins at a random partition, and takes one after another. Once it comes to one that
another execution has, those that follow are probably the other's, too: it goes on elsewhere.

A partition that another execution is copying is *taken*. It is put behind all others, and tried
again later, since that execution may be killed. After a taken or committed one, the commit records
are read again, and what is committed is dropped. After a few taken ones in a row, nearly all that
is left is taken, so the execution rests for a while.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from penstock.errors import TooManyLosses
from penstock.events import Event

Key = tuple[str, str]
"""A run and one of its partitions."""
T = TypeVar("T")

# After this many taken partitions in a row the execution rests.
TAKEN_IN_ROW = 3
# Partitions of similar size: the largest is at most this many times the average.
SIMILAR = 1.5
# Seconds of a rest, at first and after a while, and between two looks at the commit records.
FIRST_REST, LONGEST_REST = 0.25, 3.0
LOOK_EVERY = 0.25
# After this many grace times a taken partition is waited for, which ends an attempt that makes no
# progress.
GRACES = 3.0
# Seconds for which an execution waits for a connection that others have, and the longest pause.
ROOM_PATIENCE, ROOM_PAUSE = 300.0, 10.0


class Sharing:
    """What one execution knows of the others that take partitions of the same runs.

    Args:
        committed: reads which partitions are committed.
        losses: reads how often others have lost a process or a worker at a partition.
        tell: reports a wait for partitions that others are copying; none of them end the wait.
        clock: returns seconds, as `time.monotonic` does.
        chance: draws the order of the partitions, and the lengths of pauses.
    """

    def __init__(
        self,
        committed: Callable[[], Collection[Key]],
        losses: Callable[[], Mapping[Key, float]] = dict,
        tell: Callable[[Sequence[Key]], Iterable[Event]] = lambda keys: (),
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._committed = committed
        self._losses = losses
        self.tell = tell
        self._clock = clock
        self._chance = chance or random.Random()
        self._missed = self._keeps_order = False
        self._taken_in_row = self._rests = 0
        self._looked = self._rests_until = clock()
        self._full_since: float | None = None
        self._taken: dict[Key, float] = {}
        """Partitions that were found taken, and when first."""

    def order(self, items: Sequence[T], weight: Callable[[T], float]) -> list[T]:
        """Return items in the order in which this execution tries them.

        If they are of similar weight, neighbours stay neighbours: see `turn`. Otherwise the order
        is random, and large ones tend to come first, so that none of them is the last.
        """
        weights = [max(1.0, weight(item)) for item in items]
        self._keeps_order = max(weights, default=0.0) * len(items) <= SIMILAR * sum(weights)
        if self._keeps_order:
            return self.turn(items)
        drawn = [(self._chance.expovariate(each), place) for place, each in enumerate(weights)]
        return [items[place] for _, place in sorted(drawn)]

    def turn(self, items: Sequence[T]) -> list[T]:
        """Return items from a random one on, in their order, and then those before it."""
        start = self._chance.randrange(len(items)) if items else 0
        return [*items[start:], *items[:start]]

    def elsewhere(self, items: Iterable[T], key: Callable[[T], Key]) -> list[T]:
        """Return the items that are left in another order, after one that another execution had.

        Those that were found taken come last.
        """
        fresh: list[T] = []
        taken: list[T] = []
        for item in items:
            (taken if key(item) in self._taken else fresh).append(item)
        return [*(self.turn(fresh) if self._keeps_order else fresh), *taken]

    def note_taken(self, key: Key) -> None:
        """Note that a partition is taken."""
        self._full_since = None
        self._taken.setdefault(key, self._clock())
        self._missed = True
        self._taken_in_row += 1
        if self._taken_in_row >= TAKEN_IN_ROW:
            longest = min(LONGEST_REST, FIRST_REST * 2.0**self._rests)
            self._rests_until = self._clock() + longest * self._chance.uniform(0.5, 1.0)
            self._rests += 1
            self._taken_in_row = 0

    def note_missed(self) -> None:
        """Note that a partition was found committed."""
        self._full_since = None
        self._missed = True
        self._taken_in_row = 0

    def note_moved(self) -> None:
        """Note that a partition was neither taken nor committed."""
        self._taken_in_row = self._rests = 0
        self._full_since = None

    def wait_for_room(self) -> bool:
        """Rest because a server has no connection left; return False after too long a time.

        Other executions have the connections, and some of them will end.
        """
        now = self._clock()
        self._full_since = now if self._full_since is None else self._full_since
        self._rests_until = now + ROOM_PAUSE * self._chance.uniform(0.2, 1.0)
        return now - self._full_since < ROOM_PATIENCE

    @property
    def rest(self) -> float:
        """The seconds until the next partition may be tried."""
        return max(0.0, self._rests_until - self._clock())

    def is_overdue(self, key: Key, grace: float) -> bool:
        """Whether a partition has been taken for so long that it should be waited for.

        Args:
            key: the partition.
            grace: the seconds after which an attempt without progress is ended.
        """
        if key not in self._taken:
            return False
        return self._clock() - self._taken[key] > GRACES * grace

    def wait_again(self, key: Key) -> None:
        """Note that a taken partition is waited for; if it is taken again, that counts anew."""
        self._taken.pop(key, None)

    def poisonous(self, tries: Mapping[Key, tuple[int, int]]) -> Mapping[Key, TooManyLosses]:
        """Return the partitions at which so many processes were lost that none should try again.

        Something that a partition reads or writes may end whoever copies it: without a common
        count, each process would be lost at it as often as one may.

        Args:
            tries: by partition, how often this execution was lost at it, and how often it may be
                tried in all.
        """
        losses = self._losses()
        return {
            key: _poisonous(key)
            for key, (mine, most) in tries.items()
            if losses.get(key, 0.0) + mine >= most
        }

    def look(self) -> Collection[Key] | None:
        """Return the committed partitions if it is time to look again; otherwise None."""
        if not self._missed or self.rest:
            return None
        now = self._clock()
        if now - self._looked < LOOK_EVERY:
            return None
        self._missed, self._looked = False, now
        return self._committed()


def _poisonous(key: Key) -> TooManyLosses:
    run_id, partition_id = key
    return TooManyLosses(
        f"partition {partition_id}: too many processes were lost while they copied it, on this "
        "machine or others, so penstock work leaves it: find out what ended them (memory?), then "
        f"copy it by itself with penstock resume {run_id} --target URL --only {partition_id}"
    )
