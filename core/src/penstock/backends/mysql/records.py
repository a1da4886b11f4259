"""The control tables: sessions, transactions and locks of the records that are kept in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

import pymysql

from penstock.backends.api.records import Hold, Kind
from penstock.backends.mysql.connection import Connection, wait_for_locks
from penstock.backends.mysql.errors import code_of, translated
from penstock.backends.mysql.locks import locked, release, try_lock
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.server.records import CONTROL, ServerRecords
from penstock.errors import Diagnosis, TransientError

T = TypeVar("T")
DUPLICATE = 1062
MAKING_SECONDS = 30
_DENIED = {1044, 1045, 1142, 1227}


def ddl(schema: str) -> str:
    """The statements that create the control tables."""
    return f"{_script('control.sql', schema)};\n{_script('figures.sql', schema)}"


def _script(name: str, schema: str) -> str:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8").rstrip()
    return text.format(schema="`" + schema.replace("`", "``") + "`")


class MySqlRecords(ServerRecords):
    steps_with_records = False
    scheme = "mysql"
    kept_in = "database"
    listing = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
    besides = ("replaced_table",)

    def __init__(self, session: MySqlSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session, schema, loading=loading)
        self._session = session
        self.now = "concat(utc_timestamp(6), '+00:00')"
        self.text = "CHAR"

    @property
    def session(self) -> MySqlSession:
        return self._session

    @property
    def connection(self) -> Connection:
        return self._session.connection

    # Locks

    def holding(self, name: str, what: str) -> AbstractContextManager[None]:
        return locked(self.connection, name, self.patience, what)

    def keep(self, name: str) -> bool:
        return try_lock(self.connection, name)

    def is_held(self, names: Sequence[str]) -> bool:
        asked = ", ".join(["is_used_lock(%s)"] * len(names))
        ((number,),) = self.connection.rows(f"SELECT coalesce({asked})", names)
        return number is not None

    # The tables: each is made by itself

    @contextmanager
    def making(self) -> Iterator[None]:
        name = self.lock("penstock:control")
        try_lock(self.connection, name, MAKING_SECONDS)
        try:
            yield
        finally:
            with suppress(pymysql.Error):  # of a session that has ended
                release(self.connection, name)

    def ddl(self) -> str:
        return ddl(self._schema)

    def figures_ddl(self) -> str:
        return _script("figures.sql", self._schema)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        wait_for_locks(self.connection, 1)
        yield  # each transaction says anew how long it waits

    grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON {}.* TO the user"

    def denied(self, error: Exception) -> str:
        known = isinstance(error, pymysql.Error) and code_of(error) in _DENIED
        return str(error.args[1]) if known else ""

    def add(self, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> int:
        # One by one: a statement whose second row is there already would not insert the first.
        return sum(super(MySqlRecords, self).add(kind, [row]) for row in rows)

    def insert(self, rows: str, values: Sequence[Any]) -> int:
        with translated("target", CONTROL), self.permitted():
            try:
                return self.connection.change(f"INSERT {rows}", values)
            except pymysql.IntegrityError as error:
                if code_of(error) != DUPLICATE:
                    raise
                return 0

    # Transactions

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with translated("target", f"run {run_id}"), self._attempts(run_id, partition_ids, patience):
            if hold is Hold.ALONE:
                self._end_attempts(run_id)
            seconds = round(self.patience.stall_timeout) or 1 << 24
            wait_for_locks(self.connection, seconds)
            self.connection.change("START TRANSACTION")
            try:
                self._lock_rows(run_id, hold, partition_ids)
                result = body()
                self.connection.change("COMMIT")
            except BaseException:
                with suppress(pymysql.Error):
                    self.connection.change("ROLLBACK")
                raise
            return result

    def _lock_rows(self, run_id: str, hold: Hold, partition_ids: Sequence[str]) -> None:
        whole = hold in (Hold.CHANGE, Hold.ALONE)
        # As an attempt does it when it commits: meanwhile the run cannot be started over.
        mode = "FOR UPDATE" if whole else "LOCK IN SHARE MODE"
        run = f"SELECT 1 FROM {self.named('run')} WHERE run_id = %s {mode}"
        self.connection.rows(run, [run_id])
        if whole:
            return
        query = f"SELECT 1 FROM {self.named('commit_record')} WHERE run_id = %s"
        if hold is Hold.STEP:
            self.connection.rows(f"{query} LOCK IN SHARE MODE", [run_id])
        elif partition_ids:
            places = ", ".join(["%s"] * len(partition_ids))
            query = f"{query} AND partition_id IN ({places}) FOR UPDATE"
            self.connection.rows(query, [run_id, *partition_ids])

    @contextmanager
    def _attempts(
        self, run_id: str, partition_ids: Sequence[str], patience: float
    ) -> Iterator[None]:
        """Keep attempts of some partitions from beginning; those that are open are waited for."""
        taken = []
        try:
            for partition_id in partition_ids:
                name = self.lock(f"penstock:{run_id}:{partition_id}")
                if not try_lock(self.connection, name, patience or 1 << 24):
                    raise TransientError(
                        f"target: run {run_id}: an attempt of partition {partition_id} is open "
                        f"for more than {patience:g} s; try again once it has ended",
                        Diagnosis(side="target"),
                    )
                taken.append(name)
            yield
        finally:
            with suppress(pymysql.Error):  # of a session that has ended
                for name in taken:
                    self.connection.rows("SELECT release_lock(%s)", [name])

    def _end_attempts(self, run_id: str) -> None:
        """What the run's open attempts do is void from here on."""
        for number in self.open_attempts(run_id).values():
            self.connection.end_session(number)

    def open_attempts(self, run_id: str) -> dict[str, int]:
        """Partitions that are locked, and the numbers of the sessions that do."""
        rows = self.read(Kind.RUN, {"run_id": run_id}, ("plan",))
        ids = [part["id"] for row in rows for part in row["plan"]["partitions"]]
        found: dict[str, int] = {}
        for start in range(0, len(ids), 200):
            some = ids[start : start + 200]
            names = [self.lock(f"penstock:{run_id}:{name}") for name in some]
            asked = ", ".join(["is_used_lock(%s)"] * len(names))
            # A proxy may have greeted us with a number of its own, or with none.
            ((own, *numbers),) = self.connection.rows(f"SELECT connection_id(), {asked}", names)
            found |= {
                name: int(number)
                for name, number in zip(some, numbers, strict=True)
                if number is not None and number != own
            }
        return found

    @contextmanager
    def alone(self, run_id: str, step_id: str = "") -> Iterator[None]:
        # Steps of one run wait for each other: locks by name are not shared.
        name = self.lock(f"penstock:steps:{run_id}")
        what = f"run {run_id}"
        with translated("target", what), self.holding(name, f"steps of {what}"):
            yield
