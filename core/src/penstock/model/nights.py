"""Nights: loads that repeat, each of which reads what has changed since the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from penstock.errors import Diagnosis, Overtaken
from penstock.model.codec import OMITTED, JsonForm
from penstock.model.drift import SourceColumn
from penstock.model.snapshots import Snapshot

BY_HAND = "by-hand-"
"""Prefix of the run id of a watermark that a person has moved."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """What a snapshot sees: no transaction below `xmin` was under way, none from `xmax` on had
    begun. Both are 64 bits wide, so that they never come again.

    On a standby that is not enough: two of its snapshots may have the same horizon though another
    transaction was replayed in between. Positions in the log tell them apart.
    """

    json_form = JsonForm(array=True)

    xmin: int
    xmax: int
    reached: int = 0
    """On a standby, a position up to which it sees everything; 0: unknown."""
    seen: int = 0
    """A position beyond which it sees nothing; 0: unknown."""

    @classmethod
    def parse(cls, text: str) -> Horizon | None:
        """The inverse of `str`; None for an empty text."""
        return cls(*map(int, text.split(":"))) if text else None

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{self.reached}:{self.seen}"


@dataclass(frozen=True, slots=True)
class SourceVersions:
    """Facts about a source's row versions, by which a later night knows whether its own can be
    compared with them."""

    json_form = JsonForm(defaults=True)

    system: str
    """Names the cluster; standbys share it with their primary."""
    timeline: int
    """Changes when a standby is promoted."""
    database: int
    table: int
    leaves: Mapping[str, str]
    """The tables that hold the rows, by their ids, each with what changes when it is attached
    again, or its columns are altered."""
    shape: str
    """Changes with whatever gives rows other values and no new version, such as the label of an
    enum or the default of an added column."""
    standby: bool = False
    oldest: str = ""
    """Who holds the horizon back, for people; empty where nothing does for long."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source was read by the values of a column."""

    json_form = JsonForm(defaults=True)

    columns: tuple[str, ...]
    """The value is that of the first one that is not NULL."""
    type: str
    """See `Bound`."""
    text: str
    """The greatest value, or an earlier one: as the source writes it, and compares it. Empty: no
    row had a value."""
    unproven: str
    """Why a night that goes on from here may miss rows; empty where it misses none."""
    source: Mapping[str, str] = field(default_factory=dict)
    """What the source is recognised by: each fact by what it is of, for people."""

    @property
    def name(self) -> str:
        """Its columns, for people."""
        return ", ".join(self.columns)


@dataclass(frozen=True, slots=True)
class SeenFiles:
    """The files that nights have read. Each keeps its own alone, and which one it goes on from, so
    that a file is kept once."""

    json_form = JsonForm(defaults=True)

    digests: str
    """Of those that this night has read, of their names, sizes and versions: 16 hexadecimal digits
    each, sorted."""
    after: int
    """The epoch that it goes on from; 0: it has read all files."""
    place: str
    """Where the files are."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a source was read, and what the target held then."""

    json_form = JsonForm(defaults=True)

    name: str
    epoch: int
    """Counts the nights of this name; whoever merges one takes the next epoch."""
    run_id: str
    moment: str
    """When the snapshot was taken, by the source's clock."""
    horizon: Horizon | None
    """None: unknown, so that the next night reads everything."""
    source: SourceVersions | None = None
    selects: str = ""
    """The condition and columns of the rows, as a text to compare."""
    target: str = ""
    """What the target's table is recognised by."""
    rows: int | None = None
    """Rows of the target's table once the night was over; None where they were not counted."""
    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    full: str = ""
    """Why all rows were read; empty where only those that had changed were."""
    full_at: str = ""
    """The moment of the last night that has read all rows."""
    made_at: str = ""
    """When it was written, by the target's clock."""
    cursor: Cursor | None = field(default=None, metadata=OMITTED)
    """How far it was read by a column; None: not in that way."""
    columns: tuple[SourceColumn, ...] = field(default=(), metadata=OMITTED)
    """The source's, as the target follows them; empty: unknown."""
    files: SeenFiles | None = field(default=None, metadata=OMITTED)
    """Which files were read; None: it was not read by files."""

    @property
    def made_by_hand(self) -> bool:
        """Whether a person has moved it, rather than a night."""
        return self.run_id.startswith(BY_HAND)


@dataclass(frozen=True, slots=True)
class Night:
    """What a plan fixes of a night: from where on it reads, and which epoch it continues."""

    json_form = JsonForm(defaults=True)

    name: str
    epoch: int
    """Of the watermark that it continues; 0: there is none."""
    full: str
    """Why all rows are read; empty where only those that have changed are."""
    source: SourceVersions | None
    """None where its rows have no versions."""
    selects: str
    since: Horizon | None = None
    """The horizon of the last night; None where all rows are read."""
    moment: str = field(default="", metadata=OMITTED)
    """Of the last night."""
    target: str = field(default="", metadata=OMITTED)
    """What the target's table is recognised by; empty: it is not there."""
    full_at: str = field(default="", metadata=OMITTED)
    """The moment of the last night that has read all rows; empty where this one does."""
    rows: int | None = None
    """That the target's table had when the night was planned; None: they were not counted."""
    cursor: Cursor | None = field(default=None, metadata=OMITTED)
    """How far it reads by a column, fixed when it was planned; None: not in that way."""
    lower: str = field(default="", metadata=OMITTED)
    """The value of that column from which on it reads; empty where all rows are read."""
    files: SeenFiles | None = field(default=None, metadata=OMITTED)
    """The files that it reads; None: it does not read by files."""
    missing: str = field(default="", metadata=OMITTED)
    """Why rows may be missing from what it reads; empty where none are."""
    columns: tuple[SourceColumn, ...] = field(default=(), metadata=OMITTED)
    """See `Watermark`."""

    def watermark(self, run_id: str) -> Watermark:
        """What this night leaves, but for what only its end shows."""
        return Watermark(
            self.name,
            self.epoch + 1,
            run_id,
            "",
            None,
            None if self.source is None else replace(self.source, oldest=""),
            self.selects,
            full=self.full,
            full_at=self.full_at,
            cursor=self.cursor,
            columns=self.columns,
            files=self.files,
        )


