"""Executions that take partitions of one run, simulated: claims, kills, late commits, leases."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from penstock.backends.roll_forward.leases import Leases
from penstock.errors import TooManyLosses
from penstock.model.journal import Journal, losses_of
from penstock.workers.sharing import Key, Sharing

from .memory_documents import Documents

TRY_SECONDS = 0.002
GRACE = 10.0


class Target:
    """A target whose locks end with their sessions, and what has been asked of it."""

    def __init__(self, partitions: int) -> None:
        self.keys: list[Key] = [("r", f"p{n:05}") for n in range(partitions)]
        self.locked: dict[Key, int] = {}
        """By partition: the attempt that has it."""
        self.commits: Counter[Key] = Counter()
        self.tries = self.looks = 0

    def committed(self) -> Collection[Key]:
        self.looks += 1
        return set(self.commits)


@dataclass
class Execution:
    """One stream of one execution, which does what `penstock.workers.supervisor` does."""

    target: Target
    chance: random.Random
    time: Clock
    waiting: deque[Key] = field(default_factory=deque)
    alive: bool = True
    attempt: int = 0

    def __post_init__(self) -> None:
        self.sharing = Sharing(self.target.committed, clock=self.time.read, chance=self.chance)
        self.waiting.extend(self.sharing.order(self.target.keys, lambda key: 1.0))

    def run(self, attempts: Iterator[int], seconds: float) -> Iterator[float]:
        """Yield the seconds until the next step, until every partition is committed."""
        target, sharing = self.target, self.sharing
        while self.waiting:
            if rest := sharing.rest:
                yield rest
                continue
            committed = sharing.look()
            if committed is not None:
                self.waiting = deque(key for key in self.waiting if key not in committed)
                if not self.waiting:
                    return
            key = self.waiting.popleft()
            target.tries += 1
            yield TRY_SECONDS
            if key in target.locked:
                sharing.note_taken(key)
                self.waiting = deque([*sharing.elsewhere(self.waiting, lambda each: each), key])
            elif target.commits[key]:
                sharing.note_missed()
                self.waiting = deque(sharing.elsewhere(self.waiting, lambda each: each))
            else:
                self.attempt = target.locked[key] = next(attempts)
                sharing.note_moved()
                yield self.chance.expovariate(1 / seconds)
                # A session that was ended meanwhile commits nothing.
                if target.locked.get(key) == self.attempt:
                    target.commits[key] += 1
                    del target.locked[key]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


def simulate(
    partitions: int, executions: int, *, kills: int = 0, seed: int = 0, seconds: float = 0.1
) -> Target:
    """Simulate executions until all have ended; those that are killed are started again."""
    chance, time, target = random.Random(seed), Clock(), Target(partitions)
    attempts, order = itertools.count(1), itertools.count()
    events: list[tuple[float, int, Execution | None, Iterator[float]]] = []

    def start(at: float) -> None:
        new = Execution(target, random.Random(chance.random()), time)
        heapq.heappush(events, (at, next(order), new, new.run(attempts, seconds)))

    for _ in range(executions):
        start(chance.uniform(0, 2))
    length = partitions * seconds / executions
    for _ in range(kills):
        heapq.heappush(events, (chance.uniform(0, length), next(order), None, iter(())))
    while events:
        time.now, _, execution, steps = heapq.heappop(events)
        if execution is None:
            running = [each for _, _, each, _ in events if each is not None and each.alive]
            if running:
                victim = chance.choice(running)
                victim.alive = False
                target.locked = {k: a for k, a in target.locked.items() if a != victim.attempt}
                start(time.now + chance.uniform(0, 1))
        elif execution.alive and (pause := next(steps, None)) is not None:
            heapq.heappush(events, (time.now + pause, next(order), execution, steps))
    return target


@pytest.mark.parametrize("seed", range(5))
def test_each_partition_is_committed_once_whatever_is_killed(seed: int) -> None:
    target = simulate(300, 12, kills=30, seed=seed)
    assert set(target.commits) == set(target.keys)
    assert set(target.commits.values()) == {1}
    assert not target.locked


@pytest.mark.parametrize(("executions", "most"), [(2, 0.03), (50, 0.8), (500, 3.5)])
def test_what_a_claim_costs_grows_slowly_with_the_executions(executions: int, most: float) -> None:
    """Vain tries, and looks at all records, a partition; most are those for the last ones."""
    partitions = max(2_000, 10 * executions)
    target = simulate(partitions, executions, seconds=1.0)
    assert set(target.commits.values()) == {1}
    assert target.tries / partitions - 1 < most
    assert target.looks / partitions < most


def test_an_execution_alone_tries_each_partition_once() -> None:
    target = simulate(500, 1)
    assert target.tries == 500
    assert target.looks == 0


class TestSharing:
    def test_large_items_tend_to_come_first(self) -> None:
        sharing = Sharing(set, chance=random.Random(1))
        places = [sharing.order([1, 20], float).index(20) for _ in range(500)]
        assert 450 < places.count(0) < 500

    def test_items_of_similar_weight_stay_in_their_order(self) -> None:
        sharing = Sharing(set, chance=random.Random(1))
        starts = {sharing.order(range(5), lambda item: 100.0 + item)[0] for _ in range(50)}
        assert starts == set(range(5))
        turned = sharing.order(range(5), lambda item: 0.0)
        assert [each % 5 for each in range(turned[0], turned[0] + 5)] == turned
        assert sharing.order([], float) == sharing.turn([]) == []

    def test_after_a_miss_it_goes_on_elsewhere(self) -> None:
        sharing, keys = Sharing(set, chance=random.Random(1)), [("r", f"p{n}") for n in range(9)]
        left = sharing.order(keys, lambda key: 1.0)
        sharing.note_taken(left[2])
        places = set()
        for _ in range(50):
            after = sharing.elsewhere(left[2:], lambda key: key)
            assert after[-1] == left[2]
            places.add(left.index(after[0]))
            assert sorted(after) == sorted(left[2:])
        assert places == set(range(3, 9))

    def test_the_largest_stay_first_after_a_miss(self) -> None:
        sharing, sizes = Sharing(set, chance=random.Random(1)), [1, 900, 2, 800, 3]
        left = sharing.order(sizes, float)
        sharing.note_missed()
        assert sharing.elsewhere(left[1:], lambda size: ("r", str(size))) == left[1:]

    def test_a_partition_that_stays_taken_is_waited_for_once(self) -> None:
        time = Clock()
        sharing, key = Sharing(set, clock=time.read), ("r", "p1")
        assert not sharing.is_overdue(key, GRACE)
        sharing.note_taken(key)
        time.now = 31.0
        assert sharing.is_overdue(key, GRACE)
        sharing.wait_again(key)
        assert not sharing.is_overdue(key, GRACE)

    def test_rests_grow_until_a_partition_is_free(self) -> None:
        time = Clock()
        sharing, rests = Sharing(set, clock=time.read), []
        for n in range(18):
            assert not sharing.rest
            sharing.note_taken(("r", f"p{n}"))
            if n % 3 == 2:
                rests.append(sharing.rest)
                time.now += sharing.rest
        assert len(rests) == 6
        assert 0.1 < rests[0] <= 0.25
        assert 1.5 <= rests[-1] <= 3.0
        sharing.note_moved()
        for n in range(3):
            sharing.note_taken(("r", f"p{n}"))
        assert sharing.rest <= 0.25


def journal(name: str, status: str, open_partitions: Iterable[str]) -> Journal:
    return Journal(name, "", "", status, 1, 1.0, open=tuple(open_partitions))


class TestLosses:
    def test_executions_that_ended_count_for_nothing(self) -> None:
        journals = [journal("a", "done", ["p1"]), journal("b", "interrupted", ["p1"])]
        assert losses_of(journals, "") == {}

    def test_a_killed_execution_counts_half_over_all_that_it_was_copying(self) -> None:
        journals = [journal("a", "running", ["p1"]), journal("b", "running", ["p1", "p2"])]
        assert losses_of(journals, "") == {"p1": 0.75, "p2": 0.25}
        assert losses_of(journals, "a") == {"p1": 0.25, "p2": 0.25}

    def test_a_partition_with_too_many_is_left(self) -> None:
        losses: Mapping[Key, float] = {("r", "p1"): 4.0, ("r", "p2"): 1.0}
        sharing = Sharing(set, lambda: losses)
        left = sharing.poisonous({("r", "p1"): (1, 5), ("r", "p2"): (1, 5), ("r", "p3"): (4, 5)})
        assert set(left) == {("r", "p1")}
        assert isinstance(left["r", "p1"], TooManyLosses)
        assert "penstock resume r --target URL --only p1" in left["r", "p1"].message


class TestLeases:
    """The clocks of two machines are hours apart, and one of them jumps: only its own counts."""

    def test_a_lease_that_is_not_renewed_is_taken_over(self) -> None:
        documents, mine, theirs = Documents(), Clock(), Clock()
        theirs.now = 7200.0
        lease = Leases(theirs.read).take(documents, "p1", 1000.0)
        assert lease is not None
        waiting = Leases(mine.read)
        for second in (0.0, 400.0, 999.0):
            mine.now = second
            assert waiting.take(documents, "p1", 1000.0) is None
        mine.now = 1001.0
        second_lease = waiting.take(documents, "p1", 1000.0)
        assert second_lease is not None
        lease.release()  # it is no longer its own
        assert documents.content
        second_lease.release()
        assert not documents.content

    def test_a_renewed_lease_is_left_alone(self) -> None:
        documents, mine = Documents(), Clock()
        lease = Leases().take(documents, "p1", 0.3)
        assert lease is not None
        waiting = Leases(mine.read)
        versions: set[str] = set()
        while len(versions) < 3:
            versions.add(documents.content["p1"][1])
            mine.now += 0.01
            assert waiting.take(documents, "p1", 1000.0) is None
        lease.release()
        again = waiting.take(documents, "p1", 1000.0)
        assert again is not None
        again.release()
