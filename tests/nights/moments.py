"""The source as of each night's snapshot, and the states that the target had.

The first session after the one that exports a run's snapshot imports it, through a proxy: there the
run waits until the test has read the source with the same snapshot. Writers work all the while.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import psycopg
from tests.faults.pair import connect

import penstock
from penstock.model.nights import Watermark
from penstock_testkit import TcpProxy

from .targets import VALUES, Row, State, Target

NOTHING: State = frozenset()


class Moments:
    """The contents of the source as of each snapshot.

    Args:
        proxies: the proxies through which nights read.
    """

    def __init__(self, url: str, proxies: Sequence[TcpProxy]) -> None:
        self._url = url
        self._rows_by_token: dict[str, Mapping[int, Row]] = {}
        self._lock = threading.Lock()
        for proxy in proxies:
            proxy.on_bytes(b"SET TRANSACTION SNAPSHOT", "to_server", self._look, once=False)

    def _look(self) -> None:
        with self._lock, closing(connect(self._url)) as connection:
            tokens = [token for (token,) in connection.execute("SELECT pg_ls_dir('pg_snapshots')")]
            for token in tokens:
                if token not in self._rows_by_token:
                    # The run that exported it may just have been killed.
                    with contextlib.suppress(psycopg.Error):
                        self._rows_by_token[token] = self._read(connection, token)
                    connection.execute("ROLLBACK")

    def _read(
        self, connection: psycopg.Connection[tuple[object, ...]], token: str
    ) -> dict[int, Row]:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{token}'".encode())
        # A query sees the partitions attached now, but the snapshot had those of its own time.
        found = connection.execute(
            f"SELECT {VALUES},"
            " coalesce(to_jsonb(items) ->> 'more', to_jsonb(items) ->> 'extra') FROM items"
            " WHERE tableoid = 'items'::regclass OR tableoid IN"
            " (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'items'::regclass)"
        )
        return {int(key): tuple(row) for key, *row in found.fetchall()}  # type: ignore[call-overload]

    def of(self, mark: Watermark, target: str) -> Mapping[int, Row]:
        """Return the source's rows, each with the value of the column that comes and goes."""
        run = penstock.status(mark.run_id, target=target).run
        (token,) = {each.token for each in run.snapshots if each.taken_at == mark.moment}
        return self._rows_by_token[token]


class Ledger:
    """The states that the target must have had, in order.

    Args:
        deletes: the value of the option.
    """

    def __init__(self, moments: Moments, target: Target, deletes: str) -> None:
        self._moments, self._target, self._deletes = moments, target, deletes
        self.conditions: dict[str, Callable[[Row], bool]] = {}
        """Conditions of the runs that select only some rows."""
        self.inexact: set[str] = set()
        """Runs with rows that may be from a later moment, and whose results are noted."""
        self._noted: dict[int, list[State]] = {}

    def note(self, state: State) -> None:
        """Note the target's current state if it does not follow from the source."""
        self._noted.setdefault(len(self._history()), []).append(state)

    def _history(self) -> Sequence[Watermark]:
        marks = penstock.watermarks(target=self._target.url)
        name = marks[0].name if marks else ""
        return penstock.watermark_history(name, target=self._target.url) if marks else ()

    def nights(self) -> int:
        """Return the number of nights that succeeded."""
        return sum(not mark.made_by_hand for mark in self._history())

    def last(self) -> Mapping[int, Row]:
        """Return the source as of the last night."""
        mark = next(mark for mark in self._history() if not mark.made_by_hand)
        return self._moments.of(mark, self._target.url)

    def states(self) -> list[State]:
        """Return the state before the first night, after each successful one, and as noted."""
        found = [NOTHING, *self._noted.get(0, ())]
        for mark in reversed(self._history()):
            if not mark.made_by_hand and mark.run_id not in self.inexact:
                rows = self._moments.of(mark, self._target.url)
                now = {key: row[:-1] for key, row in rows.items()}
                found.append(self._after(found[-1], now, self.conditions.get(mark.run_id)))
            found += self._noted.get(mark.epoch, ())
        return found

    def _after(
        self, before: State, now: Mapping[int, Row], selects: Callable[[Row], bool] | None
    ) -> State:
        earlier = {key: (row, deleted) for key, row, deleted in before}
        chosen = {key: row for key, row in now.items() if selects is None or selects(row)}
        for key, (row, _) in list(earlier.items()):
            if key in chosen or not (selects is None or selects(row)):
                continue
            if self._deletes == "hard":
                del earlier[key]
            elif self._deletes == "soft":
                earlier[key] = (row, True)
        earlier.update({key: (row, False) for key, row in chosen.items()})
        return frozenset((key, *values) for key, values in earlier.items())


class Reader(threading.Thread):
    """Reads the target repeatedly, and keeps every state."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self._target = target
        self._ended = threading.Event()
        self._looking = threading.Lock()
        self.states: list[State] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(self._target.open()) as connection:
                while not self._ended.wait(0.03):
                    with self._looking:
                        self._note(self._target.read(connection))
        except BaseException as error:
            self.failed = error

    def look(self) -> None:
        """Read once, for targets that cannot be read during a night."""
        self._note(self._target.state())

    def _note(self, state: State) -> None:
        if not self.states or self.states[-1] != state:
            self.states.append(state)

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        with self._looking:
            yield

    def end(self) -> None:
        self._ended.set()
        if self.ident is not None:
            self.join(60)
        if self.failed:
            raise self.failed


def check_seen(states: list[State], expected: list[State]) -> None:
    """Check the states that a reader has seen.

    Raises:
        AssertionError: a state was never that of the source, or is older than the one before it.
    """
    at = 0
    for state in states:
        found = next((i for i in range(at, len(expected)) if expected[i] == state), None)
        if found is None:
            nearest = min(expected, key=lambda each: len(each ^ state))
            where = expected.index(nearest)
            raise AssertionError(
                f"a reader saw what no night has left since number {at}; the nearest is that of "
                f"number {where}, without {_some(nearest - state)}, with {_some(state - nearest)}"
            )
        at = found


def check_same(actual: State, expected: State) -> None:
    missing, extra = expected - actual, actual - expected
    assert actual == expected, f"missing {_some(missing)}; not expected {_some(extra)}"


def _some(rows: State) -> str:
    return f"{len(rows)}: {sorted(rows, key=lambda row: row[0])[:4]}"
