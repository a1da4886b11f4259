"""A separate schema in a target's database, with a table like another one, for measurements."""

from __future__ import annotations

from contextlib import AbstractContextManager

from penstock.backends.api.optional.scratch import PREFIX
from penstock.backends.mssql.catalog.native_parts import COMMENTS, GRANTS, attached
from penstock.backends.mssql.connection import Connection, connect
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import planning, translated
from penstock.backends.mssql.load.exchange import like_statements
from penstock.backends.mssql.load.locks import SESSION, release, try_lock
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.shared.scratch_schema import LOCK_SECONDS, NEEDED_BY, ScratchSchema
from penstock.backends.sql.catalog.relations import check_is_table, read_relations
from penstock.errors import PlanningError
from penstock.model.tables import TableRef


class MssqlScratch(ScratchSchema[Connection]):
    """A scratch schema in SQL Server."""

    def _removal(self) -> str:
        return f"drop the tables of {self.name}, then DROP SCHEMA {MSSQL.ident(self.name)}"

    def _connect(self) -> Connection:
        connection = connect(self._url, "target")
        connection.change(f"SET LOCK_TIMEOUT {1000 * LOCK_SECONDS}")
        return connection

    def _planning(self, subject: str) -> AbstractContextManager[None]:
        return planning("target", subject)

    def _translated(self) -> AbstractContextManager[None]:
        return translated("target")

    def _read(self, like: TableRef) -> dict[str, object]:
        session = MssqlSession(self._connection)
        if like not in read_relations(session):
            raise PlanningError(f"{NEEDED_BY}: the target has no table {like}")
        check_is_table(session, like, NEEDED_BY)
        self._definition, _ = like_statements(session, like, self._table, NEEDED_BY)
        kinds = dict.fromkeys(each.kind for each in attached(session, like))
        return {
            f"it has none of the target's {kind}": True
            for kind in kinds
            if kind not in (GRANTS, COMMENTS)
        }

    def _schema_names(self) -> list[str]:
        schemas = self._connection.rows(
            "SELECT name FROM sys.schemas WHERE LEFT(name, ?) = ?", [len(PREFIX), PREFIX]
        )
        return [name for (name,) in schemas]

    def _lock(self, name: str) -> bool:
        return try_lock(self._connection, _lock_of(name), owner=SESSION)

    def _unlock(self, name: str) -> None:
        release(self._connection, _lock_of(name))

    def _create(self) -> None:
        self._connection.change(f"CREATE SCHEMA {MSSQL.ident(self.name)}")

    def _remake(self, like: TableRef) -> None:
        self._connection.change(f"DROP TABLE IF EXISTS {MSSQL.table(self._table)}")
        for statement in self._definition.split(";\n"):
            self._connection.change(statement)

    def _drop(self, connection: Connection, name: str) -> None:
        # Dropping a schema does not drop its tables.
        tables = "SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID(?)"
        for (table,) in connection.rows(tables, [name]):
            connection.change(f"DROP TABLE {MSSQL.table(TableRef(name, table))}")
        connection.change(f"DROP SCHEMA IF EXISTS {MSSQL.ident(name)}")


open_scratch = MssqlScratch


def _lock_of(name: str) -> str:
    return f"penstock:tune:{name}"
