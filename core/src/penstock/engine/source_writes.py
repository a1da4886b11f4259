"""Whether a source has something new, found without reading rows: for whoever waits for that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from penstock.backends.api.execution.control import ControlStore
from penstock.backends.api.optional.writes import ListsFiles, NoticesWrites
from penstock.backends.api.source import SourceCatalog
from penstock.engine.connections import resolve
from penstock.engine.stored_runs import target_catalog
from penstock.engine.value_display import isolate_display
from penstock.engine.watermarks import find_watermark
from penstock.errors import PlanningError, UsageError
from penstock.model.awaited import during
from penstock.model.nights import Watermark
from penstock.model.tables import Located, Relation, TableRef


@dataclass(frozen=True, slots=True)
class SourceWrites:
    """What shows whether a source was written to."""

    mark: str
    """Another text once the source was written to. It may change without a write, too."""
    text: str
    """The same for people: counters, or the number of files."""
    is_new: bool
    """Whether there may be something that neither `since` nor the watermark covers."""
    epoch: int | None = None
    """The number of the last night of the watermark; None if it was not looked up, or there is
    none."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The version of each file by its path, if the source is files."""


@isolate_display
def source_writes(
    source: str,
    *,
    table: str | None = None,
    since: str = "",
    target: str | None = None,
    watermark: str | None = None,
    control_schema: str = "penstock",
) -> SourceWrites:
    """Look whether a source was written to. It reads no row.

    A server is asked for its counters of writes to the table, which may lag by some seconds; files
    are listed; a database in one file has one state for all of its tables. Others cannot tell.

    Args:
        source: the connection to the source.
        table: the table; None if the source is files.
        since: the `mark` of an earlier look; with the same one, nothing is new.
        target: for a table, the connection to a target with a watermark: what its last night has
            read is not new. It is asked only if the mark is another one.
        watermark: the name of the watermark, or of a table that it leads from or to; by default
            the table.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: a connection cannot be resolved, or the table is missing from the call.
        PlanningError: the table does not exist, or the source cannot tell.
        TransientError: a server cannot be reached.
    """
    url, backend, *_ = resolve(source, "--source")
    if isinstance(backend, ListsFiles):
        return _listed(backend.list_files(url), since)
    if table is None and not backend.located:
        raise UsageError(
            f"--source: {backend.place(url).namespace} is a database: expected --table, found none"
        )
    with during("connecting to the source"):
        catalog = backend.source(url)
    with closing(catalog):
        relation = _relation(catalog, table)
        found = _of_table(catalog, relation)
        if found.mark == since:
            return found
        if target is None:
            return replace(found, is_new=True)
        with target_catalog(target, control_schema) as other:
            last = find_watermark(other.control, watermark or str(relation))
            is_read = last is not None and _was_read(catalog, relation, last, other.control)
        return replace(found, is_new=not is_read, epoch=last.epoch if last else None)


def _listed(files: Mapping[str, str], since: str) -> SourceWrites:
    content = "\n".join(f"{path} {version}" for path, version in sorted(files.items()))
    mark = _digest(content)
    text = f"{len(files):,} file{'' if len(files) == 1 else 's'}"
    return SourceWrites(mark, text, is_new=bool(files) and mark != since, files=files)


def _relation(catalog: SourceCatalog, table: str | None) -> Relation:
    if table is None:
        return Located()
    ref = TableRef.parse(table, "--table")
    found = ref if ref.schema else catalog.find(ref.name)
    if found is None:
        raise PlanningError(f"--table {table}: no such table in the source's search path")
    return found


def _of_table(catalog: SourceCatalog, relation: Relation) -> SourceWrites:
    if isinstance(catalog, NoticesWrites) and isinstance(relation, TableRef):
        writes = catalog.writes(relation)
        return SourceWrites(writes.mark, writes.text, is_new=False)
    state = catalog.state(relation)
    if not state.writes:
        raise PlanningError(
            f"source: {relation}: this kind of source cannot tell, without reading its rows, "
            "whether it was written to: expected files, a database in one file, or a server that "
            "counts the writes to each table"
        )
    mark = _digest("\n".join((state.layout, state.parts, state.shape, state.writes)))
    return SourceWrites(mark, state.writes, is_new=False)


def _was_read(
    catalog: SourceCatalog, relation: Relation, last: Watermark, control: ControlStore
) -> bool:
    """Whether the last night has read everything that was written, as far as is known."""
    run = control.runs.find(last.run_id)
    if run is None:
        return False  # the user has moved the watermark
    if isinstance(catalog, NoticesWrites) and isinstance(relation, TableRef):
        read = last.horizon
        return read is not None and catalog.was_all_read(relation, run.source_state, read)
    now, then = catalog.state(relation), run.source_state
    same = ("layout", "parts", "shape", "writes")
    return all(getattr(now, name) == getattr(then, name) for name in same)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
