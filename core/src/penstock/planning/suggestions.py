"""Suggestions for copying a table every night, from its catalog, with reasons. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.model.table_model import MOMENT, TIMESTAMP, ColumnModel, KeyModel, TableModel
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.modes import TRUNCATE, UPSERT
from penstock.spec.night_kinds import COLUMN, XMIN

# Names of columns that applications and frameworks set whenever a row changes.
_CHANGED = re.compile(
    r"(^|_|last)(updated?|modified|changed?|mtime|modification)(_|at|on|date|time|ts|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The facts about a table.

    Args:
        rows: estimated rows; None if unknown.
        unversioned: why a night cannot detect changed rows; empty if it can.
        error: why nothing is known about the table.
    """

    table: TableRef
    model: TableModel = field(default_factory=TableModel)
    rows: int | None = None
    unversioned: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Options for a table, with reasons.

    Args:
        options: by the names of `CopySpec`.
        why: the human-readable reason for them.
        facts: human-readable facts about the table.
        instead: options that the user may choose after looking at the table.
    """

    table: TableRef
    options: Mapping[str, Any]
    why: str
    facts: tuple[str, ...] = ()
    instead: Mapping[str, Any] = field(default_factory=dict)


def suggestion(
    summary: TableSummary, source: SourceCapabilities, target: TargetCapabilities | None
) -> Suggestion:
    """Suggest how to copy a table every night.

    Args:
        summary: the facts about the table.
        source: the capabilities of the source.
        target: the capabilities of the target; None if unknown.
    """
    if summary.error:
        return Suggestion(summary.table, {"skip": True}, summary.error)
    reload = _reload(source, target)
    key, cursor = key_of(summary.model), _cursor_of(summary.model)
    facts = (
        [] if summary.rows is None else [f"about {summary.rows:,} row{'s' * (summary.rows != 1)}"]
    )
    if key is None:
        facts.append("no primary key, and no unique key without NULLs")
        why = "rows cannot be identified: all are loaded every time"
        return Suggestion(summary.table, reload, why, tuple(facts))
    facts.append(f"{'primary' if key.primary else 'unique'} key {', '.join(key.columns)}")
    if target is not None and not target.merges_nights:
        why = f"{target.system} as a target cannot merge changes: all rows are loaded every time"
        return Suggestion(summary.table, reload, why, tuple(facts))
    if not source.shared_snapshots:
        why = f"{source.system} cannot read all rows as of one moment: all are loaded every time"
        return Suggestion(summary.table, reload, why, tuple(facts))
    if summary.model.foreign_keys:
        facts.append(
            'foreign keys are created with atomic = "batch" in [defaults], which merges all tables '
            "in one transaction"
        )
    key_options = {} if key.primary else {"conflict_columns": list(key.columns)}
    if not summary.unversioned:
        why = "row versions show which rows have changed: those are read, and deleted rows found"
        night = {"mode": UPSERT.name, "incremental": XMIN, "deletes": "hard"}
        return Suggestion(summary.table, {**night, **key_options}, why, tuple(facts))
    instead: dict[str, Any] = {}
    if cursor is not None and COLUMN in source.nights:
        instead = {"incremental": cursor.name, "lookback": "1h"}
        what = ", ".join((cursor.native or cursor.type.kind, *_flaws(summary.model, cursor)))
        facts.append(f"{cursor.name} ({what}) may say when a row has changed")
    why = (
        f"{summary.unversioned}: all rows are read every time, and those that differ are written, "
        "in one transaction"
    )
    merge = {"mode": UPSERT.name, "atomic": "table", "deletes": "hard"}
    return Suggestion(summary.table, {**merge, **key_options}, why, tuple(facts), instead)


def key_of(model: TableModel) -> KeyModel | None:
    """Return the primary key, or else a unique key of columns that are never NULL."""
    nullable = {column.name for column in model.columns if column.nullable}
    for key in sorted(model.keys, key=lambda key: not key.primary):
        if key.primary or not nullable.intersection(key.columns):
            return key
    return None


def _cursor_of(model: TableModel) -> ColumnModel | None:
    """Return the column that most likely records when a row changed."""
    candidates = [
        column
        for column in model.columns
        if column.type.kind in (TIMESTAMP, MOMENT)
        and (column.on_update is not None or _CHANGED.search(column.name))
    ]
    return min(candidates, key=lambda column: len(_flaws(model, column)), default=None)


def _flaws(model: TableModel, column: ColumnModel) -> Sequence[str]:
    first = [index.columns[:1] for index in model.indexes]
    first += [key.columns[:1] for key in model.keys]
    flaws = ("may be NULL",) if column.nullable else ()
    return flaws if (column.name,) in first else (*flaws, "without an index")


def _reload(source: SourceCapabilities, target: TargetCapabilities | None) -> dict[str, Any]:
    """Return options that reload all rows."""
    modes = (TRUNCATE,) if target is None else target.modes
    mode = TRUNCATE if TRUNCATE in modes else next(mode for mode in modes if mode.starts_empty)
    return {"mode": mode.name, **({} if source.shared_snapshots else {"snapshot": "none"})}


def view_suggestion(view: NotCopied) -> Suggestion:
    """Suggest how to copy a view, which is copied only if it is named."""
    table = TableRef.parse(view.name, view.kind)
    reason = f"one of the {view.kind}, which are copied only if a section names them"
    return Suggestion(table, {}, reason, instead={"mode": TRUNCATE.name})
