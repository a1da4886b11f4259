"""Watermarks as records: how far sources were read, and by which night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import NOW, Kind, RecordStore, Row
from penstock.errors import Diagnosis, Unreadable
from penstock.model.codec import from_json, to_json
from penstock.model.nights import Horizon, Night, Watermark, check_epoch, is_behind, overtaken_error
from penstock.model.records import CommitRecord

FIRST_EPOCH = 1
_COLUMNS = ("name", "epoch", "run_id", "content", "made_at")


class WatermarkRecords:
    """See `Watermarks`.

    The epochs of a name are consecutive: the night that adds the next one keeps all others from
    doing so.
    """

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    def latest_of_all(self) -> tuple[Watermark, ...]:
        latest: dict[str, Watermark] = {}
        for each in self._watermarks({}):
            if each.name not in latest or latest[each.name].epoch < each.epoch:
                latest[each.name] = each
        return tuple(latest[name] for name in sorted(latest))

    def latest(self, names: Sequence[str]) -> dict[str, Watermark]:
        rows = self._records.latest_watermarks(names, _COLUMNS) if names else ()
        return {row["name"]: _watermark(row) for row in rows}

    def names(self) -> frozenset[str]:
        # Watermarks are never removed.
        rows = self._records.read(Kind.WATERMARK, {"epoch": FIRST_EPOCH}, ("name",))
        return frozenset(row["name"] for row in rows)

    def history(self, name: str) -> tuple[Watermark, ...]:
        watermarks = self._watermarks({"name": name})
        return tuple(sorted(watermarks, key=lambda each: each.epoch, reverse=True))

    def put(self, watermark: Watermark) -> bool:
        return self._records.transact(
            watermark.run_id, lambda: self._records.add(Kind.WATERMARK, [_row(watermark)]) == 1
        )

    def _watermarks(self, where: Row) -> list[Watermark]:
        return [_watermark(row) for row in self._records.read(Kind.WATERMARK, where, _COLUMNS)]

    # The end of a night, in the transaction that merges it

    def take_epochs(
        self, nights: Sequence[tuple[RunRow, Night, Sequence[CommitRecord]]]
    ) -> list[Watermark]:
        """Take epochs before rows are merged, so that no other night with these names can end.

        Args:
            nights: with their runs and commit records.

        Raises:
            Overtaken: another night has ended since one was planned, or has a newer snapshot.
        """
        names = [night.name for _, night, _ in nights]
        latest = self.latest(names)
        watermarks = []
        for run, night, records in nights:
            last = latest.get(night.name)
            check_epoch(run.run_id, night, last)
            mine = _read_as_of(run, records, night)
            if last is not None and _is_older(mine, last):
                raise overtaken_error(run.run_id, night, last)
            watermarks.append(mine)
        if watermarks and self._records.add(Kind.WATERMARK, list(map(_row, watermarks))) != len(
            watermarks
        ):
            latest = self.latest(names)
            for run, night, _ in nights:
                last = latest.get(night.name)
                if last is None or last.run_id != run.run_id:
                    raise overtaken_error(run.run_id, night, last)
        return watermarks

    def complete(self, watermark: Watermark) -> None:
        """Complete the watermark that `take_epochs` has added."""
        row = _row(watermark)
        mine = {"name": watermark.name, "epoch": watermark.epoch}
        self._records.change(Kind.WATERMARK, mine, {"content": row["content"]})


def _is_older(mine: Watermark, last: Watermark) -> bool:
    """Whether a night would restore rows that have changed since.

    A primary that was reset to an earlier state is read in full.
    """
    if mine.horizon is None or mine.source is None or (mine.full and not mine.source.standby):
        return False
    return is_behind(last, mine.source, mine.horizon)


def _read_as_of(run: RunRow, records: Sequence[CommitRecord], night: Night) -> Watermark:
    """Return the watermark with the oldest snapshot that any row was read with.

    If a snapshot is not the run's own, rows were read as of a later moment, and the next night
    reads the same changes again.
    """
    watermark = night.watermark(run.run_id)
    moments = {record.read_at for record in records}
    # If nothing was written in between, a snapshot has the moment of the one it replaces.
    used = [snapshot for snapshot in run.snapshots if snapshot.taken_at in moments]
    horizons = [Horizon.parse(snapshot.horizon) for snapshot in used]
    exact = [each for each in horizons if each is not None]
    oldest = min(used, key=lambda each: each.taken_at, default=None)
    moment = oldest.taken_at if oldest else ""
    if not run.snapshots and night.cursor is not None:
        # There is no single moment, but it is not before the first partition.
        moment = min((record.started_at for record in records), default="")
    are_known = moments <= {snapshot.taken_at for snapshot in used}
    all_known = are_known and exact and len(exact) == len(horizons)
    return replace(
        watermark,
        moment=moment,
        full_at=watermark.full_at or moment,
        horizon=Horizon(
            min(each.xmin for each in exact),
            min(each.xmax for each in exact),
            min(each.reached for each in exact),
            max(each.seen for each in exact),
        )
        if all_known
        else night.since,
        read=sum(record.rows for record in records),
    )


def _row(watermark: Watermark) -> Row:
    content = to_json(watermark)
    for name in ("name", "epoch", "run_id", "made_at"):
        del content[name]
    return {
        "name": watermark.name,
        "epoch": watermark.epoch,
        "run_id": watermark.run_id,
        "content": content,
        "made_at": NOW,
    }


def _watermark(row: Row) -> Watermark:
    try:
        return from_json(
            Watermark,
            {
                **row["content"],
                **{name: row[name] for name in ("name", "epoch", "run_id", "made_at")},
            },
        )
    except (Unreadable, TypeError, ValueError) as error:
        raise Unreadable(
            f"target: watermark {row['name']!r} cannot be read: {error}; was it edited? "
            "`penstock watermark reset` starts over",
            Diagnosis(side="target"),
        ) from error
