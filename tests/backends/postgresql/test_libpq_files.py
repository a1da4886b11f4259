"""Password files, services and the system's certificates: as libpq has them, in workers too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, pq, sql

from penstock import UsageError
from penstock.engine.connections import added_secrets, resolve
from penstock_testkit import PostgresServer, installed

from ...cli import run_cli
from ...faults.tls import speak_tls

PASSWORD = "Zz9 p@ss"
WRONG = "Zz9 wrong"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=PASSWORD) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
        yield server


@pytest.fixture(scope="module")
def tls_server() -> Iterator[PostgresServer]:
    """Yield a server of Debian's PostgreSQL; that of the test environment lacks TLS."""
    if not (programs := installed()):
        pytest.skip("no PostgreSQL in /usr/lib/postgresql; postgresql-15 of Debian would do")
    with PostgresServer(fsync=False, programs=programs[max(programs)]) as server:
        speak_tls(server)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
        yield server


@pytest.fixture
def home(tmp_path: Path, server: PostgresServer) -> Path:
    """A user's files: a password for any host, and services."""
    address = f"host=127.0.0.1\nport={server.port}\nuser=postgres\ndbname=postgres\n"
    (tmp_path / ".pgpass").write_text(f"127.0.0.1:{server.port}:*:postgres:{PASSWORD}\n")
    (tmp_path / ".pgpass").chmod(0o600)
    (tmp_path / ".pg_service.conf").write_text(
        f"[shop]\n{address}password={PASSWORD}\n[bare]\n{address}"
        f"[balanced]\n{address}load_balance_hosts=random\n"
    )
    return tmp_path


