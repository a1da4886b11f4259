"""Two real servers for the session, and a fresh database on each for every test."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import tempfile
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
import pytest
from hypothesis import settings
from psycopg import pq

from penstock.backends.postgresql.native import _libraries
from penstock.backends.shared.native import native
from penstock.spec.terms import flags
from penstock_testkit import (
    AnyMysqlServer,
    ExternalServer,
    MysqlServer,
    PostgresServer,
    S3Server,
    Server,
    ServerError,
    any_clickhouse_server,
    any_mssql_server,
    any_mysql_server,
    any_snowflake,
    clickhouse_missing,
    connect_clickhouse,
    mssql_missing,
    mysql_missing,
    new_clickhouse_database,
    new_mssql_database,
    new_snowflake_database,
    snowflake_missing,
)
from penstock_testkit.mysql_programs import real_mysql_program
from penstock_testkit.servers import memory_folder

from .shared_nurseries import shared_nurseries
from .skipped import skip_table
from .suites import ALL, CONTRIBUTOR, SLOW, Selection

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

# Keep test files in memory if there is enough of it and programs may run from it: files are synced
# thousands of times.
if (
    "TMPDIR" not in os.environ
    and (folder := memory_folder()) is not None
    and not os.statvfs(folder).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)

# The duration of an example means nothing, because other tests run at the same time.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Tests often look for a value in a message. The hiding of values has tests of its own.
os.environ["PENSTOCK_SHOW_VALUES"] = "errors"

# Tests look for options in messages as the command line spells them, except those of the spelling.
_TERMS = ExitStack()
_TERMS.enter_context(flags())
atexit.register(_TERMS.close)

# A process started in the background ignores SIGINT, and so would every command under test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Connection = psycopg.Connection[tuple[Any, ...]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--suite",
        choices=[CONTRIBUTOR, SLOW, ALL],
        default=ALL,
        help="which tests to run: those of make test, those that it leaves out, or all (default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if (suite := config.getoption("--suite")) != ALL:
        config.pluginmanager.register(Selection(suite))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules and tests from garbage collection, which would search them each time."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


def pytest_unconfigure() -> None:
    gc.unfreeze()  # nanobind takes what is left at the end of the process for leaks


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lines := skip_table(terminalreporter.getreports("skipped")):
        terminalreporter.section("skipped")
        for line in lines:
            terminalreporter.write_line(line)


def native_missing() -> str | None:
    """Return the reason why penstock-native is missing; None if it is installed."""
    if find_spec("penstock_native") is None:
        return "penstock-native is not built: that needs cargo, see CONTRIBUTING.md"
    return None


@pytest.fixture(params=["native", "python"])
def both_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test with native streams, then with streams in Python, both in workers and here."""
    if request.param == "python":
        monkeypatch.setenv("PENSTOCK_NATIVE", "off")
    elif why := native_missing():
        pytest.skip(why)
    else:
        monkeypatch.delenv("PENSTOCK_NATIVE", raising=False)
    _forget_native()
    yield
    _forget_native()


def _forget_native() -> None:
    native.cache_clear()
    _libraries.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _shared_nurseries() -> Iterator[None]:
    with shared_nurseries():
        yield


@contextmanager
def server_for(role: str) -> Iterator[Server]:
    """Return the server that PENSTOCK_TEST_<ROLE> names, or else one of our own."""
    if url := os.environ.get(f"PENSTOCK_TEST_{role}"):
        yield ExternalServer(url)
        return
    # No test cuts the power, so fsync is not needed. An autovacuum is a transaction from outside,
    # which a resumed run has to consider.
    with PostgresServer(fsync=False, settings={"autovacuum": False}) as server:
        yield server


# Takes half as long as copying a database through the log, the default.
FILE_COPY = "STRATEGY file_copy"
# Kept by server. Bare connections of libpq need not be closed.
_admins: WeakKeyDictionary[Server, PGconn] = WeakKeyDictionary()


