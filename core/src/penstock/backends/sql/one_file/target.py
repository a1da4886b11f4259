"""A file's tables as a target for record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.shared import database_file
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.values.arrow import in_arrow, schema_of, schema_to_text
from penstock.backends.shared.values.fitting import fit_column
from penstock.backends.sql.catalog.catalog_facts import CatalogFacts
from penstock.backends.sql.catalog.relations import read_columns
from penstock.backends.sql.loads.load_plan import plan_load
from penstock.backends.sql.loads.merged_nights import MergedNights
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.one_file.lazy_session import LazySession
from penstock.backends.sql.one_file.load_hooks import FileLoadHooks
from penstock.backends.sql.one_file.presence import FilePresence
from penstock.backends.sql.one_file.records import FileRecords
from penstock.backends.sql.session import Session
from penstock.backends.sql.target import SqlTarget
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, Relation, TableRef


class FileTarget(SqlTarget):
    """A target that opens its file for a moment at a time, so that others get their turn."""

    load_hooks: type[FileLoadHooks] = FileLoadHooks
    arrow_types: Mapping[str, Any]
    """See `FileSource`."""

    def __init__(self, database: OneFile, control_schema: str) -> None:
        self._database = database
        self._catalog_facts: CatalogFacts | None = None
        self._presence = FilePresence(database)
        records = FileRecords(database, control_schema)
        ledger = Ledger(records)
        loads = self.load_hooks(ledger)
        nights = MergedNights(records, loads, loads.storage, counts_rows=True)
        self.control = RecordedRuns(ledger, loads, self._presence, nights)

    def in_arrow(
        self, session: Session, rows: str, columns: Sequence[Column]
    ) -> tuple[Column, ...]:
        """Return the columns of an item of FROM, each with the trait `arrow`.

        Args:
            session: the session with the database.
            rows: the item of FROM.
            columns: the columns.
        """
        return in_arrow(columns, self.arrow_types, "target")

    def close(self) -> None:
        self._database.interrupt()
        self._presence.close()

    @contextmanager
    def describing(self, relations: Sequence[Relation]) -> Iterator[None]:
        before, self._catalog_facts = self._catalog_facts, CatalogFacts(relations)
        try:
            yield
        finally:
            self._catalog_facts = before

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with ExitStack() as stack:
            if self._catalog_facts is None:
                yield stack.enter_context(self._database.reading())
            else:
                yield LazySession(self._database, self._catalog_facts, stack)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._reading() as session:
            return self._columns(session, table)

    def _columns(self, session: Session, table: TableRef) -> tuple[Column, ...]:
        return self.in_arrow(session, session.table(table), read_columns(session, table))

    def identity(self, table: TableRef) -> str:
        # The identity of the file, since nothing writes to one that is read as a source.
        return database_file.identity(self.tables.definitions, self._database.path)

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [fit_column(mine, theirs) for mine, theirs in zip(source, target, strict=True)]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = (
            request.new_columns or request.columns_after_changes or self.columns(request.target)
        )
        by_name = {column.name: column for column in columns}
        stream_schema = schema_of(by_name[pair.target] for pair in request.pairs)
        with self._reading() as session:
            return plan_load(session, self.tables, request, columns, schema_to_text(stream_schema))
