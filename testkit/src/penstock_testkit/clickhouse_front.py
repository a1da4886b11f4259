"""A part of ClickHouse's HTTP interface in front of chdb, its engine in a process.

This is not a server: it has no users, grants or sessions, and `system.processes` is chdb's own.
Each request uses its own chdb session, so its settings do not affect others. Run it as a program
with a folder and a port: ``python -m penstock_testkit.clickhouse_front FOLDER PORT``.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from chdb import session

from penstock_testkit.waiting import end_when_orphaned

# Request parameters that are not settings of the query.
_OTHERS = {
    *("query", "database", "query_id", "user", "password", "default_format", "session_id"),
    *("session_timeout", "session_check", "client_protocol_version", "wait_end_of_query"),
    *("role", "quota_key", "buffer_size", "compress", "decompress", "stacktrace"),
    *("send_progress_in_http_headers", "http_headers_progress_interval_ms"),
    *("enable_http_compression", "cancel_http_readonly_queries_on_client_close"),
}
_FORMAT = re.compile(r"\s+FORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
# An INSERT followed by rows.
_INSERT = re.compile(rb"\s*(INSERT\s+INTO\s[^\n]*?)\s+FORMAT\s+(\w+)\s*\n", re.IGNORECASE)
_ARROW = "ArrowStream"
_CODE = re.compile(r"Code: (\d+)")
_SAME_ID = 216
_running: set[str] = set()
_lock = threading.Lock()


Session: Any = session.Session


class Refused(Exception):
    """An error with the engine's message."""


@contextmanager
def _alone(query_id: str) -> Iterator[None]:
    """Reject a query whose id is that of a running one, as a server does."""
    with _lock:
        if query_id in _running:
            raise Refused(f"Code: {_SAME_ID}. DB::Exception: Query with id = {query_id} is already "
                          "running. (QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING)")  # fmt: skip
        _running.add(query_id)
    try:
        yield
    finally:
        with _lock:
            _running.discard(query_id)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class _Chunked:
    """A file that writes each block as a chunk of HTTP."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        content = bytes(data)
        if content:
            self._file.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        return len(content)

    def flush(self) -> None:
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder = ""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._answer(b"Ok.\n")
        else:
            self.do_POST()

    def do_POST(self) -> None:
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        try:
            with _alone(parameters.get("query_id") or str(id(self))):
                self._run(parameters, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:  # any error of chdb's
            self._refuse(str(error))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _run(self, parameters: dict[str, str], body: bytes) -> None:
        with closing(Session(self.folder)) as engine:
            if parameters.get("database"):
                engine.query(f"USE {chr(96)}{parameters['database']}{chr(96)}")
            settings = [
                f"{name} = {_literal(value)}"
                for name, value in parameters.items()
                if name not in _OTHERS
            ]
            if settings:
                engine.query(f"SET {', '.join(settings)}")
            query = parameters.get("query", "").encode()
            query = b"\n".join(part for part in (query, body) if part)
            if inserts := _INSERT.match(query):
                with engine.send_insert(inserts[1].decode(), inserts[2].decode()) as insert:
                    insert.append(query[inserts.end() :])
                    rows = insert.finish().rows_written
                self._answer(b"", {"X-ClickHouse-Summary": f'{{"written_rows":"{rows}"}}'})
                return
            text = query.decode()
            match = _FORMAT.search(text)
            form = match[1] if match else parameters.get("default_format", "TabSeparated")
            text = text[: match.start()] if match else text
            if form == _ARROW:
                self._stream(engine, text)
            else:
                self._answer(engine.query(text, form).bytes())

    def _stream(self, engine: Any, query: str) -> None:
        """Yield record batches; chdb returns each chunk as a stream of its own."""
        with engine.send_query(query, _ARROW) as result:
            chunks = (pa.ipc.open_stream(chunk.bytes()) for chunk in result if chunk.bytes())
            first = next(chunks, None)
            if first is None:  # without rows, chdb streams nothing
                self._answer(engine.query(query, _ARROW).bytes())
                return
            self._begin({"Transfer-Encoding": "chunked", "X-ClickHouse-Format": _ARROW})
            try:
                writer = pa.ipc.new_stream(_Chunked(self.wfile), first.schema)
                for chunk in chain([first], chunks):
                    for batch in chunk:
                        writer.write_batch(batch)
                writer.close()
                self.wfile.write(b"0\r\n\r\n")
            finally:
                self.close_connection = True  # in mid-stream, no other way signals an error

    def _begin(self, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        self._begin({**(headers or {}), "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _refuse(self, words: str) -> None:
        if self.close_connection:
            return
        code = _CODE.search(words)
        content = words.encode()
        headers = {"Content-Length": str(len(content))}
        if code:
            headers["X-ClickHouse-Exception-Code"] = code[1]
        with suppress(OSError):
            self._begin(headers, 500)
            self.wfile.write(content)


class Front(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main(folder: str, port: str) -> None:
    end_when_orphaned(folder)
    Handler.folder = folder
    session = Session(folder)  # the engine ends with its last session
    session.query("SELECT 1")
    Front(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
