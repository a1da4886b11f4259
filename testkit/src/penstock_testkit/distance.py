"""A proxy that makes a server distant: it delays traffic and counts round trips."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit, urlunsplit

HOST = "127.0.0.1"
BLOCK = 64 * 1024
CONNECT_SECONDS = 10
_Blocks = queue.SimpleQueue[tuple[float, bytes]]


class DistantServer:
    """A proxy on 127.0.0.1 in front of one server. A context manager.

    It adds a delay and does not limit the rate: data sent at once arrives together.

    Args:
        server_url: the server's URL, with host and port.
        round_trip: seconds; half of it in each direction.
    """

    def __init__(self, server_url: str, round_trip: float) -> None:
        parts = urlsplit(server_url)
        if parts.hostname is None or parts.port is None:
            raise ValueError("expected a URL with a host and a port")
        self._upstream = (parts.hostname, parts.port)
        login, at, _ = parts.netloc.rpartition("@")
        self._delay = round_trip / 2
        self._listener = socket.create_server((HOST, 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{login}{at}{HOST}:{port}"))
        """The server's URL through the proxy."""
        self.connections = 0
        """The number of connections opened so far."""
        self.round_trips = 0
        """How often a client sent data after the server had; each new connection adds one."""
        self.most = 0
        """The most round trips of one connection, after it was opened."""
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        for end in list(self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Reset all counts to zero."""
        with self._lock:
            self.connections = self.round_trips = self.most = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        # TCP's own handshake.
        time.sleep(2 * self._delay)
        try:
            server = socket.create_connection(self._upstream, timeout=CONNECT_SECONDS)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.add(end)
        with self._lock:
            self.connections += 1
            self.round_trips += 1
        link = _Link(self, client, server)
        for work in (link.requests, link.requests_sent, link.answers, link.answers_sent):
            threading.Thread(target=work, daemon=True).start()

    def count_round_trip(self, of_connection: int) -> None:
        """Count a round trip.

        Args:
            of_connection: the round trips of the same connection so far, including this one.
        """
        with self._lock:
            self.round_trips += 1
            self.most = max(self.most, of_connection)

    def forget(self, *ends: socket.socket) -> None:
        """Close both ends of a connection that has ended."""
        for end in ends:
            self._ends.discard(end)
            end.close()

    @property
    def delay(self) -> float:
        """Seconds in one direction."""
        return self._delay


class _Link:
    """A connection, with a receiving and a sending thread for each direction."""

    def __init__(self, proxy: DistantServer, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._requests = _Blocks()
        self._answers = _Blocks()
        self._answered = True
        """Whether the client's next data begins a round trip."""
        self._round_trips = 0
        self._open = 2
        self._lock = threading.Lock()

    def requests(self) -> None:
        for data in self._received(self._client, self._requests):
            if data and self._answered:
                self._answered = False
                self._round_trips += 1
                self._proxy.count_round_trip(self._round_trips)

    def answers(self) -> None:
        for _ in self._received(self._server, self._answers):
            self._answered = True

    def requests_sent(self) -> None:
        self._send(self._client, self._server, self._requests)

    def answers_sent(self) -> None:
        self._send(self._server, self._client, self._answers)

    def _received(self, source: socket.socket, blocks: _Blocks) -> Iterator[bytes]:
        data = b"-"
        while data:
            try:
                data = source.recv(BLOCK)
            except OSError:
                data = b""
            yield data
            blocks.put((time.monotonic() + self._proxy.delay, data))

    def _send(self, source: socket.socket, sink: socket.socket, blocks: _Blocks) -> None:
        while True:
            due, data = blocks.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                break
            try:
                sink.sendall(data)
            except OSError:
                with contextlib.suppress(OSError):
                    source.shutdown(socket.SHUT_RDWR)
                break
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._proxy.forget(self._client, self._server)
