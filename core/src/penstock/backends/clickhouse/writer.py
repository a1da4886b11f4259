"""Record batches loaded into a stage, whose parts a commit record makes the table's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.backends.api.execution.attempt import Attempt, Standing
from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.api.worker import Block, LoadResult, Wait
from penstock.backends.clickhouse.connection import Connection, connect
from penstock.backends.clickhouse.errors import translated
from penstock.backends.clickhouse.load.appending_runs import check_not_shut_out
from penstock.backends.clickhouse.load.documents import TableDocuments
from penstock.backends.clickhouse.load.loaded_tables import check_loaded
from penstock.backends.clickhouse.load.stages import Stages
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.writer import RollForwardWriter
from penstock.backends.shared.background import BufferedIterator
from penstock.backends.shared.values.arrow import Caster, schema_from_text, shown
from penstock.backends.shared.values.hex_values import uuid_texts
from penstock.errors import Diagnosis, PermanentError
from penstock.spec.worker_spec import WorkerSpec

# Per INSERT, which creates at least one part.
INSERT_BYTES = 32 << 20
INSERT_ROWS = 1 << 20
LEAST, MOST = b"least", b"most"
"""Keys of a field's metadata: the range of the column's type, as whole numbers."""


class ClickHouseWriter(RollForwardWriter):
    """A writer of partitions to a ClickHouse server."""

    def commit(self, result: LoadResult, bytes: int, wait: Wait) -> None:
        stream = cast("StageStream", self._stream)
        super().commit(result, bytes, wait)
        stream.remove()


class Hooks:
    """See `RollForwardHooks`."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._schema = ""

    def connect(self, spec: WorkerSpec) -> None:
        if self._connection is None:
            self._connection = connect(spec.target, "target")
            self._schema = spec.control_schema

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def documents(self) -> TableDocuments:
        return TableDocuments(self._open, self._schema)

    def store(self) -> Stages:
        return Stages(self._open, self._schema)

    def standing(self, attempt: Attempt) -> Standing:
        run = Runs(self.documents(), self.store()).find(attempt.spec.run_id)
        if run is None:
            return Standing(None, committed=False)
        check_not_shut_out(attempt.spec.run_id, run)
        session = ClickHouseSession(self._open)
        check_loaded(session, attempt.spec.run_id, run, attempt.spec.target_table)
        return Standing(run.generation, committed=False)

    def open_stream(self, attempt: Attempt, wait: Wait) -> StageStream:
        return StageStream(self._open, self.store(), attempt)


class StageStream:
    """See `PieceStream`. One INSERT runs while the next one's rows are gathered."""

    def __init__(self, connection: Connection, stages: Stages, attempt: Attempt) -> None:
        spec = attempt.spec
        self._connection = connection
        self._stages = stages
        self._into = (spec.target_table.schema, spec.target_table.name)
        self._subject = f"partition {attempt.partition.id}"
        self._schema = schema_from_text(spec.schema)
        self._caster = Caster(self._schema, self._subject)
        self._name = stages.make(attempt, spec.target_table)
        self._waiting: list[pa.RecordBatch] = []
        self._size = self._count = self._rows_received = self._loaded = 0
        self._under_way: BufferedIterator[None] | None = None

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """Do nothing: the error of an INSERT is raised with the next one."""

    def write(self, block: Block, wait: Wait) -> None:
        batch = self._caster.cast(block)
        self._check_ends(batch)
        self._rows_received += batch.num_rows
        if not batch.num_rows:
            return
        self._waiting.append(_insertable(batch))
        self._size += batch.nbytes
        self._count += batch.num_rows
        if self._size >= INSERT_BYTES or self._count >= INSERT_ROWS:
            self._flush(wait)

    def _check_ends(self, batch: pa.RecordBatch) -> None:
        """Check that times are within the range of their columns.

        Raises:
            PermanentError: the column's type would change a time.
        """
        for array, field in zip(batch.columns, self._schema, strict=True):
            metadata = field.metadata or {}
            if LEAST not in metadata or array.null_count == len(array):
                continue
            numbers = array.view(pa.int32() if pt.is_date32(array.type) else pa.int64())
            least, most = int(metadata[LEAST]), int(metadata[MOST])
            extremes = pc.min_max(numbers)
            if extremes["min"].as_py() < least or extremes["max"].as_py() > most:
                outside = pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
                row = pc.index(outside, True).as_py()
                raise PermanentError(
                    f"{self._subject}: column {field.name!r}, row "
                    f"{self._rows_received + row + 1:,}: expected a time within the range of "
                    "the column's type, found "
                    f"{shown(array, row)}",
                    Diagnosis(side="target"),
                )

    def _flush(self, wait: Wait) -> None:
        self._finish(wait)
        batches, self._waiting = self._waiting, []
        self._size = self._count = 0
        table, connection = self._stages.quoted(self._name), self._connection

        def insert() -> Iterator[None]:
            with translated("target", self._subject):
                connection.insert(table, batches)
            yield None

        self._under_way = BufferedIterator(lambda _: insert())

    def _finish(self, wait: Wait) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            for _ in under_way.take(wait, "target"):
                pass

    def end(self, wait: Wait) -> int:
        if self._waiting:
            self._flush(wait)
        self._finish(wait)
        with wait.answering("target"):
            count = self._stages.count(self._name)
        if count != self._rows_received:
            raise PermanentError(
                f"target: {self._subject}: expected its stage to hold the "
                f"{self._rows_received:,} rows sent, found "
                f"{'no stage' if count is None else f'{count:,}'}; check whether the "
                "table's TTL deletes them",
                Diagnosis(side="target"),
            )
        self._loaded = self._rows_received
        return self._rows_received

    def pieces(self) -> tuple[Piece, ...]:
        return (Piece(self._name, self._loaded, 0, {"into": list(self._into)}),)

    def close(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.stop()

    def remove(self) -> None:
        """Remove the stage, after its piece was published."""
        self._stages.drop(self._name)


def _insertable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with UUIDs as texts, which every version of the server parses."""
    arrays = [
        uuid_texts(array).cast(pa.string()) if array.type == pa.uuid() else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def open_writer(spec: WorkerSpec) -> ClickHouseWriter:
    """Open a worker's writer to a ClickHouse server."""
    return ClickHouseWriter(spec, Hooks())
