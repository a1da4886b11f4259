"""A TCP proxy that fails on command."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

Direction = Literal["to_server", "to_client"]

HOST = "127.0.0.1"
BLOCK = 64 * 1024
LONGEST_NEEDLE = 1024
# Closing such a socket sends RST instead of FIN.
NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class Watch:
    """A needle to look for, and the callback for it."""

    needle: bytes
    direction: Direction
    callback: Callable[[], object]
    once: bool


@dataclass
class Budget:
    """The number of bytes that may still pass before everything is cut."""

    direction: Direction
    remaining: int


class CallbackFailed(Exception):
    """An error raised by a callback, on its way through the connection's thread."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class TcpProxy:
    """A TCP proxy on 127.0.0.1 in front of one server. A context manager.

    Its methods may be called from any thread, and from a callback of `on_bytes`.

    Args:
        host: the server's host.
        port: the server's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.lock = threading.Lock()
        self.frozen = False
        self.watches: list[Watch] = []
        self.budgets: list[Budget] = []
        self.error: BaseException | None = None
        """The first error that a callback raised; `close` raises it again."""
        self._links: set[Link] = set()
        self._closing = False
        self._refusing = False
        # Bound to an explicit port: when a listener bound to any port is shut down, Linux gives it
        # another one afterwards.
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        self._listener = socket.create_server((HOST, port))
        self._listening = threading.Event()
        self._listening.set()
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._acceptor.start()

    @classmethod
    def of(cls, server_url: str) -> Self:
        """Return a proxy in front of the server of a URL, which must include the port."""
        parts = urlsplit(server_url)
        if parts.hostname is None or parts.port is None:
            raise ValueError("the URL names no host and port to stand in front of")
        return cls(parts.hostname, parts.port)

    @property
    def port(self) -> int:
        """The port on which the proxy listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def url(self, server_url: str) -> str:
        """The URL with the proxy's host and port in place of the server's."""
        parts = urlsplit(server_url)
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}{HOST}:{self.port}"))

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._links)

    def cut(self) -> int:
        """Reset every connection on both sides now; data still in the proxy is lost.

        If called from a callback, it does not wait for the resets.

        Returns:
            The number of connections.
        """
        links = self._snapshot()
        for link in links:
            link.cut()
        # Two callbacks that cut must not wait for each other.
        if not isinstance(threading.current_thread(), Link):
            for link in links:
                link.join(5)
        return len(links)

    def cut_after(self, size: int, direction: Direction) -> None:
        """Forward `size` more bytes of all connections in `direction`, then `cut`, once.

        Args:
            size: the number of bytes from now on.
            direction: the direction to count.
        """
        with self.lock:
            self.budgets.append(Budget(direction, size))

    def on_bytes(
        self,
        needle: bytes,
        direction: Direction,
        callback: Callable[[], object],
        *,
        once: bool = True,
    ) -> None:
        """Call `callback` before the block that completes `needle` is forwarded.

        The callback runs in the connection's own thread; everything it does there (kill, `cut`,
        `freeze`, sleep) happens before the server or client sees the end of the needle. If it
        raises an error, that connection is cut, and `close` raises the error again.

        Args:
            needle: the bytes to look for in each connection's stream; they may arrive in pieces.
            direction: the direction to search.
            callback: a function without arguments; its result is ignored.
            once: stop searching after the first find.

        Raises:
            ValueError: the needle is empty or longer than 1024 bytes.
        """
        if not 0 < len(needle) <= LONGEST_NEEDLE:
            raise ValueError(f"a needle has 1 to {LONGEST_NEEDLE} bytes, this one {len(needle)}")
        with self.lock:
            self.watches.append(Watch(needle, direction, callback, once))

    def freeze(self) -> None:
        """Forward nothing more and close nothing, like a network that has failed silently."""
        self.frozen = True
        self._wake()

    def thaw(self) -> None:
        """Continue after `freeze`; nothing is lost."""
        self.frozen = False
        self._wake()

    def refuse(self, refusing: bool = True) -> None:
        """Refuse new connections (ECONNREFUSED), or accept them again. Open ones continue."""
        with self.lock:
            if refusing == self._refusing:
                return
            self._refusing = refusing
            if refusing:
                self._listening.clear()
                # Linux keeps the port of a socket that no longer listens.
                self._listener.shutdown(socket.SHUT_RDWR)
            else:
                self._listener.listen()
                self._listening.set()

    def close(self) -> None:
        """Stop: reset every connection and stop listening.

        Raises:
            BaseException: the first error that a callback raised.
        """
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listening.set()
        self._acceptor.join()
        self._listener.close()
        self.cut()
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            self._listening.wait()
            if self._closing:
                return
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            link = Link(self, client)
            with self.lock:
                self._links.add(link)
                link.start()

    def _snapshot(self) -> list[Link]:
        with self.lock:
            return list(self._links)

    def _wake(self) -> None:
        for link in self._snapshot():
            link.wake()

    def forget(self, link: Link) -> None:
        """Remove a connection that has ended."""
        with self.lock:
            self._links.discard(link)

    def watches_for(self, direction: Direction) -> list[Watch]:
        with self.lock:
            return [watch for watch in self.watches if watch.direction == direction]

    def call_back(self, watch: Watch) -> None:
        """Call a watch's callback, unless another connection did so first.

        Raises:
            CallbackFailed: the callback raised an error.
        """
        with self.lock:
            if watch not in self.watches:
                return
            if watch.once:
                self.watches.remove(watch)
        try:
            watch.callback()
        except BaseException as error:
            # Whatever the error, it must not look like one of the connection.
            raise CallbackFailed(error) from error

    def spend(self, direction: Direction, size: int) -> tuple[int, bool]:
        """Take up to `size` bytes from the budget.

        Returns:
            The number of bytes that may pass, and whether to cut everything after them.
        """
        with self.lock:
            budgets = [budget for budget in self.budgets if budget.direction == direction]
            allowed = min([size, *(budget.remaining for budget in budgets)])
            for budget in budgets:
                budget.remaining -= allowed
            return allowed, any(budget.remaining == 0 for budget in budgets)

    def cut_spent(self) -> None:
        """Cut all connections once for each budget that is spent."""
        with self.lock:
            before = len(self.budgets)
            # The spent budget has blocked the other connections so far.
            self.budgets = [budget for budget in self.budgets if budget.remaining > 0]
            spent = len(self.budgets) < before
        if spent:
            self.cut()


