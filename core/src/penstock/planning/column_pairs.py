"""The mapping of source columns to target columns, and the form in which values travel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.backends.api.facts import Fit
from penstock.backends.api.optional.texts import GIVEN
from penstock.backends.api.worker import CSV, ROWS, are_shared
from penstock.errors import PlanningError
from penstock.model.tables import EXPRESSION, KEY, Column, ColumnPair
from penstock.spec.groups.route import Route

FitColumns = Callable[[Sequence[Column], Sequence[Column]], list[Fit]]


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The columns that are copied, paired with the target's, and remarks on the mapping."""

    columns: tuple[Column, ...]
    """The source's columns that are copied."""
    pairs: tuple[ColumnPair, ...]
    format: str
    """The format of the streams: the best one that carries every column."""
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    changed: tuple[str, ...]
    """The source's columns whose values may change on the way."""


def map_columns(
    route: Route,
    mine: Sequence[Column],
    theirs: Sequence[Column],
    *,
    fit: FitColumns,
    formats: Sequence[str],
    whole_rows: bool = True,
) -> ColumnMapping:
    """Pair the source's columns with the target's, by name or by position.

    Args:
        route: the options that select and pair columns.
        mine: the source's columns.
        theirs: the target's columns.
        fit: see `TargetCatalog.fit`; a cast that the source lacks is no fit.
        formats: the formats that both support, best first for the source.
        whole_rows: whether partitions are all rows of some files, with all columns as they are.

    Raises:
        PlanningError: columns have no counterpart, or types do not fit; the message lists all.
    """
    columns = chosen_columns(route, mine)
    if route.map == "position":
        pairs, lines = _by_position(route, columns, theirs)
    else:
        pairs, lines = _by_name(route, columns, theirs)
    unpaired = bool(lines)
    fits = fit([source for source, _ in pairs], [target for _, target in pairs])
    unfit = set()
    for (source, target), result in zip(pairs, fits, strict=True):
        if result.reason:
            unfit.add(source.name)
            lines.append((source.name, source.type, target.type, result.reason))
    if lines:
        raise PlanningError(
            f"{route.source_name} does not fit into {route.target_name}:\n"
            + _table([("column", "source", "target", "why"), *lines])
            + (_advice(route, columns, theirs, unfit) if unpaired else "")
        )
    format_, reasons = _form(route, pairs, fits, formats, whole_rows=whole_rows)
    return ColumnMapping(
        columns=tuple(source for source, _ in pairs),
        pairs=tuple(
            ColumnPair(
                source.name,
                target.name,
                result.cast,
                result.canonical,
                source.traits.get(EXPRESSION, ""),
                source.traits.get(KEY),
            )
            for (source, target), result in zip(pairs, fits, strict=True)
        ),
        format=format_,
        reasons=tuple(reasons),
        warnings=tuple(
            f"{source.name} ({source.type} into {target.type}): {result.warning}"
            for (source, target), result in zip(pairs, fits, strict=True)
            if result.warning
        )
        + _other_formulas(route, columns, theirs, formats),
        changed=tuple(
            source.name for (source, _), result in zip(pairs, fits, strict=True) if result.lossy
        ),
    )


def chosen_columns(route: Route, mine: Sequence[Column]) -> list[Column]:
    """Return the source's columns to copy, in the requested order.

    Raises:
        PlanningError: a requested column does not exist.
    """
    if route.columns is None:
        return list(mine)
    by_name = {column.name: column for column in mine}
    unknown = [name for name in route.columns if name not in by_name]
    if unknown:
        raise PlanningError(
            f"--columns: {route.source_name} has no column {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(by_name)}"
        )
    # A column that the source does not have is requested through its expression.
    more = [name for name in route.expressions if name not in route.columns]
    return [by_name[name] for name in (*route.columns, *more)]


Pairs = list[tuple[Column, Column]]
Lines = list[tuple[str, str, str, str]]


def _by_name(route: Route, columns: list[Column], theirs: Sequence[Column]) -> tuple[Pairs, Lines]:
    targets = {column.name: column for column in theirs}
    names = {column.name for column in columns}
    pairs: Pairs = []
    lines: Lines = []
    for column in columns:
        target = targets.get(column.name)
        if target is None:
            lines.append((column.name, column.type, "-", "the target has no such column"))
        elif route.columns is None and column.generated and target.generated:
            continue  # both sides compute it; it is not copied
        else:
            pairs.append((column, target))
    if route.columns is None:
        lines += [
            (column.name, "-", column.type, "the source has no such column")
            for column in theirs
            if column.name not in names and not column.generated and not route.excludes(column.name)
        ]
    return pairs, lines


