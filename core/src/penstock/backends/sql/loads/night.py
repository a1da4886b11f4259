"""A night: rows are gathered in a stage next to the target, then merged in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import LoadRequest
from penstock.backends.shared.attempts.refusals import OF_ANOTHER_ROW
from penstock.backends.shared.records.load_hooks import MergeCounts
from penstock.backends.sql.catalog.relations import read_columns, replacement_table
from penstock.backends.sql.definitions.column_changes import (
    change_step,
    check_columns_unchanged,
    is_applied,
    stage_script,
)
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.merging import Merging
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.drift import ColumnChange, original_names
from penstock.model.plans import GONE_STEP, MERGE_STEP, LoadPlan, Step, changes_of
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec

# Comes before everything else after the last partition.
FIRST = -1
DROP = "drop stage"
"""The id of the step that drops what was merged, if dropping would end the merge's transaction."""


def staged(dialect: CatalogDialect, plan: LoadPlan, request: LoadRequest, own_key: str) -> LoadPlan:
    """Return the plan of an upsert with a stage.

    Args:
        dialect: the dialect of the statement.
        plan: the plan of the same upsert without a stage.
        request: the request for the load.
        own_key: see `TargetTables.own_key`.

    Raises:
        PlanningError: all tables of the batch are to be merged in one transaction.
    """
    if request.merges_together:
        raise PlanningError(
            f"--atomic batch: {dialect.name} as a target merges each table in a transaction of its "
            "own; use --atomic table"
        )
    ref = plan.table
    stage = replacement_table(request.run_id, ref)
    now = map(original_names(request.changes), [pair.target for pair in request.pairs])
    copied = [each for each in now if each is not None]
    script = _copy_script(dialect, stage, ref, copied, own_key)
    altered = stage_script(dialect, stage, request.changes)
    what = f"create {stage}, the stage"
    before = [Step("stage", what, ";\n".join([script, *altered]))]
    merged = f"merge all rows into {ref}, in one transaction"
    changing, with_merge = _changing(dialect, ref, request.changes)
    if with_merge:
        merged = f"alter columns of {ref}, and {merged}"
    merging = Step(MERGE_STEP, merged, "", after=True, rank=FIRST, urgent=bool(with_merge))
    after = [*changing, merging, *with_merge]
    if request.deletes.is_enabled:
        deleted = deleted_keys_table(stage)
        script = _copy_script(dialect, deleted, ref, plan.conflict_columns, own_key)
        before.append(Step("gone keys", f"create {deleted}, for the keys of deleted rows", script))
        description = f"find rows of {ref} that the source no longer has"
        rank = FIRST - 1 - len(changing)
        after.insert(0, Step(GONE_STEP, description, "", after=True, rank=rank))
    if dialect.ddl_commits:
        dropped = ";\n".join(map(dialect.drop_statement, stage_tables(stage)))
        after.append(Step(DROP, f"drop {stage}", dropped, after=True, rank=1))
    return replace(plan, table=stage, steps=(*plan.before, *before, *after, *plan.after))


def _changing(
    dialect: CatalogDialect, ref: TableRef, changes: Sequence[ColumnChange]
) -> tuple[list[Step], list[Step]]:
    """Return the steps that alter columns before the merge, and those for its transaction."""
    steps = [
        replace(change_step(ref, each), after=True, rank=FIRST - len(changes) + place)
        for place, each in enumerate(changes)
    ]
    if dialect.ddl_commits:
        return [replace(step, urgent=True) for step in steps], []
    return [], [replace(step, rank=0, with_merge=True) for step in steps]


def follow(session: Session, dialect: CatalogDialect, run: RunRow) -> None:
    """Alter columns in the transaction of the merge, if possible.

    Args:
        session: the session with the database.
        dialect: the dialect of the statement.
        run: the record of the run.

    Raises:
        TargetChanged: the table's columns differ from those that the run was planned with.
    """
    changes, load = changes_of(run.plan.load), run.plan.load
    if not changes:
        return
    ref = CopySpec.from_stored(run.spec, "", "").target_ref
    if not dialect.ddl_commits:
        for each in changes:
            if not is_applied(each, {column.name: column for column in read_columns(session, ref)}):
                session.run(each.statement)
    check_columns_unchanged(session, ref, load.table, run.plan.pairs)


def _copy_script(
    dialect: CatalogDialect, new: TableRef, like: TableRef, columns: Sequence[str], own_key: str
) -> str:
    return f"{dialect.drop_statement(new)};\n{dialect.empty_copy(new, like, columns, own_key)}"


def deleted_keys_table(stage: TableRef) -> TableRef:
    """Return the table for the keys of rows to be deleted. Its name is as long as the stage's."""
    name, _, digits = stage.name.rpartition("~")
    return replace(stage, name=f"{name}-{digits}")


def stage_tables(stage: TableRef) -> tuple[TableRef, ...]:
    """Return the stage and its tables.

    The stage comes last: if it does not exist, none of them does.
    """
    return deleted_keys_table(stage), stage


def merge(session: Session, dialect: CatalogDialect, run: RunRow, rows: int) -> MergeCounts:
    """Merge a night in the current transaction, so that none of it is visible in part.

    Deletes come first, so that a row with a new key collides with nothing.

    Args:
        session: the session with the database.
        dialect: the session's dialect, or one that knows more about the table.
        run: the record of the run.
        rows: the row count of all partitions; in mode replace, the rows they select are already
            deleted.

    Raises:
        PermanentError: a key is NULL or a duplicate, or is spelled differently in the target.
    """
    spec, plan = CopySpec.from_stored(run.spec, "", ""), run.plan
    load, mark = plan.load, spec.deletion.column
    table, stage = session.table(spec.target_ref), session.table(load.table)
    deleted = 0
    if spec.deletion.is_enabled:
        matching = table, session.table(deleted_keys_table(load.table)), load.conflict_columns
        if mark:
            name = dialect.ident(mark)
            change, unmarked = f"{name} = {dialect.now}", f"t.{name} IS NULL"
            deleted = session.run(dialect.update_matching(*matching, change, unmarked))
        else:
            deleted = session.run(dialect.delete_matching(*matching))
    names = [pair.target for pair in plan.pairs]
    if spec.load_mode.deletes_by_partition:
        listed = ", ".join(map(dialect.ident, names))
        session.run(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {stage}")
        _drop_stages(session, dialect, spec, load)
        return MergeCounts(rows, 0)
    merging = Merging(session, dialect, table, names, load.conflict_columns, mark)
    # If the stage holds only changes, the source has rows that it lacks. The search for deleted
    # rows has checked that none of them has a key that is spelled differently here.
    is_checked = spec.deletion.is_enabled or not (plan.selection or plan.has_given_partitions)
    loaded = merging.merge(stage, rows, lambda: is_checked, OF_ANOTHER_ROW)
    _drop_stages(session, dialect, spec, load)
    inserted, updated = loaded.inserted or 0, loaded.updated or 0
    count, night = None, plan.night
    if night and night.rows is not None:
        count = night.rows + inserted - (0 if mark else deleted)
    elif night:
        ((found_rows,),) = session.fetch(f"SELECT count(*) FROM {table}", f"{spec.target_ref}")
        count = int(found_rows)
    return MergeCounts(inserted, updated, deleted, count)


def _drop_stages(session: Session, dialect: CatalogDialect, spec: CopySpec, load: LoadPlan) -> None:
    """Drop the stages, if that does not end the transaction."""
    tables = stage_tables(load.table) if spec.deletion.is_enabled else (load.table,)
    for each in () if dialect.ddl_commits else tables:
        session.run(dialect.drop_statement(each))
