"""An HTTP proxy that answers some requests itself, with errors."""

from __future__ import annotations

import http.client
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

from penstock_testkit.servers import HOST

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
# Headers of one connection rather than of the message.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


@dataclass
class Fault:
    """The requests that the proxy answers itself."""

    pattern: re.Pattern[str]
    """A pattern to search for in ``METHOD /path?query``."""
    remaining: int
    """The number of requests still to answer."""
    status: int
    body: bytes
    kind: str
    """The media type of the body."""
    answered: int = field(default=0)


class HttpFaults:
    """A proxy on 127.0.0.1 in front of one HTTP server. A context manager.

    The Host header is passed on unchanged, so that signatures stay valid.

    Args:
        url: the server's URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.hostname is None or parts.port is None:
            raise ValueError("the URL names no host and port to stand in front of")
        self.upstream = (parts.hostname, parts.port)
        self.lock = threading.Lock()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        """All requests so far, as ``METHOD /path?query``."""
        outer = self

        class Handler(_Handler):
            proxy = outer

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def fail(
        self,
        pattern: str,
        times: int = 1_000_000,
        status: int = 503,
        body: bytes = SLOW_DOWN,
        kind: str = "application/xml",
    ) -> Fault:
        """Answer the next matching requests with an error instead of forwarding them.

        Args:
            pattern: a regular expression to search for in ``METHOD /path?query``.
            times: the number of requests to answer.
            status: the HTTP status of the answer.
            body: the answer's body.
            kind: the media type of the body.

        Returns:
            The fault, whose `answered` counts the requests answered so far.
        """
        fault = Fault(re.compile(pattern), times, status, body, kind)
        with self.lock:
            self.faults.append(fault)
        return fault

    def fault_for(self, request: str) -> Fault | None:
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.remaining > 0 and fault.pattern.search(request):
                    fault.remaining -= 1
                    fault.answered += 1
                    return fault
        return None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: HttpFaults

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client closed the connection
            self.close_connection = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.proxy.fault_for(f"{self.command} {self.path}")
        if fault is not None:
            self._send(fault.status, {"Content-Type": fault.kind}, fault.body)
            return
        upstream = http.client.HTTPConnection(*self.proxy.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {*HOP_BY_HOP, "expect"}:
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            passed_headers = {k: v for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP}
            self._send(answer.status, passed_headers, answer.read())
        finally:
            upstream.close()

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        # The length in an answer to HEAD is the object's.
        lower_headers = {name.lower(): value for name, value in headers.items()}
        length = lower_headers.get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the base class names them

    def log_message(self, format: str, *args: object) -> None:
        pass
