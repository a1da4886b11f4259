"""A schema of one's own in a target, with a table like another one, for measurements."""

from __future__ import annotations

import secrets
from contextlib import closing

from psycopg import sql

from penstock.backends.api.scratch import PREFIX
from penstock.backends.postgresql.catalog.privileges import (
    check_creatable,
    check_writable_server,
    missing_grant,
)
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.statements import ident, name, statement
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

_NEEDED_BY = "penstock tune"
_SESSION = "penstock:tune"
_COMMENT = "Made by penstock tune, which drops it at its end."
# Beside the control tables.
_TABLE = "scratch_table"
# Sessions that were just cancelled, and workers whose parent was killed, end within seconds.
_LOCK_TIMEOUT = "20s"
_KEY = "pg_catalog.hashtextextended('penstock:tune:' || %s, 0)"


class PostgresScratch:
    """See `Scratch`. That its maker is alive shows by an advisory lock of this session."""

    def __init__(self, url: str, like: TableRef | None) -> None:
        self._url = url
        self._like = like
        self._made = False
        self.name = f"{PREFIX}{secrets.token_hex(4)}"
        self.table = TableRef(self.name, _TABLE)
        self.removal = f"DROP SCHEMA {ident(self.name)} CASCADE"
        self.remarks: tuple[str, ...] = ()
        self._connection = connect(url, "target", _SESSION)
        self._connection.side = "target"
        try:
            with planning("target", _NEEDED_BY):
                self._check()
                self._definition = self._read(like) if like else None
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self._connection.pooled:
            raise PlanningError(
                f"{_NEEDED_BY}: expected a session of its own in the target, whose end shows that "
                "what it has made can be dropped; found a pooler: name the server itself"
            )
        check_writable_server(self._connection)
        published = self._connection.value(
            "SELECT min(p.pubname) FROM pg_catalog.pg_publication AS p WHERE p.puballtables"
        )
        if published:
            raise PlanningError(
                f"{_NEEDED_BY}: publication {published!r} of the target is FOR ALL TABLES, so its "
                "subscribers would get the scratch table's rows, and stop since they have no such "
                "table; expected none, or another server like it"
            )
        check_creatable(self._connection, self.name, _NEEDED_BY)

    def _read(self, like: TableRef) -> str:
        """The statement that makes a table like this one."""
        found = self._connection.execute(statement("scratch_like"), {"table": name(like)})
        row = found.fetchone()
        if row is None:
            raise PlanningError(f"{_NEEDED_BY}: the target has no table {like}")
        kind, persistence, options, tablespace, readable, triggers, foreign_keys = row
        if kind not in ("r", "p"):
            raise PlanningError(
                f"{_NEEDED_BY}: expected {like} to be a table, found {KINDS.get(kind, kind)}"
            )
        if not readable:
            # https://www.postgresql.org/docs/current/sql-createtable.html, LIKE
            refused, grant = f"may not SELECT on {like}", f"SELECT ON {name(like)}"
            raise missing_grant(self._connection, refused, _NEEDED_BY, grant)
        remarks = {
            "it is not partitioned, as the target's is": kind == "p",
            "it has none of the target's triggers": triggers,
            "it has none of the target's foreign keys": foreign_keys,
        }
        self.remarks = tuple(remark for remark, holds in remarks.items() if holds)
        unlogged = "UNLOGGED " if persistence == "u" else ""
        return (
            f"CREATE {unlogged}TABLE {name(self.table)} (LIKE {name(like)} INCLUDING ALL)"
            + (f" WITH ({options})" if options and kind == "r" else "")
            + (f" TABLESPACE {ident(tablespace)}" if tablespace else "")
        )

    def sweep(self) -> tuple[str, ...]:
        swept = []
        with translated("target"):
            found = self._connection.execute(
                statement("scratch_left"), {"prefix": PREFIX, "comment": _COMMENT}
            ).fetchall()
            for (left,) in found:
                with self._connection.transaction():
                    free = f"SELECT pg_catalog.pg_try_advisory_xact_lock({_KEY})"
                    if self._connection.value(free.encode(), [left]):
                        _drop(self._connection, left)
                        swept.append(left)
        return tuple(swept)

    def begin(self) -> None:
        with planning("target", f"{_NEEDED_BY}: schema {self.name}"):
            # First: nobody takes it for left.
            lock = f"SELECT pg_catalog.pg_advisory_lock({_KEY})"
            self._connection.execute(lock.encode(), [self.name])
            self._made = True
            with self._connection.transaction():
                self._connection.execute(f"CREATE SCHEMA {ident(self.name)}".encode())
                comment = sql.SQL("COMMENT ON SCHEMA {} IS {}").format(
                    sql.Identifier(self.name), sql.Literal(_COMMENT)
                )
                self._connection.execute(comment)

    def make_table(self) -> None:
        assert self._definition is not None
        with (
            planning("target", f"{_NEEDED_BY}: a table like {self._like}"),
            self._connection.transaction(),
        ):
            self._connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'".encode())
            self._connection.execute(f"DROP TABLE IF EXISTS {name(self.table)}".encode())
            self._connection.execute(self._definition.encode())

    def drop(self) -> None:
        if not self._made:
            return
        # A new session: whatever has ended the measurements may have hit the other one, which
        # must not have locks any more.
        self.close()
        with (
            translated("target"),
            closing(connect(self._url, "target", _SESSION)) as connection,
            connection.transaction(),
        ):
            _drop(connection, self.name)
        self._made = False

    def close(self) -> None:
        abandon(self._connection)


def _drop(connection: Connection, schema: str) -> None:
    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'".encode())
    connection.execute(f"DROP SCHEMA IF EXISTS {ident(schema)} CASCADE".encode())
