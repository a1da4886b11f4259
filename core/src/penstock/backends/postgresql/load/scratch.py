"""A separate schema in a target, with a table like another one, for measurements."""

from __future__ import annotations

from contextlib import AbstractContextManager

from psycopg import sql

from penstock.backends.api.optional.scratch import PREFIX
from penstock.backends.postgresql.catalog.privileges import (
    check_creatable,
    check_writable_server,
    missing_grant,
)
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.session.statements import ident, name, statement
from penstock.backends.shared.scratch_schema import LOCK_SECONDS, NEEDED_BY, ScratchSchema
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

_SESSION = "penstock:tune"
_COMMENT = "Created by penstock tune, which drops it when it ends."
_KEY = "pg_catalog.hashtextextended('penstock:tune:' || %s, 0)"


class PostgresScratch(ScratchSchema[Connection]):
    """A schema of its own for the tables of one `tune`; see `ScratchSchema`."""

    def _removal(self) -> str:
        return f"DROP SCHEMA {ident(self.name)} CASCADE"

    def _connect(self) -> Connection:
        connection = connect(self._url, "target", _SESSION, lock_seconds=LOCK_SECONDS)
        connection.side = "target"
        return connection

    def _planning(self, subject: str) -> AbstractContextManager[None]:
        return planning("target", subject)

    def _translated(self) -> AbstractContextManager[None]:
        return translated("target")

    def _check(self) -> None:
        if self._connection.pooled:
            raise PlanningError(
                f"{NEEDED_BY}: expected a direct connection to the target, whose end shows that "
                "the scratch table can be dropped, found a pooler; connect to the server itself"
            )
        check_writable_server(self._connection)
        published = self._connection.value(
            "SELECT min(p.pubname) FROM pg_catalog.pg_publication AS p WHERE p.puballtables"
        )
        if published:
            raise PlanningError(
                f"{NEEDED_BY}: publication {published!r} of the target is FOR ALL TABLES, so its "
                "subscribers would receive the scratch table's rows, and stop because they have no "
                "such table; use a similar server without one"
            )
        check_creatable(self._connection, self.name, NEEDED_BY)

    def _read(self, like: TableRef) -> dict[str, object]:
        cursor = self._connection.execute(statement("scratch_like"), {"table": name(like)})
        row = cursor.fetchone()
        if row is None:
            raise PlanningError(f"{NEEDED_BY}: the target has no table {like}")
        kind, persistence, options, tablespace, readable, triggers, foreign_keys = row
        if kind not in ("r", "p"):
            raise PlanningError(
                f"{NEEDED_BY}: expected {like} to be a table, found {KINDS.get(kind, kind)}"
            )
        if not readable:
            # https://www.postgresql.org/docs/current/sql-createtable.html, LIKE
            refused, grant = f"may not SELECT on {like}", f"SELECT ON {name(like)}"
            raise missing_grant(self._connection, refused, NEEDED_BY, grant)
        unlogged = "UNLOGGED " if persistence == "u" else ""
        self._definition = (
            f"CREATE {unlogged}TABLE {name(self._table)} (LIKE {name(like)} INCLUDING ALL)"
            + (f" WITH ({options})" if options and kind == "r" else "")
            + (f" TABLESPACE {ident(tablespace)}" if tablespace else "")
        )
        return {
            "it is not partitioned, as the target's is": kind == "p",
            "it has none of the target's triggers": triggers,
            "it has none of the target's foreign keys": foreign_keys,
        }

    def _schema_names(self) -> list[str]:
        """Return the schemas with our comment; others may belong to someone else."""
        parameters = {"prefix": PREFIX, "comment": _COMMENT}
        return [
            schema
            for (schema,) in self._connection.execute(
                statement("scratch_left"), parameters
            ).fetchall()
        ]

    def _lock(self, name: str) -> bool:
        query = f"SELECT pg_catalog.pg_try_advisory_lock({_KEY})"
        return bool(self._connection.value(query.encode(), [name]))

    def _unlock(self, name: str) -> None:
        self._connection.execute(f"SELECT pg_catalog.pg_advisory_unlock({_KEY})".encode(), [name])

    def _create(self) -> None:
        with self._connection.transaction():
            self._connection.execute(f"CREATE SCHEMA {ident(self.name)}".encode())
            comment = sql.SQL("COMMENT ON SCHEMA {} IS {}").format(
                sql.Identifier(self.name), sql.Literal(_COMMENT)
            )
            self._connection.execute(comment)

    def _remake(self, like: TableRef) -> None:
        with self._connection.transaction():
            _wait_briefly(self._connection)
            self._connection.execute(f"DROP TABLE IF EXISTS {name(self._table)}".encode())
            self._connection.execute(self._definition.encode())

    def _drop(self, connection: Connection, name: str) -> None:
        with connection.transaction():
            _wait_briefly(connection)
            connection.execute(f"DROP SCHEMA IF EXISTS {ident(name)} CASCADE".encode())

    def close(self) -> None:
        abandon(self._connection)


def _wait_briefly(connection: Connection) -> None:
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'".encode())
