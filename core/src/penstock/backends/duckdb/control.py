"""The control store: what of it DuckDB alone knows, of who is at work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.backends.api.control import RunningAttempt
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.load.folder import folder_of, staged, sweep, tidy
from penstock.backends.duckdb.records import DuckRecords
from penstock.backends.shared.presence import Presence
from penstock.backends.sql.loaded_runs import LoadedRuns
from penstock.model.tables import TableRef


class ControlTables(LoadedRuns):
    def __init__(self, database: Database, schema: str) -> None:
        super().__init__(DuckRecords(database, schema))
        self._database = database
        self._presence = Presence(os.path.join(folder_of(database.path), "entered"))

    def leave(self) -> None:
        """End what was entered."""
        self._presence.leave()
        tidy(self._database.path)

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(each.partition_id, each.attempt, "active", _since(each.file), each.bytes)
            for each in staged(self._database.path)
            if each.run_id == run_id and each.is_alive()
        )

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        super().set_status(run_id, status, failures)
        if status not in ("running", "created"):
            sweep(self._database.path)
            # Whoever has the lock last removes the folder.
            with self._database.reading():
                pass


def _since(file: str) -> str:
    try:
        begun = os.stat(file).st_ctime
    except FileNotFoundError:
        begun = time.time()
    return datetime.fromtimestamp(begun, UTC).isoformat(sep=" ")
