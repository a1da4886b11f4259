"""`?ssh=user@bastion`: sessions through the system's ssh and a real sshd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from penstock import CopySpec, UsageError, copy, holds_secret, place_of
from penstock.backends.shared.tunnels import MARK, entrance
from penstock.engine.connections import resolve
from penstock.errors import PermanentError, TransientError
from penstock.events import Committed, Event, Finished
from penstock.spec.references import redact
from penstock_testkit import PostgresServer, installed
from penstock_testkit.waiting import until

from ...cli import Cli, run_cli
from ...faults.tls import speak_tls
from ...ssh_bastion import Bastion, sshd_missing

pytestmark = pytest.mark.skipif(bool(sshd_missing()), reason=sshd_missing())
PASSWORD = "Zz9 secret"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=PASSWORD) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 100000) AS id")
            connection.execute("CREATE TABLE copied (id int)")
        yield server


@pytest.fixture
def bastion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bastion]:
    with Bastion(tmp_path) as bastion:
        monkeypatch.setenv("PATH", bastion.environ["PATH"])
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        yield bastion
        for client in bastion.clients():
            client.kill()  # those of this process, which goes on


def url_of(server: PostgresServer, ssh: str = "bastion", host: str = "127.0.0.1") -> str:
    return f"postgresql://postgres@{host}:{server.port}/postgres?ssh={ssh}"


def words(url: str) -> list[str]:
    target = ["--target-table", "public.copied", "--mode", "truncate"]
    several = ["--partitions", "6", "--strategy", "ctid", "--degree", "2"]
    return ["--source", url, "--target", url, "--table", "public.t", *target, *several]


def gone(bastion: Bastion) -> None:
    """Wait until no ssh is left."""
    until(lambda: not bastion.clients() or None, 20, lambda: f"left: {bastion.clients()}")


def count(server: PostgresServer) -> int:
    with psycopg.connect(server.url) as admin:
        row = admin.execute("SELECT count(DISTINCT id) FROM copied").fetchone()
        assert row is not None
        return int(row[0])


def test_one_ssh_carries_all_sessions(server: PostgresServer, bastion: Bastion) -> None:
    ended = run_cli("copy", *words(url_of(server)))
    assert ended.returncode == 0, ended.stderr
    assert count(server) == 100_000
    assert bastion.logins == 1
    # Two workers have two sessions each, beside those that plan and record.
    assert bastion.sessions >= 5
    assert ended.stderr.count("ssh ") == 0
    gone(bastion)


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_master_that_is_killed_is_started_again(
    server: PostgresServer, bastion: Bastion, end: str
) -> None:
    """With the source's, the snapshot is lost, as with any of its sessions that holds it."""
    spec = CopySpec(
        source=url_of(server) if end == "source" else server.url,
        target=url_of(server) if end == "target" else server.url,
        table="public.t",
        target_table="public.copied",
        mode="truncate",
        partitions=8,
        strategy="ctid",
        degree=2,
        on_snapshot_lost="accept" if end == "source" else "fail",
    )
    event: Event | None = None
    killed = 0
    for event in copy(spec):
        if isinstance(event, Committed) and not killed:
            for client in bastion.clients():
                client.kill()
                killed += 1
    assert killed == 1
    assert isinstance(event, Finished)
    assert count(server) == 100_000
    assert bastion.logins == 2