def _other_formulas(
    route: Route, columns: Sequence[Column], theirs: Sequence[Column], formats: Sequence[str]
) -> tuple[str, ...]:
    """Return warnings about columns that two equal systems compute by unlike expressions."""
    if route.columns is not None or route.map == "position" or are_shared(formats):
        return ()
    formulas = {each.name: each.formula for each in theirs if each.generated}
    return tuple(
        f"{each.name}: the source computes it as {each.formula}, and the target as {formula}"
        for each in columns
        if each.generated and each.formula and (formula := formulas.get(each.name))
        if formula != each.formula
    )


def _by_position(
    route: Route, columns: list[Column], theirs: Sequence[Column]
) -> tuple[Pairs, Lines]:
    if route.columns is None and len(columns) == len(theirs):
        pairs = list(zip(columns, theirs, strict=True))
        return [pair for pair in pairs if not (pair[0].generated and pair[1].generated)], []
    targets = [column for column in theirs if not column.generated]
    stored = [column for column in columns if not column.generated]
    if route.columns is None and len(columns) > len(targets) == len(stored):
        columns = stored
    count = min(len(columns), len(targets))
    lines = [
        (column.name, column.type, "-", f"the target has only {len(targets)} columns to write")
        for column in columns[count:]
    ] + [
        ("-", "-", f"{column.name} {column.type}", f"the source has only {len(columns)} columns")
        for column in targets[count:]
    ]
    if route.columns is not None:  # other columns of the target keep their defaults
        lines = [line for line in lines if line[0] != "-"]
    return list(zip(columns, targets, strict=False)), lines


def _advice(
    route: Route, columns: list[Column], theirs: Sequence[Column], unfit: Collection[str]
) -> str:
    if route.map == "position":
        return "\nuse --columns to choose as many columns as the target has"
    common = {column.name for column in theirs if not column.generated}
    shared = [column.name for column in columns if column.name in common]
    if not shared:
        return "\nno column name is on both sides; if the order is the same, use --map position"
    fitting = [name for name in shared if name not in unfit]
    if not fitting:
        return ""
    return (
        f"\nto copy only the columns that {'fit' if unfit else 'both have'}: --columns "
        f"{','.join(fitting)}; if names differ but the order is the same: --map position"
    )


def _form(
    route: Route,
    pairs: Pairs,
    fits: Sequence[Fit],
    formats: Sequence[str],
    *,
    whole_rows: bool,
) -> tuple[str, list[str]]:
    """Return the stream format, and why it is not the best one."""
    carried = [
        name
        for name in formats
        if all(name in fit.formats for fit in fits) and (whole_rows or name != CSV)
    ]
    if not carried:
        raise PlanningError(
            f"{route.source_name} and {route.target_name} share no stream format that carries "
            f"every column; they share {', '.join(formats) or 'none'}"
        )
    fit_of_column = [(source.name, fit) for (source, _), fit in zip(pairs, fits, strict=True)]
    reasons = []
    if any(source.traits.get(GIVEN) for source, _ in pairs):
        reasons.append("columns are read as the table's types, and each value is checked")
    if CSV in formats:
        reasons += _why_parsed(pairs, carried[0], whole_rows=whole_rows)
    if carried[0] == ROWS:
        reasons.append("rows are written as the source formats them")
    elif why := _why_not_rows(pairs) if ROWS in formats else "":
        reasons.append(f"rows are formatted by the worker, because {why}")
    elif carried[0] != formats[0]:
        slow = [name for name, fit in fit_of_column if formats[0] not in fit.formats]
        if 0 < len(slow) < len(pairs):
            reasons.append(f"{carried[0]} streams, because of {_name_list(slow)}")
    casts = [f"{name}::{fit.cast}" for name, fit in fit_of_column if fit.cast]
    if casts:
        reasons.append(f"cast by the source: {_name_list(casts)}")
    return carried[0], reasons


def _why_parsed(pairs: Pairs, format_: str, *, whole_rows: bool) -> list[str]:
    """Return the reason why the rows of text files are parsed, or pass through as they are."""
    if format_ == CSV:
        return ["rows pass through as the files have them"]
    if not whole_rows:
        return ["rows are parsed, because rows or columns are selected or changed"]
    why = next((why for source, _ in pairs if (why := source.traits.get(CSV))), "")
    return [f"rows are parsed, because {why}"] if why else []


def _why_not_rows(pairs: Pairs) -> str:
    """Return what keeps rows from becoming CSV in the source; empty if only some types do."""
    return next((why for pair in pairs for column in pair if (why := column.traits.get(ROWS))), "")


def _name_list(names: Sequence[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _table(rows: Sequence[tuple[str, str, str, str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(4)]
    return "\n".join(
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
