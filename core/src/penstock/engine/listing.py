"""`runs`: the runs in a target's control tables, the newest first, each with its batch."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from penstock.backends.api.execution.control import (
    GIVEN_UP,
    ControlStore,
    RunHead,
    RunLine,
)
from penstock.engine.stored_runs import (
    is_at_work,
    load_run,
    missing_run_error,
    shown_status,
    spec_of,
    target_catalog,
)
from penstock.engine.value_display import isolate_display
from penstock.errors import UsageError
from penstock.model.journal import KILLED, RUNNING
from penstock.spec.batch_spec import batch_of
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import check_run_id
from penstock.spec.references import is_reference
from penstock.spec.units import parse_duration

STATUSES = ("created", RUNNING, KILLED, "done", "partial", "failed", "interrupted", GIVEN_UP)
_AGO = re.compile(r"\d+(\.\d+)?\s*[a-z]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in a list."""

    run_id: str
    batch: str
    """The batch to which it belongs; empty if it belongs to none."""
    source: str
    """A description of what is read; `target` describes what is written."""
    target: str
    mode: str
    status: str
    """The status in the target; ``killed`` if it is ``running`` there but has no live process."""
    at_work: bool | None
    """Whether a process is executing it; None if that is unknown."""
    partitions: int
    committed: int
    rows: int
    created_at: str
    finished_at: str | None
    seconds: float | None
    """Seconds from its creation to the end of the last execution, or until now if it is running;
    None if it was killed."""
    data_only: bool = False
    """Whether it fills an existing table, whose foreign keys it drops and restores."""


@isolate_display
def runs(
    *,
    target: str,
    control_schema: str = "penstock",
    table: str | None = None,
    status: Sequence[str] = (),
    since: str | datetime | None = None,
    batch: str | None = None,
    limit: int | None = None,
) -> tuple[RunEntry, ...]:
    """Return the runs in a target's control tables, the newest first.

    Args:
        target: the connection.
        control_schema: the schema of the control tables.
        table: a pattern for the name of the source's or the target's table, as in `fnmatch`; a
            pattern without a dot matches names in any schema.
        status: return only runs with one of these; see `RunEntry.status`.
        since: return only runs created after a moment, or within a duration such as ``2d``.
        batch: return only runs of this batch.
        limit: the maximum number of runs; None for no limit.

    Raises:
        UsageError: an argument is malformed.
        TransientError: the server cannot be reached.
    """
    if unknown := [name for name in status if name not in STATUSES]:
        raise UsageError(
            f"--status: expected some of {', '.join(STATUSES)}; found {', '.join(unknown)}"
        )
    if limit is not None and limit < 1:
        raise UsageError(f"--limit: expected at least 1, found {limit}")
    first = _moment(since)
    with target_catalog(target, control_schema) as catalog:
        control = catalog.control
        heads = [head for head in control.runs.heads() if first is None or _time(head) >= first]
        if batch is not None:
            heads = [head for head in heads if head.run_id.startswith(f"{batch}-")]
        stored = {RUNNING if name == KILLED else name for name in status}
        heads = [head for head in heads if not stored or head.status in stored]
        if table is None and batch is None and not {RUNNING, KILLED} & set(status):
            heads = heads[:limit]
        entries = []
        for line in control.runs.lines(heads):
            spec = spec_of(line.head.run_id, line.spec)
            of = batch_of(line.head.run_id, spec)
            if (batch is not None and of != batch) or not _matches(spec, table):
                continue
            entry = _entry(line, spec, of, is_at_work(control, line.head, spec))
            if not status or entry.status in status:
                entries.append(entry)
            if limit is not None and len(entries) == limit:
                break
        return tuple(entries)


def batch_runs(
    batch_id: str, *, target: str, control_schema: str = "penstock"
) -> tuple[RunEntry, ...]:
    """Return the runs of a batch's tables, ordered by id; empty if there is no such batch.

    Args:
        batch_id: the run id of the batch.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the id is malformed.
    """
    check_run_id(batch_id)
    entries = runs(target=target, control_schema=control_schema, batch=batch_id)
    return tuple(sorted(entries, key=lambda entry: entry.run_id))


