"""The control tables: sessions, transactions and locks of the records that are kept in them.

Snowflake keeps no unique keys, and its locks are those of whole tables. So whoever changes records
first changes the one row of the table `guard`, and from then on is alone until the transaction
ends: it is short. What it reads after that is what others have committed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.resources import files
from typing import Any, TypeVar

from penstock.backends.api.records import Hold, Kind, Row
from penstock.backends.snowflake.catalog.names import shown
from penstock.backends.snowflake.connection import Connection, Error
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.leases import BEATEN, LAPSE_SECONDS, Leases, is_gone
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.server.records import CONTROL, ServerRecords
from penstock.errors import Diagnosis, StallError, TransientError

T = TypeVar("T")
_KEYS = {
    Kind.RUN: ("run_id",),
    Kind.COMMIT: ("run_id", "partition_id"),
    Kind.STEP: ("run_id", "step_id"),
    Kind.RECOPY: ("run_id", "partition_id", "request"),
    Kind.JOURNAL: ("run_id", "execution_id"),
}
LOOK_EVERY = 0.5
# After five minutes Snowflake ends a transaction of which nobody hears, and COMMIT says nothing.
MOST_SECONDS = 240
_DENIED = 3001


def ddl(schema: str) -> str:
    """The statements that create the control tables."""
    return f"{_script('control.sql', schema)};\n{_script('figures.sql', schema)}"


def _script(name: str, schema: str) -> str:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8").rstrip()
    return text.format(schema=SNOWFLAKE.ident(schema))


class SnowflakeRecords(ServerRecords):
    """
    Parameters:
        url: for signs of life, of those who take leases.
    """

    steps_with_records = False
    scheme = "snowflake"
    kept_in = "schema"
    listing = (
        f"SELECT {shown('table_name')} FROM information_schema.tables"
        f" WHERE {shown('table_schema')} = ?"
    )
    besides = ("stage", "lease", "guard")

    def __init__(
        self, session: SnowflakeSession, schema: str, url: str = "", *, loading: bool = False
    ) -> None:
        super().__init__(session, schema, loading=loading)
        self._session = session
        self._begun = False
        """A transaction is open."""
        self._asked = 0.0
        """When the server was last kept from ending it."""
        self._alone = ""
        self.leases = Leases(self, url, secrets.token_hex(16))
        self.now = "CAST(SYSDATE() AS VARCHAR) || '+00:00'"

    @property
    def session(self) -> SnowflakeSession:
        return self._session

    @property
    def connection(self) -> Connection:
        return self._session.connection

    @property
    def files(self) -> str:
        """The stage that has the folders of attempts."""
        return f"@{self.named('files')}"

    # Transactions

    def begin(self) -> None:
        self.connection.change("BEGIN TRANSACTION")
        self._begun = True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin()
        try:
            yield
            self.commit()
        finally:
            self.roll_back()

    def commit(self) -> None:
        """
        Raises:
            TransientError: the server may have ended the transaction.
        """
        if time.monotonic() - self._asked > MOST_SECONDS:
            self.roll_back()
            raise TransientError(
                f"target: expected to commit within {MOST_SECONDS} s of the last change, found "
                "that this process was stopped for longer; the server may have ended its "
                "transaction",
                Diagnosis(side="target"),
            )
        self.connection.change("COMMIT")
        self._begun = False

    def roll_back(self) -> None:
        """Nothing, after a commit."""
        if self._begun:
            self._begun = False
            with suppress(Error):  # of a session that has ended
                self.connection.change("ROLLBACK")

    def guard(self) -> None:
        """Be alone with the control tables until the transaction ends."""
        self.connection.change(f"UPDATE {self.named('guard')} SET turn = turn + 1")
        self._asked = time.monotonic()

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
            if self._alone and not self.leases.is_mine(self._alone):
                raise TransientError(
                    f"target: run {run_id}: another execution has gone on with its steps, since "
                    f"this one gave no sign of life for {LAPSE_SECONDS} s; resume it",
                    Diagnosis(side="target"),
                )
            # What open attempts do is void from here on: they notice before they commit.
            if hold is Hold.ALONE:
                self.void({"run_id": run_id})
            for partition_id in partition_ids:
                self.void({"run_id": run_id, "partition_id": partition_id})
            return body()

    def joins(self, run_ids: Sequence[str]) -> bool:
        return True  # it is alone with the control tables in any case

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with translated("target", f"{len(run_ids)} runs"), self.guarded():
            return body()

    # Locks

    def holding(self, name: str, what: str) -> AbstractContextManager[None]:
        return self.guarded()

    def keep(self, name: str) -> bool:
        return self.leases.take(name)

    def is_held(self, names: Sequence[str]) -> bool:
        return self.leases.is_held(names)

    @contextmanager
    def alone(self, run_id: str, step_id: str = "") -> Iterator[None]:
        # Steps of one run wait for each other.
        name, what = self.lock(f"penstock:steps:{run_id}"), f"run {run_id}"
        with translated("target", what):
            self._take(name, what)
            self._alone = name
            try:
                yield
            finally:
                self._alone = ""
                with suppress(Error):
                    self.leases.release(name)

    def _take(self, name: str, what: str) -> None:
        begun = time.monotonic()
        while True:
            with self.guarded():
                if self.leases.take(name):
                    return
            waited = time.monotonic() - begun
            if self.patience.stall_timeout and waited > self.patience.stall_timeout:
                raise StallError(
                    f"target: {what}: another execution has been at its steps for {waited:.0f} s; "
                    "wait for it, or end it, and resume",
                    Diagnosis(side="target"),
                )
            time.sleep(LOOK_EVERY)

    # The tables

    def making(self) -> AbstractContextManager[None]:
        return nullcontext()  # each is made where it is missing

    def ddl(self) -> str:
        return ddl(self._schema)

    def figures_ddl(self) -> str:
        return _script("figures.sql", self._schema)

    def hurried(self) -> AbstractContextManager[None]:
        return nullcontext()

    def denied(self, error: Exception) -> str:
        return str(error.msg) if isinstance(error, Error) and error.errno == _DENIED else ""

    # Records

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        # A journal is written by one execution alone, and waits for nobody.
        if not self._begun and kind is not Kind.JOURNAL:
            with translated("target", CONTROL), self.guarded():
                return self.add(kind, rows)
        names = _KEYS[kind]
        new: dict[tuple[Any, ...], Row] = {tuple(row[name] for name in names): row for row in rows}
        for key in self._known(kind, names, rows):
            new.pop(key, None)
        series = [row for row in new.values() if row.get("series")]
        for row in series:
            mine = {name: row[name] for name in ("series", "partition_id")}
            if self.count(kind, mine):
                new.pop(tuple(row[name] for name in names))
        return super().add(kind, list(new.values()))

    def _known(
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

    # Attempts: each has a row in `stage`, and owns its partition until another one does.

    def void(self, where: Row) -> None:
        tests = " AND ".join(f"{self.ident(name)} = ?" for name in where)
        self.connection.change(
            f"UPDATE {self.named('stage')} SET owner = 0 WHERE owner = 1 AND {tests}",
            list(where.values()),
        )

    def owners(self, run_id: str) -> list[tuple[str, int, str, int, bool]]:
        """Partition, attempt, token and signs of life of the attempts of a run that may live; and
        whether there was one lately."""
        rows = self.connection.rows(
            f"SELECT partition_id, attempt, token, beats, process, IFF({BEATEN}, 1, 0)"
            f" FROM {self.named('stage')} WHERE run_id = ? AND owner = 1 ORDER BY partition_id",
            [run_id],
        )
        return [
            (name, int(number), token, int(beats), bool(lately))
            for name, number, token, beats, process, lately in rows
            if not is_gone(process)
        ]
