"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.columns import read_columns, refusal
from penstock.backends.postgresql.connection import abandon, connect
from penstock.backends.postgresql.control import ControlTables
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.predicate import condition
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import PlanningError
from penstock.model import Column, Extent, TableRef

_PRIVILEGES = {"truncate": ["TRUNCATE"], "replace": ["DELETE", "SELECT"]}


class PostgresTarget:
    def __init__(self, url: str, control_schema: str) -> None:
        self._connection = connect(url, "target", "penstock:control")
        self.control = ControlTables(self._connection, control_schema)

    def close(self) -> None:
        abandon(self._connection)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return read_columns(self._connection, table, "target")

    def identity(self, table: TableRef) -> str:
        with translated("target"):
            found = self._connection.execute(
                statement("state"), {"table": quoted(table).as_string(self._connection)}
            ).fetchone()
        assert found is not None
        return str(found[0])

    def refusals(
        self, source: Sequence[Column], target: Sequence[Column]
    ) -> list[tuple[str, str, str, str]]:
        return [
            (mine.name, mine.type, theirs.type, reason)
            for mine, theirs in zip(source, target, strict=True)
            if (reason := refusal(mine, theirs))
        ]

    def check_writable(self, table: TableRef, mode: str, columns: Sequence[str]) -> None:
        with planning("target", f"table {table}"):
            read_only = self._connection.execute("SHOW transaction_read_only").fetchone()
            found = self._connection.execute(
                statement("privileges"),
                {
                    "table": quoted(table).as_string(self._connection),
                    "table_privileges": _PRIVILEGES.get(mode, []),
                    "columns": list(columns),
                },
            ).fetchone()
        assert found is not None
        kind, owner, usage, missing, may_insert = found
        user = self._connection.info.user
        if read_only and read_only[0] == "on":
            raise PlanningError(
                f"target: expected a server that can be written, found one that is read-only "
                f"(a standby?) at {self._connection.info.host}:{self._connection.info.port}"
            )
        if kind not in ("r", "p", "f"):
            raise PlanningError(f"target: expected {table} to be a table, found kind {kind!r}")
        name = quoted(table).as_string(self._connection)
        grants = [*missing, *([] if may_insert else ["INSERT"])]
        if not usage:
            schema = sql.Identifier(table.schema).as_string(self._connection)
            raise PlanningError(
                f"target: {user!r} may not use schema {table.schema!r}; expected "
                f'GRANT USAGE ON SCHEMA {schema} TO "{user}"'
            )
        if grants:
            wanted = ", ".join(sorted(grants))
            raise PlanningError(
                f"target: {user!r} may not {wanted} on {table} (owner {owner!r}), which --mode "
                f'{mode} needs; expected GRANT {wanted} ON {name} TO "{user}"'
            )

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        query = sql.SQL("EXPLAIN SELECT 1 FROM {} WHERE {}").format(
            quoted(table), condition(where, extent)
        )
        with planning("target", f"--mode replace: the partitions' condition on {table}"):
            self._connection.execute(query)

    def count(self, table: TableRef, where: str | None, extent: Extent) -> int:
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
            quoted(table), condition(where, extent)
        )
        with translated("target"):
            found = self._connection.execute(query).fetchone()
        assert found is not None
        return int(found[0])
