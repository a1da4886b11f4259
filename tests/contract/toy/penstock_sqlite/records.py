"""Records of runs as tables of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any, TypeVar

from penstock.backends.api.records import Hold
from penstock.backends.sql.loaded_table import LoadRecords

from . import TARGET
from .dialect import SQLITE
from .session import SqliteSession, connect, translated

T = TypeVar("T")

_NOW = "DEFAULT (strftime('%Y-%m-%d %H:%M:%f+00:00', 'now'))"
_TABLES = {
    "run": "run_id PRIMARY KEY, generation, spec, plan, partitions, fingerprint, source_state,"
    f" snapshots, status, created_at {_NOW}, prepared_at, finished_at, snapshot_released_at,"
    " failures, loads, disturbed_by",
    "loaded_table": "id PRIMARY KEY, rows",
    "commit_record": "run_id, partition_id, attempt, rows, bytes, inserted, updated, series,"
    f" read_at, started_at, committed_at {_NOW}, PRIMARY KEY (run_id, partition_id),"
    " UNIQUE (series, partition_id)",
    "step_record": f"run_id, step_id, done_at {_NOW}, PRIMARY KEY (run_id, step_id)",
    "recopy_record": "run_id, partition_id, request, PRIMARY KEY (run_id, partition_id, request)",
}


class SqliteRecords(LoadRecords):
    now = "strftime('%Y-%m-%d %H:%M:%f+00:00', 'now')"
    text = "TEXT"
    schema = "main"
    steps_with_records = TARGET.steps_with_records

    def __init__(self, path: str, schema: str, session: SqliteSession | None = None) -> None:
        self._path = path
        self._prefix = schema
        self._session = session

    def named(self, table: str) -> str:
        return SQLITE.ident(f"{self._prefix}.{table}")

    def placeholder(self, number: int) -> str:
        return f"?{number}"

    @property
    def session(self) -> SqliteSession:
        assert self._session is not None
        return self._session

    @contextmanager
    def _opened(self, mode: str) -> Iterator[SqliteSession]:
        if self._session is not None:
            yield self._session
            return
        with closing(connect(self._path, "target", mode, self.patience.stall_timeout)) as session:
            self._session = session
            try:
                yield session
            finally:
                self._session = None

    @contextmanager
    def reading(self) -> Iterator[bool]:
        with self._opened("ro") as session:
            known = session.fetch("SELECT name FROM sqlite_master", "control tables")
            yield (f"{self._prefix}.run",) in known

    def create(self) -> None:
        with self._opened("rw") as session:
            session.run("BEGIN IMMEDIATE")
            for name, columns in _TABLES.items():
                session.run(f"CREATE TABLE IF NOT EXISTS {self.named(name)} ({columns})")
            session.run("COMMIT")

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        """Nobody else writes meanwhile; attempts look at everything before they do."""
        with self._opened("rw") as session:
            session.run("BEGIN IMMEDIATE")
            result = body()
            session.run("COMMIT")
            return result  # without a commit, closing it undoes everything

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        with nullcontext(True) if self._session else self.reading() as found:
            if not found and reading:
                return []
        with self._opened("rw") as session, translated("target", "control tables"):
            return session.connection.execute(statement, values).fetchall()
