"""How a table is best copied every night, from what its catalog says, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.model.table_model import MOMENT, TIMESTAMP, ColumnModel, KeyModel, TableModel
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.modes import MERGE, MODES, TRUNCATE, UPSERT

# Names of columns that applications and frameworks set whenever a row changes.
_CHANGED = re.compile(
    r"(^|_|last)(updated?|modified|changed?|mtime|modification)(_|at|on|date|time|ts|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KnownTable:
    """
    Parameters:
        rows: estimated; None where nothing is known.
        unversioned: why a night cannot tell which rows have changed; empty: it can.
        error: why nothing is known of the table.
    """

    table: TableRef
    model: TableModel = field(default_factory=TableModel)
    rows: int | None = None
    unversioned: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """
    Parameters:
        options: as `CopySpec` has them.
        why: the reason for them, for people.
        facts: what is known of the table, for people.
        instead: options that a person may choose, having looked at the table.
    """

    table: TableRef
    options: Mapping[str, Any]
    why: str
    facts: tuple[str, ...] = ()
    instead: Mapping[str, Any] = field(default_factory=dict)


def suggestion(known: KnownTable, target: TargetCapabilities | None) -> Suggestion:
    """
    Parameters:
        target: what the target can do; None where it is not known.
    """
    if known.error:
        return Suggestion(known.table, {"skip": True}, known.error)
    key, cursor = key_of(known.model), _cursor_of(known.model)
    facts = [] if known.rows is None else [f"about {known.rows:,} row{'s' * (known.rows != 1)}"]
    if key is None:
        facts.append("no primary key, and no unique key without NULLs")
        why = "rows cannot be told apart: all are loaded every time"
        return Suggestion(known.table, _reload(target), why, tuple(facts))
    facts.append(f"{'primary' if key.primary else 'unique'} key {', '.join(key.columns)}")
    if target is not None and MERGE not in target.modes:
        why = f"{target.system} as a target cannot merge changes: all rows are loaded every time"
        return Suggestion(known.table, _reload(target), why, tuple(facts))
    own = {} if key.primary else {"conflict_columns": list(key.columns)}
    if not known.unversioned:
        why = "row versions tell which rows have changed; those are read, and what is gone is found"
        night = {"mode": UPSERT.name, "incremental": "xmin", "deletes": "hard"}
        return Suggestion(known.table, {**night, **own}, why, tuple(facts))
    instead: dict[str, Any] = {}
    if cursor is not None:
        instead = {"incremental": cursor.name, "lookback": "1h"}
        what = ", ".join((cursor.native or cursor.type.kind, *_flaws(known.model, cursor)))
        facts.append(f"{cursor.name} ({what}) may say when a row has changed")
    why = (
        f"{known.unversioned}: all rows are read every time, and those that differ are written, in "
        "one transaction"
    )
    merge = {"mode": UPSERT.name, "atomic": "table", "deletes": "hard"}
    return Suggestion(known.table, {**merge, **own}, why, tuple(facts), instead)


def key_of(model: TableModel) -> KeyModel | None:
    """The primary key, or else a unique key of columns that are never NULL."""
    nullable = {column.name for column in model.columns if column.nullable}
    for key in sorted(model.keys, key=lambda key: not key.primary):
        if key.primary or not nullable.intersection(key.columns):
            return key
    return None


def _cursor_of(model: TableModel) -> ColumnModel | None:
    """The column that most likely says when a row has changed."""
    found = [
        column
        for column in model.columns
        if column.type.kind in (TIMESTAMP, MOMENT)
        and (column.on_update is not None or _CHANGED.search(column.name))
    ]
    return min(found, key=lambda column: len(_flaws(model, column)), default=None)


def _flaws(model: TableModel, column: ColumnModel) -> Sequence[str]:
    first = [index.columns[:1] for index in model.indexes]
    first += [key.columns[:1] for key in model.keys]
    flaws = ("may be NULL",) if column.nullable else ()
    return flaws if (column.name,) in first else (*flaws, "without an index")


def _reload(target: TargetCapabilities | None) -> dict[str, Any]:
    """A mode that loads all rows anew."""
    modes = MODES.values() if target is None else target.modes
    if target is None or TRUNCATE in modes:
        return {"mode": TRUNCATE.name}
    return {"mode": next(mode.name for mode in modes if mode.starts_empty)}


def view_suggestion(view: NotCopied) -> Suggestion:
    """A view, which is copied only if it is named."""
    table = TableRef.parse(view.name, view.kind)
    reason = f"among the {view.kind}, which are copied only where a section names them"
    return Suggestion(table, {}, reason, instead={"mode": TRUNCATE.name})
