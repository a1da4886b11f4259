"""The runs that are active on tables, registered for many at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import pymysql

from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.load.locks import lock_holders, release_all, try_all
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.server.presence import ServerPresence
from penstock.errors import PenstockError
from penstock.model.tables import TableRef


class MySqlPresence(ServerPresence[MySqlRecords]):
    """See `ServerPresence`: the locks of a session, of which each execution of a run takes one."""

    def __init__(self, records: MySqlRecords) -> None:
        super().__init__(records)
        self._kept: dict[str, str] = {}

    def keep(self, run_id: str) -> str:
        if name := super().keep(run_id):
            self._kept[run_id] = name
        return name

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        if len(tables) < 2 or not self._records.joins(list(tables)):
            return super().enter(tables, check)
        with translated("target"):
            contested = self._enter_free(tables)
        return super().enter({run_id: tables[run_id] for run_id in contested}, check)

    def _enter_free(self, tables: Mapping[str, TableRef]) -> list[str]:
        """Register runs on whose tables no other run is active.

        Returns:
            The ids of the others, which have to enter one by one.
        """
        connection = self._records.connection
        gates = {table: self._gate(table) for table in dict.fromkeys(tables.values())}
        open_ = try_all(connection, sorted(gates.values()))
        try:
            free = {run: table for run, table in tables.items() if gates[table] in open_}
            active_runs = self.runs_by_table(list(free.values()))
            executed = self._held_by(set().union(*active_runs.values()))
            alone = {
                run: self.locks(run)[0]
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
        self._kept |= locks
        return [run for run in tables if run not in locks]

    def _held_by(self, run_ids: Collection[str]) -> set[str]:
        """Return the runs that are executed."""
        connection = self._records.connection
        telling = lock_holders(connection, self.telling_locks())
        locks = self.all_locks if telling else self.locks
        names = {name: run_id for run_id in run_ids for name in locks(run_id)}
        return {names[name] for name in lock_holders(connection, list(names))}

    def _gate(self, table: TableRef) -> str:
        return self._records.lock(f"penstock:table:{table}")

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        names = [self._kept.pop(run_id) for run_id in tables if run_id in self._kept]
        with translated("target"):
            release_all(self._records.connection, names)
