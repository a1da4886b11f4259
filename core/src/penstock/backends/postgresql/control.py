"""The control store of a PostgreSQL target, and questions to it that are asked ahead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from penstock.backends.api.execution.records import Hold, Kind
from penstock.backends.postgresql.attempt.load_hooks import PostgresLoadHooks, PostgresNightHooks
from penstock.backends.postgresql.attempt.run_presence import PostgresPresence
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.load.loaded_table import changed_runs
from penstock.backends.postgresql.records import PostgresRecords
from penstock.backends.postgresql.session.statements import statement
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.run_records import RunRecords
from penstock.backends.shared.records.step_records import PendingSteps
from penstock.backends.shared.records.watermark_records import WatermarkRecords
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class AskedWatermarks(WatermarkRecords):
    """Watermarks whose names may be asked for ahead, with planning's other questions."""

    asked: frozenset[str] | None = None
    """The names of watermarks; None: not asked for ahead."""

    def ask(self) -> None:
        self.asked = super().names()

    def names(self) -> frozenset[str]:
        return super().names() if self.asked is None else self.asked


class AskedSteps(PendingSteps):
    """Pending steps that may be asked for ahead, with planning's other questions."""

    asked: Mapping[TableRef, tuple[tuple[str, Step], ...]] = {}
    """The steps by table, as far as they were asked for ahead."""

    def ask(self, tables: Sequence[TableRef]) -> None:
        self.asked = {**self.asked, **super().of(tables)}

    def of(self, tables: Sequence[TableRef]) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        if all(table in self.asked for table in tables):
            return {table: self.asked[table] for table in tables}
        return super().of(tables)


class PostgresRunRecords(RunRecords):
    """Runs, of which many end with one statement."""

    def __init__(self, records: PostgresRecords, connection: Connection, schema: str) -> None:
        super().__init__(records)
        self._store = records
        self._connection = connection
        self._schema = schema

    def _set_statuses(
        self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]
    ) -> None:
        run_ids = sorted(statuses)
        if len(run_ids) > 1 and not self._store.joins(run_ids):
            for run_id in run_ids:
                self._set_statuses({run_id: statuses[run_id]})
            return
        ended = {
            "runs": run_ids,
            "statuses": [statuses[run_id][0] for run_id in run_ids],
            "failures": [Jsonb([dict(each) for each in statuses[run_id][1]]) for run_id in run_ids],
        }
        with self._store.changing(run_ids):
            query = statement("set_statuses").format(schema=sql.Identifier(self._schema))
            self._connection.execute(query, ended)


class ControlTables(RecordedRuns):
    """The control store in a PostgreSQL target.

    Args:
        connection: a session on the target.
        schema: the control schema.
        connect: opens a second session, to look up what the first one waits for.
    """

    def __init__(
        self, connection: Connection, schema: str, connect: Callable[[], Connection]
    ) -> None:
        records = PostgresRecords(connection, schema, connect)
        runs = PostgresRunRecords(records, connection, schema)
        records.reads = partial(_reads, runs, records, connection, schema)
        watermarks = AskedWatermarks(records)
        ledger = Ledger(records, ["transaction"], runs=runs, watermarks=watermarks)
        hooks = PostgresLoadHooks(ledger, connection, schema)
        presence = PostgresPresence(records, connection, schema)
        pending = AskedSteps(ledger, hooks, presence)
        super().__init__(
            ledger,
            hooks,
            presence,
            PostgresNightHooks(hooks, connection),
            pending=pending,
            closable_during_calls=True,
        )
        self._look = records.look
        self._asked_watermarks = watermarks
        self._asked_steps = pending

    def questions(
        self, tables: Collection[TableRef], *, creates_tables: bool
    ) -> list[Callable[[], object]]:
        """Return calls that ask planning's questions about runs.

        Their answers are kept until `forget_answers`.

        Args:
            tables: the tables of the batch.
            creates_tables: whether the tables are created again, so that unfinished runs do not
                matter.
        """
        questions: list[Callable[[], object]] = [self._look]
        if tables:
            questions.append(self._asked_watermarks.ask)
            if not creates_tables:
                questions.append(partial(self._asked_steps.ask, tuple(tables)))
        return questions

    def forget_answers(self) -> None:
        self._asked_steps.asked = {}
        self._asked_watermarks.asked = None


def _reads(
    runs: RunRecords,
    records: PostgresRecords,
    connection: Connection,
    schema: str,
    run_ids: Sequence[str],
    hold: Hold,
) -> list[Callable[[], object]]:
    """Return the queries that a transaction runs after it has locked runs."""
    ids = list(run_ids)
    reads: list[Callable[[], object]] = []
    if len(ids) == 1:
        reads.append(lambda: runs.find(ids[0]))
    else:
        reads.append(lambda: runs.load(ids))
    if hold is Hold.STEP:
        if len(ids) == 1:
            reads.append(lambda: records.count(Kind.COMMIT, {"run_id": ids[0]}))
        else:
            reads.append(lambda: records.tally(ids))
            reads.append(lambda: changed_runs(connection, schema, ids, ()))
    return reads
