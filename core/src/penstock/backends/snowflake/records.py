"""The control tables: the sessions, transactions and locks of their records.

Snowflake enforces no unique keys, and locks whole tables. So a transaction that changes records
first changes the single row of the table `guard`, and from then on has exclusive access until it
ends, which is soon. What it reads afterwards is what others have committed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from penstock.backends.api.execution.records import Hold, Kind, Row
from penstock.backends.snowflake.catalog.names import shown
from penstock.backends.snowflake.catalog.tables import facts_of
from penstock.backends.snowflake.connection import Connection, Error
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.load.leases import (
    BEATEN,
    LAPSE_SECONDS,
    Leases,
    has_ended,
    this_process,
)
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.loads.loaded_table import table_changed
from penstock.backends.sql.server.records import CONTROL, KEYS, ControlScripts
from penstock.backends.sql.server.stages import StageRecords, StageRow
from penstock.errors import Diagnosis, StallError, TransientError
from penstock.model.tables import TableRef
from penstock.spec.modes import Mode

T = TypeVar("T")
LOOK_EVERY = 0.5
# An attempt without a sign of life for longer is dead, wherever it was.
MOST_DAYS = 1
# After five minutes without a request Snowflake ends a transaction, and COMMIT reports no error.
MOST_SECONDS = 240
_DENIED = 3001


SCRIPTS = ControlScripts(__package__, SNOWFLAKE)
ddl = SCRIPTS.control


class SnowflakeRecords(StageRecords[SnowflakeSession]):
    """Records on Snowflake.

    Args:
        url: the target's URL, for signs of life of leases.
    """

    steps_with_records = False
    scheme = "snowflake"
    schema_word = "schema"
    listing = (
        f"SELECT {shown('table_name')} FROM information_schema.tables"
        f" WHERE {shown('table_schema')} = ?"
    )
    scripts = SCRIPTS
    extra_columns = ("stage", "lease", "guard")
    attributes = (
        "process",
        f"IFF({BEATEN}, 1, 0)",
        f"IFF(DATEDIFF(day, beat_at, SYSDATE()) > {MOST_DAYS}, 1, 0)",
    )
    row_form = "SELECT {}"
    sign = "beats = beats + 1, beat_at = SYSDATE()"

    def __init__(
        self, session: SnowflakeSession, schema: str, url: str = "", *, loading: bool = False
    ) -> None:
        super().__init__(session, schema, loading=loading)
        self._in_transaction = False
        """A transaction is open."""
        self._guarded_at = 0.0
        """When the server was last kept from ending it."""
        self._exclusive_name = ""
        self.leases = Leases(self.connection, self.table_name("lease"), url, secrets.token_hex(16))
        self.now = "CAST(SYSDATE() AS VARCHAR) || '+00:00'"

    @property
    def connection(self) -> Connection:
        return self._session.connection

    @property
    def files(self) -> str:
        """The stage with the attempts' folders."""
        return f"@{self.table_name('files')}"

    # Transactions

    def begin(self) -> None:
        self.connection.change("BEGIN TRANSACTION")
        self._in_transaction = True

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            TransientError: the server may have ended the transaction.
        """
        if time.monotonic() - self._guarded_at > MOST_SECONDS:
            self.roll_back()
            raise TransientError(
                f"target: expected to commit within {MOST_SECONDS} s of the last change, but this "
                "process was stopped for longer; the server may have ended its transaction",
                Diagnosis(side="target"),
            )
        self.connection.change("COMMIT")
        self._in_transaction = False

    def roll_back(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            with suppress(Error):  # the session may have ended
                self.connection.change("ROLLBACK")

    def guard(self) -> None:
        """Get exclusive access to the control tables until the transaction ends."""
        self.connection.change(f"UPDATE {self.table_name('guard')} SET turn = turn + 1")
        self._guarded_at = time.monotonic()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        with self.transaction():
            self.guard()
            yield

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with translated("target", f"run {run_id}"), self.guarded():
            if self._exclusive_name and not self.leases.is_mine(self._exclusive_name):
                raise TransientError(
                    f"target: run {run_id}: another execution has taken over, because this one "
                    f"gave no sign of life for {LAPSE_SECONDS} s; resume the run",
                    Diagnosis(side="target"),
                )
            # From here on the work of open attempts no longer counts: they notice before they
            # commit.
            if hold is Hold.ALONE:
                self.void({"run_id": run_id})
            for partition_id in partition_ids:
                self.void({"run_id": run_id, "partition_id": partition_id})
            return body()

    def joins(self, run_ids: Sequence[str]) -> bool:
        return True  # it has the control tables to itself in any case

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with translated("target", f"{len(run_ids)} runs"), self.guarded():
            return body()

    # Locks

    def holding(self, name: str, subject: str) -> AbstractContextManager[None]:
        return self.guarded()

    def keep(self, name: str) -> bool:
        return self.leases.take(name)

    def release_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.leases.release(name)

    def is_held(self, names: Sequence[str]) -> bool:
        return self.leases.is_held(names)

    @contextmanager
    def exclusive(self, run_id: str, step_id: str = "") -> Iterator[None]:
        # Steps of one run wait for each other.
        name, subject = self.lock(f"penstock:steps:{run_id}"), f"run {run_id}"
        with translated("target", subject):
            self._take(name, subject)
            self._exclusive_name = name
            try:
                yield
            finally:
                self._exclusive_name = ""
                with suppress(Error):
                    self.leases.release(name)

    def _take(self, name: str, subject: str) -> None:
        started = time.monotonic()
        while True:
            with self.guarded():
                if self.leases.take(name):
                    return
            waited = time.monotonic() - started
            if self.patience.stall_timeout and waited > self.patience.stall_timeout:
                raise StallError(
                    f"target: {subject}: another execution has been running its steps for "
                    f"{waited:.0f} s; wait for it, or end it, and resume",
                    Diagnosis(side="target"),
                )
            time.sleep(LOOK_EVERY)

    # The tables

    def making(self) -> AbstractContextManager[None]:
        return nullcontext()  # each is created if it is missing

    def limited_lock_waits(self) -> AbstractContextManager[None]:
        return nullcontext()

    def denial_message(self, error: Exception) -> str:
        return str(error.msg) if isinstance(error, Error) and error.errno == _DENIED else ""

    # Records

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        # A journal is written by one execution alone, which waits for no other.
        if not self._in_transaction and kind is not Kind.JOURNAL:
            with translated("target", CONTROL), self.guarded():
                return self.add(kind, rows)
        names = KEYS[kind]
        new: dict[tuple[Any, ...], Row] = {tuple(row[name] for name in names): row for row in rows}
        for key in self._existing_keys(kind, names, rows):
            new.pop(key, None)
        series = [row for row in new.values() if row.get("series")]
        for row in series:
            mine = {name: row[name] for name in ("series", "partition_id")}
            if self.count(kind, mine):
                new.pop(tuple(row[name] for name in names))
        return super().add(kind, list(new.values()))

    def _existing_keys(
        self, kind: Kind, names: Sequence[str], rows: Sequence[Row]
    ) -> Iterator[tuple[Any, ...]]:
        where: Row = {"run_id": tuple({row["run_id"] for row in rows})}
        if len(rows) == 1:
            where = {name: rows[0][name] for name in names}
        for row in self.read(kind, where, names) if rows else ():
            yield tuple(row[name] for name in names)

    def insert(self, rows: str, values: Sequence[Any]) -> int:
        with translated("target", CONTROL):
            return self.connection.change(f"INSERT {rows}", values)

    # Attempts

    def guarding(self, run_id: str, partition_id: str) -> AbstractContextManager[None]:
        return self.guarded()

    def end_attempt(self, token: str) -> None:
        with self.guarded():
            super().end_attempt(token)

    def claim_values(self) -> tuple[str, Sequence[Any]]:
        return ", ?, SYSDATE()", [this_process()]

    def is_alive(self, stage: StageRow) -> bool:
        process, _, old = stage.more
        return not old and not has_ended(process)

    def is_heard(self, stage: StageRow) -> bool:
        _, beaten, _ = stage.more
        return bool(beaten)

    def holds(self, token: str) -> bool:
        owner = f"SELECT owner FROM {self.table_name('stage')} WHERE token = ?"
        return self.connection.rows(owner, [token]) == [(1,)]

    def drop_stage(self, token: str) -> None:
        self.connection.rows(f"REMOVE {self.files}/{token}/")
        self.connection.change(f"DROP TABLE IF EXISTS {self.stage_table(token)}")
        self.connection.change(f"DELETE FROM {self.table_name('stage')} WHERE token = ?", [token])

    # The table that is loaded

    def creation_mark(self, table: TableRef) -> str | None:
        facts = facts_of(self.session, table)
        return facts[0] if facts else None

    def check_no_other_rows(self, run_id: str, table: TableRef, mode: Mode, mine: int) -> None:
        if not mode.starts_empty:
            return
        # In one statement, because attempts of this run may commit at the same time. The server
        # does not scan rows for it.
        ((present, loaded),) = self.execute(
            f"SELECT (SELECT COUNT(*) FROM {self.session.table(table)}),"
            f' (SELECT COALESCE(SUM("ROWS"), 0) FROM {self.table_name("commit_record")}'
            " WHERE run_id = ?)",
            [run_id],
            reading=True,
        )
        expected = int(loaded) + mine
        if int(present) != expected:
            raise table_changed(run_id, table, f"{expected:,} rows", f"{int(present):,}")
