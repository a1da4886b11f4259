"""A real pgbouncer in front of a server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from penstock_testkit.identity import identity
from penstock_testkit.servers import HOST, PostgresServer, ServerError, free_port

PROGRAM = "pgbouncer"
PoolMode = Literal["session", "transaction"]


def pgbouncer_program() -> str | None:
    """Return the path of pgbouncer, if it is installed."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """A pooler on 127.0.0.1 that lets all clients in as the server's superuser.

    Args:
        mode: how long a client keeps a session of the server: pgbouncer's ``pool_mode``.
        pool_size: the number of server sessions for each database.
        settings: additional lines of its configuration, which override the defaults for tests.
    """

    def __init__(
        self,
        server: PostgresServer,
        mode: PoolMode | Literal["statement"],
        pool_size: int = 20,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        self._server = server
        self._settings = settings or {}
        self._mode = mode
        self._pool_size = pool_size
        self._process: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self.port = 0

    def __enter__(self) -> Self:
        program = pgbouncer_program()
        if program is None:
            raise ServerError(f"{PROGRAM} is not installed")
        self._home = Path(tempfile.mkdtemp(prefix="penstock-pgbouncer-"))
        self.port = free_port()
        (self._home / "users").write_text('"postgres" ""\n')
        (self._home / "ini").write_text(
            "[databases]\n"
            f"* = host={HOST} port={self._server.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = {HOST}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self._home / 'users'}\n"
            f"pool_mode = {self._mode}\ndefault_pool_size = {self._pool_size}\n"
            "max_client_conn = 200\n"
            # The worst case for code that relies on a session: a new one for each transaction.
            "server_round_robin = 1\n"
            + "".join(f"{name} = {value}\n" for name, value in self._settings.items())
        )
        who = identity()
        who.give(self._home)
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*who.prefix, program, str(self._home / "ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return self
            time.sleep(0.02)
        words = (self._home / "log").read_text(errors="replace")
        self.close()
        raise ServerError(f"{PROGRAM} did not start\n{words}")

    def __exit__(self, *_: object) -> None:
        self.close()

    def url_for(self, url: str) -> str:
        """Return a URL of the server through the pooler."""
        return url.replace(f"{HOST}:{self._server.port}", f"{HOST}:{self.port}")

    def close(self) -> None:
        """Stop it; do nothing if it is stopped."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None
