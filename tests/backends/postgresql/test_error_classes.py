"""Server errors, and whether retrying can help."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from penstock import CopySpec, PenstockError, PermanentError, TransientError, copy
from penstock.backends.postgresql.connection import connect
from penstock.backends.postgresql.errors import from_connecting, translated
from penstock.errors import TooManyConnections
from penstock.events import Failed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.backends.conftest import Pair

RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = {}, MESSAGE = {}; END $$"


@pytest.mark.parametrize(
    ("state", "words", "transient"),
    [
        ("XX000", "tuple concurrently updated", True),
        ("XX000", "tuple concurrently deleted", True),
        ("XX000", "cache lookup failed for relation 16385", True),
        ("XX000", "could not open relation with OID 16385", True),
        ("XX000", "unrecognized node type: 4711", False),
        ("XX001", "invalid page in block 1 of relation base/5/16385", False),
        # Errors raised by user code.
        ("P0001", "cache lookup failed for relation 16385", False),
    ],
)
def test_a_servers_error_is_classified(pair: Pair, state: str, words: str, transient: bool) -> None:
    with pytest.raises(PenstockError) as caught, translated("target", table="public.item"):
        pair.target.connection.execute(sql.SQL(RAISE).format(state, words))
    assert caught.value.transient is transient
    assert caught.value.diagnosis.code == state
    assert ("recreated or altered public.item" in caught.value.message) is transient


FATAL = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:  '


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (FATAL + "sorry, too many clients already", TooManyConnections),
        (FATAL + 'too many connections for role "me"', TooManyConnections),
        (FATAL + "no more connections allowed (max_client_conn)", TooManyConnections),
        (FATAL + "query_wait_timeout", TooManyConnections),
        (FATAL + "the database system is starting up", TransientError),
        (FATAL + "the database system is not accepting connections", TransientError),
        (FATAL + "cannot connect now", TransientError),
        (FATAL + "out of memory DETAIL:  Failed on request of size 8192", TransientError),
        (FATAL + "canceling authentication due to timeout", TransientError),
        (FATAL + "client_login_timeout", TransientError),
        (FATAL + "server login has been failing, cached error: connect failed", TransientError),
        (
            FATAL + "server login has been failing, cached error: password authentication failed",
            PermanentError,
        ),
        (
            FATAL.replace("FATAL:  ", "could not fork new process for connection: Cannot allocate"),
            TransientError,
        ),
        (
            FATAL.replace("FATAL:  ", "server sent an error response during SSL exchange"),
            TransientError,
        ),
        (FATAL.replace("FATAL:  ", "SSL SYSCALL error: EOF detected"), TransientError),
        (FATAL.replace("FATAL:  ", "Connection refused"), TransientError),
        (FATAL.replace("FATAL:  ", "server does not support SSL"), PermanentError),
        (FATAL + 'database "x" is not currently accepting connections', PermanentError),
        (FATAL + 'password authentication failed for user "me"', PermanentError),
    ],
)
def test_a_connection_error_of_a_server_or_pooler_is_classified(
    words: str, kind: type[PenstockError]
) -> None:
    found = from_connecting(psycopg.OperationalError(words), "source")
    assert type(found) is kind


@pytest.mark.parametrize(
    "parameters",
    [
        "service=nosuch",
        "target_session_attrs=bogus",
        "sslmode=bogus",
        "keepalives=many",
        "connect_timeout=long",
        "channel_binding=require",
        "require_auth=bogus",
        "port=99999",
    ],
)
def test_refused_parameters_are_a_permanent_error(pair: Pair, parameters: str) -> None:
    with pytest.raises(PermanentError):
        connect(f"{pair.source.url}?{parameters}", "source", "penstock:test")


def test_an_unreachable_server_is_a_transient_error(tmp_path: Path) -> None:
    for url in ("postgresql://127.0.0.1:1/x", f"postgresql:///x?host={tmp_path}"):
        with pytest.raises(TransientError):
            connect(url, "source", "penstock:test")


def test_two_sessions_create_the_same_schema(pair: Pair) -> None:
    with psycopg.connect(pair.target.url) as other:
        other.execute("CREATE SCHEMA made")
        threading.Timer(0.5, other.commit).start()
        with pytest.raises(PenstockError) as caught, translated("target"):
            pair.target.connection.execute("CREATE SCHEMA IF NOT EXISTS made")
    assert caught.value.diagnosis.code == "23505"
    assert caught.value.transient


def test_a_duplicate_key_is_a_permanent_error(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with pytest.raises(PenstockError) as caught, translated("target"):
        pair.target.connection.execute("INSERT INTO t VALUES (1)")
    assert not caught.value.transient


def test_text_not_in_the_encoding_of_its_database(source_url: str, target_url: str) -> None:
    """The database does not validate its text; the sending server detects it."""
    base, name = source_url.rpartition("/")[0], "unchecked"
    statement = f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(f"{statement} TEMPLATE template0".encode())
        try:
            with psycopg.connect(f"{base}/{name}", autocommit=True) as unchecked:
                unchecked.execute(
                    "CREATE TABLE t AS SELECT 1 AS id, convert_from('\\xe4f6', 'SQL_ASCII') AS s"
                )
            spec = CopySpec(
                source=f"{base}/{name}", target=target_url, table="public.t", mode="recreate"
            )
            events = copy(spec)
            failed = next(event for event in events if isinstance(event, Failed))
            assert "expected text in UTF-8" in failed.error["message"]
            with pytest.raises(PenstockError):
                list(events)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