def is_behind(last: Watermark, source: SourceVersions, now: Horizon) -> bool:
    """Whether a source is read as of an earlier moment than a night before, by what a snapshot of
    it sees.

    A standby that has not followed a promotion yet is on an earlier timeline.
    """
    then = last.source
    if then is None or last.horizon is None:
        return False
    if (then.system, then.database) != (source.system, source.database):
        return False
    if then.timeline != source.timeline:
        return source.standby and source.timeline < then.timeline
    lags = source.standby and 0 < now.reached < last.horizon.seen
    return lags or now.xmax < last.horizon.xmax


def has_tables_of(night: Night, now: SourceVersions) -> bool:
    """Whether a source consists of no tables but those that a night was planned with, all of which
    give rows the same values still."""
    planned = night.source
    assert planned is not None, "nothing is compared without versions"
    same = all(planned.leaves.get(leaf) == then for leaf, then in now.leaves.items())
    return same and planned.shape == now.shape


@dataclass(frozen=True, slots=True)
class NightStatus:
    """How the night of a run stands."""

    json_form = JsonForm(defaults=True)

    watermark: str
    """The name of its watermark."""
    since: str
    """The moment of the night before; empty where all rows are read."""
    full: str
    """Why all rows are read; empty where only those that may have changed are."""
    lower: str = ""
    """By a column: the condition of the rows that it reads; by files: which ones it reads. Empty
    where all rows are read."""
    unproven: str = ""
    """By a column: why nights may miss rows; empty where they miss none."""
    merged: Watermark | None = None
    """The watermark that it has left; None: it has not merged its rows."""
    overtaken_by: Watermark | None = None
    """The latest watermark, where that keeps this night from merging its rows."""
    covered: bool = False
    """Whether that night has read the source as of the same moment, or a later one, so that the
    target has all that this one would have brought."""


def _lower(night: Night) -> str:
    """What is read, where it is told by a column or by files."""
    if night.files is not None and not night.full:
        return "files that were not there before"
    return f"{night.cursor.name} >= {night.lower}" if night.cursor and night.lower else ""


def night_status(
    run_id: str, night: Night, snapshots: Sequence[Snapshot], history: Sequence[Watermark]
) -> NightStatus:
    """
    Parameters:
        snapshots: of the run, the newest last.
        history: of its watermark, the newest first.
    """
    cursor = night.cursor
    status = NightStatus(
        night.name,
        night.moment,
        night.full,
        lower=_lower(night),
        unproven=cursor.unproven if cursor else "",
    )
    mine = next((each for each in history if each.run_id == run_id), None)
    if mine is not None:
        return replace(status, merged=mine)
    last = next(iter(history), None)
    if (last.epoch if last else 0) == night.epoch:
        return status
    covered = last is not None and bool(snapshots) and _covers(last, night, snapshots[-1])
    return replace(status, overtaken_by=last, covered=covered)


def _covers(last: Watermark, night: Night, snapshot: Snapshot) -> bool:
    if last.made_by_hand or not last.moment:
        return False
    theirs, mine = last.source, night.source
    horizon = Horizon.parse(snapshot.horizon)
    if theirs and mine and last.horizon is not None and horizon is not None:
        same = (theirs.system, theirs.timeline, theirs.database)
        if same == (mine.system, mine.timeline, mine.database):
            return last.horizon.xmax >= horizon.xmax
    return datetime.fromisoformat(last.moment) >= datetime.fromisoformat(snapshot.taken_at)


def check_epoch(run_id: str, night: Night, last: Watermark | None) -> None:
    """
    Parameters:
        last: the watermark as it is now.

    Raises:
        Overtaken: the run was planned from another one.
    """
    if (last.epoch if last else 0) != night.epoch:
        raise overtaken(run_id, night, last)


def overtaken(run_id: str, night: Night, last: Watermark | None) -> Overtaken:
    """The error of a night that may merge nothing any more."""
    by = f"run {last.run_id} has" if last else "somebody has"
    moved = f"{by} moved it to epoch {last.epoch}, as of {last.moment}" if last else "it is gone"
    return Overtaken(
        f"run {run_id}: expected watermark {night.name!r} at epoch {night.epoch}, from which the "
        f"run was planned; {moved}, so nothing was merged; start a new run, which goes on from "
        "there",
        Diagnosis(side="target"),
        by=last.run_id if last else "",
    )
