"""An attempt's transaction on a server: its lock, its commit record, and its rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

import pymysql

from penstock.backends.api.attempt import Attempt, Begun, LoadStream, Standing
from penstock.backends.api.records import NOW, Kind
from penstock.backends.api.worker import LINES, Block, Loaded, Wait
from penstock.backends.mysql.catalog.tables import order_of, table_columns, unique_keys
from penstock.backends.mysql.connection import Connection, connect, wait_for_locks
from penstock.backends.mysql.dialect import BY_BYTES, MySqlDialect
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.load.lines import check_carried
from penstock.backends.mysql.load.loading import load_stream, takes_files
from penstock.backends.mysql.loaded_table import check_loaded
from penstock.backends.mysql.locks import holder, release, try_lock
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.types import is_text
from penstock.backends.shared.arrow import Caster, schema_from_text
from penstock.backends.shared.refusals import started_over
from penstock.backends.shared.transactional import TransactionalWriter
from penstock.backends.sql.conditions import condition
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.backends.sql.loading import (
    STAGE,
    SqlLoading,
    begun_record,
    completed_record,
    standing,
)
from penstock.backends.sql.relations import TYPE
from penstock.errors import Diagnosis, TransientError
from penstock.model.extents import Key
from penstock.spec.worker_spec import WorkerSpec

# During LOAD DATA LOCAL: MySQL, and MariaDB.
WAITING_FOR_ROWS = ("Receiving from client", "Reading from net")


# How often within the grace time an older attempt is looked at. Many that ask ten times a second
# would all be told what the first one was told: InnoDB looks again once nobody has asked for 0.1 s.
# https://dev.mysql.com/doc/refman/8.4/en/innodb-information-schema-internal-data.html
LOOKS = 5


def open_writer(spec: WorkerSpec) -> TransactionalWriter:
    return TransactionalWriter(spec, MySqlTransaction(spec))


class Staged(SqlLoading[int]):
    """Mode `upsert`: the rows of a temporary table of the session's own, as many as are said."""

    def insert_staged(self, stage: int, table: str) -> int:
        raise NotImplementedError  # they are loaded there

    @contextmanager
    def staged_table(self, stage: int) -> Iterator[tuple[str, int]]:
        yield STAGE, stage

    def merge(self, attempt: Attempt, stage: int) -> Loaded:
        assert isinstance(self._session, MySqlSession)
        self._target = attempt.spec.target_table
        key = set(attempt.spec.conflict_columns)
        known = unique_keys(self._session, attempt.spec.target_table)
        index = next((each.name for each in known if set(each.names) == key), "")
        self._dialect = MySqlDialect(by_bytes=True, found_by=index)
        return super().merge(attempt, stage)

    def orders(self, key: Sequence[str]) -> Mapping[str, str]:
        assert isinstance(self._session, MySqlSession)
        columns = table_columns(self._session, self._target)
        texts = {column.name for column in columns if is_text(column.traits[TYPE])}
        return {
            name: order_of(self._session, self._table, Key(name)) if name in texts else ""
            for name in key
        }

    def spellings(self, staged: str, key: Sequence[str]) -> str:
        names = list(map(self._dialect.ident, key))
        texts = [f"CONVERT({name} USING utf8mb4) COLLATE utf8mb4_bin" for name in names]
        shown = f"concat('(', concat_ws(', ', {', '.join(texts)}), ')')"
        listed = ", ".join(names)
        query = (
            f"SELECT group_concat(DISTINCT {shown} SEPARATOR ' and ') FROM {staged}"
            f" GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
        )
        ((found,),) = self._session.fetch(query, "--mode upsert")
        return str(found)


class CastStream:
    """A stream of values as the types of the table's columns have them."""

    def __init__(self, stream: LoadStream, caster: Caster) -> None:
        self._write, self._caster = stream.write, caster
        self.fileno, self.check, self.end = stream.fileno, stream.check, stream.end

    def write(self, block: Block, wait: Wait) -> None:
        with translated("target"):
            self._write(self._caster.cast(block), wait)


