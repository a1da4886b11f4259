"""The states of a commit record, and the events that lead from one to another.

A missing record is void. Every change of a record is one of `TRANSITIONS`; each is written under a
condition that only one process can win.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from secrets import token_hex
from typing import Any

from penstock.backends.api.execution.roll_forward import Piece
from penstock.model.codec import OMITTED, JsonForm
from penstock.model.records import Spent


class State(StrEnum):
    """The state of a commit record, which decides who may change it."""

    VOID = "void"
    """Holds no rows. Attempts that have read it in this state may commit."""
    COMMITTED = "committed"
    """The partition is done; some of its pieces may not be visible yet."""
    PUBLISHED = "published"
    """All of its pieces are visible."""
    CLOSED = "closed"
    """Void permanently: the generation has ended."""


class StateEvent(StrEnum):
    """A change to a commit record."""

    COMMIT = "commit"
    PUBLISH = "publish"
    SHUT_OUT = "shut out"
    TAKE_BACK = "take back"
    CLOSE = "close"
    DISCARD = "discard"


class Actor(StrEnum):
    """A process that may change a commit record."""

    ATTEMPT = "the attempt that read the record in this state"
    ANYBODY = "any process that finds the record"
    SERIES = "another run of the series, which claims the partition"
    REQUEST = "a request to copy the partition again, or the process that carries it out"
    RUN = "the process that begins a new generation of the run"


@dataclass(frozen=True, slots=True)
class Record:
    """The commit record of one partition, as stored in its document."""

    json_form = JsonForm(exact=True)

    nonce: str
    """Unique for each commit and each void record."""
    state: State = State.VOID
    attempt: int = 0
    rows: int = 0
    bytes: int = 0
    started_at: str = ""
    committed_at: str = ""
    pieces: tuple[Piece, ...] = ()
    remove: tuple[Piece, ...] = ()
    """Pieces of an earlier commit, to be removed when these are published or this is closed."""
    requests: tuple[str, ...] = ()
    """The recorded requests to copy the partition again."""
    read_at: str = ""
    """As in `CommitRecord`."""
    spent: Spent | None = field(default=None, metadata=OMITTED)

    @property
    def is_committed(self) -> bool:
        return self.state in (State.COMMITTED, State.PUBLISHED)

    @property
    def is_published(self) -> bool:
        return self.state is State.PUBLISHED

    @property
    def is_over(self) -> bool:
        """Whether the record is final."""
        return self.state is State.CLOSED and not self.remove


@dataclass(frozen=True, slots=True)
class Transition:
    """A permitted change of a commit record from one state to another."""

    before: State
    event: StateEvent
    after: State
    who: Actor
    invariant: Callable[[Record, Record], bool]
    """Whether the change from one record to another is valid."""


def _commits(before: Record, after: Record) -> bool:
    """Whether a change is a valid commit.

    No attempt can mistake the record for its own, the replaced pieces are named, and requests are
    kept.
    """
    return (
        after.nonce != before.nonce
        and after.remove == before.remove
        and after.requests == before.requests
    )


def _publishes(before: Record, after: Record) -> bool:
    """Whether a change only marks the same commit as published."""
    return (
        after.nonce == before.nonce
        and [piece.name for piece in after.pieces] == [piece.name for piece in before.pieces]
        and not any(piece.pending for piece in after.pieces)
        and not after.remove
        and after.requests == before.requests
    )


def _shuts_out(before: Record, after: Record) -> bool:
    """Whether attempts that have begun find another record, and nothing else changes."""
    return after.nonce != before.nonce and replace(after, nonce=before.nonce) == before


def _takes_back(before: Record, after: Record) -> bool:
    """Whether the rows stay, and are named for removal by the next commit."""
    return (
        after.nonce != before.nonce
        and not after.pieces
        and set(_names(after.remove)) == {*_names(before.pieces), *_names(before.remove)}
        and set(after.requests) > set(before.requests)
    )


def _closes(before: Record, after: Record) -> bool:
    """Whether no attempt can commit any more, and everything that exists is named for removal."""
    return (
        after.nonce != before.nonce
        and not after.pieces
        and set(_names(after.remove)) == {*_names(before.pieces), *_names(before.remove)}
    )


def _discards(before: Record, after: Record) -> bool:
    """Whether nothing of the generation is left."""
    return after == replace(before, remove=())


def _names(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.name for piece in pieces]


TRANSITIONS = {
    (each.before, each.event): each
    for each in (
        Transition(State.VOID, StateEvent.COMMIT, State.COMMITTED, Actor.ATTEMPT, _commits),
        Transition(
            State.COMMITTED,
            StateEvent.PUBLISH,
            State.PUBLISHED,
            Actor.ANYBODY,
            _publishes,
        ),
        Transition(State.VOID, StateEvent.SHUT_OUT, State.VOID, Actor.SERIES, _shuts_out),
        Transition(State.VOID, StateEvent.TAKE_BACK, State.VOID, Actor.REQUEST, _takes_back),
        # A commit with invisible pieces is published first, or they could be lost.
        Transition(State.PUBLISHED, StateEvent.TAKE_BACK, State.VOID, Actor.REQUEST, _takes_back),
        Transition(State.VOID, StateEvent.CLOSE, State.CLOSED, Actor.RUN, _closes),
        Transition(State.COMMITTED, StateEvent.CLOSE, State.CLOSED, Actor.RUN, _closes),
        Transition(State.PUBLISHED, StateEvent.CLOSE, State.CLOSED, Actor.RUN, _closes),
        Transition(State.CLOSED, StateEvent.DISCARD, State.CLOSED, Actor.RUN, _discards),
    )
}
VOID = Record("")
"""A placeholder for a record that does not exist."""


def _changed(before: Record, event: StateEvent, **changes: Any) -> Record:
    transition = TRANSITIONS.get((before.state, event))
    assert transition is not None, f"{event} of a record that is {before.state}"
    after = replace(before, state=transition.after, **changes)
    assert transition.invariant(before, after), f"{event}: {before} became {after}"
    return after


def committed(
    before: Record,
    *,
    attempt: int,
    started_at: datetime,
    rows: int,
    bytes: int,
    pieces: tuple[Piece, ...],
    read_at: str,
    spent: Spent | None = None,
) -> Record:
    """Return a new commit, which replaces what the void record says to remove.

    Args:
        before: the record that is replaced; it must be void.
        attempt: the number of the attempt at this partition, from 1.
        started_at: the time at which the attempt began.
        rows: the rows of the partition.
        bytes: the bytes that were sent.
        pieces: the pieces with the partition's rows.
        read_at: the time as of which they were read; see `CommitRecord`.
        spent: the resources that the attempt used; None if unknown.
    """
    return _changed(
        before,
        StateEvent.COMMIT,
        nonce=token_hex(8),
        attempt=attempt,
        rows=rows,
        bytes=bytes,
        started_at=_text(started_at),
        committed_at=now(),
        pieces=pieces,
        read_at=read_at,
        spent=spent,
    )


def published(before: Record) -> Record:
    """Return a committed record as published.

    Its pieces are visible, and those that they replace are removed.
    """
    pieces = tuple(replace(piece, pending={}) for piece in before.pieces)
    return _changed(before, StateEvent.PUBLISH, pieces=pieces, remove=())


def shut_out(before: Record) -> Record:
    """Return a void record with a new nonce: attempts that have read the old one cannot commit."""
    return _changed(before, StateEvent.SHUT_OUT, nonce=token_hex(8))


def withdrawn(before: Record, request: str) -> Record:
    """Return a void record for a partition to be copied again.

    The next commit removes its pieces.

    Args:
        before: the record.
        request: the id of the request to copy the partition again.
    """
    requests = (*before.requests, request)
    return _changed(before, StateEvent.TAKE_BACK, **_emptied(before), requests=requests)


def closed(before: Record) -> Record:
    """Return a record that no attempt can commit any more.

    Its pieces are listed for removal.
    """
    return _changed(before, StateEvent.CLOSE, **_emptied(before), requests=())


def discarded(before: Record) -> Record:
    """Return a closed record whose pieces have been removed."""
    return _changed(before, StateEvent.DISCARD, remove=())


def _emptied(before: Record) -> dict[str, Any]:
    return {
        "nonce": token_hex(8),
        "attempt": 0,
        "rows": 0,
        "bytes": 0,
        "started_at": "",
        "committed_at": "",
        "pieces": (),
        "remove": (*before.pieces, *before.remove),
        "read_at": "",
        "spent": None,
    }


def now() -> str:
    """Return the current time in UTC, to the microsecond, in the form that records store."""
    return _text(datetime.now(UTC))


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")
