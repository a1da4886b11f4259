"""What a table is made with besides columns and keys, where its source is of another system:
defaults, numbered columns, checks and indexes that mean the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from penstock.backends.sql.dialect import Dialect
from penstock.backends.sql.expressions import read, written_check, written_default
from penstock.model.plans import Step
from penstock.model.tables import (
    CHECK,
    DEFAULT,
    IDENTITY,
    INDEX,
    UNIQUE,
    NotCopied,
    TableDefinition,
    TablePart,
    TableRef,
)

_SHORT = ("boolean", "integer", "decimal", "float", "date", "time", "timestamp", "moment", "uuid")
"""What any index can hold."""


@dataclass(frozen=True, slots=True)
class Made:
    """Of a definition's parts, what the target's table gets."""

    columns: Mapping[str, str]
    """What follows the types of some columns."""
    numbered: tuple[str, ...]
    """Columns that the server numbers."""
    steps: tuple[Step, ...]
    """For when the table is loaded; what cannot be done then is left out, and reported."""
    left: tuple[NotCopied, ...]
    """What of a definition's `besides` stands for the parts that are made."""


def default_part(column: str, text: str, left: NotCopied) -> list[TablePart]:
    """None where the default may mean something else elsewhere."""
    meaning = read(text)
    return [] if meaning is None else [TablePart(DEFAULT, (column,), meaning, left)]


def check_part(text: str, columns: Collection[str], left: NotCopied) -> list[TablePart]:
    meaning = read(text, columns)
    return [] if meaning is None else [TablePart(CHECK, (), meaning, left)]


def made_parts(
    dialect: Dialect,
    table: TableRef,
    kinds: Mapping[str, str],
    definition: TableDefinition,
    unindexed: Collection[str] = (),
    *,
    at_once: bool = False,
) -> Made:
    """
    Parameters:
        kinds: what the columns of the table hold, see `expressions`.
        unindexed: columns that no index can have.
        at_once: the steps are done before the table is loaded, so they make nothing that may
            refuse rows which the source has.
    """
    columns: dict[str, str] = {}
    numbered: list[str] = []
    steps: list[Step] = []
    left: list[NotCopied] = []
    for part in definition.parts:
        if not kinds.keys() >= set(part.names):
            continue
        name = part.names[0] if part.names else ""
        text = ""
        if part.kind == IDENTITY and kinds[name] in ("integer", "decimal"):
            text = columns[name] = dialect.numbered(*part.meaning)
            numbered += [name] * bool(text)
        elif part.kind == DEFAULT:
            default = written_default(part.meaning, kinds[name], dialect)
            text = columns[name] = f"DEFAULT {default}" if default else ""
        elif part.kind == CHECK and not at_once:
            text = written_check(part.meaning, kinds, dialect) or ""
            if text:
                text = f"ALTER TABLE {dialect.table(table)} ADD CHECK ({text})"
                steps.append(_step(part, table, text, len(steps)))
        elif part.kind in (INDEX, UNIQUE) and not (
            set(unindexed) & set(part.names)
            or (at_once and any(kinds[each] not in _SHORT for each in part.names))
        ):
            text = _index(dialect, table, part)
            steps.append(_step(part, table, text, len(steps)))
        left += [part.left] * bool(text)
    return Made(columns, tuple(numbered), tuple(steps), tuple(left))


def _index(dialect: Dialect, table: TableRef, part: TablePart) -> str:
    names = list(map(dialect.ident, part.names))
    if part.kind == UNIQUE:
        called = dialect.ident(f"{table.name}_{'_'.join(part.names)}_key")
        where = " AND ".join(f"{name} IS NOT NULL" for name in names)
        on = f"{dialect.table(table)} ({', '.join(names)})"
        return f"CREATE UNIQUE INDEX {called} ON {on} WHERE {where}"
    called = part.left.name if table.name in part.left.name else f"{table.name}_{part.left.name}"
    keys = (
        listed + " DESC" * (name in part.meaning)
        for listed, name in zip(names, part.names, strict=True)
    )
    return f"CREATE INDEX {dialect.ident(called)} ON {dialect.table(table)} ({', '.join(keys)})"


def _step(part: TablePart, table: TableRef, statement: str, rank: int) -> Step:
    instead = replace(part.left, remedy=f"{statement};", table=str(table))
    what = f"make {part.kind} {part.left.name} of {table}"
    return Step(f"{part.kind} {part.left.name}", what, statement, True, rank, instead=instead)
