"""Nights of a database that does not record who loaded a row: merged from stages next to tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from penstock.backends.api.execution.control import RunRow
from penstock.backends.shared.records.load_hooks import LoadHooks, MergeCounts, NightHooks
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.loaded_table import LoadedTable, LoadRecords
from penstock.backends.sql.loads.night import follow, merge, stage_tables
from penstock.backends.sql.rows.conditions import condition
from penstock.errors import PenstockError
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import Entry, mode_of


class MergedNights(NightHooks):
    """See `NightHooks`.

    Args:
        records: the target's records.
        loads: the hooks of the steps around a load.
        storage: see `NightHooks.storages`, for one table.
        counts_rows: whether the rows of loaded tables are counted.
        dialect: returns the dialect for finding a table's rows by a key; None for the session's.
    """

    def __init__(
        self,
        records: LoadRecords,
        loads: LoadHooks[Any],
        storage: Callable[[TableRef], str],
        *,
        counts_rows: bool,
        dialect: Callable[[TableRef, Sequence[str]], CatalogDialect] | None = None,
    ) -> None:
        self._records = records
        self._loads = loads
        self._storage = storage
        self._counts_rows = counts_rows
        self._dialect = dialect

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        return {table: self._storage(table) for table in tables}

    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        return [self._merged(*night) for night in nights]

    def _merged(self, run: RunRow, records: Sequence[CommitRecord]) -> MergeCounts:
        self._loads.check_rows(run)
        ref = stored_target(run.spec)
        target = LoadedTable(self._records, ref)
        if self._counts_rows:
            target.begin(run.run_id)
        session = self._records.session
        follow(session, session.dialect, run)
        dialect = session.dialect
        if self._dialect is not None:
            dialect = self._dialect(ref, run.plan.load.conflict_columns)
        rows = sum(record.rows for record in records)
        if mode_of(run.spec).entry is Entry.REPLACE:
            for partition in run.plan.partitions:
                selected = condition(dialect, run.spec["where"], partition.extent)
                target.replace(run.run_id, selected)
        merged = merge(session, dialect, run, rows)
        if merged.deleted:
            target.thinned(run.run_id)
        if self._counts_rows:
            target.end()
            LoadedTable(self._records, run.plan.load.table).end()
        return replace(merged, target=self._storage(ref))


def drop_stages(records: LoadRecords, stages: Sequence[TableRef]) -> None:
    """Drop tables built beside others; see `LoadHooks.drop_stages`."""
    tables = [table for stage in stages for table in stage_tables(stage)]
    with records.reading() as tables_exist:
        relations = read_relations(records.session) if tables_exist else {}
    for table in tables:
        if table in relations:
            with suppress(PenstockError):
                records.drop(table)
