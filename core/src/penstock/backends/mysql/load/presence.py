"""The runs that are active on tables, registered for many at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import pymysql

from penstock.backends.mysql.load.locks import lock_holders, release_all, try_all
from penstock.backends.mysql.records import MySqlRecords
from penstock.model.tables import TableRef

RunsOn = Callable[[Collection[TableRef]], Mapping[TableRef, set[str]]]


class MySqlPresence:
    """The locks of a session, of which each execution of a run takes one.

    Args:
        runs_on: as `ServerRuns.runs_by_table`.
    """

    def __init__(self, records: MySqlRecords, runs_on: RunsOn) -> None:
        self._records = records
        self._runs_on = runs_on
        self._locks: dict[str, str] = {}

    def name(self, run_id: str, number: int) -> str:
        return self._records.lock(f"penstock:run:{run_id}:{number}")

    def keep(self, run_id: str, number: int) -> bool:
        """Take one of a run's locks; return whether it was free."""
        name = self.name(run_id, number)
        if not self._records.keep(name):
            return False
        self._locks[run_id] = name
        return True

    def enter_all(self, tables: Mapping[str, TableRef], executions: int) -> list[str]:
        """Register runs on whose tables no other run is active.

        Returns:
            The ids of the others, which have to enter one by one.
        """
        connection = self._records.connection
        gates = {table: self._gate(table) for table in dict.fromkeys(tables.values())}
        open_ = try_all(connection, sorted(gates.values()))
        try:
            free = {run: table for run, table in tables.items() if gates[table] in open_}
            active_runs = self._runs_on(list(free.values()))
            names = {
                self.name(other, number): other
                for run_ids in active_runs.values()
                for other in run_ids
                for number in range(executions)
            }
            executed = {names[name] for name in lock_holders(connection, list(names))}
            alone = {
                run: self.name(run, 0)
                for run, table in free.items()
                if not executed.intersection(active_runs.get(table, ())) - {run}
            }
            # Of two runs on one table, the second finds the first.
            firsts = {table: run for run, table in reversed(free.items()) if run in alone}
            first = {run: alone[run] for run in firsts.values()}
            free_locks = try_all(connection, list(first.values()))
        finally:
            with suppress(pymysql.Error):  # the session may have ended
                release_all(connection, sorted(open_))
        locks = {run: name for run, name in first.items() if name in free_locks}
        self._locks |= locks
        return [run for run in tables if run not in locks]

    def _gate(self, table: TableRef) -> str:
        return self._records.lock(f"penstock:table:{table}")

    def leave_all(self, run_ids: Mapping[str, TableRef]) -> None:
        """Release the locks of runs."""
        names = [self._locks.pop(run_id) for run_id in run_ids if run_id in self._locks]
        release_all(self._records.connection, names)
