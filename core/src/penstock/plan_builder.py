"""Ask the source what a strategy needs to know, and have `planning` cut the table."""

from __future__ import annotations

from dataclasses import replace

from penstock import planning
from penstock.backends.base import SourceCatalog, TableStatistics, TargetCatalog
from penstock.errors import PlanningError
from penstock.model import Column, Key, PartitionPlan
from penstock.planning import Choice, Cut
from penstock.spec import CopySpec


def build_plan(
    spec: CopySpec, degree: int, source: SourceCatalog, target: TargetCatalog
) -> PartitionPlan:
    """Plan a copy and check that the target can take it. Changes nothing.

    Raises:
        PlanningError: the plan cannot be made, or the target cannot take it; says everything
            that is in the way of the columns at once.
    """
    table = spec.table_ref
    all_columns = source.columns(table)
    columns = match_columns(spec, all_columns, target)
    names = [column.name for column in columns]
    target.check_writable(spec.target_ref, spec.mode, names)
    if source.state(table).identity == target.identity(spec.target_ref):
        raise PlanningError(
            f"source and target are the same table, {table}, in the same database; expected two"
        )
    statistics = source.statistics(table, spec.where)
    choice = planning.choose(spec, statistics, degree)
    cut = _cut(spec, choice, statistics, source, {column.name for column in all_columns})
    plan = PartitionPlan(
        strategy=choice.strategy,
        reasons=(*choice.reasons, *cut.reasons),
        warnings=cut.warnings,
        partitions=planning.number(cut.extents, statistics),
        columns=columns,
        rows=None if statistics.rows is None else round(statistics.rows * statistics.selected),
        bytes=round(statistics.bytes * statistics.selected),
    )
    if spec.mode == "replace":
        if choice.key is None:
            raise PlanningError("--mode replace: expected a key strategy and --key; found none")
        if choice.strategy == "hash":
            _check_hashed_alike(columns, target.columns(spec.target_ref))
        for kind in {type(partition.extent): partition for partition in plan.partitions}.values():
            target.check_condition(spec.target_ref, spec.where, kind.extent)
    return plan


def match_columns(
    spec: CopySpec, source_columns: tuple[Column, ...], target: TargetCatalog
) -> tuple[Column, ...]:
    """The source's columns that are copied, each to the target's column of the same name.

    Raises:
        PlanningError: columns without a counterpart, or of types that do not fit: all of them.
    """
    theirs = {column.name: column for column in target.columns(spec.target_ref)}
    mine = {column.name: column for column in source_columns}
    if spec.columns is not None:
        unknown = [name for name in spec.columns if name not in mine]
        if unknown:
            raise PlanningError(
                f"--columns: {spec.table} has no column {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(mine)}"
            )
        chosen = tuple(mine[name] for name in spec.columns)
        left_out: list[Column] = []
    else:
        # A column that both compute is computed again, not copied.
        both = {
            name
            for name, column in mine.items()
            if column.generated and name in theirs and theirs[name].generated
        }
        chosen = tuple(column for column in source_columns if column.name not in both)
        left_out = [c for c in theirs.values() if c.name not in mine and not c.generated]
    missing = [column for column in chosen if column.name not in theirs]
    pairs = [column for column in chosen if column.name in theirs]
    lines = [(c.name, c.type, "-", "the target has no such column") for c in missing]
    lines += [(c.name, "-", c.type, "the source has no such column") for c in left_out]
    lines += target.refusals(pairs, [theirs[column.name] for column in pairs])
    if lines:
        raise PlanningError(
            f"{spec.table} does not fit into {spec.target_ref}:\n"
            + _table([("column", "source", "target", "why"), *lines])
            + ("\nchoose the columns to copy with --columns" if missing or left_out else "")
        )
    if not chosen:
        raise PlanningError(f"{spec.table} has no columns to copy")
    return chosen


def _check_hashed_alike(mine: tuple[Column, ...], theirs: tuple[Column, ...]) -> None:
    """Values are hashed by their text, which 1.0 and 1.00 do not share."""
    types = {column.name: column.type for column in theirs}
    differing = [
        f"{column.name} ({column.type}, {types[column.name]})"
        for column in mine
        if types[column.name] != column.type
    ]
    if differing:
        raise PlanningError(
            "--mode replace with --strategy hash: expected the very same column types on both "
            f"sides, so that both hash alike; found {', '.join(differing)}; use --strategy range"
        )


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(4)]
    return "\n".join(
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cut(
    spec: CopySpec,
    choice: Choice,
    statistics: TableStatistics,
    source: SourceCatalog,
    columns: set[str],
) -> Cut:
    table = spec.table_ref
    if choice.strategy == "whole":
        return planning.cut_whole()
    if choice.strategy == "ctid":
        return planning.cut_blocks(statistics.blocks or 0, choice.count)
    assert choice.key is not None
    key = Key(choice.key, expression=choice.key not in columns)
    if choice.strategy == "hash":
        source.key_type(table, key)  # an error in the expression is found now
        return planning.cut_hash(key, choice.count)
    if spec.mode == "replace":
        # The target decides by the same condition what to delete: both must compare alike.
        key = replace(key, collation=source.shared_order(table, key))
    if choice.strategy == "values":
        values = source.distinct(
            table, key, spec.where, spec.values_query, planning.MOST_PARTITIONS
        )
        nullable, _ = source.key_facts(table, key)
        return planning.cut_values(values, key, nullable=nullable)
    if key.expression:
        raise PlanningError(
            f"--key {key.text}: no such column in {table}; --strategy {choice.strategy} cuts by a "
            f"column; it has {', '.join(sorted(columns))}"
        )
    if choice.strategy == "time":
        assert spec.interval is not None
        starts, origin = source.windows(
            table, key, spec.interval, spec.where, planning.MOST_PARTITIONS
        )
        nullable, indexed = source.key_facts(table, key)
        return planning.cut_windows(starts, key, nullable=nullable, indexed=indexed, origin=origin)
    return planning.cut_range(source.key_statistics(table, key, spec.where), choice.count)
