"""The end of a night: one transaction merges the stage into the target."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.worker import LoadResult
from penstock.backends.shared.attempts.refusals import OF_ANOTHER_ROW
from penstock.backends.shared.records.load_hooks import MergeCounts
from penstock.backends.sql.catalog.relations import read_columns
from penstock.backends.sql.definitions.column_changes import check_columns_unchanged, is_applied
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.merging import Merging
from penstock.backends.sql.session import Session
from penstock.model.plans import LoadPlan, changes_of
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.modes import Entry

DROP = "drop stage"
"""The id of the step that drops what was merged, if dropping would end the merge's transaction."""


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
    ref = stored_target(run.spec)
    if not dialect.ddl_commits:
        for each in changes:
            if not is_applied(each, {column.name: column for column in read_columns(session, ref)}):
                session.run(each.statement)
    check_columns_unchanged(session, ref, load.table, run.plan.pairs)


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
    if spec.load_mode.entry is Entry.REPLACE:
        listed = ", ".join(map(dialect.ident, names))
        session.run(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {stage}")
        _drop_stages(session, dialect, spec, load)
        return MergeCounts(rows, 0)
    # If the stage holds only changes, the source has rows that it lacks. The search for deleted
    # rows has checked that none of them has a key that is spelled differently here.
    is_checked = spec.deletion.is_enabled or not (plan.selection or plan.has_given_partitions)
    loaded = LoadResult(0, 0, 0)
    if rows:
        merging = Merging(session, dialect, table, names, load.conflict_columns, mark)
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
