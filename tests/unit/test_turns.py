"""Turns that are leases, simulated: kills, odd clocks, processes that are cut off and return."""

from __future__ import annotations

import json
import random

import pytest

from penstock.backends.api.execution.records import RecordStore
from penstock.backends.roll_forward.turns import Turns
from penstock.spec.worker_spec import Patience

from .memory_documents import Documents

# The leases of a simulated process are renewed by the simulation: its thread never gets there.
GRACE = 1000.0
NAMES = ("r", "r:count", "r:links")


def holder_of(documents: Documents, name: str) -> str:
    """Return the process that has a turn."""
    found = documents.content.get(f"leases/turns/r/{name}.json")
    return "" if found is None else str(json.loads(found[0])["holder"])


class Store:
    """The part of a target's records that `Turns` uses."""

    patience = Patience(grace=GRACE)
    batch_id = ""


class Process:
    """A process with a clock of its own; it renews its lease whenever it does something."""

    def __init__(self, documents: Documents, clock: float = 0.0) -> None:
        self.now = clock
        self.documents = documents
        store: RecordStore = Store()  # type: ignore[assignment]
        self.turns = Turns(documents, store, lambda: self.now)

    def take(self, *names: str) -> frozenset[str]:
        return self.turns.take(names or NAMES)

    def renew(self) -> None:
        """Change its lease, as its thread does, unless that is gone."""
        for lease in self.turns._alive.values():
            if (found := self.documents.get(lease._name)) is not None:
                self.documents.replace(lease._name, found[0] + b" ", found[1])

    def kill(self) -> None:
        """Let its threads end, and leave its documents."""
        for lease in self.turns._alive.values():
            lease._over.set()


@pytest.fixture
def documents() -> Documents:
    return Documents()


def test_a_turn_of_a_process_that_lives_is_left_alone(documents: Documents) -> None:
    first, second = Process(documents), Process(documents, 7200.0)
    assert first.take() == set(NAMES)
    for _ in range(10):
        second.now += GRACE * 0.9
        first.renew()
        assert not second.take()
    assert first.take() == set(NAMES)
    first.turns.close()
    assert second.take() == set(NAMES)
    second.turns.close()
    assert not documents.content


def test_the_turns_of_a_killed_process_are_taken_over_after_the_grace_time(
    documents: Documents,
) -> None:
    first, second, third = Process(documents), Process(documents, -500.0), Process(documents)
    first.take()
    first.kill()
    assert not second.take()
    second.now += GRACE - 1
    assert not second.take()
    second.now += 1
    assert second.take("r") == {"r"}
    assert second.take("r:count", "r:links") == {"r:count", "r:links"}
    assert not third.take()
    second.turns.close()
    assert not documents.content  # nor is anything left of the one that was killed


def test_a_process_that_was_cut_off_finds_its_turns_taken(documents: Documents) -> None:
    """It comes back with a lease that others took for gone: it waits for its turn as they do."""
    first, second = Process(documents), Process(documents)
    first.take()
    second.take()
    second.now += GRACE
    assert second.take() == set(NAMES)
    first.renew()
    assert not first.take()
    second.turns.close()
    assert first.take() == set(NAMES)
    third = Process(documents)
    assert not third.take()
    first.turns.close()
    assert not documents.content


def test_runs_that_a_process_leaves_are_free(documents: Documents) -> None:
    first, second = Process(documents), Process(documents)
    for each in (first, second):
        each.turns._store.batch_id = "b"
    assert first.take("b-1", "b-1:count", "b-2", "b:plan") == {"b-1", "b-1:count", "b-2", "b:plan"}
    first.turns.leave({"b-1"})
    assert second.take("b-1", "b-1:count", "b-2", "b:plan") == {"b-1", "b-1:count"}
    first.turns.close()
    second.turns.close()
    assert not documents.content


@pytest.mark.parametrize("seed", range(200))
def test_any_order_of_kills_cuts_and_returns(documents: Documents, seed: int) -> None:
    """Whoever lives and renews its lease keeps its turns; the last one gets those of all others."""
    chance = random.Random(seed)
    living = [Process(documents, chance.uniform(-1e6, 1e6)) for _ in range(4)]
    cut_off: list[Process] = []
    everyone = list(living)
    for step in range(120):
        before = {name: holder_of(documents, name) for name in NAMES}
        steady = {each.turns._id for each in living}
        for each in everyone:
            each.now += chance.uniform(0, GRACE / 4)
        for each in living if step % 3 == 0 else ():  # within the grace time
            each.renew()
        match chance.random():
            case share if share < 0.04 and len(living) > 1:
                gone = living.pop(chance.randrange(len(living)))
                gone.kill()
                everyone.remove(gone)
                steady.discard(gone.turns._id)
            case share if share < 0.1 and len(living) > 1:
                cut_off.append(living.pop(chance.randrange(len(living))))
                steady.discard(cut_off[-1].turns._id)
            case share if share < 0.16 and cut_off:
                living.append(cut_off.pop())
                living[-1].renew()
                living[-1].take()
            case share if share < 0.2:
                new = Process(documents, chance.uniform(-1e6, 1e6))
                everyone.append(new)
                living.append(new)
            case _:
                chance.choice(living).take(*chance.sample(NAMES, 2))
        for name, holder in before.items():
            assert holder not in steady or holder_of(documents, name) == holder, name
        for each in living:
            assert all(holder_of(documents, name) == each.turns._id for name in each.take())
    for each in [*cut_off, *living[1:]]:
        each.kill()
    last = living[0]
    for _ in range(3):
        last.take()
        last.now += GRACE
        last.renew()
    assert last.take() == set(NAMES)
    last.turns.close()
    assert not [name for name in documents.content if not name.endswith(".alive.json")]
