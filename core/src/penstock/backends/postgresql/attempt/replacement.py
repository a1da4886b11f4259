"""Mode replace: delete the rows that a partition selects and load new ones, in one transaction.

Another run, partitioned differently or with another condition, may replace some of the same rows at
the same time, and neither sees what the other has not committed. So attempts take turns to commit:
each looks once more for rows that are not its own.
"""

from __future__ import annotations

from psycopg import sql

from penstock.backends.api.worker import Wait
from penstock.backends.postgresql.compare.conditions import condition
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.cancellable import compute, compute_all
from penstock.backends.postgresql.session.statements import (
    OWN_XMIN,
    keeps_xmin,
    name,
    rows_of,
    statement,
)
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class ReplacedRows:
    """The rows that a partition replaces."""

    def __init__(self, spec: WorkerSpec, partition: Partition) -> None:
        self._name = name(spec.target_table)
        self._keeps_xmin = keeps_xmin(spec.target_table)
        self._rows = rows_of(spec.target_table)
        self._condition = condition(spec.where, partition.extent)

    def delete(self, connection: Connection, wait: Wait) -> None:
        # An attempt that replaces the same rows waits here instead of violating a unique key.
        rows = self._deletion(self._condition).as_string(connection)
        lock = statement("lock_replaced").format(rows=rows)
        compute_all(connection, [lock, self._deletion(self._condition)], "target", wait)

    def delete_other_rows(self, connection: Connection, rows: int, wait: Wait) -> int:
        """Delete the rows that others have committed since.

        Args:
            connection: the attempt's session.
            rows: the number of rows loaded by this transaction.
            wait: waits for the socket, within the stall timeout.

        Returns:
            How many rows could not be deleted: a trigger or a rule may keep them.
        """
        lock = statement("lock_replacing").format(table=sql.Literal(self._name))
        keeps = sql.SQL("SELECT FROM ({}) AS found (kept) WHERE kept").format(self._keeps_xmin)
        _, has_xmin = compute_all(connection, [lock, keeps], "target", wait)
        if not has_xmin:  # rows on another server do not record the transaction that wrote them
            return compute(connection, self._count(self._condition), "target", wait) - rows
        foreign = sql.SQL("({}) AND NOT xmin OPERATOR(pg_catalog.=) {}").format(
            self._condition, OWN_XMIN
        )
        remaining = compute(connection, self._count(foreign), "target", wait)
        if remaining:
            _, remaining = compute_all(
                connection, [self._deletion(foreign), self._count(foreign)], "target", wait
            )
        return remaining

    def _deletion(self, rows: sql.Composable) -> sql.Composed:
        return statement("delete_partition").format(table=self._rows, condition=rows)

    def _count(self, rows: sql.Composable) -> sql.Composed:
        return sql.SQL("SELECT FROM {} WHERE {}").format(self._rows, rows)