def recorded_source(run_id: str, *, target: str, control_schema: str = "penstock") -> str:
    """Return the reference to the source's connection that a run or a batch records.

    Args:
        run_id: the id of the run or the batch.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: there is no such run, or it records no reference (``env:NAME``, ``file:/PATH``).
    """
    with target_catalog(target, control_schema) as catalog:
        run = catalog.control.runs.find(run_id)
    if run is None:
        entries = batch_runs(run_id, target=target, control_schema=control_schema)
        if not entries:
            raise missing_run_error(run_id, control_schema)
        with target_catalog(target, control_schema) as catalog:
            run = load_run(catalog, entries[0].run_id, control_schema)
    source = str(run.spec.get("source") or "")
    if not is_reference(source):
        raise UsageError(
            f"expected --source: run {run_id} was begun with {source or 'no connection'}, and only "
            "references (env:NAME, file:/PATH) can be taken from a run"
        )
    return source


def count_unplanned(control: ControlStore, batch_id: str, planned: Collection[str]) -> int:
    """Return how many tables of a batch have no run.

    They could not be planned, or the batch, which works on one window of tables at a time,
    ended before it reached them.

    Args:
        control: the target's control store.
        batch_id: the run id of the batch.
        planned: ids of the existing runs.
    """
    tables = {
        run_id for journal in control.journals.of([batch_id])[batch_id] for run_id in journal.runs
    }
    return len(tables.difference(planned))


def batch_unplanned(
    batch_id: str, planned: Collection[str], *, target: str, control_schema: str = "penstock"
) -> int:
    """Return how many tables of a batch have no run in the target; see `count_unplanned`.

    Args:
        batch_id: the run id of the batch.
        planned: the ids of the batch's runs.
        target: the target's connection.
        control_schema: the schema of the control tables.
    """
    with target_catalog(target, control_schema) as catalog:
        return count_unplanned(catalog.control, batch_id, planned)


def without_run(batch_id: str, count: int) -> str:
    """Return a sentence on the tables of a batch that have no run."""
    tables = "1 more table has" if count == 1 else f"{count:,} more tables have"
    return (
        f"{tables} no run yet, because batch {batch_id} ended or failed before planning that; "
        f"repeat its copy-all with the same options and --run-id {batch_id}"
    )


def _entry(line: RunLine, spec: CopySpec, batch: str, at_work: bool | None) -> RunEntry:
    head = line.head
    status = shown_status(head.status, at_work)
    ended = _parsed(head.finished_at) if head.finished_at else None
    now = datetime.fromtimestamp(time.time(), UTC) if status == RUNNING else None
    last = ended or now
    return RunEntry(
        run_id=head.run_id,
        batch=batch,
        source=str(line.spec.get("table") or line.spec.get("query") or line.spec.get("source")),
        target=str(
            line.spec.get("target_table") or line.spec.get("table") or line.spec.get("target")
        ),
        mode=spec.mode,
        status=status,
        at_work=at_work,
        partitions=line.partitions,
        committed=line.committed,
        rows=line.rows,
        created_at=head.created_at,
        finished_at=head.finished_at,
        seconds=None if last is None else round((last - _time(head)).total_seconds(), 3),
        data_only=spec.data_only,
    )


def _matches(spec: CopySpec, pattern: str | None) -> bool:
    if pattern is None:
        return True
    names = [name for name in (spec.table, spec.target_table) if name]
    if "." not in pattern:
        names += [name.rpartition(".")[2] for name in names]
    return any(fnmatchcase(name, pattern) for name in names)


def _time(head: RunHead) -> datetime:
    return _parsed(head.created_at)


def _parsed(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _moment(since: str | datetime | None) -> datetime | None:
    if since is None or isinstance(since, datetime):
        return since if since is None or since.tzinfo else since.astimezone()
    text = since.strip()
    if _AGO.fullmatch(text):
        seconds = parse_duration(text, "--since")
        return datetime.fromtimestamp(time.time(), UTC) - timedelta(seconds=seconds)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            "--since: expected a duration such as 2d or 12h, or a date or time such as "
            f"2026-07-14; found {since!r}"
        ) from None
    return moment if moment.tzinfo else moment.astimezone()