def copied(server: PostgresServer, url: str, **environ: str) -> str:
    """Copy a table by two workers; return what was shown if that failed."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
        connection.execute("DROP TABLE IF EXISTS copied")
        connection.execute("CREATE TABLE copied (id int)")
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(("PG", "SSL_CERT"))}
    # Without a home of their own, cases would find the files of the machine's user.
    env = {**inherited, "HOME": "/nonexistent", **environ}
    words = ["--source", url, "--target", url, "--target-table", "public.copied", "--run-id", "r"]
    words += ["--table", "public.t", "--partitions", "3", "--strategy", "ctid", "--degree", "2"]
    ended = run_cli("copy", *words, env=env)
    shown = ended.stdout + ended.stderr
    assert PASSWORD not in shown
    if ended.returncode:
        return shown
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM copied").fetchone() == (1000,)
        for table in ("run", "commit_record"):
            query = sql.SQL("SELECT t::text FROM penstock.{} AS t").format(sql.Identifier(table))
            assert PASSWORD not in str(connection.execute(query).fetchall())
        # Each partition was copied by a worker, with a session of its own on each side.
        records = connection.execute("SELECT count(*) FROM penstock.commit_record").fetchone()
        assert records == (3,)
    return ""


def bare(server: PostgresServer, host: str = "127.0.0.1") -> str:
    return f"postgresql://postgres@{host}:{server.port}/postgres"


CASES: dict[str, tuple[str, dict[str, str]]] = {
    "~/.pgpass": ("{bare}", {"HOME": "{home}"}),
    "PGPASSFILE": ("{bare}", {"PGPASSFILE": "{home}/.pgpass"}),
    "passfile": ("{bare}?passfile={home}/.pgpass", {}),
    "~/.pg_service.conf": ("postgresql:///?service=shop", {"HOME": "{home}"}),
    "PGSERVICEFILE": (
        "postgresql:///?service=shop",
        {"PGSERVICEFILE": "{home}/.pg_service.conf"},
    ),
    "PGSERVICE": ("postgresql://", {"PGSERVICE": "shop", "HOME": "{home}"}),
    "a service and ~/.pgpass": ("postgresql:///?service=bare", {"HOME": "{home}"}),
    "a service and PGPASSWORD": (
        "postgresql:///?service=bare",
        {"PGSERVICEFILE": "{home}/.pg_service.conf", "PGPASSWORD": PASSWORD},
    ),
    # The password of another server, such as of the other end.
    "a service's password, not PGPASSWORD": (
        "postgresql:///?service=shop",
        {"HOME": "{home}", "PGPASSWORD": WRONG},
    ),
    "a service's password for a named host": (
        "postgresql://127.0.0.1/?service=shop",
        {"HOME": "{home}", "PGPASSWORD": WRONG},
    ),
    "a balanced service": ("postgresql:///?service=balanced", {"HOME": "{home}"}),
}


@pytest.mark.parametrize(("url", "environ"), CASES.values(), ids=CASES)
def test_workers_log_in_by_the_users_files(
    server: PostgresServer, home: Path, url: str, environ: dict[str, str]
) -> None:
    words = {"home": home, "bare": bare(server)}
    filled = {name: value.format(**words) for name, value in environ.items()}
    assert copied(server, url.format(**words), **filled) == ""


def test_without_a_file_the_server_refuses(server: PostgresServer) -> None:
    assert "no password supplied" in copied(server, bare(server))


def test_a_missing_service_is_named(server: PostgresServer, home: Path) -> None:
    shown = copied(server, "postgresql:///?service=stop", HOME=str(home))
    assert 'definition of service "stop" not found' in shown


def test_a_password_file_that_others_can_read_is_not_used(
    server: PostgresServer, home: Path
) -> None:
    (home / ".pgpass").chmod(0o644)
    assert "has group or world access" in copied(server, bare(server), HOME=str(home))


def test_a_balanced_service_leads_to_one_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(home / ".pg_service.conf"))
    url, *_ = resolve("postgresql:///?service=balanced", "--source")
    assert conninfo.conninfo_to_dict(url)["load_balance_hosts"] == "disable"


class TestTheSystemsCertificates:
    def test_are_used_by_workers_too(self, tls_server: PostgresServer) -> None:
        certificate = str(tls_server.data / "server.crt")
        url = f"{bare(tls_server, 'localhost')}?sslrootcert=system"
        assert copied(tls_server, url, SSL_CERT_FILE=certificate) == ""

    def test_do_not_vouch_for_any_server(self, tls_server: PostgresServer) -> None:
        url = f"{bare(tls_server, 'localhost')}?sslrootcert=system"
        assert "certificate verify failed" in copied(tls_server, url)

    def test_name_the_server(self, tls_server: PostgresServer) -> None:
        certificate = str(tls_server.data / "server.crt")
        url = f"{bare(tls_server)}?sslrootcert=system"
        shown = copied(tls_server, url, SSL_CERT_FILE=certificate)
        assert 'certificate for "localhost"' in shown

    def test_need_a_mode_that_checks_them(self, tls_server: PostgresServer) -> None:
        url = f"{bare(tls_server)}?sslrootcert=system&sslmode=require"
        assert 'weak sslmode "require" may not be used' in copied(tls_server, url)

    def test_are_found_by_the_wheels_of_psycopg(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Their OpenSSL looks in a folder of the machine that built it."""
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "PGSSLMODE", "PGSSLROOTCERT"):
            monkeypatch.delenv(name, raising=False)
        if pq.__impl__ != "binary":
            pytest.skip("psycopg uses the system's libpq")
        url, *_ = resolve("postgresql://h/d?sslrootcert=system", "--source")
        parts = conninfo.conninfo_to_dict(url)
        assert "BEGIN CERTIFICATE" in Path(str(parts["sslrootcert"])).read_text()
        assert parts["sslmode"] == "verify-full"
        # As libpq: a weaker mode is refused.
        url, *_ = resolve("postgresql://h/d?sslrootcert=system&sslmode=require", "--source")
        assert conninfo.conninfo_to_dict(url)["sslrootcert"] == "system"


def test_a_found_file_sends_no_services_password_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(home / ".pg_service.conf"))
    environ = dict(os.environ)
    assert added_secrets("postgresql:///?service=shop", environ) == []
    with pytest.raises(UsageError):
        added_secrets("postgresql://[", environ)
    found = added_secrets("postgresql://elsewhere.example/?service=shop", environ)
    assert found == ["a password in a file of yours"]
