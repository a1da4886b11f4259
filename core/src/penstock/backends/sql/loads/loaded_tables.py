"""The tables of several runs, checked together; see `LoadedTable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.execution.records import Kind
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.loads.loaded_table import LoadedTable, LoadRecords
from penstock.model.tables import TableRef
from penstock.spec.modes import Entry, Mode

# Tables counted per statement.
AT_ONCE = 300


class LoadedTables:
    """Tables within a transaction, or while something is read.

    Args:
        tables: by run; no two runs load the same one.
    """

    def __init__(self, records: LoadRecords, tables: Mapping[str, TableRef]) -> None:
        self._records = records
        self._tables = {run_id: LoadedTable(records, table) for run_id, table in tables.items()}
        self._table_refs = dict(tables)

    def _rows(self) -> dict[str, int | None]:
        """Return the row counts by run; None for a table that does not exist."""
        session = self._records.session
        relations = read_relations(session)
        some = [
            run_id for run_id, table in self._table_refs.items() if not relations.get(table, True)
        ]
        counts: dict[str, int | None] = dict.fromkeys(self._table_refs)
        for first in range(0, len(some), AT_ONCE):
            piece = some[first : first + AT_ONCE]
            query = " UNION ALL ".join(
                f"SELECT {place}, count(*) FROM {session.table(self._table_refs[run_id])}"
                for place, run_id in enumerate(piece)
            )
            counts |= {piece[place]: int(count) for place, count in session.fetch(query, "tables")}
        return counts

    def _expected(self) -> dict[str, int | None]:
        noted = self._records.noted_rows([table.id for table in self._tables.values()])
        return {run_id: noted.get(table.id) for run_id, table in self._tables.items()}

    def begin(self) -> None:
        """See `LoadedTable.begin`."""
        expected, actual = self._expected(), self._rows()
        for run_id, table in self._tables.items():
            if expected[run_id] is not None and actual[run_id] != expected[run_id]:
                table.begin(run_id)

    def emptied(self, run_ids: Sequence[str]) -> None:
        """See `LoadedTable.emptied`."""
        ids = {self._tables[run_id].id: run_id for run_id in run_ids}
        if not ids:
            return
        where = {"loads": tuple(ids)}
        rows = self._records.read(Kind.RUN, where, ("run_id", "loads", "status"))
        for run_id in {
            ids[row["loads"]]
            for row in rows
            if row["run_id"] != ids[row["loads"]] and row["status"] != "done"
        }:
            self._tables[run_id].emptied(run_id)

    def check_loaded_since(self) -> None:
        """See `LoadedTable.check_loaded_since`."""
        table_name, place = self._records.table_name, self._records.placeholder
        ids = {table.id: run_id for run_id, table in self._tables.items()}
        count = len(ids)
        tables = ", ".join(map(place, range(1, count + 1)))
        mine = ", ".join(map(place, range(count + 1, 2 * count + 1)))
        # Coarse, since it compares with the first of the runs; each that it finds is asked alone.
        rows = self._records.execute(
            f"SELECT DISTINCT o.loads FROM {table_name('commit_record')} AS c"
            f" JOIN {table_name('run')} AS o ON o.run_id = c.run_id"
            f" WHERE o.loads IN ({tables}) AND c.{self._records.ident('rows')} > 0"
            f" AND c.committed_at > (SELECT min(prepared_at) FROM {table_name('run')}"
            f" WHERE run_id IN ({mine}))",
            [*ids, *ids.values()],
            reading=True,
        )
        for (table,) in rows:
            self._tables[ids[table]].check_loaded_since(ids[table])

    def end(self) -> None:
        """See `LoadedTable.end`."""
        rows = self._rows()
        self._records.note_rows({table.id: rows[run_id] for run_id, table in self._tables.items()})

    def doubtful(self, modes: Mapping[str, Mode]) -> set[str]:
        """Return the runs whose tables `LoadedTable.check` has to examine.

        Args:
            modes: the mode of each run.
        """
        runs = self._records.read_all(Kind.RUN, list(self._tables), ("disturbed_by",))
        expected, actual = self._expected(), self._rows()

        def is_doubtful(run_id: str) -> bool:
            rows, noted, mode = actual[run_id], expected[run_id], modes[run_id]
            if any(row["disturbed_by"] is not None for row in runs[run_id]):
                return True
            if noted is None:
                return False
            fewer = rows is None or rows < noted
            return fewer or mode.entry is Entry.REPLACE or (mode.starts_empty and rows != noted)

        return {run_id for run_id in self._tables if is_doubtful(run_id)}
