"""Nights: repeated loads, each of which reads what has changed since the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from penstock.errors import Diagnosis, Overtaken
from penstock.model.codec import OMITTED, JsonForm
from penstock.model.snapshots import Snapshot
from penstock.model.source_columns import SourceColumn

BY_HAND = "by-hand-"
"""The prefix of the run id of a watermark that the user has moved."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The transactions that a snapshot sees.

    All below `xmin` had ended, and none from `xmax` on had begun. Both ids have 64 bits, so they
    never repeat.

    On a standby that is not enough: two of its snapshots may have the same horizon although another
    transaction was replayed in between. Positions in the log tell them apart.
    """

    json_form = JsonForm(array=True)

    xmin: int
    xmax: int
    reached: int = 0
    """On a standby, a log position up to which it sees everything; 0 if unknown."""
    seen: int = 0
    """On a standby, a log position beyond which it sees nothing; 0 if unknown."""

    @classmethod
    def parse(cls, text: str) -> Horizon | None:
        """Parse a horizon, the inverse of `str`; return None for an empty text."""
        return cls(*map(int, text.split(":"))) if text else None

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{self.reached}:{self.seen}"


@dataclass(frozen=True, slots=True)
class SourceVersions:
    """Facts about row versions by which a later night decides whether its own are comparable."""

    json_form = JsonForm(defaults=True)

    system: str
    """An id of the cluster, which standbys share with their primary."""
    timeline: int
    """A number that changes when a standby is promoted."""
    database: int
    table: int
    leaves: Mapping[str, str]
    """The tables that hold the rows, by id, each with a value that changes when the table is
    attached again or its columns are altered."""
    shape: str
    """A value that changes with anything that alters rows without a new version, such as the label
    of an enum or the default of an added column."""
    standby: bool = False
    oldest: str = ""
    """Describes the session that holds the horizon back; empty if none does for long."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The point up to which a source has been read, by the values of a column."""

    json_form = JsonForm(defaults=True)

    columns: tuple[str, ...]
    """The cursor's columns; a row's value is that of the first one that is not NULL."""
    type: str
    """See `Bound`."""
    text: str
    """The greatest value, or an earlier one, in the notation and order of the source. Empty if no
    row had a value."""
    unproven: str
    """Why a night that continues from here may miss rows; empty if it misses none."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Facts that identify the source, by human-readable descriptions."""
    proof: Mapping[str, str] = field(default_factory=dict, metadata=OMITTED)
    """Facts that the proof rests on, which the source compares with its own later ones."""
    assumed: str = field(default="", metadata=OMITTED)
    """Describes what the proof takes for granted, because the source cannot know it."""

    @property
    def name(self) -> str:
        """The names of the columns, separated by commas."""
        return ", ".join(self.columns)


@dataclass(frozen=True, slots=True)
class SeenFiles:
    """The files that nights have read.

    Each night stores only its own files and the night that it continues, so that a file is stored
    once.
    """

    json_form = JsonForm(defaults=True)

    digests: str
    """Digests of the names, sizes and versions of the files that this night read: 16 hexadecimal
    digits each, sorted."""
    after: int
    """The epoch of the night that it continues; 0 if it read all files."""
    place: str
    """The location of the files."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """The point up to which a source has been read, and the state of the target then."""

    json_form = JsonForm(defaults=True)

    name: str
    epoch: int
    """The number of the night under this name; merging a night takes the next epoch."""
    run_id: str
    moment: str
    """The time of the snapshot, by the source's clock."""
    horizon: Horizon | None
    """None if unknown, so that the next night reads everything."""
    source: SourceVersions | None = None
    selects: str = ""
    """The condition and columns that select the rows, as a text to compare."""
    target: str = ""
    """A value that identifies the target's table."""
    rows: int | None = None
    """Rows of the target's table after the night; None if they were not counted."""
    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    full: str = ""
    """Why all rows were read; empty if only changed rows were."""
    full_at: str = ""
    """The moment of the last night that read all rows."""
    made_at: str = ""
    """The time at which it was written, by the target's clock."""
    cursor: Cursor | None = field(default=None, metadata=OMITTED)
    """The cursor of a night by column; None for other kinds of nights."""
    columns: tuple[SourceColumn, ...] = field(default=(), metadata=OMITTED)
    """The source's columns that the target follows; empty if unknown."""
    files: SeenFiles | None = field(default=None, metadata=OMITTED)
    """The files that were read; None for other kinds of nights."""

    @property
    def made_by_hand(self) -> bool:
        """Whether the user, rather than a night, has set it."""
        return self.run_id.startswith(BY_HAND)


