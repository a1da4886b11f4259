"""Two nights, a stopped one, and a reset of the watermark, in every order of their steps.

Before each step, overlapping transactions write to the source. All data is in memory; nights are
planned and watermarks kept by the real code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from penstock import CopySpec
from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, RecordStore, Row
from penstock.backends.shared.records.watermark_records import WatermarkRecords
from penstock.errors import Overtaken
from penstock.model.nights import Horizon, Night, SourceVersions, Watermark, is_behind
from penstock.model.plans import PartitionPlan
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.planning.nights import TargetNow, plan_night

SPEC = CopySpec(
    source="postgresql://a/b",
    target="postgresql://c/d",
    table="public.t",
    mode="upsert",
    incremental="xmin",
    deletes="hard",
)
NAME = "public.t to public.t"
KEYS = 31
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
Rows = dict[int, tuple[int, str]]
"""By key: the transaction that wrote the row, and its value."""


@dataclass
class Store:
    """Records of one kind, in memory; the calls of a simulation never overlap."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def read(self, _kind: Kind, where: Row, _columns: Sequence[str]) -> list[dict[str, Any]]:
        return [row for row in self.rows if _has(row, where)]

    def add(self, _kind: Kind, rows: Sequence[Row]) -> int:
        epochs = {(row["name"], row["epoch"]) for row in self.rows}
        new = [row for row in rows if (row["name"], row["epoch"]) not in epochs]
        self.rows += [{**row, "made_at": ""} for row in new]
        return len(new)

    def change(self, _kind: Kind, where: Row, values: Row) -> None:
        for row in self.rows:
            if _has(row, where):
                row.update(values)

    def latest_watermarks(self, names: Sequence[str], _columns: Sequence[str]) -> Sequence[Row]:
        found = [row for row in self.rows if row["name"] in names]
        return sorted(found, key=lambda row: row["epoch"])[-1:]

    def transact(self, _run_id: str, body: Callable[[], Any]) -> Any:
        return body()


def _has(row: Mapping[str, Any], where: Row) -> bool:
    return all(row[name] == value for name, value in where.items())


class Watermarks(WatermarkRecords):
    def __init__(self) -> None:
        super().__init__(cast(RecordStore, Store()))


@dataclass(frozen=True)
class View:
    """The transactions that a snapshot of the source can see."""

    rows: Rows
    horizon: Horizon
    moment: str


class Source:
    """Transactions that begin one after the other, and commit in another order."""

    def __init__(self) -> None:
        self._next = 100
        self._open: dict[int, Callable[[Rows], None]] = {}
        self._rows: Rows = dict.fromkeys(range(KEYS), (1, "first"))
        self._views: list[View] = []
        self._look()

    def work(self) -> None:
        """Begin a transaction, and commit another; every third one stays open for longer."""
        xid, key = self._next, self._next % KEYS
        self._next += 1

        def write(rows: Rows) -> None:
            if xid % 4 == 0:
                rows.pop(key, None)
            else:
                rows[key] = (xid, f"by {xid}")

        self._open[xid] = write
        if ready := [each for each in self._open if each % 3 or each < xid - 3]:
            self._open.pop(ready[0])(self._rows)
        self._look()

    def end(self) -> None:
        for xid in sorted(self._open):
            self._open.pop(xid)(self._rows)
        self._look()

    def _look(self) -> None:
        at = len(self._views)
        horizon = Horizon(min(self._open, default=self._next), self._next, at, at)
        self._views.append(View(dict(self._rows), horizon, f"{at:03}"))

    def view(self, lag: int = 0) -> View:
        """Return the view of a primary, or of a standby that lags."""
        return self._views[max(0, len(self._views) - 1 - lag)]


