"""A database of one's own on a target's server, with a table like another one, for measurements."""

from __future__ import annotations

import secrets
from contextlib import closing

from penstock.backends.api.scratch import PREFIX
from penstock.backends.mysql.connection import Connection, connect, wait_for_locks
from penstock.backends.mysql.dialect import BY_BYTES
from penstock.backends.mysql.errors import planning, translated
from penstock.backends.mysql.locks import release, try_lock
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

_NEEDED_BY = "penstock tune"
# Beside the control tables.
_TABLE = "scratch_table"
# Sessions that were just cancelled, and workers whose parent was killed, end within seconds.
_LOCK_SECONDS = 20


class MySqlScratch:
    """See `Scratch`. That its maker is alive shows by a lock of this session."""

    def __init__(self, url: str, like: TableRef | None) -> None:
        self._url = url
        self._like = like
        self._made = False
        self.name = f"{PREFIX}{secrets.token_hex(4)}"
        self.table = TableRef(self.name, _TABLE)
        self.removal = f"DROP DATABASE {BY_BYTES.ident(self.name)}"
        self.remarks: tuple[str, ...] = ()
        self._connection = connect(url, "target")
        try:
            wait_for_locks(self._connection, _LOCK_SECONDS)
            if like is not None:
                self._read(like)
        except BaseException:
            self.close()
            raise

    def _read(self, like: TableRef) -> None:
        named = [like.schema, like.name]
        with planning("target", f"{_NEEDED_BY}: {like}"):
            kinds = self._connection.rows(
                "SELECT table_type FROM information_schema.tables"
                " WHERE table_schema = %s AND table_name = %s",
                named,
            )
            if kinds != [("BASE TABLE",)]:
                found = kinds[0][0] if kinds else "none"
                raise PlanningError(f"{_NEEDED_BY}: expected {like} to be a table, found {found}")
            ((triggers, foreign_keys),) = self._connection.rows(
                "SELECT (SELECT count(*) FROM information_schema.triggers"
                " WHERE event_object_schema = %s AND event_object_table = %s),"
                " (SELECT count(*) FROM information_schema.table_constraints"
                " WHERE table_schema = %s AND table_name = %s AND constraint_type = 'FOREIGN KEY')",
                [*named, *named],
            )
        remarks = {
            "it has none of the target's triggers": triggers,
            "it has none of the target's foreign keys": foreign_keys,
        }
        self.remarks = tuple(remark for remark, holds in remarks.items() if holds)

    def sweep(self) -> tuple[str, ...]:
        swept = []
        with translated("target"):
            found = self._connection.rows(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name REGEXP %s",
                [f"^{PREFIX}[0-9a-f]{{8}}$"],
            )
            for (left,) in found:
                if try_lock(self._connection, _lock(left)):
                    try:
                        _drop(self._connection, left)
                        swept.append(left)
                    finally:
                        release(self._connection, _lock(left))
        return tuple(swept)

    def begin(self) -> None:
        with planning("target", f"{_NEEDED_BY}: database {self.name}"):
            # First: nobody takes it for left.
            try_lock(self._connection, _lock(self.name))
            self._made = True
            self._connection.change(f"CREATE DATABASE {BY_BYTES.ident(self.name)}")

    def make_table(self) -> None:
        assert self._like is not None
        made = BY_BYTES.table(self.table)
        like = BY_BYTES.table(self._like)
        with planning("target", f"{_NEEDED_BY}: a table like {self._like}"):
            self._connection.change(f"DROP TABLE IF EXISTS {made}")
            self._connection.change(f"CREATE TABLE {made} LIKE {like}")

    def drop(self) -> None:
        if not self._made:
            return
        # A new session: whatever has ended the measurements may have hit the other one, which
        # must not have locks any more.
        self.close()
        with translated("target"), closing(connect(self._url, "target")) as connection:
            wait_for_locks(connection, _LOCK_SECONDS)
            _drop(connection, self.name)
        self._made = False

    def close(self) -> None:
        self._connection.abandon()


def _lock(name: str) -> str:
    return f"penstock:tune:{name}"


def _drop(connection: Connection, name: str) -> None:
    connection.change(f"DROP DATABASE IF EXISTS {BY_BYTES.ident(name)}")
