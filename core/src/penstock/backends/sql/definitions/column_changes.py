"""Columns of an existing table, altered to follow those of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.shared.values.widths import Width
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.drift import ADD, RENAME, WIDEN, ColumnChange
from penstock.model.plans import Step
from penstock.model.tables import Column, ColumnPair, TableRef


def needed_changes(
    differences: PermittedDifferences,
    width: Callable[[str], Width | None],
    text: Callable[..., str],
    rewrites: Callable[[Width, Width], bool],
) -> Iterator[ColumnChange]:
    """Yield the necessary changes without their statements.

    The cost of a change that rewrites the table is a single word.

    Args:
        differences: how the table's columns differ from the source's.
        width: returns the width of a type.
        text: returns a column's definition for a statement, given the current column, its new
            type and whether it will allow NULL.
        rewrites: whether widening one type to another rewrites the table.
    """
    called = dict(differences.renamed)
    for old, new in differences.renamed:
        yield ColumnChange(RENAME, new, old)
    loose = {each.name: each for each in differences.newly_nullable}
    for current, created in differences.type_pairs:
        if not _is_wider(width(created.type), width(current.type)):
            continue
        nullable = loose.pop(current.name, None) is not None
        mine, theirs = width(current.type), width(created.type)
        assert mine is not None
        assert theirs is not None
        yield ColumnChange(
            WIDEN,
            called.get(current.name, current.name),
            current.type,
            created.type,
            text(current, created.type, nullable=nullable),
            nullable,
            cost="rewrites" if rewrites(mine, theirs) else "",
        )
    for current in loose.values():
        defined = text(current, current.type, nullable=True)
        column = called.get(current.name, current.name)
        yield ColumnChange(WIDEN, column, text=defined, nullable=True)
    for each in differences.added:
        yield ColumnChange(ADD, each.name, type=each.type, text=each.type)


def _is_wider(new: Width | None, current: Width | None) -> bool:
    if new is None or current is None:
        return False
    return new.holds(current) and not current.holds(new)


def with_statements(
    dialect: CatalogDialect, table: TableRef, changes: Sequence[ColumnChange]
) -> tuple[ColumnChange, ...]:
    """Return changes to a table's columns, each with the statement that makes it.

    Args:
        dialect: the dialect of the statements.
        table: the table.
        changes: the changes, without statements.
    """
    return tuple(
        replace(each, statement=dialect.change_column_statement(table, each)) for each in changes
    )


def change_step(table: TableRef, change: ColumnChange) -> Step:
    """Return the step that makes a change before the first partition."""
    return Step(
        f"{change.kind} {change.column}", f"{change} ({table})", change.statement, change=change
    )


def stage_script(
    dialect: CatalogDialect, stage: TableRef, changes: Sequence[ColumnChange]
) -> list[str]:
    """Return the same changes for a table with the same columns but without constraints.

    Args:
        dialect: the dialect of the statement.
        stage: the table with the staged rows.
        changes: the changes to the target's columns.
    """
    return [
        dialect.change_column_statement(
            stage,
            replace(each, text=each.type, nullable=False) if each.kind == WIDEN else each,
        )
        for each in changes
        if each.type or each.kind == RENAME
    ]


def is_applied(change: ColumnChange, columns: Mapping[str, Column]) -> bool:
    """Whether a change has been made.

    Args:
        change: the change.
        columns: the table's columns, by name.
    """
    column = columns.get(change.column)
    if column is None:
        return False
    if change.kind == RENAME:
        return change.was not in columns
    if change.kind == ADD:
        return True
    return (not change.type or column.type != change.was) and (
        not change.nullable or column.nullable
    )


def check_columns_unchanged(
    session: Session, table: TableRef, stage: TableRef, pairs: Sequence[ColumnPair]
) -> None:
    """Check the table's columns before the merge.

    Args:
        session: the session with the database.
        table: the table.
        stage: the table with the staged rows.
        pairs: the copied columns.

    Raises:
        TargetChanged: they differ from those that the stage was created for.
    """
    mine, theirs = (
        {name: str(type_) for name, type_ in session.describe_all([each])[each]}
        for each in (stage, table)
    )
    check_types(table, mine, theirs, pairs)


def check_types(
    table: TableRef,
    planned: Mapping[str, str],
    current: Mapping[str, str],
    pairs: Sequence[ColumnPair],
) -> None:
    """Check the types of a table's columns.

    Args:
        table: the table.
        planned: the types that the run was planned with, by column.
        current: those that it has now.
        pairs: the copied columns.

    Raises:
        TargetChanged: they differ.
    """
    for pair in pairs:
        if planned.get(pair.target) != current.get(pair.target):
            raise TargetChanged(
                f"target: expected column {pair.target!r} of {table} to be "
                f"{planned.get(pair.target)}, as when the run was planned, found "
                f"{current.get(pair.target, 'none')}; start a new run",
                Diagnosis(side="target"),
            )
