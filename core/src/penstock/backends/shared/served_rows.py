"""Rows of a Python process, served to workers over a socket in a private folder.

A client asks for the schema or for the rows. The answer is a stream of record batches and a line of
JSON, without which the stream is cut off: Arrow's own readers take a lost connection for the end.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

import pyarrow as pa
import pyarrow.types as is_

from penstock.errors import Diagnosis, Interrupted, PermanentError
from penstock.model import values

_SCHEMA, _ROWS = b"s", b"r"
_FOLLOW, _CONSUMED = b"+", b"-"
# Per batch: the rows may come in one large batch, of which a worker holds a few.
_BATCH_ROWS = 16_384
_BATCH_BYTES = 4 << 20


class ArrowStream(Protocol):
    """Anything with rows in Arrow: https://arrow.apache.org/docs/format/CDataInterface.html."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule."""
        ...


class RowServer:
    """Serves rows until it is closed.

    A table (it has a shape) is read again by each attempt that asks for its rows; a stream can be
    read by one.
    """

    def __init__(self, rows: ArrowStream) -> None:
        self._rows = rows
        self._is_table = hasattr(type(rows), "shape")
        self._next: pa.RecordBatchReader | None = pa.RecordBatchReader.from_stream(rows)
        self._schema = plain_schema(self._next.schema)
        self._lock = threading.Lock()
        self._folder = tempfile.mkdtemp(prefix="penstock-rows-")
        self.path = str(Path(self._folder) / "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, name="rows", daemon=True).start()

    def close(self) -> None:
        """Serve nobody any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # it wakes the thread, unlike a mere close
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._next = None

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The client may end at any time.
        with suppress(OSError), connection, connection.makefile("rwb") as both:
            file = cast("IO[bytes]", both)
            if file.read(1) == _SCHEMA:
                _send(pa.RecordBatchReader.from_batches(self._schema, []), self._schema, file)
            elif (reader := self._take()) is None:
                file.write(_CONSUMED)
            else:
                with reader:
                    _send(reader, self._schema, file)

    def _take(self) -> pa.RecordBatchReader | None:
        with self._lock:
            reader, self._next = self._next, None
            if reader is None and self._is_table:
                reader = pa.RecordBatchReader.from_stream(self._rows)
            return reader


def _send(reader: pa.RecordBatchReader, schema: pa.Schema, file: IO[bytes]) -> None:
    file.write(_FOLLOW)
    end: dict[str, Any] = {}
    with pa.ipc.new_stream(file, schema) as stream:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            except Exception as error:
                end["error"] = f"{type(error).__name__}: {error}"
                break
            for piece in _pieces(batch):
                stream.write_batch(_plain(piece, schema))
            del batch
    file.write(json.dumps(end).encode() + b"\n")


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    width = max(batch.nbytes / max(batch.num_rows, 1), 1)
    rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / width)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without views, whose pieces would be sent with the whole column's bytes."""
    return pa.schema([field.with_type(_without_views(field.type)) for field in schema])


def _without_views(kind: pa.DataType) -> pa.DataType:
    if is_.is_string_view(kind):
        return pa.large_string()
    if is_.is_binary_view(kind):
        return pa.large_binary()
    if is_.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if is_.is_list(kind) or is_.is_list_view(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if is_.is_large_list(kind) or is_.is_large_list_view(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    return kind


def served_schema(path: str) -> pa.Schema:
    """Return the types of the rows that a socket serves.

    Raises:
        PermanentError: nobody serves there.
    """
    with _asked(path, _SCHEMA) as file:
        return pa.ipc.open_stream(file).schema


def served_batches(path: str, stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a socket serves.

    Args:
        path: the socket.
        stopped: whether they are no longer needed.

    Raises:
        PermanentError: nobody serves there, or the rows have ended early or been read before.
    """
    with _asked(path, _ROWS) as file:
        for batch in pa.ipc.open_stream(file):
            if stopped():
                raise Interrupted("source: reading was canceled")
            yield batch
            del batch
        end = file.readline()
    if not end:
        raise _gone()
    if error := json.loads(end).get("error"):
        raise _failed(f"the stream of rows has failed: {values.server_message(error)}")


@contextmanager
def _asked(path: str, request: bytes) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
            connection.sendall(request)
            with connection.makefile("rb") as file:
                answer = file.read(1)
                if answer == _CONSUMED:
                    raise _failed(
                        "an earlier attempt has read rows of this stream, which can be read once; "
                        "none of them is committed. Copy from a new stream, or from a table, which "
                        "is read again"
                    )
                if answer != _FOLLOW:
                    raise _gone()
                yield file
        except (OSError, pa.ArrowInvalid) as error:
            raise _gone() from error


def _gone() -> PermanentError:
    return _failed("the Python process that has the rows has ended, or no longer has its ArrowRows")


def _failed(why: str) -> PermanentError:
    return PermanentError(f"source: {why}", Diagnosis(side="source"))
