"""Which runs are executed on the tables of a file: locked files, for want of sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from penstock.backends.api.execution.control import RunningAttempt
from penstock.backends.shared.attempts.presence import Presence
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.sql.one_file.database import OneFile
from penstock.errors import PenstockError
from penstock.model.tables import TableRef


class FilePresence(RunPresence):
    """See `RunPresence`."""

    def __init__(self, database: OneFile) -> None:
        self._database = database
        self._presence = Presence(os.path.join(database.folder, "entered"))

    def close(self) -> None:
        """Leave the runs that were entered."""
        self._presence.leave()
        self._database.tidy()

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        table_names = {run_id: str(table) for run_id, table in tables.items()}
        return self._presence.enter(table_names, check)

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        self._presence.leave(tables)

    def is_at_work(self, run_id: str, table: TableRef) -> bool:
        return self._presence.executes(run_id, str(table))

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        return self._presence.take_turns(names)

    def end_turns(self, names: Sequence[str]) -> None:
        self._presence.end_turns(names)

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return self._database.attempts.running_attempts(run_id)
