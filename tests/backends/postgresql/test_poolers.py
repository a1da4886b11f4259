"""Both servers behind pgbouncer, which may give each transaction another session."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_args

import psycopg
import pytest
from tests.conftest import fresh_database

from penstock import CopySpec, copy, resume, tune
from penstock.backends.postgresql.connection import connect
from penstock.backends.postgresql.errors import translated
from penstock.errors import (
    PermanentError,
    PlanningError,
    TargetChanged,
    TooManyConnections,
    TransientError,
)
from penstock.events import Committed, Finished
from penstock.spec.masking_keys import inner, read_key
from penstock_testkit import PgBouncer, PoolMode, PostgresServer, pgbouncer_program

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

pytestmark = pytest.mark.skipif(pgbouncer_program() is None, reason="pgbouncer is not installed")

ROWS = """INSERT INTO t SELECT n, 'name ' || n, timestamptz '2026-01-01 00:00:00+00' + n * interval
    '1 hour', n / 3.0::float8, '\\xff'::bytea, n * interval '1 hour 1 day'
    FROM generate_series(1, 3000) AS n"""


@pytest.fixture(scope="module", params=get_args(PoolMode))
def pooled(request: pytest.FixtureRequest) -> Iterator[tuple[PostgresServer, PgBouncer]]:
    # Settings that a session must change, so that texts mean the same on both sides.
    settings = {
        "timezone": "Asia/Tokyo",
        "datestyle": "German",
        "intervalstyle": "iso_8601",
        "extra_float_digits": "0",
        "bytea_output": "escape",
    }
    with (
        PostgresServer(fsync=False, settings=settings) as server,
        PgBouncer(server, request.param) as bouncer,
    ):
        yield server, bouncer


@pytest.fixture
def behind(
    pooled: tuple[PostgresServer, PgBouncer], make_pair: Callable[..., Pair]
) -> Iterator[tuple[Pair, dict[str, str]]]:
    """A pair with direct connections, and its URLs through the pooler."""
    server, bouncer = pooled
    with (
        fresh_database(server) as source,
        fresh_database(server) as target,
        psycopg.connect(source, autocommit=True) as mine,
        psycopg.connect(target, autocommit=True) as theirs,
    ):
        pair = make_pair(source, target, mine, theirs)
        pair.both(
            "CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz, half float8,"
            " raw bytea, wait interval)"
        )
        pair.source.run(ROWS, "ANALYZE t")
        urls = {"source": bouncer.url_for(source), "target": bouncer.url_for(target)}
        yield pair, urls


@pytest.mark.parametrize("snapshot", ["shared", "none"])
def test_the_mask_key_is_set_only_in_the_transaction_that_reads(
    behind: tuple[Pair, dict[str, str]], monkeypatch: pytest.MonkeyPatch, snapshot: str
) -> None:
    """The pooler lends the session to other clients afterwards."""
    pair, urls = behind
    monkeypatch.setenv("SALT", "pepper")
    pair.copy(
        **urls,
        mode="recreate",
        mask=("name=hmac:env:SALT",),
        partitions=3,
        key="id",
        snapshot=snapshot,
        verify="checksums",
    )
    expected = hmac.new(b"pepper", b"name 7", hashlib.sha256).hexdigest()
    assert pair.target.value("SELECT name FROM t WHERE id = 7") == expected
    with psycopg.connect(urls["source"], autocommit=True, prepare_threshold=None) as other:
        proof = f"penstock.{inner(read_key('SALT'))}"
        (found,) = other.execute("SELECT current_setting(%s, true)", [proof]).fetchone() or ("",)
        assert not found


def test_settings_apply_in_every_transaction(
    behind: tuple[Pair, dict[str, str]],
) -> None:
    _, urls = behind
    seen = set()
    others = [
        psycopg.connect(urls["source"], autocommit=True, prepare_threshold=None) for _ in range(3)
    ]
    connection = connect(urls["source"], "source", "penstock:test")
    for _ in range(6):
        for other in others:
            other.execute("SELECT 1")
        row = connection.execute(
            "SELECT pg_backend_pid(), current_setting('intervalstyle'),"
            " current_setting('extra_float_digits'), current_setting('transaction_read_only'),"
            " current_setting('row_security'), current_setting('timezone'),"
            " current_setting('application_name')"
        ).fetchone()
        assert row is not None
        assert row[1:] == ("postgres", "3", "on", "off", "UTC", "penstock:test")
        seen.add(row[0])
    for other in (connection, *others):
        other.close()
    # No setting leaks to other clients.
    with psycopg.connect(urls["source"], autocommit=True, prepare_threshold=None) as other:
        for _ in range(6):
            assert other.execute("SHOW intervalstyle").fetchone() == ("iso_8601",)
            assert other.execute("SHOW default_transaction_read_only").fetchone() == ("off",)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "ctid", "partitions": 6},
        {"strategy": "range", "key": "at", "partitions": 6, "snapshot": "none"},
        {"strategy": "values", "key": "half::int % 5"},
        {"strategy": "ntile", "key": "half", "partitions": 6, "mode": "replace"},
        {"strategy": "time", "key": "at", "interval": "1 month", "mode": "truncate"},
        {"table": None, "query": "TABLE t", "target_table": "public.t", "key": "wait::text",
         "strategy": "hash", "partitions": 3},
    ],
)  # fmt: skip
@pytest.mark.usefixtures("both_paths")
def test_a_table_is_copied_through_the_pooler(
    behind: tuple[Pair, dict[str, str]], options: dict[str, Any]
) -> None:
    pair, urls = behind
    *_, report = copy(CopySpec(**{"table": "public.t", "degree": 3, **urls, **options}))
    assert isinstance(report, Finished)
    assert report.status == "done"
    pair.assert_same()


def test_a_run_is_resumed_and_verified_through_the_pooler(
    behind: tuple[Pair, dict[str, str]],
) -> None:
    pair, urls = behind
    ends: dict[str, Any] = {**urls}
    events = copy(pair.spec(partitions=6, run_id="r", **ends))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    # Source and target are one server here, so the snapshot includes the target's transactions.
    *_, report = resume("r", **ends, on_snapshot_lost="accept")
    assert isinstance(report, Finished)
    assert report.status == "done"
    pair.assert_same()
    done = pair.cli("verify", "r", "--source", urls["source"], "--target", urls["target"])
    assert done.returncode == 0, done.stdout


def test_another_run_empties_the_table(behind: tuple[Pair, dict[str, str]]) -> None:
    """Sessions of a pooler neither show that a run is executing, nor keep its locks."""
    pair, urls = behind
    ends: dict[str, Any] = {**urls}
    events = copy(pair.spec(partitions=6, run_id="r", **ends))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    list(copy(pair.spec(partitions=3, mode="truncate", **ends)))
    with pytest.raises(TargetChanged, match="was truncated or rewritten after run r"):
        list(resume("r", **ends, on_snapshot_lost="accept"))
    pair.assert_same()
    assert pair.target.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_an_older_attempt_is_ended(behind: tuple[Pair, dict[str, str]]) -> None:
    pair, urls = behind
    with psycopg.connect(urls["target"], autocommit=True, prepare_threshold=None) as older:
        # Through the pooler too, as a worker that was suspended in mid-stream.
        older.execute("BEGIN")
        older.execute("SELECT set_config('application_name', 'penstock:r:p0001:1', true)")
        older.execute("SELECT pg_advisory_xact_lock(hashtextextended('penstock:r:p0001', 0))")
        report = pair.copy(**urls, partitions=2, run_id="r", grace=1.0)
        with pytest.raises(psycopg.OperationalError):
            older.execute("SELECT 1")
    assert report.partitions == 2
    pair.assert_same()


@pytest.fixture(scope="module")
def plain_server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False) as server:
        yield server


def test_a_reached_client_limit_is_reported_as_too_many_connections(
    plain_server: PostgresServer,
) -> None:
    with PgBouncer(plain_server, "transaction", settings={"max_client_conn": 1}) as bouncer:
        url = bouncer.url_for(plain_server.url)
        with (
            psycopg.connect(url, prepare_threshold=None),
            pytest.raises(TooManyConnections, match="no more connections"),
        ):
            connect(url, "source", "penstock:test")


def test_a_long_wait_for_a_session_is_reported_as_too_many_connections(
    plain_server: PostgresServer,
) -> None:
    settings = {"query_wait_timeout": 1}
    with PgBouncer(plain_server, "transaction", 1, settings) as bouncer:
        url = bouncer.url_for(plain_server.url)
        with psycopg.connect(url, prepare_threshold=None) as other:
            other.execute("SELECT 1")  # has the only session
            with (
                closing(connect(url, "source", "penstock:test")) as mine,
                pytest.raises(TooManyConnections, match="query_wait_timeout"),
            ):
                mine.execute("SELECT 1")


def test_the_server_behind_the_pooler_is_down() -> None:
    settings = {"query_wait_timeout": 2, "server_login_retry": 1}
    with (
        PostgresServer(fsync=False) as server,
        PgBouncer(server, "session", settings=settings) as bouncer,
    ):
        url = bouncer.url_for(server.url)
        connect(url, "source", "penstock:test").close()
        server.stop("immediate")
        for _ in range(2):  # from then on it repeats the error it got
            with (
                pytest.raises(TransientError),
                closing(connect(url, "source", "penstock:test")) as mine,
            ):
                mine.execute("SELECT 1")


def test_statement_pooling_is_refused(plain_server: PostgresServer) -> None:
    with (
        PgBouncer(plain_server, "statement") as bouncer,
        pytest.raises(
            PermanentError, match="keeps a server session for at least a whole transaction"
        ),
        closing(connect(bouncer.url_for(plain_server.url), "source", "penstock:test")) as mine,
        translated("source"),
    ):
        mine.begin()


def test_tune_requires_a_direct_connection(behind: tuple[Pair, dict[str, str]]) -> None:
    _, urls = behind
    spec = CopySpec(source=urls["source"], target=urls["target"], table="public.t")
    with pytest.raises(PlanningError, match="found a pooler"):
        next(tune(spec))
