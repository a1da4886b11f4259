"""Real MySQL and MariaDB servers in temporary directories."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock_testkit.mysql_programs import EXTERNAL, LAYOUT, beginning, empty_data, mysql_program
from penstock_testkit.servers import (
    HOST,
    ExternalServer,
    KeptServer,
    ServerError,
    Setting,
    kept,
    memory_folder,
)

USER = "penstock"
PASSWORD = "penstock"
DATABASE = "test"
DEFAULTS: Mapping[str, Setting] = {
    "bind_address": HOST,
    "character_set_server": "utf8mb4",
    "innodb_buffer_pool_size": "64M",
    # Each commit writes the log without flushing it: it survives the server's death, but not the
    # machine's.
    "innodb_flush_log_at_trx_commit": 2,
    "loose_innodb_flush_method": "nosync",
    "innodb_use_native_aio": False,
    "local_infile": True,
    "loose_mysqlx": False,
    "max_connections": 200,
    "performance_schema": False,
    "secure_file_priv": "",
    "skip_name_resolve": True,
}
# One line each, because the server reads them at its start.
FIRST_STATEMENTS = f"""\
CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS {DATABASE};
"""
UNKNOWN_THREAD = 1094


class AnyMysqlServer(ABC):
    """The interface that a test needs from a server, its own or external."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of one of its databases, with a user who may create others."""

    @abstractmethod
    def url_for(
        self, db: str | None = None, user: str | None = None, password: str | None = None
    ) -> str:
        """Return the URL with some parts replaced.

        Args:
            db: the name of a database; None for the one of `url`.
            user: the name of a user; None for the one of `url`.
            password: the user's password; None for the usual one.
        """

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Yield the URL of a new database, and drop it afterwards, even with open sessions."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with closing(connect_mysql(self.url)) as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url_for(db=name)
        finally:
            self.drop_database(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and end the sessions that use it."""
        import pymysql  # noqa: PLC0415

        with closing(connect_mysql(self.url)) as admin, admin.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            for number, _user, _host, database, *_ in cursor.fetchall():
                if database == name:
                    try:
                        cursor.execute(f"KILL {number}")
                    except pymysql.OperationalError as error:
                        if error.args[0] != UNKNOWN_THREAD:
                            raise
            # By default, the server would wait for days for a session that has its tables open.
            cursor.execute("SET lock_wait_timeout = 30")
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


class ExternalMysqlServer(ExternalServer, AnyMysqlServer):
    """An external server, by its URL."""


class MysqlServer(KeptServer, AnyMysqlServer):
    """A real MySQL or MariaDB on 127.0.0.1 and a unix socket, with its own data.

    A context manager: entering starts it, leaving ends it and removes its data. It never outlives
    this process, not even one ended by SIGKILL. All commits survive `kill`.

    Args:
        settings: system variables, which override the defaults for tests.
        program: the server to run; by default the installed one, see `mysql_program`.
    """

    def __init__(
        self, *, settings: Mapping[str, Setting] | None = None, program: Path | None = None
    ) -> None:
        super().__init__()
        self.settings: dict[str, Setting] = {**DEFAULTS, **(settings or {})}
        self._program = program

    @property
    def program(self) -> Path:
        """The server's program.

        Raises:
            ServerError: no server is installed.
        """
        return self._program or mysql_program()

    @property
    def socket(self) -> Path:
        """The unix socket."""
        return self.home / "socket"

    @property
    def url(self) -> str:
        """The URL of an empty database, with a user who has all privileges."""
        return self.url_for()

    def url_for(
        self, db: str | None = None, user: str | None = None, password: str | None = None
    ) -> str:
        """Return a URL of the server.

        Args:
            db: the database; `test` by default.
            user: the user; by default one with all privileges.
            password: the user's password.
        """
        base = f"mysql://{USER}:{PASSWORD}@{HOST}:{self.port}/{DATABASE}"
        return ExternalServer(base).url_for(db, user, password)

    def start(self, timeout: float = 60) -> None:
        """Start the server, with the data of its last run if any; do nothing if it is running.

        Raises:
            ServerError: no server is installed, or it did not start within `timeout` seconds.
        """
        super().start(timeout)

    def stop(self, timeout: float = 60) -> None:
        """Shut the server down and keep its data; do nothing if it is stopped.

        Raises:
            ServerError: it did not end in time.
        """
        self._end(signal.SIGTERM, timeout)

    def restart(self) -> None:
        """Stop and start on the same port with the same data."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End the server with SIGKILL and keep the data; do nothing if it is stopped."""
        self._end(signal.SIGKILL, timeout=30)

    def _end_at_once(self) -> None:
        self.kill()

    def _initialize(self) -> None:
        empty = empty_data(self.program)
        home = Path(tempfile.mkdtemp(prefix="penstock-my-", dir=memory_folder()))
        self._use_home(home)
        (home / "tmp").mkdir()
        (home / "first.sql").write_text(FIRST_STATEMENTS)
        # Some of its files are sparse, and stay so.
        subprocess.run(["cp", "-a", str(empty), str(self.data)], check=True)

    def _launch(self, timeout: float) -> None:
        options = {
            **self.settings,
            "datadir": str(self.data),
            "init_file": str(self.home / "first.sql"),
            "pid_file": str(self.home / "pid"),
            "port": self.port,
            "socket": str(self.socket),
            "tmpdir": str(self.home / "tmp"),
        }
        command = [*beginning(self.program), "--skip-log-bin", *LAYOUT]
        command += [f"--{name}={_setting(value)}" for name, value in options.items()]
        self._keeper = kept(command, self.home)
        self._wait_until(self._answers, timeout)

    def _answers(self) -> bool:
        """Whether the server greets clients, which it does after running the first statements."""
        # Use the socket in our own directory, because the port may be another server's.
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.settimeout(5)
            probe.connect(str(self.socket))
            return bool(probe.recv(1))
        return False

    def _end(self, by: signal.Signals, timeout: float) -> None:
        with suppress(ProcessLookupError, ServerError):
            os.kill(self.pid, by)
        self._reap(timeout)


@contextmanager
def any_mysql_server() -> Iterator[AnyMysqlServer]:
    """Yield the server in PENSTOCK_TEST_MYSQL, or else one of our own."""
    if url := os.environ.get(EXTERNAL):
        yield ExternalMysqlServer(url)
        return
    with MysqlServer() as server:
        yield server


def mysql_missing() -> str:
    """Return the reason why `any_mysql_server` has no server; empty if it has one."""
    if os.environ.get(EXTERNAL):
        return ""
    try:
        mysql_program()
    except ServerError as error:
        return str(error)
    return ""


def connect_mysql(url: str, **options: Any) -> Any:
    """Return a connection of PyMySQL's, which commits each statement until `begin`.

    Args:
        url: the server's URL.
        options: PyMySQL's options, which override those of the URL.
    """
    parts = urlsplit(url)
    defaults: dict[str, Any] = {
        "host": parts.hostname or HOST,
        "port": parts.port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")) or None,
        "charset": "utf8mb4",
        "autocommit": True,
    }
    return _connection_class()(**{**defaults, **options})


@cache
def _connection_class() -> Any:
    """Return a class of connections that share a TLS context: creating one takes 20 ms of CPU."""
    import pymysql  # noqa: PLC0415 - only for such servers

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    class Connection(pymysql.Connection):  # type: ignore[misc] # PyMySQL has no types
        def _create_ssl_ctx(self, options: Mapping[str, Any]) -> ssl.SSLContext:
            return super()._create_ssl_ctx(options) if options else context

    return Connection


def _setting(value: Setting) -> str:
    return ("OFF", "ON")[value] if isinstance(value, bool) else str(value)
