"""Mode attach: the attempt loads a new table and attaches it at the end.

Everything happens in the attempt's transaction: the table becomes visible only as a child with all
of its rows, and a failed attempt leaves nothing behind. Until the last moment the transaction locks
nothing that others use. If an attempt locked the parent while loading, every other attempt that has
to lock out readers would wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg
from psycopg import sql

from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.postgresql.catalog.children import (
    ExistingChild,
    read_attached,
    read_children,
)
from penstock.backends.postgresql.catalog.relations import table_oid
from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.ddl.children import BOUNDS_CONSTRAINT, create_child, index_child
from penstock.backends.postgresql.ddl.definition import read_tables
from penstock.backends.postgresql.ddl.steps import URGENT_LOCK_MS
from penstock.backends.postgresql.ddl.text import shorten, temporary_name
from penstock.backends.postgresql.load.loaded_table import LoadedTable
from penstock.backends.postgresql.session.cancellable import compute
from penstock.backends.postgresql.session.statements import ident, literal, name, quoted
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Partition
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import WorkerSpec

# How long to keep trying for a lock that locks out readers, and how long to let readers proceed
# between tries.
URGENT_SECONDS = 300.0
PAUSE_SECONDS = 0.5


class Parent:
    """The target table, whose definition is read once for all attempts of a worker."""

    def __init__(self, connection: Connection, spec: WorkerSpec) -> None:
        with connection.own_path():
            oid = table_oid(connection, spec.target_table, "target")
        (self.definition,) = read_tables(connection, [oid])


class AttachedChild:
    """The new table. Create it in the attempt's transaction, outside any savepoint.

    Args:
        connection: the attempt's session.
        spec: the worker's specification.
        partition: a partition with a child.
        parent: the target table.
    """

    def __init__(
        self, connection: Connection, spec: WorkerSpec, partition: Partition, parent: Parent
    ) -> None:
        assert partition.child is not None
        self._connection = connection
        self._spec = spec
        self._partition = partition
        self._child = partition.child
        unique = f"{spec.run_id}:{partition.id}"
        self._table = TableRef(self._child.table.schema, temporary_name(unique, "")[2:])
        self._parent = parent.definition
        version = connection.info.server_version
        with full_names(connection):
            statements = create_child(self._parent, self._table, self._child.check, version)
            connection.execute("; ".join(statements).encode())

    @property
    def identifier(self) -> sql.Identifier:
        """The table to load."""
        return quoted(self._table)

    def attach(self, rows: int, wait: Wait) -> LoadResult:
        """Attach the table, replacing a child with the same bounds.

        Raises:
            PermanentError: the child with these bounds has rows that may not be replaced.
        """
        with full_names(self._connection):
            for query in index_child(self._parent, self._table) if rows else ():
                self._compute(query, wait)
            if self._child.bounds:
                self._replace_child(rows, wait)
            else:
                self._compute(f"DROP TABLE {name(self._table)}", wait)
        return LoadResult(rows)

    def _compute(self, query: str, wait: Wait) -> None:
        compute(self._connection, sql.SQL(query), "target", wait)

    def _replace_child(self, rows: int, wait: Wait) -> None:
        """Replace the child.

        While the lock is unavailable, let others proceed: their queries would queue behind it.
        """
        give_up = time.monotonic() + URGENT_SECONDS
        while True:
            try:
                with self._connection.transaction():
                    self._compute(f"SET LOCAL lock_timeout = {URGENT_LOCK_MS}", wait)
                    self._exchange(rows, wait)
                return
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if time.monotonic() > give_up:
                    raise
            time.sleep(PAUSE_SECONDS)

    def _exchange(self, rows: int, wait: Wait) -> None:
        parent, table = name(self._spec.target_table), name(self._table)
        # From here on no other session can attach or detach children.
        self._compute(f"LOCK TABLE ONLY {parent} IN SHARE UPDATE EXCLUSIVE MODE", wait)
        old = self._find_existing()
        if old is not None:
            runs = read_attached(self._connection, self._spec.control_schema).get(old.oid, ())
            if not self._is_replaceable(runs):
                if rows:
                    raise self._bounds_conflict(old, runs)
                self._compute(f"DROP TABLE {table}", wait)
                return
            self._compute(f"LOCK TABLE ONLY {parent} IN ACCESS EXCLUSIVE MODE", wait)
            self._compute(f"ALTER TABLE {parent} DETACH PARTITION {name(old.ref)}", wait)
            self._compute(f"DROP TABLE {name(old.ref)}", wait)
        if rows:
            attach = f"ALTER TABLE {parent} ATTACH PARTITION {table} {self._child.bounds}"
            self._compute(attach, wait)
            self._compute(f"ALTER TABLE {table} DROP CONSTRAINT {BOUNDS_CONSTRAINT}", wait)
            child = self._rename(old, wait)
        else:
            self._compute(f"DROP TABLE {table}", wait)
            child = None
        loaded = LoadedTable(self._connection, self._spec.control_schema, self._spec.run_id)
        loaded.note_attached(child, old.oid if old else None)

    def _find_existing(self) -> ExistingChild | None:
        children = read_children(self._connection, self._spec.target_table)
        return next((child for child in children if child.bounds == self._child.bounds), None)

    def _is_replaceable(self, runs: Sequence[str]) -> bool:
        """Whether the existing child may be replaced.

        It may if this run attached it, or if another run did and this run copies all rows within
        the bounds.

        Args:
            runs: the runs that attached it.
        """
        return self._spec.run_id in runs or (bool(runs) and self._spec.where is None)

    def _bounds_conflict(self, old: ExistingChild, runs: Sequence[str]) -> PermanentError:
        why = (
            "the run's condition may leave out some of its rows"
            if runs
            else "--mode attach did not create it"
        )
        return PermanentError(
            f"target: {old.ref} has the bounds of partition {self._partition.id} "
            f"({old.bounds}), and is not replaced, because {why}; detach or drop it, or use "
            "--mode replace",
            Diagnosis(side="target"),
        )

    def _rename(self, old: ExistingChild | None, wait: Wait) -> TableRef:
        """Rename the table and its indexes to their final names, and return the table."""
        child = old.ref if old else self._child.table
        if child.schema != self._table.schema:
            self._compute(f"ALTER TABLE {name(self._table)} SET SCHEMA {ident(child.schema)}", wait)
        new_table = TableRef(child.schema, self._table.name)
        self._compute(f"ALTER TABLE {name(new_table)} RENAME TO {ident(child.name)}", wait)
        indexes = self._connection.execute(
            "SELECT c.relname FROM pg_catalog.pg_index AS x"
            " JOIN pg_catalog.pg_class AS c ON c.oid = x.indexrelid"
            f" WHERE x.indrelid = {literal(name(child))}::regclass"
        ).fetchall()
        for (before,) in indexes:
            suffix = before.removeprefix(new_table.name)
            after = shorten(child.name, suffix)
            free = f"SELECT pg_catalog.to_regclass({literal(ident(child.schema, after))}) IS NULL"
            if suffix != before and self._connection.value(free):
                index = ident(child.schema, before)
                self._compute(f"ALTER INDEX {index} RENAME TO {ident(after)}", wait)
        return child
