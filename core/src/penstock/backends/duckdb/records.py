"""Records of runs as tables of the database.

One process at a time has the database open, so none of this needs locks of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

from duckdb import DuckDBPyConnection

from penstock.backends.api.records import Hold, Kind
from penstock.backends.duckdb.capabilities import TARGET
from penstock.backends.duckdb.database import NAME, Database
from penstock.backends.duckdb.dialect import DUCKDB, ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.folder import staged
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.locked_files import POLL
from penstock.backends.sql.loaded_table import LoadRecords
from penstock.backends.sql.relations import read_relations
from penstock.errors import Diagnosis, TransientError
from penstock.model.tables import TableRef

T = TypeVar("T")


class DuckRecords(LoadRecords):
    """
    Parameters:
        open: the session of a transaction that is open already.
    """

    steps_with_records = TARGET.steps_with_records

    def __init__(self, database: Database, schema: str, open: DuckSession | None = None) -> None:
        self._database = database
        self._name = schema
        self._open = open

    @property
    def schema(self) -> str:
        return f"{ident(NAME)}.{ident(self._name)}"

    @property
    def session(self) -> DuckSession:
        assert self._open is not None
        return self._open

    def placeholder(self, number: int) -> str:
        return DUCKDB.placeholder(number)

    def create(self) -> None:
        with self.reading() as found:
            if found:
                return
        ddl = files(__package__).joinpath("sql", "control.sql").read_text(encoding="utf-8")
        with self._transaction():
            self.session.run(ddl.format(schema=self.schema))

    @contextmanager
    def reading(self) -> Iterator[bool]:
        if self._open is not None:
            yield True
            return
        names = ["loaded_table", *(kind.value for kind in Kind)]
        with (
            translated("target"),
            self._database.reading() as connection,
            self._opened(connection) as session,
        ):
            there = read_relations(session)
            yield all(TableRef(self._name, name) in there for name in names)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with (
            translated("target"),
            self._database.writing() as connection,
            self._opened(connection) as session,
        ):
            yield
            session.run("COMMIT")

    @contextmanager
    def _opened(self, connection: DuckDBPyConnection) -> Iterator[DuckSession]:
        self._open = DuckSession(connection, "target")
        try:
            yield self._open
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
        # Attempts of an old generation are refused when they come to commit.
        self._wait_for_attempts(run_id, frozenset(partition_ids), patience)
        with self._transaction():
            return body()

    def _wait_for_attempts(
        self, run_id: str, partition_ids: frozenset[str], patience: float
    ) -> None:
        deadline = time.monotonic() + patience if patience else None
        while partition_ids and any(
            each.run_id == run_id and each.partition_id in partition_ids and each.is_alive()
            for each in staged(self._database.path)
        ):
            if deadline is not None and time.monotonic() > deadline:
                raise TransientError(
                    f"target: run {run_id}: partitions to copy again are being copied at this "
                    "moment; expected no attempt under way",
                    Diagnosis(side="target"),
                )
            time.sleep(POLL)

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        if self._open is not None:
            return self._open.connection.execute(statement, values).fetchall()
        if reading:
            with self.reading() as found:
                return self.execute(statement, values, reading=True) if found else []
        with self._transaction():
            return self.execute(statement, values, reading=False)