class TestEnds:
    @pytest.fixture
    def copying(self, server: PostgresServer, bastion: Bastion, tmp_path: Path) -> Iterator[Cli]:
        """A copy that waits for a lock, while workers have sessions."""
        with (
            psycopg.connect(server.url) as admin,
            (tmp_path / "stdout").open("wb") as stdout,
            (tmp_path / "stderr").open("wb") as stderr,
        ):
            admin.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            command = Cli(["copy", *words(url_of(server))], stdout=stdout, stderr=stderr)
            try:
                until(lambda: bastion.sessions >= 2 or None, 30, lambda: f"{bastion.sessions}")
                assert len(bastion.clients()) == 1
                yield command
            finally:
                command.kill()

    def test_with_a_process_that_is_killed(self, copying: Cli, bastion: Bastion) -> None:
        copying.kill()
        assert copying.wait(20) == -signal.SIGKILL
        gone(bastion)

    def test_with_a_process_that_is_interrupted(self, copying: Cli, bastion: Bastion) -> None:
        copying.send_signal(signal.SIGINT)
        assert copying.wait(20) == 130
        gone(bastion)

    def test_while_it_logs_in(self, bastion: Bastion) -> None:
        """A bastion that accepts, but says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            asking = (
                "import sys; from penstock.engine.connections import check_source;"
                " check_source(sys.argv[1])"
            )
            url = f"postgresql://me@h/d?ssh=127.0.0.1:{port}"
            process = subprocess.Popen([sys.executable, "-c", asking, url])
            try:
                until(lambda: bastion.clients() or None, 30, lambda: "no ssh was started")
            finally:
                process.kill()
                process.wait()
            gone(bastion)


def unknown(bastion: Bastion) -> None:
    bastion.known.write_text("")


def changed(bastion: Bastion) -> None:
    another = (bastion.folder / "another.pub").read_text()
    bastion.known.write_text(f"[127.0.0.1]:{bastion.port} {another}")


def locked_out(bastion: Bastion) -> None:
    bastion.let_in("another")


def silent(bastion: Bastion) -> None:
    bastion.stop()


@pytest.mark.parametrize(
    ("happens", "code", "problem", "advice"),
    [
        (unknown, 65, "Host key verification failed.", "Compare the host's key with what its"),
        (changed, 65, "Host key verification failed.", "Compare the host's key with what its"),
        (locked_out, 65, "Permission denied (publickey)", "load the key into an agent"),
        (silent, 75, "Connection refused", ""),
    ],
)
def test_what_ssh_refuses_is_an_error_with_its_words(
    server: PostgresServer,
    bastion: Bastion,
    happens: Callable[[Bastion], None],
    code: int,
    problem: str,
    advice: str,
) -> None:
    happens(bastion)
    known = bastion.known.read_text()
    ended = run_cli("plan", *words(url_of(server, "me@bastion")))
    assert ended.returncode == code, ended.stderr
    assert ": ssh me@bastion: " in ended.stderr
    assert problem in ended.stderr
    assert advice in ended.stderr
    assert "Zz9" not in ended.stdout + ended.stderr
    assert bastion.known.read_text() == known
    gone(bastion)


def test_a_bastion_that_cannot_reach_the_server_says_so(bastion: Bastion) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://me@127.0.0.1:{nobody.getsockname()[1]}/d?ssh=bastion"
        ended = run_cli("plan", "--source", url, "--target", url, "--table", "public.t")
    assert ended.returncode == 75, ended.stderr
    assert "; ssh bastion: channel " in ended.stderr
    assert "open failed: connect failed: Connection refused" in ended.stderr


def test_the_server_is_verified_by_its_own_name(bastion: Bastion) -> None:
    """Its certificate says localhost; the driver connects to 127.0.0.1."""
    if not (programs := installed()):
        pytest.skip("no PostgreSQL with TLS in /usr/lib/postgresql; Debian's would do")
    with PostgresServer(fsync=False, programs=programs[max(programs)]) as server:
        speak_tls(server)
        verified = f"&sslmode=verify-full&sslrootcert={server.data / 'server.crt'}"
        for host, problem in {"localhost": "", "127.0.0.1": 'certificate for "localhost"'}.items():
            url = f"{url_of(server, host=host)}{verified}"
            ended = run_cli("report", "--target", url, "nothing")
            assert (problem or "run 'nothing' is not in") in ended.stderr


def test_a_password_file_has_any_port(
    server: PostgresServer, bastion: Bastion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq looks for the tunnel's port there."""
    monkeypatch.delenv("PGPASSWORD")
    path = bastion.folder / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(path))
    for port, code in (("*", 0), (server.port, 65)):
        path.write_text(f"127.0.0.1:{port}:*:postgres:{PASSWORD}\n")
        path.chmod(0o600)
        ended = run_cli("plan", *words(url_of(server)))
        assert ended.returncode == code, ended.stderr


def test_no_ssh_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    resolved, *_ = resolve("postgresql://me@h/d?ssh=nobody", "--source")
    mark = str(conninfo.conninfo_to_dict(resolved)["hostaddr"])
    with pytest.raises(PermanentError, match="source: ssh nobody: ssh is not installed"):
        entrance(mark, "source")
    with pytest.raises(TransientError, match="the process that holds the tunnel does not answer"):
        entrance(f"{MARK}s", "source")


def test_each_process_has_a_tunnel_of_its_own(server: PostgresServer, bastion: Bastion) -> None:
    """A fork has no thread that would answer, and must not end its parent's."""
    marks = [conninfo.conninfo_to_dict(resolve(url_of(server), "--source")[0])["hostaddr"]]
    marks.append(conninfo.conninfo_to_dict(resolve(url_of(server), "--target")[0])["hostaddr"])
    assert marks[0] == marks[1]
    place = entrance(str(marks[0]), "source")
    assert entrance(str(marks[0]), "source") == place
    assert bastion.logins == 1
    if not (child := os.fork()):
        other, *_ = resolve(url_of(server), "--source")
        os._exit(conninfo.conninfo_to_dict(other)["hostaddr"] == marks[0])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(bastion.clients()) == 1


def test_what_is_shown_and_stored() -> None:
    url = "postgresql://me@h:5433/d?ssh=someone@bastion:2222"
    assert redact("postgresql://me@h/d?ssh=bastion") == "postgresql://me@h/d?ssh=bastion"
    assert not holds_secret(url)
    place = place_of(url)
    assert (place.host, place.port, place.database) == ("h", 5433, "d")
    resolved, *_ = resolve(url, "--source")
    parts = conninfo.conninfo_to_dict(resolved)
    assert (parts["host"], parts["port"]) == ("h", "5433")
    assert str(parts["hostaddr"]).startswith(MARK)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me@h/d?ssh=", "ssh: expected user@bastion, found nothing"),
        ("postgresql://me@h/d?ssh=-oProxyCommand=id", "ssh: expected user@bastion"),
        ("postgresql://me@h/d?ssh=-l@b", "ssh: expected user@bastion"),
        ("postgresql://me@h/d?ssh=$(id)@b", "ssh: expected user@bastion"),
        ("file:///lake/o/?ssh=b", "file:// does not support ssh="),
        ("postgresql://me@h/d?ssh=b%20-v", "ssh: expected user@bastion"),
        ("postgresql://me@h/d?ssh=b:22:22", "ssh: expected user@bastion"),
        ("postgresql://me@h/d?ssh=a&ssh=b", "ssh: expected one value, found 2"),
        ("postgresql://me@h,i/d?ssh=b", "ssh: expected one host in the URL"),
        ("postgresql:///d?ssh=b", "ssh: expected one host in the URL"),
        ("postgresql:///d?host=/run&ssh=b", "ssh: expected one host in the URL"),
        ("mysql://me@h/d?unix_socket=/run/m&ssh=b", "ssh: expected a host, found unix_socket"),
        ("clickhouse://me@h/d?ssh=b", "clickhouse:// does not support ssh="),
    ],
)
def test_what_cannot_be_is_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(url, "--source")
    assert f"--source: {problem}" in caught.value.message