@dataclass(frozen=True, slots=True)
class Night:
    """A night as its plan fixes it: where it starts to read, and the epoch that it continues."""

    json_form = JsonForm(defaults=True)

    name: str
    epoch: int
    """The epoch of the watermark that it continues; 0 if there is none."""
    full: str
    """Why all rows are read; empty if only changed rows are."""
    source: SourceVersions | None
    """None if the source's rows have no versions."""
    selects: str
    since: Horizon | None = None
    """The horizon of the last night; None if all rows are read."""
    moment: str = field(default="", metadata=OMITTED)
    """The moment of the last night."""
    target: str = field(default="", metadata=OMITTED)
    """A value that identifies the target's table; empty if the table does not exist."""
    full_at: str = field(default="", metadata=OMITTED)
    """The moment of the last night that read all rows; empty if this one does."""
    rows: int | None = None
    """Rows of the target's table when the night was planned; None if they were not counted."""
    cursor: Cursor | None = field(default=None, metadata=OMITTED)
    """The cursor of a night by column, fixed during planning; None for other kinds of nights."""
    lower: str = field(default="", metadata=OMITTED)
    """The value of that column from which it reads; empty if all rows are read."""
    files: SeenFiles | None = field(default=None, metadata=OMITTED)
    """The files that it reads; None for other kinds of nights."""
    missing: str = field(default="", metadata=OMITTED)
    """Why it may miss rows; empty if it misses none."""
    columns: tuple[SourceColumn, ...] = field(default=(), metadata=OMITTED)
    """See `Watermark`."""

    def watermark(self, run_id: str) -> Watermark:
        """Return the watermark of this night, without facts that are known only at its end."""
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
    """Whether a snapshot sees an earlier moment of the source than a past night did.

    A standby that has not followed a promotion yet is on an earlier timeline.

    Args:
        last: the watermark of that night.
        source: the source's row versions now.
        now: the horizon of the snapshot.
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
    """Whether a source consists only of tables that a night was planned with.

    All of them must also give rows the same values as then.
    """
    planned = night.source
    assert planned is not None, "nothing is compared without versions"
    has_same_leaves = all(planned.leaves.get(leaf) == then for leaf, then in now.leaves.items())
    return has_same_leaves and planned.shape == now.shape


@dataclass(frozen=True, slots=True)
class NightStatus:
    """The status of a run's night."""

    json_form = JsonForm(defaults=True)

    watermark: str
    """The name of its watermark."""
    since: str
    """The moment of the night before; empty if all rows are read."""
    full: str
    """Why all rows are read; empty if only rows that may have changed are."""
    lower: str = ""
    """By a column: the condition of the rows that it reads; by files: the files that it reads.
    Empty if all rows are read."""
    unproven: str = ""
    """By a column: why nights may miss rows; empty if they miss none."""
    merged: Watermark | None = None
    """The watermark that it has set; None if it has not merged its rows."""
    overtaken_by: Watermark | None = None
    """The latest watermark, if it keeps this night from merging its rows."""
    covered: bool = False
    """Whether that watermark's night read the source as of the same moment or a later one, so that
    the target has everything that this night would have brought."""


def _lower(night: Night) -> str:
    """Describe what a night by column or by files reads."""
    if night.files is not None and not night.full:
        return "files not read before"
    return f"{night.cursor.name} >= {night.lower}" if night.cursor and night.lower else ""


def night_status(
    run_id: str, night: Night, snapshots: Sequence[Snapshot], history: Sequence[Watermark]
) -> NightStatus:
    """Return the status of a run's night.

    Args:
        run_id: the id of the run.
        night: the night, as its plan fixes it.
        snapshots: snapshots of the run, the newest last.
        history: watermarks of the same name, the newest first.
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
        cluster = (theirs.system, theirs.timeline, theirs.database)
        if cluster == (mine.system, mine.timeline, mine.database):
            return last.horizon.xmax >= horizon.xmax
    return datetime.fromisoformat(last.moment) >= datetime.fromisoformat(snapshot.taken_at)


def check_epoch(run_id: str, night: Night, last: Watermark | None) -> None:
    """Check that a night continues the current watermark.

    Args:
        run_id: the id of the run.
        night: the night, as its plan fixes it.
        last: the current watermark; None without one.

    Raises:
        Overtaken: the run was planned from another watermark.
    """
    if (last.epoch if last else 0) != night.epoch:
        raise overtaken_error(run_id, night, last)


def overtaken_error(run_id: str, night: Night, last: Watermark | None) -> Overtaken:
    """Return the error of a night that can no longer merge its rows.

    Args:
        run_id: the id of the run.
        night: the night, as its plan fixes it.
        last: the current watermark; None without one.
    """
    reason = (
        f"run {last.run_id} has moved it to epoch {last.epoch}, as of {last.moment}"
        if last
        else "it no longer exists"
    )
    return Overtaken(
        f"run {run_id}: expected watermark {night.name!r} at epoch {night.epoch}, from which the "
        f"run was planned; {reason}, so nothing was merged; start a new run, which continues "
        "from there",
        Diagnosis(side="target"),
        by=last.run_id if last else "",
    )
