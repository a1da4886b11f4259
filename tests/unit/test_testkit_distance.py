"""A distant server: its proxy delays and counts."""

from __future__ import annotations

import socket
import threading
import time

from penstock_testkit import DistantServer

ROUND_TRIP = 0.1


def test_a_distant_server_delays_and_counts_round_trips() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            server, _ = listener.accept()
            with server:
                while data := server.recv(100):
                    server.sendall(data.upper())

        answering = threading.Thread(target=answer)
        answering.start()
        with DistantServer(f"tcp://127.0.0.1:{port}", ROUND_TRIP) as distant:
            far = int(distant.url.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", far)) as client:
                begun = time.monotonic()
                for text in (b"one", b"two"):
                    client.sendall(text)
                    assert client.recv(100) == text.upper()
                # One for the connection, one for each question. A delay is never shorter.
                assert time.monotonic() - begun >= 3 * ROUND_TRIP
            answering.join()
            assert (distant.connections, distant.round_trips, distant.most) == (1, 3, 2)
