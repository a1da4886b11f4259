"""The table that a run loads: whether it is as the run has left it, and what others do to it.

DuckDB tells neither who has loaded a row nor whether a table is still the same one. So a run that
takes rows away says so to the runs that have loaded them, in the transaction that takes them; and
what anybody else takes away, or puts into a table that a run has to itself, shows by the number of
rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.catalog.tables import relations
from penstock.backends.duckdb.connection import full_name
from penstock.backends.duckdb.dialect import condition
from penstock.backends.duckdb.rows import first
from penstock.errors import Diagnosis, PlanningError, TargetChanged
from penstock.model.codec import from_json
from penstock.model.extents import BlockRange, ChildBlocks, Children, Extent, Files, Whole
from penstock.model.plans import PartitionPlan
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, Mode

# The source alone knows which rows these select.
STORAGE = BlockRange | Children | ChildBlocks | Files
SOMEBODY = ""
"""In the place of a run's id: it was no run of these control tables."""
# Of one query that counts the rows of each.
MOST_COUNTED = 100


class LoadedTable:
    """A table, in a transaction.

    Parameters:
        schema: full name of the control schema.
        catalog: name of the database.
    """

    def __init__(
        self, connection: DuckDBPyConnection, schema: str, catalog: str, table: TableRef
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._catalog = catalog
        self._table = table
        self._name = full_name(catalog, table)
        self.id = json.dumps([table.schema, table.name])
        """As the control tables have it."""

    def rows(self) -> int | None:
        """None where it is not there."""
        if relations(self._connection, self._catalog).get(self._table, True):
            return None
        return self._count("true")

    def _count(self, tested: str) -> int:
        found = first(self._connection.execute(f"SELECT count(*) FROM {self._name} WHERE {tested}"))
        assert found is not None
        return int(found[0])

    def _expected(self) -> int | None:
        found = first(
            self._connection.execute(
                f"SELECT rows FROM {self._schema}.loaded_table WHERE id = $1", [self.id]
            )
        )
        return None if found is None else int(found[0])

    def check(self, run_id: str, mode: Mode, *, thoroughly: bool = False) -> None:
        """
        Parameters:
            thoroughly: count the rows of each partition, where the mode goes by their conditions.

        Raises:
            TargetChanged: rows that the run has loaded are gone, or there are others where they
                should be alone.
        """
        row = first(
            self._connection.execute(
                f"SELECT disturbed_by FROM {self._schema}.run WHERE run_id = $1", [run_id]
            )
        )
        by = row[0] if row else None
        if by:
            raise TargetChanged(
                f"target: run {by} has taken rows out of {self._table}, or loaded the same ones, "
                f"since run {run_id} began to load it; start a new run",
                Diagnosis(side="target"),
            )
        found, expected = self.rows(), self._expected()
        if expected is None:
            return
        suspect = by == SOMEBODY or found is None or found < expected
        if mode.starts_empty:
            if suspect or found != expected:
                raise self._changed(run_id, _rows(expected), _rows(found))
        elif (suspect or (thoroughly and mode.deletes_by_partition)) and not (
            self._are_there(run_id, known=found is not None)
        ):
            raise self._changed(
                run_id,
                f"{_rows(expected)} or more, with all that it has committed",
                f"{_rows(found)}, with less",
            )

    def _changed(self, run_id: str, expected: str, found: str) -> TargetChanged:
        return TargetChanged(
            f"target: {self._table} was changed by somebody else since run {run_id} began to load "
            f"it: expected {expected}, found {found}; start a new run",
            Diagnosis(side="target"),
        )

    def _are_there(self, run_id: str, *, known: bool) -> bool:
        """Whether the rows that a run has committed are there, as far as can be seen."""
        committed = dict(
            self._connection.execute(
                f"SELECT partition_id, rows FROM {self._schema}.commit_record WHERE run_id = $1"
                " AND rows > 0",
                [run_id],
            ).fetchall()
        )
        if not committed:
            return True
        where, extents = self._selection(run_id, committed)
        if extents is None or not known:
            return False
        wanted = [(extents[partition_id], rows) for partition_id, rows in committed.items()]
        for start in range(0, len(wanted), MOST_COUNTED):
            some = wanted[start : start + MOST_COUNTED]
            try:
                counts = ", ".join(f"count(*) FILTER ({condition(where, e)})" for e, _ in some)
                found = first(self._connection.execute(f"SELECT {counts} FROM {self._name}"))
            except (duckdb.Error, PlanningError):
                return False
            assert found is not None
            if any(count < rows for count, (_, rows) in zip(found, some, strict=True)):
                return False
        return True

    def _selection(
        self, run_id: str, partition_ids: Collection[str]
    ) -> tuple[str | None, dict[str, Extent] | None]:
        """A run's condition, and what partitions of it select; None for these where the source
        alone can tell."""
        found = first(
            self._connection.execute(
                f"SELECT plan, spec FROM {self._schema}.run WHERE run_id = $1", [run_id]
            )
        )
        assert found is not None
        plan = from_json(PartitionPlan, json.loads(found[0]))
        extents = {name: plan.partition(name).extent for name in partition_ids}
        by_key = not any(isinstance(extent, STORAGE) for extent in extents.values())
        by_name = all(pair.source == pair.target for pair in plan.pairs)
        return json.loads(found[1])["where"], extents if by_key and by_name else None

    def check_loaded_since(self, run_id: str) -> None:
        """For what takes all rows away, late in a run.

        Raises:
            TargetChanged: another run has loaded rows since this one was prepared, which would go.
        """
        schema = self._schema
        found = first(
            self._connection.execute(
                f"SELECT o.run_id FROM {schema}.commit_record AS c JOIN {schema}.run AS o"
                f" ON o.run_id = c.run_id JOIN {schema}.run AS mine ON mine.run_id = $2"
                " WHERE o.loads = $1 AND o.run_id <> $2 AND c.rows > 0"
                " AND c.committed_at > mine.prepared_at ORDER BY c.committed_at DESC LIMIT 1",
                [self.id, run_id],
            )
        )
        if found is not None:
            raise TargetChanged(
                f"target: run {found[0]} has loaded rows into {self._table} since run {run_id} was "
                "prepared, which would be lost now; start a new run if they may go",
                Diagnosis(side="target"),
            )

    # What the transaction does

    def begin(self, run_id: str) -> None:
        """Before the first change: have other runs look closer where somebody has changed it."""
        found, expected = self.rows(), self._expected()
        if expected is None or found == expected:
            return
        if found is None or found < expected:
            self._disturb(SOMEBODY, run_id, lambda mode, committed: committed or mode.starts_empty)
        else:
            self._disturb(SOMEBODY, run_id, lambda mode, _: mode.starts_empty)
        self.end()

    def end(self) -> None:
        """After the last change: note what is there."""
        rows = self.rows()
        if rows is None:
            self._connection.execute(
                f"DELETE FROM {self._schema}.loaded_table WHERE id = $1", [self.id]
            )
        else:
            self._connection.execute(
                f"INSERT INTO {self._schema}.loaded_table (id, rows) VALUES ($1, $2)"
                " ON CONFLICT (id) DO UPDATE SET rows = excluded.rows",
                [self.id, rows],
            )

    def emptied(self, run_id: str) -> None:
        """Tell other runs that none of their rows are left."""
        self._disturb(run_id, run_id, lambda mode, committed: committed or mode.starts_empty)

    def replace(self, run_id: str, tested: str) -> None:
        """Delete what a condition selects, and tell the runs that have loaded some of it.

        Runs of the modes `replace` and `upsert` get along with that: whoever comes last has the
        rows.
        """
        others = {
            other: committed
            for other, mode, committed in self._others(run_id)
            if mode.starts_empty
            or (mode.only_adds and committed and self._has_loaded(other, tested))
        }
        self._connection.execute(f"DELETE FROM {self._name} WHERE {tested}")
        self._tell(run_id, list(others))

    def _has_loaded(self, run_id: str, tested: str) -> bool:
        """Whether a run may have loaded some of the rows that a condition selects."""
        committed = [
            name
            for (name,) in self._connection.execute(
                f"SELECT partition_id FROM {self._schema}.commit_record WHERE run_id = $1"
                " AND rows > 0",
                [run_id],
            ).fetchall()
        ]
        if not committed:
            return False
        where, extents = self._selection(run_id, committed)
        if where is None and extents is None:
            return self._count(tested) > 0
        # An error would spoil the transaction; another session sees the table as well.
        with self._connection.cursor() as session:
            try:
                told = [Whole()] if extents is None else extents.values()
                parts = [condition(where, extent) for extent in told]
                theirs = " OR ".join(f"({part})" for part in parts)
                found = session.execute(
                    f"SELECT count(*) FROM {self._name} WHERE ({tested}) AND ({theirs})"
                ).fetchone()
            except (duckdb.Error, PlanningError):
                return self._count(tested) > 0
        return found is not None and found[0] > 0

    def _disturb(self, by: str, run_id: str, which: Callable[[Mode, bool], bool]) -> None:
        self._tell(
            by,
            [other for other, mode, committed in self._others(run_id) if which(mode, committed)],
        )

    def _tell(self, by: str, run_ids: Collection[str]) -> None:
        for run_id in run_ids:
            self._connection.execute(
                f"UPDATE {self._schema}.run"
                " SET disturbed_by = coalesce(nullif(disturbed_by, ''), $1) WHERE run_id = $2",
                [by, run_id],
            )

    def _others(self, run_id: str) -> list[tuple[str, Mode, bool]]:
        """Other runs that are loading the table: their ids, modes, and whether anything of them is
        committed."""
        schema = self._schema
        found = self._connection.execute(
            f"SELECT run_id, spec, (SELECT count(*) FROM {schema}.commit_record AS c"
            " WHERE c.run_id = r.run_id AND c.rows > 0)"
            f" FROM {schema}.run AS r WHERE loads = $1 AND status <> 'done' AND run_id <> $2",
            [self.id, run_id],
        ).fetchall()
        return [(other, MODES[json.loads(spec)["mode"]], count > 0) for other, spec, count in found]


def _rows(count: int | None) -> str:
    if count is None:
        return "no table of that name"
    return f"{count:,} row{'' if count == 1 else 's'}"
