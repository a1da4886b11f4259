"""The control tables: sessions, transactions and locks of the records that are kept in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from importlib.resources import files
from typing import Any, TypeVar

import pymysql

from penstock.backends.api.records import Hold, Kind
from penstock.backends.mysql.connection import Connection, wait_for_locks
from penstock.backends.mysql.errors import code_of, translated
from penstock.backends.mysql.locks import lock_name, locked, release, try_lock
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.loaded_table import LoadRecords
from penstock.errors import Diagnosis, PermanentError, PlanningError, TransientError

T = TypeVar("T")
DUPLICATE = 1062
MAKING_SECONDS = 30
_DENIED = {1044, 1045, 1142, 1227}
_TABLES = ("loaded_table", "replaced_table", *(kind.value for kind in Kind))


def ddl(schema: str) -> str:
    """The statements that create the control tables."""
    text = files(__package__).joinpath("control.sql").read_text(encoding="utf-8")
    return text.format(schema="`" + schema.replace("`", "``") + "`")


class MySqlRecords(LoadRecords):
    """
    Parameters:
        loading: the session is an attempt's, in a transaction: nothing is looked for.
    """

    steps_with_records = False

    def __init__(self, session: MySqlSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session.dialect)
        self._session = session
        self._schema = schema
        self._there = loading
        # Times are texts: the same everywhere, and sorted.
        self.now = "concat(utc_timestamp(6), '+00:00')"
        self.text = "CHAR"

    @property
    def session(self) -> MySqlSession:
        return self._session

    @property
    def connection(self) -> Connection:
        return self._session.connection

    def named(self, table: str) -> str:
        return f"{self.ident(self._schema)}.{self.ident(table)}"

    def lock(self, name: str) -> str:
        return lock_name(self._schema, name)

    def written(self, column: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat(" ")
        return super().written(column, value)

    def create(self) -> None:
        if not self._there:
            with self._making():
                self._create()

    @contextmanager
    def _making(self) -> Iterator[None]:
        """The tables are made one after the other: meanwhile some are missing."""
        name = self.lock("penstock:control")
        with translated("target", "control tables"):
            try_lock(self.connection, name, MAKING_SECONDS)
        try:
            yield
        finally:
            with suppress(pymysql.Error):  # of a session that has ended
                release(self.connection, name)

    def _create(self) -> None:
        if self._found():
            return
        try:
            for statement in ddl(self._schema).split(";\n"):
                self.connection.change(statement)
        except pymysql.Error as error:
            if code_of(error) not in _DENIED:
                with translated("target", "control tables"):
                    raise
            raise PlanningError(
                f"target: the user may not create the control tables in database "
                f"{self._schema!r}: {error.args[1]}; expected that privilege, or tables that an "
                "administrator created with the output of `penstock control-ddl --target mysql://"
                f" --control-schema {self._schema}`, or another --control-schema",
                Diagnosis(side="target", code=str(code_of(error))),
            ) from error
        self._there = True

    def _found(self) -> bool:
        """
        Raises:
            PermanentError: a part of the control tables is gone.
        """
        if self._there:
            return True
        missing = self._missing()
        if missing and len(missing) < len(_TABLES):
            with self._making():
                missing = self._missing()
        if missing and len(missing) < len(_TABLES):
            raise PermanentError(
                f"target: control schema {self._schema!r} lacks {', '.join(missing)}, without "
                "which no run can be read or resumed; restore them, or choose another "
                "--control-schema for new runs",
                Diagnosis(side="target"),
            )
        self._there = not missing
        return self._there

    def _missing(self) -> list[str]:
        with translated("target", "control tables"):
            rows = self.connection.rows(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s",
                [self._schema],
            )
        return [name for name in _TABLES if (name,) not in rows]

    @contextmanager
    def reading(self) -> Iterator[bool]:
        yield self._found()

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        if reading and not self._found():
            return []
        with translated("target", "control tables"):
            return self.connection.rows(statement, values)

    def add(self, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> int:
        # One by one: a statement whose second row is there already would not insert the first.
        return sum(super(MySqlRecords, self).add(kind, [row]) for row in rows)

    def insert(self, rows: str, values: Sequence[Any]) -> int:
        with translated("target", "control tables"):
            try:
                return self.connection.change(f"INSERT {rows}", values)
            except pymysql.IntegrityError as error:
                if code_of(error) != DUPLICATE:
                    raise
                return 0

    def update(self, statement: str, values: Sequence[Any]) -> int:
        with translated("target", "control tables"):
            return self.connection.change(statement, values)

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

    def alone(self, run_id: str, step_id: str = "") -> AbstractContextManager[None]:
        # Steps of one run wait for each other: locks by name are not shared.
        return self._alone(run_id)

    @contextmanager
    def _alone(self, run_id: str) -> Iterator[None]:
        name = self.lock(f"penstock:steps:{run_id}")
        with (
            translated("target", f"run {run_id}"),
            locked(self.connection, name, self.patience, f"steps of run {run_id}"),
        ):
            yield
