"""The event protocol: one JSON object a line, versioned.

A worker emits opened, progress, committed and failed; a run adds planned, prepared, snapshot,
retrying, degree, sampled, turn, waiting, step, partitions_checked, verified, warning and finished.
Every opened attempt ends with exactly one terminal event, committed or failed.

Readers ignore unknown fields; when a field changes its meaning, `VERSION` rises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, get_args

from penstock.errors import Unreadable
from penstock.model.codec import JsonForm, from_json, to_json
from penstock.model.tables import NotCopied

VERSION = 1


def now() -> str:
    """Return the current time, ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """What all events have."""

    # A newer reader knows fields that an older writer did not write.
    json_form = JsonForm(defaults=True)

    name: ClassVar[str] = ""
    run_id: str
    at: str = field(default_factory=now)

    def as_json(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"version": VERSION, "event": self.name, **to_json(self)}

    def to_line(self) -> str:
        """Return the event as a JSON line, without a line break."""
        return json.dumps(self.as_json(), separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(BaseEvent):
    """An event of an attempt at a partition."""

    partition_id: str
    attempt: int
    pid: int
    """The worker's process id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(AttemptEvent):
    """The start of an attempt."""

    name: ClassVar[Literal["opened"]] = "opened"
    label: str
    """A human-readable description of the rows that the partition selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(AttemptEvent):
    """Rows have moved: the sums since the attempt began."""

    rows: int
    bytes: int
    seconds: float
    wait_source: float
    """Seconds spent waiting for bytes from the source."""
    wait_target: float
    """Seconds spent waiting for the target to take bytes, or to answer."""
    paced: float = 0.0
    """Seconds spent pausing, to keep to a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Moved):
    """The progress of an attempt, about once a second. Its row count is exact to one message."""

    name: ClassVar[Literal["progress"]] = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Moved):
    """Terminal: the partition and its commit record are in the target."""

    name: ClassVar[Literal["committed"]] = "committed"
    already: bool = False
    """Whether an earlier attempt committed it, so that this one moved nothing."""
    inserted: int | None = None
    """In mode upsert: rows inserted."""
    updated: int | None = None
    """In mode upsert: existing rows that differed, and were updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(AttemptEvent):
    """Terminal: nothing of this attempt is in the target."""

    name: ClassVar[Literal["failed"]] = "failed"
    error: Mapping[str, Any]
    """``error`` (class), ``message``, ``transient``; where known ``side``, ``code``,
    ``detail``, ``hint``, ``context``, ``constraint``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(BaseEvent):
    """The plan that this run executes."""

    name: ClassVar[Literal["planned"]] = "planned"
    strategy: str
    reasons: tuple[str, ...]
    partitions: int
    committed: int
    """Partitions that earlier executions of this run committed."""
    rows: int | None
    """Estimated."""
    bytes: int | None
    """Estimated."""
    fingerprint: str
    degree: int
    """The number of concurrent streams; with ``--degree auto`` the initial one."""
    seconds: float
    automatic: bool = False
    """Whether ``--degree auto`` is in effect."""
    warnings: tuple[str, ...] = ()
    not_copied: tuple[NotCopied, ...] = ()
    """Objects that the copy leaves out, other than rows."""
    done: bool = False
    """Whether the run was done before, so that nothing is left to do."""
    table: str = ""
    """What is read, as in `BatchTable`."""
    target_table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(BaseEvent):
    """The target is ready: the steps of the mode are done, now or by an earlier call."""

    name: ClassVar[Literal["prepared"]] = "prepared"
    mode: str
    already: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanged(BaseEvent):
    """The run's view of the source was taken, adopted, lost, renewed or released."""

    name: ClassVar[Literal["snapshot"]] = "snapshot"
    state: str
    """``taken``, ``adopted``, ``lost``, ``renewed``, ``released``."""
    taken_at: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying(BaseEvent):
    """Another attempt follows a failed one, after `delay` seconds."""

    name: ClassVar[Literal["retrying"]] = "retrying"
    partition_id: str
    attempt: int
    delay: float


CONNECTIONS = "connections"
RESOURCES = "resources"
AUTOMATIC = "auto"
LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeChanged(BaseEvent):
    """A change of the number of streams, from now on."""

    name: ClassVar[Literal["degree"]] = "degree"
    degree: int
    """The new number of streams; 0: no partition starts, because the source lags."""
    message: str
    cause: str = CONNECTIONS
    """``connections``: a server has none left. ``resources``: see ``--max-memory``. ``auto``: see
    ``--degree auto``. ``lag``: see ``--max-lag``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(BaseEvent):
    """A sample of what the run's sessions on a server wait for; about once a second."""

    name: ClassVar[Literal["sampled"]] = "sampled"
    side: str
    """``source`` or ``target``."""
    waits: Mapping[str, int]
    """The number of sessions by what they wait for, in the server's words; see
    `penstock.backends.api.optional.pulse`. Sessions between two statements are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTaken(BaseEvent):
    """This process does something that one of several does for all, while the others wait."""

    name: ClassVar[Literal["turn"]] = "turn"
    what: str
    """``planning`` or ``finishing``."""
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProcess:
    """Another process of `penstock work`, as its journal describes it."""

    host: str
    """The machine, container or pod."""
    pid: int
    """The id of its main process there."""
    what: str
    """``copying``, ``planning`` or ``finishing``."""
    since: str
    """When it began that, by its clock: the first of its partitions."""
    partition_ids: tuple[str, ...] = ()
    """The awaited partitions that it is copying; in a batch, with their tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(BaseEvent):
    """This process has nothing to do until others have done something, or other ones than before.

    Told once a wait has lasted a moment; it ends with what this process does next: `opened`, `turn`
    or `finished`.
    """

    name: ClassVar[Literal["waiting"]] = "waiting"
    others: tuple[OtherProcess, ...]
    """Empty if they have not written down yet what they are doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChanged(BaseEvent):
    """A step after the last partition: an index is built, a table renamed."""

    name: ClassVar[Literal["step"]] = "step"
    step_id: str
    step: str
    """A human-readable description of the step."""
    state: str
    """``started``, ``done``, ``retrying``, ``failed``."""
    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(BaseEvent):
    """The rows of all partitions were merged into the target, in one transaction."""

    name: ClassVar[Literal["merged"]] = "merged"
    rows: int
    """Rows read and merged."""
    inserted: int
    updated: int
    deleted: int
    """Rows deleted, or marked as deleted, because the source no longer had them."""
    watermark: str = ""
    """The watermark's name; empty without `--incremental`."""
    epoch: int = 0
    moment: str = ""
    """The moment of the source that the target equals."""
    since: str = ""
    """The moment of the night before; empty if all rows were read."""
    full: str = ""
    """The reason why all rows were read; empty if only changes were."""
    unproven: str = ""
    """With a column as cursor: why nights may miss rows; empty if they miss none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDifference:
    """A difference between the two sides and the commit record."""

    partition_id: str | None
    """None for the whole run, if it is unknown which partition differs."""
    label: str
    note: str
    committed: int | None
    """Rows by the commit record."""
    source: int | None
    """Rows; None if not counted."""
    target: int | None
    """Rows; None if they cannot be told from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """The counts of both sides, from comparing a partition."""

    partition_id: str | None
    """None for the whole run."""
    source: int | None
    """Rows; None if not counted."""
    target: int | None
    """Rows; None if they cannot be told from others."""
    source_digest: str | None = None
    """A checksum of the values; None if only rows are counted."""
    target_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(BaseEvent):
    """Both sides were compared after every partition was committed."""

    name: ClassVar[Literal["verified"]] = "verified"
    ok: bool
    partitions: int
    mismatches: int
    """Partitions that differ; 1 if it is unknown which."""
    method: str
    """``counts`` or ``checksums``."""
    seconds: float
    differences: tuple[PartitionDifference, ...] = ()
    compared: tuple[PartitionComparison, ...] = ()
    """Every partition, then the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsChecked(BaseEvent):
    """The rows of all partitions together were compared with one count of all rows."""

    name: ClassVar[Literal["partitions_checked"]] = "partitions_checked"
    ok: bool
    """Whether the two counts are equal."""
    rows: int
    """Rows of the partitions."""
    counted: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(BaseEvent):
    """A warning; the run goes on."""

    name: ClassVar[Literal["warning"]] = "warning"
    message: str
    error: Mapping[str, Any] | None = None
    """Why a table of a batch failed before its first partition; as in `Failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailure:
    """Why a partition is not committed."""

    partition_id: str
    label: str
    attempts: int
    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLater:
    """Partitions that were read as of a later moment than the run's first."""

    taken_at: str
    partition_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTiming:
    """The figures of a committed partition."""

    json_form = JsonForm(defaults=True)

    partition_id: str
    label: str
    attempt: int
    rows: int
    bytes: int
    seconds: float
    wait_source: float
    wait_target: float
    paced: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(BaseEvent):
    """The end of an execution, and its report."""

    name: ClassVar[Literal["finished"]] = "finished"
    status: str
    """``done``: every partition of the plan is committed. ``partial``: the requested ones are.
    Also ``failed`` and ``interrupted``."""
    partitions: int
    committed: int
    """Partitions committed so far, by any execution."""
    attempts: int
    """Attempts of this execution."""
    rows: int
    """Committed by this execution."""
    bytes: int
    seconds: float
    wait_source: float
    """Seconds, summed over all streams."""
    wait_target: float
    busy: float
    """Seconds of all attempts of this execution, summed over all streams."""
    paced: float = 0.0
    """Seconds spent keeping to a rate, summed over all streams."""
    lost: float = 0.0
    """The part of `busy` that was lost in failed attempts."""
    degree: int
    snapshots: int
    """Snapshots used to read the rows of this run; 0 with ``--snapshot none``."""
    inserted: int | None = None
    """In mode upsert: rows inserted by this execution."""
    updated: int | None = None
    """In mode upsert: existing rows that differed, and were updated by this execution."""
    deleted: int | None = None
    """With `--deletes`: rows deleted by this execution because the source no longer had them."""
    error: Mapping[str, Any] | None = None
    """The error that ended the run, unless a failed partition did."""
    failures: tuple[PartitionFailure, ...] = ()
    timings: tuple[PartitionTiming, ...] = ()
    """The slowest partitions of this execution."""
    later: tuple[ReadLater, ...] = ()
    """Committed partitions that were read as of a later moment than the first."""
    not_copied: tuple[NotCopied, ...] = ()
    """Objects that the run leaves out, other than rows; reported by the run's last execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTable:
    """A table of a batch."""

    json_form = JsonForm(defaults=True)

    table: str
    target_table: str
    run_id: str
    """The id of its own run."""
    status: str
    """``found``, then as in `Finished`; ``failed`` also if it could not be planned."""
    error: Mapping[str, Any] | None = None
    """Why it failed, other than by a failed partition."""
    failures: tuple[PartitionFailure, ...] = ()
    """Why partitions are not committed."""
    warnings: tuple[str, ...] = ()
    """Warnings of its plan."""
    not_copied: tuple[NotCopied, ...] = ()
    """Objects that its run leaves out, other than rows."""
    rows: int = 0
    """Committed by this execution."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds of its attempts, summed over all streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStarted(BaseEvent):
    """The tables of a batch have been found. `run_id` is the batch's."""

    name: ClassVar[Literal["batch_started"]] = "batch_started"
    tables: tuple[BatchTable, ...]
    degree: int
    """Concurrent streams over all tables; with ``--degree auto`` the initial number."""
    automatic: bool = False
    """Whether ``--degree auto`` is in effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinished(BaseEvent):
    """The end of a batch: its last event."""

    name: ClassVar[Literal["batch_finished"]] = "batch_finished"
    status: str
    """``done``: every table is done. Also ``failed`` and ``interrupted``."""
    tables: tuple[BatchTable, ...]
    rows: int
    """Committed by this execution."""
    bytes: int
    seconds: float
    not_copied: tuple[NotCopied, ...] = ()
    """Objects that the batch leaves out, other than tables: views, for instance."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: ``planning``, ``preparing``, ``copying``, ``finishing``."""


Event = (
    Opened
    | Progress
    | Committed
    | Failed
    | Planned
    | Prepared
    | SnapshotChanged
    | Retrying
    | DegreeChanged
    | Sampled
    | TurnTaken
    | Waiting
    | StepChanged
    | Merged
    | PartitionsChecked
    | Verified
    | Warned
    | Finished
    | BatchStarted
    | BatchFinished
)
"""Any event: a union that type checkers narrow by `name` or by class."""

BY_NAME: Mapping[str, type[Event]] = {event.name: event for event in get_args(Event)}


def from_line(line: str | bytes) -> Event:
    """Read one event.

    Raises:
        ValueError: the line is not an event of this version; the message says what is expected.
    """
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise ValueError(f"event: expected a JSON object, found {line[:200]!r}") from error
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        raise ValueError(f"event: expected version {VERSION}, found {line[:200]!r}")
    name = raw.get("event")
    kind = BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"event: expected one of {', '.join(BY_NAME)}; found {line[:200]!r}")
    try:
        return from_json(kind, raw)
    except Unreadable as error:
        raise ValueError(f"event {kind.name}: {error}; found {line[:200]!r}") from error
