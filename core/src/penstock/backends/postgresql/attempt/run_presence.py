"""Runs being executed on PostgreSQL, known by the locks that their sessions hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.api.execution.control import RunningAttempt
from penstock.backends.postgresql.attempt.presence import (
    active_runs,
    enter,
    enter_all,
    leave_all,
)
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.records import PostgresRecords
from penstock.backends.postgresql.session.statements import for_server, statement
from penstock.backends.shared.attempts.run_presence import Check, RunPresence, enter_each
from penstock.errors import PenstockError
from penstock.model.tables import TableRef


class PostgresPresence(RunPresence):
    """See `RunPresence`.

    Args:
        records: the target's records.
        connection: a session on the target, which holds the locks.
        schema: the control schema.
    """

    def __init__(self, records: PostgresRecords, connection: Connection, schema: str) -> None:
        self._records = records
        self._connection = connection
        self._schema = schema
        self._turns: set[str] = set()

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        if len(tables) < 2 or not self._records.joins(list(tables)):
            return enter_each(tables, check, self._enter)
        with translated("target"):
            self._records.attend(next(iter(tables)))
            contested = enter_all(self._connection, tables)
        # Other runs are active on a table, so each run enters separately.
        return enter_each({run_id: tables[run_id] for run_id in contested}, check, self._enter)

    def _enter(self, run_id: str, table: TableRef, check: Check) -> None:
        with translated("target"):
            self._records.attend(run_id)
            enter(self._connection, self._schema, run_id, table, check)

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        with translated("target"):
            leave_all(self._connection, tables)

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        with translated("target"):
            return run_id in active_runs(self._connection, self._schema, table)

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        if self.is_executed(run_id, table) or self.running_attempts(run_id):
            return True
        # Behind a pooler, sessions hold no locks on behalf of their clients.
        return None if self._connection.pooled else False

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        if self._connection.pooled:
            return frozenset(names)
        # A lock that is taken twice would have to be released twice.
        others = [name for name in names if name not in self._turns]
        with translated("target"):
            rows = self._connection.execute(statement("take_turns"), {"names": others})
            self._turns.update(name for (name,) in rows)
        return frozenset(self._turns.intersection(names))

    def end_turns(self, names: Sequence[str]) -> None:
        mine = self._turns.intersection(names)
        self._turns -= mine
        if mine:  # behind a pooler, no turns are taken
            with translated("target"):
                self._connection.execute(statement("end_turns"), {"names": list(mine)})

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        query = for_server(self._connection, "running")
        with translated("target"):
            rows = self._connection.execute(query, {"prefix": f"penstock:{run_id}:"}).fetchall()
        attempts = []
        for session, state, since, size in rows:
            partition_id, attempt = session.rsplit(":", 2)[1:]
            attempts.append(RunningAttempt(partition_id, int(attempt), state, since, size))
        return tuple(attempts)
