"""Facts about a source's tables, for planning and verification. Reads catalogs, not rows."""

from __future__ import annotations

import json

from psycopg import sql

from penstock.backends.base import KeyStatistics, TableStatistics
from penstock.backends.postgresql import keys
from penstock.backends.postgresql.columns import read_columns
from penstock.backends.postgresql.connection import connect
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.predicate import condition, key_expression
from penstock.backends.postgresql.snapshot import import_snapshot
from penstock.backends.postgresql.statements import quoted, raw, statement
from penstock.errors import PlanningError
from penstock.model import Bound, Column, Extent, Key, Snapshot, SourceState, TableRef

CTID_VERSION = 140000  # TID range scans: https://www.postgresql.org/docs/release/14.0/
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "p": "a partitioned table",
}


class PostgresSource:
    # A session that has become idle reports what it wrote after 10 s at the latest
    # (PGSTAT_IDLE_INTERVAL in pgstat.c).
    settle_seconds = 11.0

    def __init__(self, url: str) -> None:
        self._connection = connect(url, "source", "penstock:plan")

    def close(self) -> None:
        self._connection.close()

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return read_columns(self._connection, table, "source")

    def adopt(self, snapshot: Snapshot) -> None:
        import_snapshot(self._connection, snapshot.token)

    def _name(self, ref: TableRef) -> str:
        return quoted(ref).as_string(self._connection)

    def statistics(self, table: TableRef, where: str | None) -> TableStatistics:
        with planning("source", f"table {table}"):
            found = self._connection.execute(
                statement("statistics"),
                {"table": self._name(table), "ranged": [f"pg_catalog.{t}" for t in keys.RANGED]},
            ).fetchone()
        assert found is not None
        kind, method, block_size, size, main_size, tuples, pages, has_children, key = found
        blocks = main_size // block_size
        rows: int | None = None
        if kind == "r" and blocks == 0:
            rows = 0
        elif tuples >= 0 and (pages > 0 or kind == "p"):
            # The density of the last ANALYZE, times the size of today.
            rows = round(tuples / pages * blocks) if pages > 0 and kind != "p" else round(tuples)
        version = self._connection.info.server_version
        server = f"PostgreSQL {version // 10000}"
        obstacle = ""
        if kind not in "rm":
            obstacle = f"{_KINDS.get(kind, 'no table')}, whose rows have no blocks of their own"
        elif method != "heap":
            obstacle = f"its access method is {method or 'unknown'}, not heap"
        elif has_children:
            obstacle = "other tables inherit from it"
        elif version < CTID_VERSION:
            obstacle = f"{server} reads the whole table for each range; 14 is the first that can"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=self._selected(table, where, rows),
            blocks=None if obstacle else blocks,
            storage=obstacle or f"heap table, {blocks:,} blocks, {server}",
            default_key=key,
        )

    def _selected(self, ref: TableRef, where: str | None, rows: int | None) -> float:
        """What the server's planner expects the condition to select; also checks it."""
        query = sql.SQL("EXPLAIN (FORMAT JSON) SELECT 1 FROM {} WHERE {}").format(
            quoted(ref), sql.SQL("true") if where is None else raw(where)
        )
        with planning("source", f"--where on {ref}" if where else f"table {ref}"):
            if where is not None:
                keys.check_closed(self._connection, ref, where)
            found = self._connection.execute(query).fetchone()
        if where is None or not rows:
            return 1.0
        assert found is not None
        plan = json.loads(found[0]) if isinstance(found[0], str) else found[0]
        return min(1.0, float(plan[0]["Plan"]["Plan Rows"]) / rows)

    def state(self, table: TableRef) -> SourceState:
        with planning("source", f"table {table}"):
            found = self._connection.execute(
                statement("state"), {"table": self._name(table)}
            ).fetchone()
        assert found is not None
        return SourceState(*found)

    def key_type(self, table: TableRef, key: Key) -> str:
        return keys.key_type(self._connection, table, key)

    def key_statistics(self, table: TableRef, key: Key, where: str | None) -> KeyStatistics:
        return keys.key_statistics(self._connection, table, key, where)

    def shared_order(self, table: TableRef, key: Key) -> str:
        # The order of bytes: the only one that needs no library, of whatever version.
        return "C" if keys.is_collatable(self._connection, table, key) else ""

    def windows(
        self, table: TableRef, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        return keys.windows(self._connection, table, key, interval, where, limit)

    def key_facts(self, table: TableRef, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        facts = keys.column_facts(self._connection, table, key.text)
        return facts.nullable, facts.indexed

    def distinct(
        self, table: TableRef, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        type_ = self.key_type(table, key)
        if query is None:
            values: sql.Composable = sql.SQL("SELECT {} FROM {} WHERE {}").format(
                key_expression(key), quoted(table), sql.SQL("true") if where is None else raw(where)
            )
            subject = f"--key {key.text}"
        else:
            values, subject = raw(query), "--values-query"
            with planning("source", subject):
                self._connection.execute(sql.SQL("EXPLAIN {}").format(sql.SQL(query)))
                described = self._connection.execute(
                    sql.SQL("SELECT * FROM {} AS q LIMIT 0").format(values)
                ).description
            width = len(described or ())
            if width != 1:
                raise PlanningError(f"--values-query: expected one column, found {width}")
        with planning("source", subject):
            rows = self._connection.execute(
                statement("distinct").format(
                    values=values if query else sql.SQL("({})").format(values),
                    type=keys.type_sql(type_),
                    limit=sql.Literal(limit + 1),
                )
            ).fetchall()
        if len(rows) > limit:
            raise PlanningError(
                f"{subject}: more than {limit:,} distinct values; expected a key with fewer, or "
                "--strategy range or hash"
            )
        return tuple(Bound(type_, text) for (text,) in rows if text is not None)

    def count(self, table: TableRef, where: str | None, extent: Extent) -> int:
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
            quoted(table), condition(where, extent)
        )
        with translated("source"):
            found = self._connection.execute(query).fetchone()
        assert found is not None
        return int(found[0])
