"""A partition is staged in a temporary table, then loaded in one transaction with its record."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.api.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.arrow import Caster, schema_from_text
from penstock.backends.shared.background import compute
from penstock.backends.shared.locked_files import create, is_at, is_locked, try_lock
from penstock.backends.shared.refusals import attempt_ended
from penstock.backends.shared.staged import StagedWriter
from penstock.backends.sql.loading import SqlLoading
from penstock.errors import PermanentError
from penstock.spec.worker_spec import WorkerSpec

from .dialect import SQLITE
from .records import SqliteRecords
from .session import SqliteSession, connect, translated

T = TypeVar("T")
_STAGE = "temp.penstock_stage"


def sqlite_writer(path: str, spec: WorkerSpec) -> StagedWriter:
    return StagedWriter(spec, SqliteHooks(path, spec.stall_timeout))


class TempStage:
    """Rows in a table that ends with the session, and a locked file that says who is at work."""

    def __init__(self, session: SqliteSession, folder: str, attempt: Attempt) -> None:
        self._session = session
        self._attempt = attempt
        self._path = os.path.join(folder, f"{_begin(attempt)}{secrets.token_hex(4)}")
        self._descriptor = create(folder, os.path.basename(self._path))
        try_lock(self._descriptor)
        self._caster = Caster(schema_from_text(attempt.spec.schema), "target")
        self._names = [pair.target for pair in attempt.spec.pairs]
        self.rows = 0
        listed = ", ".join(map(SQLITE.ident, self._names))
        session.run(f"DROP TABLE IF EXISTS {_STAGE}")
        session.run(f"CREATE TEMP TABLE penstock_stage ({listed})")

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """There is no server that could say anything."""

    def write(self, block: Block, wait: Wait) -> None:
        batch = self._caster.cast(block)
        places = ", ".join("?" for _ in self._names)
        with translated("target", f"partition {self._attempt.partition.id}"):
            self._session.connection.executemany(
                f"INSERT INTO {_STAGE} VALUES ({places})",
                zip(*(_values(column) for column in batch.columns), strict=True),
            )
        self.rows += batch.num_rows
        os.write(self._descriptor, b".")  # a newer attempt sees that this one makes progress

    def end(self, wait: Wait) -> int:
        return self.rows

    def check_held(self) -> None:
        if not is_at(self._descriptor, self._path):
            raise attempt_ended(self._attempt)

    def remove(self) -> None:
        with suppress(OSError):
            if is_at(self._descriptor, self._path):
                os.unlink(self._path)
        with suppress(OSError):
            os.close(self._descriptor)


def _begin(attempt: Attempt) -> str:
    return f"{quote(attempt.spec.run_id, '')}~{quote(attempt.partition.id, '')}~"


def _values(column: pa.Array) -> list[Any]:
    """
    Raises:
        PermanentError: SQLite would keep a NaN as NULL.
    """
    if column.type == pa.date32():
        return list(column.cast(pa.string()).to_pylist())
    if column.type == pa.float64() and pc.any(pc.is_nan(column)).as_py():
        raise PermanentError("target: expected numbers, found NaN, which SQLite cannot hold")
    return list(column.to_pylist())


class Loading(SqlLoading[TempStage]):
    def insert_staged(self, stage: TempStage, table: str) -> int:
        listed = ", ".join(map(SQLITE.ident, self._names))
        return self._session.run(f"INSERT INTO {table} ({listed}) SELECT * FROM {_STAGE}")

    def staged_table(self, stage: TempStage) -> Any:
        raise NotImplementedError  # of mode upsert


class SqliteHooks:
    """See `StagedHooks`."""

    def __init__(self, path: str, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._folder = f"{path}.penstock"
        self._session: SqliteSession | None = None

    def _open(self) -> SqliteSession:
        if self._session is None:
            self._session = connect(self._path, "target", "rw", self._patience)
        return self._session

    def _attempts(self, begin: str = "") -> Iterator[str]:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if "~" in name and name.startswith(begin):
                    yield os.path.join(self._folder, name)

    def lock(self, attempt: Attempt) -> Mapping[str, int] | None:
        alive = filter(is_locked, self._attempts(_begin(attempt)))
        return {path: os.stat(path).st_size for path in alive} or None

    def end_older(self, attempt: Attempt, older: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(older)  # it finds that, when it goes on

    def sweep(self) -> None:
        for path in self._attempts():
            if not is_locked(path):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def open_stage(self, attempt: Attempt, wait: Wait) -> TempStage:
        return TempStage(self._open(), self._folder, attempt)

    @contextmanager
    def _transaction(self, attempt: Attempt, begin: str) -> Iterator[Loading]:
        session = self._open()
        session.run(begin)
        try:
            records = SqliteRecords(self._path, attempt.spec.control_schema, session)
            yield Loading(records, attempt)
        finally:
            if session.connection.in_transaction:
                session.run("ROLLBACK")

    def reading(self, attempt: Attempt) -> Any:
        return self._transaction(attempt, "BEGIN")

    def writing(self, attempt: Attempt) -> Any:
        return self._transaction(attempt, "BEGIN IMMEDIATE")

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self.interrupt)

    def interrupt(self) -> None:
        if self._session is not None:
            self._session.connection.interrupt()
