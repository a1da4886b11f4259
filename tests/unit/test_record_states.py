"""The states of a commit record: every event in every state, and the record's contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.roll_forward.states import (
    TRANSITIONS,
    VOID,
    Record,
    State,
    StateEvent,
    closed,
    committed,
    discarded,
    published,
    shut_out,
    withdrawn,
)

OLD = Piece("old", 1, 10, {})
NEW = Piece("new", 2, 20, {"upload": "u"})


def commit(before: Record) -> Record:
    return committed(
        before,
        attempt=2,
        started_at=datetime.now(UTC),
        rows=2,
        bytes=20,
        pieces=(NEW,),
        read_at="",
    )


EVENTS: Mapping[StateEvent, Callable[[Record], Record]] = {
    StateEvent.COMMIT: commit,
    StateEvent.PUBLISH: published,
    StateEvent.SHUT_OUT: shut_out,
    StateEvent.TAKE_BACK: lambda record: withdrawn(record, f"request {len(record.requests)}"),
    StateEvent.CLOSE: closed,
    StateEvent.DISCARD: discarded,
}
# By name, as found by the walk: the state, whether it has pieces, and pieces to remove.
Shape = tuple[State, bool, bool]


def shape(record: Record) -> Shape:
    return record.state, bool(record.pieces), bool(record.remove)


def walk() -> tuple[set[tuple[State, StateEvent]], dict[Shape, Record]]:
    """Walk every event from every record that can be reached, beginning with a missing one."""
    done: set[tuple[State, StateEvent]] = set()
    reached = {shape(VOID): VOID}
    ahead = [VOID]
    while ahead:
        before = ahead.pop()
        for event, apply in EVENTS.items():
            if (before.state, event) not in TRANSITIONS:
                with pytest.raises(AssertionError, match=f"{event} of a record that is"):
                    apply(before)
                continue
            after = apply(before)
            transition = TRANSITIONS[before.state, event]
            assert after.state is transition.after
            assert transition.invariant(before, after)
            done.add((before.state, event))
            if shape(after) not in reached:
                reached[shape(after)] = after
                ahead.append(after)
    return done, reached


def test_every_transition_is_covered_and_all_others_are_rejected() -> None:
    done, _ = walk()
    assert done == set(TRANSITIONS)


def test_only_legal_records_are_reached() -> None:
    _, reached = walk()
    assert set(reached) == {
        (State.VOID, False, False),
        (State.VOID, False, True),  # abandoned: its pieces are removed with the next commit
        (State.COMMITTED, True, False),
        (State.COMMITTED, True, True),
        (State.PUBLISHED, True, False),
        (State.CLOSED, False, False),
        (State.CLOSED, False, True),
    }
    for record in reached.values():
        assert record.is_committed == bool(record.pieces)
        if record.is_published:
            assert not any(piece.pending for piece in record.pieces)


def test_an_ended_generation_has_no_way_out() -> None:
    assert {
        transition.after for (state, _), transition in TRANSITIONS.items() if state is State.CLOSED
    } == {State.CLOSED}


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        (StateEvent.COMMIT, lambda r: replace(r, nonce="")),
        (StateEvent.COMMIT, lambda r: replace(r, remove=())),
        (StateEvent.PUBLISH, lambda r: replace(r, pieces=())),
        (StateEvent.PUBLISH, lambda r: replace(r, pieces=(NEW,))),
        (StateEvent.PUBLISH, lambda r: replace(r, remove=(OLD,))),
        (StateEvent.SHUT_OUT, lambda r: replace(r, nonce="")),
        (StateEvent.SHUT_OUT, lambda r: replace(r, remove=())),
        (StateEvent.TAKE_BACK, lambda r: replace(r, remove=())),
        (StateEvent.TAKE_BACK, lambda r: replace(r, requests=())),
        (StateEvent.CLOSE, lambda r: replace(r, remove=())),
        (StateEvent.CLOSE, lambda r: replace(r, nonce="")),
    ],
)
def test_invariants_detect_a_wrong_record(
    event: StateEvent, wrong: Callable[[Record], Record]
) -> None:
    void = Record("", remove=(OLD,))
    before = commit(void) if event is StateEvent.PUBLISH else void
    after = EVENTS[event](before)
    invariant = TRANSITIONS[before.state, event].invariant
    assert invariant(before, after)
    assert not invariant(before, wrong(after))
