"""The test kit with real servers: tests of Penstock rely on each of its promises."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from penstock_testkit import ExternalServer, PostgresServer, Server, ServerError, TcpProxy, tpch
from penstock_testkit.identity import RunAs


def eventually(condition: Callable[[], bool], timeout: float = 60) -> bool:
    deadline = time.monotonic() + timeout
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def count(url: str, table: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row is not None
        return row[0]


class TestPostgresServer:
    def test_keeps_port_and_data_over_stop_restart_and_kill(self) -> None:
        with PostgresServer(settings={"work_mem": "8MB", "jit": False}) as server:
            url = server.url
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
                shown = connection.execute("SELECT current_setting('work_mem')").fetchone()
                assert shown == ("8MB",)
            server.restart("fast")
            server.restart("immediate")
            family = psutil.Process(server.pid).children(recursive=True)
            server.kill()
            assert not server.running
            assert not any(alive(process.pid) for process in family)
            server.start()
            assert server.url == url
            assert count(server.socket_url, "kept") == 1
            assert "database system is ready" in server.log_tail()
            home = server.home
        assert not home.exists()
        with pytest.raises(ServerError, match="not running"):
            _ = server.pid

    def test_may_require_a_password(self) -> None:
        with PostgresServer(fsync=False, password="s3:cret/@") as server:
            assert count(server.url, "pg_class")
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(server.url_for(password="wrong"))

    @pytest.mark.parametrize("run_as", ["namespace", "user"])
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root needs to become somebody else")
    def test_root_can_run_it_as_another_user(self, run_as: RunAs) -> None:
        try:
            server = PostgresServer(fsync=False, run_as=run_as)
            server.start()
        except (RuntimeError, OSError) as error:
            pytest.skip(f"not possible on this machine: {error}")
        with server:
            assert count(server.url, "pg_class")

    def test_does_not_outlive_a_parent_that_is_killed(self) -> None:
        script = (
            "import time\n"
            "from penstock_testkit import PostgresServer\n"
            "server = PostgresServer(fsync=False)\n"
            "server.start()\n"
            "print(server.pid, server.home, flush=True)\n"
            "time.sleep(60)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        ) as owner:
            assert owner.stdout is not None
            pid, home = owner.stdout.readline().split()
            assert alive(int(pid))
            owner.send_signal(signal.SIGKILL)
        assert eventually(lambda: not alive(int(pid)))
        assert eventually(lambda: not Path(home).exists())

    def test_reports_why_it_does_not_start(self) -> None:
        server = PostgresServer(settings={"shared_buffers": "nonsense"})
        with pytest.raises(ServerError, match='invalid value for parameter "shared_buffers"'):
            server.start()
        server.close()

    def test_survives_the_thread_that_started_it(self) -> None:
        server = PostgresServer(fsync=False)
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()
        with server:
            assert count(server.url, "pg_class")

    def test_finds_its_programs(self) -> None:
        server = PostgresServer()
        shown = subprocess.run([server.psql, "--version"], capture_output=True, check=True)
        assert shown.stdout.startswith(b"psql (PostgreSQL) 18.")
        with pytest.raises(FileNotFoundError, match="nosuch"):
            server.bin("nosuch")

    def test_creates_urls(self) -> None:
        server = ExternalServer("postgresql://me:pw@db.example:5433/main?sslmode=require")
        assert server.url_for(db="a b") == (
            "postgresql://me:pw@db.example:5433/a%20b?sslmode=require"
        )
        assert server.url_for(user="u@x", password="p/w") == (
            "postgresql://u%40x:p%2Fw@db.example:5433/main?sslmode=require"
        )


class TestTpch:
    def test_loads_real_types_and_all_rows(self, source_url: str) -> None:
        rows = tpch.load(source_url, tpch.TABLES, 0.01, schema="t", primary_keys=True)
        assert rows["lineitem"] == count(source_url, "t.lineitem") == 60175
        assert rows["region"] == 5
        with psycopg.connect(source_url) as connection:
            first = connection.execute(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 't.lineitem'::regclass AND attname IN"
                " ('l_orderkey', 'l_quantity', 'l_shipmode', 'l_shipdate', 'l_comment')"
                " ORDER BY attnum"
            ).fetchall()
            estimate = connection.execute(
                "SELECT reltuples FROM pg_class WHERE oid = 't.lineitem'::regclass"
            ).fetchone()
        assert [name for (name,) in first] == [
            "bigint",
            "numeric(15,2)",
            "date",
            "character(10)",
            "character varying(44)",
        ]
        assert estimate == (60175,)

    def test_lineitem_has_a_primary_key_only_on_request(self, source_url: str) -> None:
        tpch.create(source_url, unlogged=True)
        with psycopg.connect(source_url) as connection:
            found = connection.execute(
                "SELECT relhasindex, relpersistence FROM pg_class WHERE relname = 'lineitem'"
            ).fetchone()
        assert found == (False, "u")

    def test_caches_its_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
        with tpch.csv_files(["nation"], 0.001) as first:
            before = first["nation"].stat().st_mtime_ns
        with tpch.csv_files(["nation", "region"], 0.001) as second:
            assert second["nation"].stat().st_mtime_ns == before
        folder = first["nation"].parent
        assert sorted(path.name for path in folder.iterdir()) == ["nation.csv", "region.csv"]

    def test_works_without_a_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
        with tpch.csv_files(["nation"], 0.001) as files:
            assert files["nation"].exists()
        assert not files["nation"].exists()

    def test_lists_its_tables(self) -> None:
        with pytest.raises(ValueError, match="no table 'nosuch'; it has region"):
            tpch.create("postgresql://nowhere", ["nosuch"])


class Echo:
    """A server that echoes its input, and keeps it."""

    def __init__(self) -> None:
        self.received = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while block := connection.recv(65536):
                    self.received += block
                    connection.sendall(block)
            except OSError:
                return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", echo.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        yield client


def read(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (block := client.recv(size - len(got))):
        got += block
    return got


class TestTcpProxy:
    def test_forwards_large_amounts_both_ways_and_half_closes(self, client: socket.socket) -> None:
        data = os.urandom(3_000_000)
        got: list[bytes] = []
        reader = threading.Thread(target=lambda: got.append(read(client, len(data) + 1)))
        reader.start()
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        reader.join()
        assert got == [data]

    def test_cuts_with_a_reset(self, proxy: TcpProxy, client: socket.socket) -> None:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        assert proxy.cut() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert proxy.connections == 0

    def test_cuts_after_a_number_of_bytes(
        self, proxy: TcpProxy, echo: Echo, client: socket.socket
    ) -> None:
        proxy.cut_after(1000, "to_server")
        client.sendall(b"x" * 400)
        assert read(client, 400) == b"x" * 400
        client.sendall(b"y" * 5000)
        with pytest.raises(ConnectionResetError):
            read(client, 10_000)
        assert eventually(lambda: len(echo.received) == 1000)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as again:
            again.sendall(b"z" * 2000)
            assert read(again, 2000) == b"z" * 2000

    def test_freezes_and_thaws_without_loss(self, proxy: TcpProxy, client: socket.socket) -> None:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.freeze()
        client.sendall(b"b")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.thaw()
        client.settimeout(60)
        assert client.recv(1) == b"b"

    def test_rejects_only_new_connections(self, proxy: TcpProxy, client: socket.socket) -> None:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))
        client.sendall(b"b")
        assert client.recv(1) == b"b"
        proxy.refuse(False)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as again:
            again.sendall(b"c")
            assert again.recv(1) == b"c"

    def test_finds_a_split_needle_before_it_passes(
        self, proxy: TcpProxy, echo: Echo, client: socket.socket
    ) -> None:
        seen: list[bytes] = []
        proxy.on_bytes(b"COMMIT", "to_server", lambda: seen.append(echo.received))
        for piece in (b"..CO", b"MM", b"IT;COMMIT"):
            client.sendall(piece)
            assert read(client, len(piece)) == piece
        assert seen == [b"..COMM"]

    def test_finds_every_needle_in_one_direction(
        self, proxy: TcpProxy, client: socket.socket
    ) -> None:
        seen: list[int] = []
        proxy.on_bytes(b"aa", "to_client", lambda: seen.append(1), once=False)
        for _ in range(3):
            client.sendall(b"baa")
            assert read(client, 3) == b"baa"
        assert len(seen) == 3

    def test_a_callback_may_cut(self, proxy: TcpProxy, echo: Echo, client: socket.socket) -> None:
        proxy.on_bytes(b"stop", "to_server", proxy.cut)
        client.sendall(b"stop")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert echo.received == b""

    def test_raises_the_error_of_a_callback(self, echo: Echo) -> None:
        def fail() -> None:
            raise OSError("from the callback")

        proxy = TcpProxy("127.0.0.1", echo.port)
        proxy.on_bytes(b"x", "to_server", fail)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            client.sendall(b"x")
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(OSError, match="from the callback"):
            proxy.close()

    def test_resets_connections_if_the_server_is_unreachable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with (
            TcpProxy("127.0.0.1", port) as proxy,
            # The reset may come during the connect.
            pytest.raises(ConnectionResetError),
            socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
        ):
            client.recv(1)

    def test_can_separate_copy_from_commit(
        self, target_server: Server, target_url: str, target: psycopg.Connection[object]
    ) -> None:
        target.execute("CREATE TABLE t (n int)")
        with (
            TcpProxy.of(target_server.url) as proxy,
            psycopg.connect(proxy.url(target_url)) as writer,
            writer.cursor() as cursor,
        ):
            proxy.on_bytes(b"COMMIT\0", "to_server", proxy.cut)
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write("1\n2\n")
            assert cursor.rowcount == 2
            with pytest.raises(psycopg.OperationalError):
                writer.commit()
        assert count(target_url, "t") == 0
