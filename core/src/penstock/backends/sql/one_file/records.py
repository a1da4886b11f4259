"""Records of runs as tables in the file.

One transaction at a time changes the file, so none of this needs locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from typing import Any, TypeVar

from penstock.backends.api.execution.records import Hold, Kind
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.loads.loaded_table import LoadedTable, LoadRecords
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.session import Session
from penstock.model.tables import TableRef

T = TypeVar("T")
_TABLES = ("loaded_table", *(kind.value for kind in Kind))


class FileRecords(LoadRecords):
    """Records in one file.

    Args:
        open: the session of a transaction that is already open.
    """

    steps_with_records = True
    upserts = True
    undisturbed = True
    keeps_nights = True

    def __init__(self, database: OneFile, schema: str, open: Session | None = None) -> None:
        super().__init__(database.dialect)
        self._database = database
        self._schema = schema
        self._open = open

    def table_name(self, table: str) -> str:
        return self._database.table_name(self._database.control_table(self._schema, table))

    @property
    def session(self) -> Session:
        assert self._open is not None
        return self._open

    def create(self) -> None:
        with self.reading() as tables_exist:
            if tables_exist:
                return
        types = self._dialect.types
        names = {
            **{table: self.table_name(table) for table in _TABLES},
            "text": types["text"],
            "int": types["int4"],
            "long": types["int8"],
            "time": types.get("timestamptz", types["text"]),
            "now": self.now,
        }

        ddl = files(__package__).joinpath("control.sql").read_text(encoding="utf-8")
        statements = [statement.strip() for statement in ddl.format(**names).split(";")]
        with self._transaction():
            for statement in (*self._dialect.schema_statements(self._schema), *statements):
                self.session.run(statement)

    def drop(self, table: TableRef) -> None:
        with self._transaction():
            self.session.run(self._dialect.drop_statement(table))
            LoadedTable(self, table).end()

    @contextmanager
    def reading(self) -> Iterator[bool]:
        if self._open is not None:
            yield True
            return
        with self._opened(self._database.reading()) as session:
            relations = read_relations(session)
            tables = (self._database.control_table(self._schema, name) for name in _TABLES)
            yield all(table in relations for table in tables)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._opened(self._database.writing()) as session:
            yield
            session.run("COMMIT")

    @contextmanager
    def _opened(self, opening: AbstractContextManager[Session]) -> Iterator[Session]:
        with opening as session:
            self._open = session
            try:
                yield session
            finally:
                self._open = None

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        # Attempts of an older generation are refused when they commit.
        self._database.attempts.wait(run_id, partition_ids, patience)
        with self._transaction():
            return body()

    def sweep(self) -> None:
        self._database.attempts.sweep()
        self._database.tidy()

    def joins(self, run_ids: Sequence[str]) -> bool:
        return True  # it has the file to itself in any case

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with self._transaction():
            return body()

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        if self._open is not None:
            return self._open.fetch(statement, "control tables", values)
        if reading:
            with self.reading() as tables_exist:
                return self.execute(statement, values, reading=True) if tables_exist else []
        with self._transaction():
            return self.execute(statement, values, reading=False)
