"""The tables that runs load: the parts that only DuckDB has."""

from __future__ import annotations

import hashlib

from penstock.backends.api.execution.control import RunRow
from penstock.backends.duckdb.catalog.tables import definition_of, unique_keys
from penstock.backends.duckdb.load.numbering import ADVANCE, NUMBER, advancing, numbering
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.one_file.load_hooks import FileLoadHooks
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target


class DuckLoadHooks(FileLoadHooks):
    """See `FileLoadHooks`."""

    def do(self, run: RunRow, step: Step) -> None:
        if step.kind in (NUMBER, ADVANCE):
            target = stored_target(run.spec)
            update = numbering if step.kind == NUMBER else advancing
            step = update(self.store.session, step, target)
        super().do(run, step)

    def storage(self, table: TableRef) -> str:
        # DuckDB renumbers its tables whenever the file is opened, and records no times: a table is
        # identified by its definition and keys.
        with self.store.reading():
            session = self.store.session
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
