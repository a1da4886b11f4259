"""Clients of a server, with the same settings everywhere, and their questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import clickhouse_connect
import pyarrow as pa

from penstock.backends.clickhouse.errors import translated
from penstock.backends.clickhouse.location import URLS, client_options
from penstock.errors import Diagnosis, PermanentError, TransientError

OLDEST = (24, 8)
# One statement contains a run's plan.
MOST_QUERY = 256 << 20
# What a query does at a limit of the user's profile; "break" would return some of the rows.
_LIMITS = (
    "read", "result", "timeout", "group_by", "sort", "distinct", "join", "set",
    "transfer",
)  # fmt: skip
SETTINGS = {
    **{f"{what}_overflow_mode": "throw" for what in _LIMITS},
    "limit": 0,
    "offset": 0,
    # A row that does not match has NULL, and a column is NULL only if its type says so.
    "join_use_nulls": 0,
    "data_type_default_nullable": 0,
    "cast_keep_nullable": 0,
    "extremes": 0,
    # Rows that were loaded before are loaded again.
    "insert_deduplicate": 0,
    # Texts of values.
    "output_format_decimal_trailing_zeros": 0,
    "bool_true_representation": "true",
    "bool_false_representation": "false",
    "date_time_output_format": "simple",
    # Inserts are complete when they are answered.
    "async_insert": 0,
    "session_timezone": "UTC",
    "max_query_size": MOST_QUERY,
    # Values that do not fit are errors.
    "input_format_null_as_default": 0,
    "date_time_overflow_behavior": "throw",
    "enable_extended_results_for_datetime_functions": 1,
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_compression_method": "none",
    "max_execution_time": 0,
    # A client that is gone waits for no answer.
    "cancel_http_readonly_queries_on_client_close": 1,
}
# Seconds without a byte; requests that take longer on the server are polled.
SILENCE = 86400
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of a stream of record batches.
https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format
"""


class CompleteFile:
    """A file that remembers its last bytes.

    If the server ends a stream early, after an error, pyarrow takes that for the end of the rows.
    """

    def __init__(self, file: Any, side: str) -> None:
        self._file = file
        self._side = side
        self._last = b""

    closed = False

    def read(self, count: int = -1) -> bytes:
        content = bytes(self._file.read(count) if count >= 0 else self._file.read())
        self._last = (self._last + content[-len(END) :])[-len(END) :]
        return content

    def check(self) -> None:
        """Check that the stream is complete.

        Raises:
            TransientError: the stream has ended early.
        """
        self.read()
        if self._last != END:
            raise TransientError(
                f"{self._side}: the stream of rows ended early: the server failed, or the "
                "connection was lost",
                Diagnosis(side=self._side),
            )


class Connection:
    """A connection that raises the driver's errors. Threads may share it."""

    def __init__(self, client: Any, side: str) -> None:
        self.client = client
        self.side = side
        self.database = str(client.database)
        self._open: Any = None
        self.query_parameters: Mapping[str, str] = {}
        """See `Session.hold`: parameters of the queries that name them."""

    def _parameters(self, query: str) -> dict[str, str] | None:
        # The driver treats a query with parameters but without placeholders as one of another kind.
        return {
            name: text for name, text in self.query_parameters.items() if f"{{{name}:" in query
        } or None

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Args:
            query: the query, with these placeholders.
            values: texts for the placeholders `{p1:String}` and so on.
        """
        parameters = {f"p{place}": value for place, value in enumerate(values, 1)}
        parameters |= self._parameters(query) or {}
        return list(map(tuple, self.client.query(query, parameters=parameters or None).result_rows))

    def change(self, statement: str, values: Sequence[Any] = (), *, query_id: str = "") -> int:
        """Execute a statement that changes something.

        Args:
            statement: the statement.
            values: always empty; such statements have no placeholders.
            query_id: the server rejects a second query with this id while one runs.

        Returns:
            0, since the server does not count.
        """
        self.client.command(statement, settings={"query_id": query_id} if query_id else None)
        return 0

    def insert(self, table: str, batches: Sequence[pa.RecordBatch]) -> None:
        """Insert batches into a table.

        Args:
            table: quoted, with its database.
            batches: at least one; all with the same schema.
        """
        schema = batches[0].schema

        def messages() -> Iterator[pa.Buffer | bytes]:
            yield schema.serialize()
            for batch in batches:
                yield batch.serialize()
            yield END

        size = schema.serialize().size + sum(map(pa.ipc.get_record_batch_size, batches)) + len(END)
        # As bytes they would be copied, and sent again after a lost connection; without their
        # length they would be copied too.
        headers = {"Content-Length": f"{size}"}
        self.client.raw_insert(
            table, schema.names, messages(), fmt="ArrowStream", transport_settings=headers
        )

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, over a separate connection; the first batch may be empty.

        Raises:
            TransientError: the stream has ended early.
        """
        self._open = self.client.raw_stream(
            query, parameters=self._parameters(query), fmt="ArrowStream"
        )
        with closing(self._open):
            file = CompleteFile(self._open, self.side)
            with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as reader:
                yield from reader
            file.check()

    def stream(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, at most `count` at a time."""
        for batch in self.batches(query):
            for start in range(0, batch.num_rows, count):
                columns = batch.slice(start, count).columns
                yield list(zip(*(column.to_pylist() for column in columns), strict=True))

    def interrupt(self) -> None:
        """Cancel queries: the server ends one whose reader has closed its connection."""
        open_, self._open = self._open, None
        if open_ is not None:
            open_.close()

    def close(self) -> None:
        with suppress(Exception):
            self.client.close()


def connect(url: str, side: str) -> Connection:
    """Open a connection.

    Args:
        url: the server's URL, with its secrets.
        side: `source` or `target`, for error messages.

    Raises:
        TransientError, PermanentError: the connection failed.
    """
    location = URLS.parse(url)
    with translated(side, f"{location.host}:{location.port}"):
        client = clickhouse_connect.get_client(
            **client_options(location),
            compress=False,
            autogenerate_session_id=False,
            send_receive_timeout=SILENCE,
            client_name="penstock",
            settings=SETTINGS,
            # Otherwise a child process would share sockets with its parent.
            dedicated_pool=True,
        )
    version = tuple(int(part) for part in str(client.server_version).split(".")[:2])
    if version < OLDEST:
        client.close()
        oldest = ".".join(map(str, OLDEST))
        raise PermanentError(
            f"{side}: {location.host}:{location.port}: expected ClickHouse {oldest} or later, "
            f"found {client.server_version}"
        )
    return Connection(client, side)
