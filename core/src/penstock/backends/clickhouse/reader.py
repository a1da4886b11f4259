"""A partition's rows as record batches: in a thread, one batch ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.backends.clickhouse.connection import END, Connection, connect
from penstock.backends.clickhouse.dialect import CLICKHOUSE
from penstock.backends.clickhouse.errors import translated
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.types import TYPES, ChType
from penstock.backends.shared.arrow import exactly, first_failing
from penstock.backends.shared.batch_reader import BatchReader
from penstock.backends.sql.conditions import condition
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model import values
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

# Few enough that memory stays small where rows are wide.
BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20


class _Ended:
    """A file that knows its last bytes: pyarrow takes the end of the bytes, as an error of the
    server in mid-stream leaves it, for the end of the rows."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._last = b""

    closed = False

    def read(self, count: int = -1) -> bytes:
        found = bytes(self._file.read(count) if count >= 0 else self._file.read())
        self._last = (self._last + found[-len(END) :])[-len(END) :]
        return found

    def check(self) -> None:
        """
        Raises:
            TransientError: the stream has ended early.
        """
        self.read()
        if self._last != END:
            raise TransientError(
                "source: the stream of rows has ended early: the server has met an error, or the "
                "connection was lost",
                Diagnosis(side="source"),
            )


class ClickHouseReader(BatchReader):
    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._connection: Connection | None = None
        self._types: list[ChType] = []
        self._open: Any = None

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.source != self._spec.source:
            self.abandon()
        self._spec = spec
        self._types = []

    def batches(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        spec, subject = self._spec, f"partition {partition.id}"
        with translated("source", subject):
            if self._connection is None:
                self._connection = connect(spec.source, "source")
            session = ClickHouseSession(self._connection)
            rows = session.rows_of(spec.relation)
            names = [CLICKHOUSE.ident(pair.source) for pair in spec.pairs]
            if not self._types:
                query = f"SELECT {', '.join(names)} FROM {rows}"
                self._types = [type_ for _, type_ in session.describe(query, subject)]
            listed = ", ".join(
                f"{TYPES.travelling(name, type_)} AS c{place}"
                for place, (name, type_) in enumerate(zip(names, self._types, strict=True))
            )
            chosen = condition(CLICKHOUSE, spec.where, partition.extent)
            # The names that are given here are no others' there.
            query = (
                f"SELECT {listed} FROM (SELECT {', '.join(names)} FROM {rows} WHERE {chosen})"
                f" SETTINGS max_block_size = {BATCH_ROWS},"
                f" preferred_block_size_bytes = {BATCH_BYTES}"
            )
            self._open = self._connection.stream(query)
            file = _Ended(self._open)
            passed = 0
            with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as reader:
                none = reader.schema.empty_table().combine_chunks()
                for batch in reader:
                    if batch.num_rows:
                        yield self._as_travels(batch, passed, subject)
                    passed += batch.num_rows
                    if stopped():
                        self._open.close()
                        return
            file.check()
            if not passed:
                arrays = [column.combine_chunks() for column in none.columns]
                empty = pa.RecordBatch.from_arrays(arrays, none.column_names)
                yield self._as_travels(empty, 0, subject)

    def _as_travels(self, batch: pa.RecordBatch, passed: int, subject: str) -> pa.RecordBatch:
        """Of the types that the plan has promised."""
        arrays = []
        for array, type_, pair in zip(batch.columns, self._types, self._spec.pairs, strict=True):
            wanted = TYPES.arrow_type(type_)
            try:
                arrays.append(_exactly(array, wanted))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                row = first_failing(array, partial(_exactly, wanted=wanted))
                found = values.said(str(error))
                raise PermanentError(
                    f"source: {subject}: column {pair.source!r}, row {passed + row + 1:,}: "
                    f"expected a value of {type_}, as {wanted}, found: {found}; for bytes in a "
                    f"String, use --query with hex({pair.source})",
                    Diagnosis(side="source"),
                ) from error
        return pa.RecordBatch.from_arrays(arrays, [pair.target for pair in self._spec.pairs])

    def abandon(self) -> None:
        ahead, self._ahead = self._ahead, None
        connection, self._connection = self._connection, None
        if ahead is not None:
            ahead.leave(self._interrupt)
        if connection is not None:
            connection.close()

    def _interrupt(self) -> None:
        """The server ends a query whose reader has closed its connection."""
        open_, self._open = self._open, None
        if open_ is not None:
            open_.close()


def _exactly(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = exactly(array, wanted)
    if pa.types.is_string(wanted) or pa.types.is_list(wanted):
        found.validate(full=True)  # a String of the server's holds any bytes
    return found


open_reader = ClickHouseReader