@dataclass
class NightRun:
    """A night that is planned, reads, and merges; each is a step."""

    name: str
    world: World
    lag: int = 0
    """Of the standby that it reads; 0: it reads the primary."""
    renews: bool = False
    """Half of its rows are read with a later snapshot, since the first one was lost."""

    def plan(self) -> None:
        source = replace(PRIMARY, standby=self.lag > 0)
        self.views = [self.world.source.view(self.lag)]
        now, marks = self.views[0].horizon, self.world.marks
        history = marks.history(NAME)
        last = history[0] if history else None
        read = next((each for each in history if each.horizon), None)
        self.night: Night | None = None
        if source.standby and read and is_behind(read, source, now):
            return  # the night is tried again later
        target_state = TargetNow("storage", len(self.world.target))
        self.night = plan_night(SPEC, SPEC, (), last, source, now, 2**31, target_state, MOMENT)

    def read(self) -> None:
        """Read the rows; the snapshot was taken before, so the moment makes no difference."""
        if self.renews:
            self.views.append(self.world.source.view(self.lag))

    def merge(self) -> None:
        if self.night is None:
            return
        since = self.night.since
        stage = {
            key: row
            for number, view in enumerate(self.views)
            for key, row in view.rows.items()
            if key % len(self.views) == number and (since is None or row[0] >= since.xmin)
        }
        snapshots = tuple(
            Snapshot(view.moment, view.moment, str(view.horizon)) for view in self.views
        )
        nothing = cast(PartitionPlan, None), cast(SourceState, None)
        run = RunRow(self.name, 1, {}, *nothing, snapshots, "running", "", None, None, ())
        records = [CommitRecord(s.token, 1, 1, 1, "", "", read_at=s.taken_at) for s in snapshots]
        target = self.world.target
        try:
            (mark,) = self.world.marks.take_epochs([(run, self.night, records)])
        except Overtaken:
            return
        merged = {**target, **stage}
        target.clear()
        target.update({key: row for key, row in merged.items() if key in self.views[-1].rows})
        self.world.marks.complete(replace(mark, target="storage", rows=len(target)))
        self.world.note(self)


PRIMARY = SourceVersions("system", 1, 5, 10, {"10": "a"}, "shape")


class World:
    def __init__(self, lag: int, *, renews: bool) -> None:
        self.source = Source()
        self.marks = Watermarks()
        self.target: Rows = {}
        self.merged: list[NightRun] = []
        first, second = NightRun("first", self), NightRun("second", self)
        stopped = NightRun("stopped", self, lag, renews)
        self.actors: dict[str, list[Callable[[], object]]] = {
            "first": [first.plan, first.merge],
            "second": [second.plan, second.merge],
            "stopped": [stopped.plan, stopped.read, stopped.merge],
            "reset": [self.reset],
        }

    def reset(self) -> None:
        if last := self.marks.latest([NAME]).get(NAME):
            assert self.marks.put(Watermark(NAME, last.epoch + 1, "by hand", "", None))

    def note(self, night: NightRun) -> None:
        if len(night.views) == 1:
            assert self.target == night.views[0].rows, "not as of the night's moment"
        if self.merged:
            before = self.merged[-1].views[-1].moment
            assert before <= night.views[-1].moment, "gone back to an earlier moment"
        self.merged.append(night)

    def all_of(self, night: NightRun) -> None:
        night.plan()
        night.merge()

    def run(self, order: Sequence[str]) -> None:
        self.source.work()
        self.all_of(NightRun("before", self))
        steps = {name: iter(calls) for name, calls in self.actors.items()}
        for name in order:
            for _ in range(4):
                self.source.work()
            next(steps[name])()
        self.source.end()
        last = NightRun("last", self)
        self.all_of(last)
        assert self.merged[-1] is last
        assert self.target == self.source.view().rows, "rows are lost, or left"


def orders(remaining: dict[str, int]) -> Iterator[tuple[str, ...]]:
    if not any(remaining.values()):
        yield ()
    for name, count in remaining.items():
        if count:
            for rest in orders({**remaining, name: count - 1}):
                yield (name, *rest)


@pytest.mark.parametrize(
    ("lag", "renews"),
    [(0, False), (2, False), (9, False), (0, True)],
    ids=["primary", "standby", "standby far behind", "renewed"],
)
def test_in_every_order_the_target_never_goes_back_and_loses_no_rows(
    lag: int, renews: bool
) -> None:
    seen, overtaken = 0, 0
    for order in orders({"first": 2, "second": 2, "stopped": 3, "reset": 1}):
        world = World(lag, renews=renews)
        try:
            world.run(order)
        except AssertionError as error:
            error.add_note(" ".join(order))
            raise
        seen += 1
        overtaken += len(world.merged) < 5
    assert seen == 1680
    assert overtaken > 1000
