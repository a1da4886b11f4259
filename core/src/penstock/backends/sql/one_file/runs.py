"""The control store of a database that is one file: who is at work shows beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.backends.api.control import RunningAttempt
from penstock.backends.shared.presence import Presence
from penstock.backends.sql.loaded_runs import LoadedRuns
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.one_file.records import FileRecords
from penstock.model.tables import TableRef


class FileRuns(LoadedRuns):
    def __init__(self, database: OneFile, schema: str) -> None:
        super().__init__(FileRecords(database, schema))
        self._database = database
        self._presence = Presence(os.path.join(database.folder, "entered"))

    def leave(self) -> None:
        """End what was entered."""
        self._presence.leave()
        self._database.tidy()

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def is_at_work(self, run_id: str, table: TableRef) -> bool:
        return self._presence.executes(run_id, str(table))

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return self._database.attempts.running(run_id)

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        super().set_status(run_id, status, failures)
        if status not in ("running", "created"):
            self._database.attempts.sweep()
            self._database.tidy()
