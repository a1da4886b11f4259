"""The control store: what of it DuckDB alone knows, of the table."""

from __future__ import annotations

import hashlib

from penstock.backends.api.control import RunRow
from penstock.backends.duckdb.catalog.tables import definition_of, unique_keys
from penstock.backends.duckdb.load.numbering import NUMBERS, number
from penstock.backends.sql.one_file.runs import FileRuns
from penstock.backends.sql.relations import read_relations
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class DuckRuns(FileRuns):
    def do(self, run: RunRow, step: Step) -> None:
        if not step.id.startswith(NUMBERS):
            super().do(run, step)
            return
        self.check_rows(run)
        number(self._tables.session, step, run.plan.load.table, step.position)

    def storage(self, table: TableRef) -> str:
        # DuckDB numbers its tables anew whenever the file is opened, and notes no time: a table is
        # known by its definition and its keys.
        with self._tables.reading():
            session = self._tables.session
            if read_relations(session).get(table, True):
                return ""
            definition = hashlib.sha256(definition_of(session, table).encode()).hexdigest()[:16]
            keys = unique_keys(session, table)
            if not keys:
                return definition
            listed = ", ".join(map(session.dialect.ident, keys[0].names))
            ((total,),) = session.fetch(
                f"SELECT sum(hash({listed})) FROM {session.table(table)}", f"table {table}"
            )
            return f"{definition} {total or 0}"