def _administer(server: Server, statement: str) -> None:
    """Run a statement on the kept connection, or on a new one if that is lost.

    Raises:
        RuntimeError: the server rejects the statement, or cannot be reached.
    """
    for existing in (_admins.pop(server, None), None):
        admin = existing or pq.PGconn.connect(server.url.encode())
        # PostgreSQL 14 has no other way to copy a database.
        text = statement if admin.server_version >= 150000 else statement.replace(FILE_COPY, "")
        result = admin.exec_(text.encode())
        if result.status == pq.ExecStatus.COMMAND_OK:
            _admins[server] = admin
            return
        if existing is None or admin.status == pq.ConnStatus.OK:
            raise RuntimeError(f"{statement}: {admin.get_error_message()}")


@contextmanager
def fresh_database(server: Server, template: str = "template1") -> Iterator[str]:
    """Yield the URL of a new database, and drop it afterwards even if sessions are still connected.

    Args:
        template: the database to copy; no session may be connected to it.
    """
    name = f"test_{uuid.uuid4().hex[:12]}"
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {template} {FILE_COPY}")
    try:
        yield server.url_for(db=name)
    finally:
        _administer(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def source_server() -> Iterator[Server]:
    with server_for("SOURCE") as server:
        yield server


@pytest.fixture(scope="session")
def target_server() -> Iterator[Server]:
    with server_for("TARGET") as server:
        yield server


@contextmanager
def fresh_mysql(server: AnyMysqlServer) -> Iterator[str]:
    """Yield the URL of a new database on a MySQL server, and drop it afterwards."""
    with server.new_database() as url:
        yield url
    # Control tables have a database of their own.
    server.drop_database("penstock")


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[AnyMysqlServer]:
    if why := mysql_missing():
        pytest.skip(why)
    with any_mysql_server() as server:
        yield server


@pytest.fixture(scope="session")
def real_mysql_server() -> Iterator[AnyMysqlServer]:
    """MySQL's own server, where `mysql_server` is MariaDB."""
    try:
        program = real_mysql_program()
    except ServerError as error:
        pytest.skip(str(error))
    with MysqlServer(program=program) as server:
        yield server


@contextmanager
def fresh_clickhouse(server: str, name: str = "") -> Iterator[str]:
    """Yield the URL of a new database on a ClickHouse server, and drop it afterwards."""
    with new_clickhouse_database(server, name) as url:
        yield url
        with closing(connect_clickhouse(server)) as client:
            # Control tables have a database of their own.
            client.command("DROP DATABASE IF EXISTS penstock")


@pytest.fixture(scope="session")
def clickhouse_server() -> Iterator[str]:
    """Return the URL of a server on which tests may create databases."""
    if why := clickhouse_missing():
        pytest.skip(why)
    with any_clickhouse_server() as url:
        yield url


@pytest.fixture
def clickhouse_url(clickhouse_server: str) -> Iterator[str]:
    with fresh_clickhouse(clickhouse_server) as url:
        yield url


@pytest.fixture(scope="session")
def mssql_server() -> Iterator[str]:
    """Return the URL of a server on which tests may create databases."""
    if why := mssql_missing():
        pytest.skip(why)
    with any_mssql_server() as url:
        yield url


@pytest.fixture(scope="session")
def snowflake_account() -> Iterator[str]:
    """Return the URL of an account, or of its emulator, in which tests may create databases."""
    if why := snowflake_missing():
        pytest.skip(why)
    with any_snowflake() as url:
        yield url


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Yield one server for all tests; each creates a bucket of its own."""
    with S3Server() as server:
        yield server


@pytest.fixture
def source_url(source_server: Server) -> Iterator[str]:
    with fresh_database(source_server) as url:
        yield url


@pytest.fixture
def target_url(target_server: Server) -> Iterator[str]:
    with fresh_database(target_server) as url:
        yield url


@pytest.fixture
def mysql_url(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with fresh_mysql(mysql_server) as url:
        yield url


@pytest.fixture
def mssql_url(mssql_server: str) -> Iterator[str]:
    with new_mssql_database(mssql_server) as url:
        yield url


@pytest.fixture
def snowflake_url(snowflake_account: str) -> Iterator[str]:
    with new_snowflake_database(snowflake_account) as url:
        yield url


@pytest.fixture
def source(source_url: str) -> Iterator[Connection]:
    with psycopg.connect(source_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def target(target_url: str) -> Iterator[Connection]:
    with psycopg.connect(target_url, autocommit=True) as connection:
        yield connection