class MySqlTransaction:
    """See `TransactionalHooks`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._held = ""
        self._seen: tuple[int, float, object] | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec

    def translated(self) -> AbstractContextManager[None]:
        return translated("target")

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def connect(self, attempt: Attempt) -> None:
        if self._connection is not None:
            return
        spec = attempt.spec
        self._connection = connection = connect(spec.target, "target", loads=True)
        self._session = MySqlSession(connection, BY_BYTES)
        self._records = MySqlRecords(self._session, spec.control_schema, loading=True)
        seconds = round(spec.stall_timeout) or 1 << 24
        with translated("target"):
            wait_for_locks(connection, seconds)

    def begin(self, attempt: Attempt) -> Begun:
        older = self._lock(attempt)
        if older is not None:
            return Begun(older=older)
        standing = self._insert_record(attempt)
        if standing is None:
            self._check_target(attempt)
        return Begun(standing=standing)

    def _lock(self, attempt: Attempt) -> Mapping[int, object] | None:
        connection, name = self._open, self._records.lock(attempt.lock)
        with translated("target"):
            if try_lock(connection, name):
                self._held = name
                if attempt.spec.load_mode.deletes_by_partition:
                    self._take_turn(attempt)
                connection.change("START TRANSACTION")
                return None
            number = holder(connection, name)
            return {} if number is None else {number: self._signs(attempt, number)}

    def _signs(self, attempt: Attempt, number: int) -> object:
        """What changes while a session loads; what was seen a moment ago, where that was asked."""
        now = time.monotonic()
        if self._seen is None or self._seen[0] != number or now >= self._seen[1]:
            self._seen = number, now + attempt.spec.grace / LOOKS, self._looked_at(number)
        return self._seen[2]

    def _looked_at(self, number: int) -> object:
        """The rows that a session's transaction has changed, where the user may see that (PROCESS);
        else whether it runs anything, other than waiting for rows."""
        with suppress(pymysql.Error):
            return self._open.rows(
                "SELECT trx_rows_modified FROM information_schema.innodb_trx"
                " WHERE trx_mysql_thread_id = %s",
                [number],
            )
        return self._open.rows(
            "SELECT state, if(command = 'Sleep' OR state IN %s, 0, time)"
            " FROM information_schema.processlist WHERE id = %s",
            [WAITING_FOR_ROWS, number],
        )

    def end_older(self, attempt: Attempt, older: int) -> None:
        with translated("target"):
            self._open.end_session(older)

    def _insert_record(self, attempt: Attempt) -> Standing | None:
        row = {**begun_record(attempt), "rows": 0, "bytes": 0, "committed_at": NOW}
        if self._generation(attempt) == attempt.spec.generation and self._records.add(
            Kind.COMMIT, [row]
        ):
            return None
        there = standing(self._records, attempt)
        self._end("ROLLBACK")
        return there

    def _generation(self, attempt: Attempt, mode: str = "") -> int | None:
        """The run's at this moment: it has another one once somebody has started it over."""
        with translated("target"):
            found = self._open.rows(
                f"SELECT generation FROM {self._records.named('run')} WHERE run_id = %s {mode}",
                [attempt.spec.run_id],
            )
        return int(found[0][0]) if found else None

    def _end(self, statement: str) -> None:
        with translated("target"):
            self._open.change(statement)
            release(self._open, self._held)
        self._held = ""

    def _check_target(self, attempt: Attempt) -> None:
        spec = attempt.spec
        check_loaded(self._records, spec.run_id, spec.target_table, spec.mode)

    def delete(self, attempt: Attempt, wait: Wait) -> None:
        self._check_turn(attempt)
        loaded = LoadedTable(self._records, attempt.spec.target_table)
        loaded.replace(attempt.spec.run_id, self._selected_by(attempt))

    # Attempts of one run replace rows side by side; those of another run wait until none of them is
    # open. Whose turn it is stands in a row that they all share while they are at it.

    def _take_turn(self, attempt: Attempt) -> None:
        """Before the transaction: wait for open attempts of other runs."""
        mine = attempt.spec.run_id
        if self._turn(attempt, "") != mine:
            self._open.change(
                f"INSERT INTO {self._records.named('replaced_table')} VALUES (%s, %s)"
                " ON DUPLICATE KEY UPDATE run_id = %s",
                [LoadedTable(self._records, attempt.spec.target_table).id, mine, mine],
            )

    def _turn(self, attempt: Attempt, mode: str) -> str:
        table = LoadedTable(self._records, attempt.spec.target_table)
        found = self._open.rows(
            f"SELECT run_id FROM {self._records.named('replaced_table')} WHERE id = %s {mode}",
            [table.id],
        )
        return str(found[0][0]) if found else ""

    def _check_turn(self, attempt: Attempt) -> None:
        """
        Raises:
            TransientError: another run has taken its turn since.
        """
        with translated("target"):
            other = self._turn(attempt, "LOCK IN SHARE MODE")
        if other != attempt.spec.run_id:
            raise TransientError(
                f"target: run {other} is replacing rows of {attempt.spec.target_table} right now; "
                "this attempt has its turn after it",
                Diagnosis(side="target"),
            )

    def _selected_by(self, attempt: Attempt) -> str:
        return condition(BY_BYTES, attempt.spec.where, attempt.partition.extent)

    def open_stream(self, attempt: Attempt, wait: Wait) -> LoadStream:
        spec = attempt.spec
        table = self._session.table(spec.target_table)
        known = {column.name: column for column in table_columns(self._session, spec.target_table)}
        columns = [known[pair.target] for pair in spec.pairs]
        listed = ", ".join(BY_BYTES.ident(column.name) for column in columns)
        if spec.load_mode.merges_by_key:
            empty = f"SELECT {listed} FROM {table} LIMIT 0"
            with translated("target"):
                self._open.change(f"DROP TEMPORARY TABLE IF EXISTS {STAGE}")
                self._open.change(f"CREATE TEMPORARY TABLE {STAGE} ENGINE = InnoDB AS {empty}")
            table = STAGE
        lines, schema = spec.format == LINES, schema_from_text(spec.schema)
        if lines:
            check_carried(columns, schema, table)
        with translated("target"):
            infile = takes_files(self._open)
            stream = load_stream(self._open, table, columns, infile, wait, lines=lines)
        return (
            stream
            if lines
            else CastStream(stream, Caster(schema, f"partition {attempt.partition.id}"))
        )

    def leave_only(self, attempt: Attempt, rows: int, wait: Wait) -> int:
        table = LoadedTable(self._records, attempt.spec.target_table)
        return table.count(self._selected_by(attempt)) - rows

    def merge(self, attempt: Attempt, rows: int, wait: Wait) -> Loaded:
        return Staged(self._records, attempt).merge(attempt, rows)

    def commit(self, attempt: Attempt, loaded: Loaded, bytes: int) -> bool:
        # From here on nobody changes the run until the transaction ends. Not earlier: whoever
        # resumes a run must not wait for an attempt that was stopped.
        generation = self._generation(attempt, "LOCK IN SHARE MODE")
        if generation != attempt.spec.generation:
            raise started_over(attempt, generation)
        self._check_target(attempt)
        mine = {"run_id": attempt.spec.run_id, "partition_id": attempt.partition.id}
        if self._records.change(Kind.COMMIT, mine, completed_record(loaded, bytes)) != 1:
            return False
        self._end("COMMIT")
        return True

    def abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
