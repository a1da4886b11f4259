"""Mode replace at once: delete the rows that any partition selects, and insert the staged ones."""

from __future__ import annotations

from psycopg import sql

from penstock.backends.api.worker import LoadResult
from penstock.backends.postgresql.compare.conditions import condition
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import (
    column_list,
    name,
    quoted,
    rows_of,
    statement,
)
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import PartitionPlan
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec


class Ranges:
    """The replacement of rows in one table.

    Args:
        connection: a session in the transaction that merges.
        spec: the run's specification.
        plan: the run's plan, with the stage as the table to load.
        target: the table whose rows are replaced.
    """

    def __init__(
        self, connection: Connection, spec: CopySpec, plan: PartitionPlan, target: TableRef
    ) -> None:
        self._connection = connection
        self._target = target
        self._stage = quoted(plan.load.table)
        self._columns = column_list(pair.target for pair in plan.pairs)
        self._conditions = [condition(spec.where, each.extent) for each in plan.partitions]

    def delete(self) -> None:
        """Delete the rows that the partitions select.

        Raises:
            PermanentError: some rows remain.
        """
        # Attempts of other runs take turns to look for rows that are not their own.
        lock = statement("lock_replacing").format(table=sql.Literal(name(self._target)))
        self._connection.execute(lock)
        rows, remaining = rows_of(self._target), 0
        for selected in self._conditions:
            query = statement("delete_partition").format(table=rows, condition=selected)
            with self._connection.users_path():
                self._connection.execute(query)
        for selected in self._conditions:
            query = statement("left_of_partition").format(table=rows, condition=selected)
            with self._connection.users_path():
                remaining += int(self._connection.value(query))
        if remaining:
            raise self._error(f"{remaining:,} rows were not deleted")

    def insert(self, rows: int) -> LoadResult:
        """Insert the staged rows.

        Args:
            rows: the number of rows in the stage.

        Raises:
            PermanentError: some rows were not inserted.
        """
        query = statement("insert_staged").format(
            target=quoted(self._target), columns=self._columns, stage=self._stage
        )
        with self._connection.users_path():
            inserted = self._connection.execute(query).rowcount
        if inserted != rows:
            raise self._error(f"{inserted:,} of {rows:,} rows were inserted")
        return LoadResult(rows, inserted, 0)

    def _error(self, finding: str) -> PermanentError:
        return PermanentError(
            f"target: {self._target}: --mode replace: {finding} (does a trigger or rule keep or "
            "drop rows?)",
            Diagnosis(side="target"),
        )
