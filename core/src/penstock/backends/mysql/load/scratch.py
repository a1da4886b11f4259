"""A separate database on a target's server, with a table like another one, for measurements."""

from __future__ import annotations

from contextlib import AbstractContextManager

from penstock.backends.api.optional.scratch import PREFIX
from penstock.backends.mysql.connection import Connection, connect, wait_for_locks
from penstock.backends.mysql.dialect import BY_BYTES
from penstock.backends.mysql.errors import planning, translated
from penstock.backends.mysql.load.locks import release, try_lock
from penstock.backends.shared.scratch_schema import LOCK_SECONDS, NEEDED_BY, ScratchSchema
from penstock.errors import PlanningError
from penstock.model.tables import TableRef


class MySqlScratch(ScratchSchema[Connection]):
    """A database of its own for the tables of one `tune`; see `ScratchSchema`."""

    kind = "database"

    def _removal(self) -> str:
        return f"DROP DATABASE {BY_BYTES.ident(self.name)}"

    def _connect(self) -> Connection:
        connection = connect(self._url, "target")
        wait_for_locks(connection, LOCK_SECONDS)
        return connection

    def _planning(self, subject: str) -> AbstractContextManager[None]:
        return planning("target", subject)

    def _translated(self) -> AbstractContextManager[None]:
        return translated("target")

    def _read(self, like: TableRef) -> dict[str, object]:
        names = [like.schema, like.name]
        kinds = self._connection.rows(
            "SELECT table_type FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            names,
        )
        if kinds != [("BASE TABLE",)]:
            kind = kinds[0][0] if kinds else "none"
            raise PlanningError(f"{NEEDED_BY}: expected {like} to be a table, found {kind}")
        ((triggers, foreign_keys),) = self._connection.rows(
            "SELECT (SELECT count(*) FROM information_schema.triggers"
            " WHERE event_object_schema = %s AND event_object_table = %s),"
            " (SELECT count(*) FROM information_schema.table_constraints"
            " WHERE table_schema = %s AND table_name = %s AND constraint_type = 'FOREIGN KEY')",
            [*names, *names],
        )
        return {
            "it has none of the target's triggers": triggers,
            "it has none of the target's foreign keys": foreign_keys,
        }

    def _schema_names(self) -> list[str]:
        rows = self._connection.rows(
            "SELECT schema_name FROM information_schema.schemata WHERE left(schema_name, %s) = %s",
            [len(PREFIX), PREFIX],
        )
        return [name for (name,) in rows]

    def _lock(self, name: str) -> bool:
        return try_lock(self._connection, _lock_of(name))

    def _unlock(self, name: str) -> None:
        release(self._connection, _lock_of(name))

    def _create(self) -> None:
        self._connection.change(f"CREATE DATABASE {BY_BYTES.ident(self.name)}")

    def _remake(self, like: TableRef) -> None:
        table = BY_BYTES.table(self._table)
        self._connection.change(f"DROP TABLE IF EXISTS {table}")
        self._connection.change(f"CREATE TABLE {table} LIKE {BY_BYTES.table(like)}")

    def _drop(self, connection: Connection, name: str) -> None:
        connection.change(f"DROP DATABASE IF EXISTS {BY_BYTES.ident(name)}")

    def close(self) -> None:
        self._connection.abandon()


def _lock_of(name: str) -> str:
    return f"penstock:tune:{name}"


open_scratch = MySqlScratch