@dataclass
class Flow:
    """One direction of one connection."""

    direction: Direction
    source: socket.socket
    sink: socket.socket
    pending: bytes = b""
    tail: bytes = b""
    """The last bytes that passed, in case a needle begins in them."""
    open: bool = True
    cut_when_sent: bool = False


class Link(threading.Thread):
    """One connection through the proxy, with a thread that owns both of its sockets.

    Only that thread closes them, because closing a socket in which another thread waits sends no
    RST.
    """

    def __init__(self, proxy: TcpProxy, client: socket.socket) -> None:
        super().__init__(name="proxy-link", daemon=True)
        self._proxy = proxy
        self._client = client
        self._cut = False
        self._bell, self._rope = socket.socketpair()

    def cut(self) -> None:
        self._cut = True
        self.wake()

    def wake(self) -> None:
        # OSError: the connection has just ended by itself.
        with contextlib.suppress(OSError):
            self._rope.send(b"!")

    def run(self) -> None:
        ends = [self._client]
        try:
            server = socket.create_connection(self._proxy.upstream, timeout=10)
            ends.append(server)
            for end in ends:
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pump(
                Flow("to_server", self._client, server), Flow("to_client", server, self._client)
            )
        except OSError:
            # One side was lost, or there is no server: reset the other side.
            self._cut = True
        except CallbackFailed as failure:
            self._cut = True
            self._proxy.error = self._proxy.error or failure.error
        finally:
            for end in ends:
                if self._cut:
                    with contextlib.suppress(OSError):
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                end.close()
            self._proxy.forget(self)
            self._bell.close()
            self._rope.close()

    @property
    def _is_still(self) -> bool:
        return self._cut or self._proxy.frozen

    def _pump(self, *flows: Flow) -> None:
        while not self._cut and any(flow.open or flow.pending for flow in flows):
            readers, writers = [self._bell], []
            if not self._proxy.frozen:
                # Send a block before reading the next one, so that the sender notices a slow
                # receiver.
                readers += [flow.source for flow in flows if flow.open and not flow.pending]
                writers += [flow.sink for flow in flows if flow.pending]
            readable, writable, _ = select.select(readers, writers, [])
            if self._bell in readable:
                self._bell.recv(BLOCK)
                continue
            for flow in flows:
                if not self._is_still and flow.source in readable:
                    self._receive(flow)
                if not self._is_still and flow.sink in writable:
                    self._send(flow)

    def _receive(self, flow: Flow) -> None:
        block = flow.source.recv(BLOCK)
        if not block:
            flow.open = False
            flow.sink.shutdown(socket.SHUT_WR)
            return
        self._look(flow, block)
        allowed, flow.cut_when_sent = self._proxy.spend(flow.direction, len(block))
        flow.pending = block[:allowed]
        if not self._is_still:
            self._send(flow)

    def _look(self, flow: Flow, block: bytes) -> None:
        window = flow.tail + block
        for watch in self._proxy.watches_for(flow.direction):
            # Only needles that end in this block, since the rest has been searched before.
            first = max(0, len(flow.tail) - len(watch.needle) + 1)
            if window.find(watch.needle, first) >= 0:
                self._proxy.call_back(watch)
        flow.tail = window[-(LONGEST_NEEDLE - 1) :]

    def _send(self, flow: Flow) -> None:
        if flow.pending:
            with contextlib.suppress(BlockingIOError):
                flow.pending = flow.pending[flow.sink.send(flow.pending) :]
        if flow.cut_when_sent and not flow.pending:
            self._cut = True
            self._proxy.cut_spent()
