"""`?auth=aws-iam`, `gcp-iam` and `entra`: tokens through the clouds' own libraries."""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest
from psycopg import conninfo, sql

from penstock import CopySpec, UsageError, copy
from penstock.backends.api.installation import install_command
from penstock.backends.shared.tokens import current_password
from penstock.engine.connections import added_secrets, resolve
from penstock.engine.logins.clouds import ENTRA_SCOPE, GOOGLE_SCOPE, AwsTokens
from penstock.errors import PermanentError, TransientError
from penstock.events import Finished
from penstock_testkit import PostgresServer

from ...cli import run_cli
from ...token_endpoint import KEYS, TokenEndpoint, no_files

PASSWORD = "Zz9 first"
RDS = "shop.c0ffee.eu-central-1.rds.amazonaws.com"
REGION = "AWS_DEFAULT_REGION"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=PASSWORD) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 10000) AS id")
            connection.execute("CREATE TABLE copied (id int)")
        yield server


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the libraries find nothing of this machine, wherever it is."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "PGSSL")):
            monkeypatch.delenv(name)
    for name, value in no_files().items():
        monkeypatch.setenv(name, value)


def url_of(server: PostgresServer, auth: str, user: str = "postgres") -> str:
    return f"postgresql://{user}@127.0.0.1:{server.port}/postgres?auth={auth}"


def words(url: str) -> list[str]:
    target = ["--target-table", "public.copied", "--mode", "truncate"]
    several = ["--partitions", "6", "--strategy", "ctid", "--degree", "2"]
    return ["--source", url, "--target", url, "--table", "public.t", *target, *several]


@pytest.mark.parametrize("auth", ["gcp-iam", "entra"])
@pytest.mark.parametrize(("seconds", "least", "most"), [(3600, 1, 1), (1, 5, 1000)])
def test_one_token_serves_all_sessions_until_it_expires(
    server: PostgresServer, auth: str, seconds: int, least: int, most: int
) -> None:
    with TokenEndpoint(PASSWORD, seconds=seconds) as endpoint:
        environ = {**os.environ, **endpoint.environ}
        ended = run_cli("copy", *words(url_of(server, auth)), env=environ)
    assert ended.returncode == 0, ended.stderr
    assert "Zz9" not in ended.stdout + ended.stderr
    assert least <= len(endpoint.asked) <= most
    path, query, headers = endpoint.asked[0]
    if auth == "gcp-iam":
        assert "/instance/service-accounts/" in path
        assert query["scopes"] == [GOOGLE_SCOPE]
    else:
        assert query["resource"] == [ENTRA_SCOPE.removesuffix("/.default")]
        assert headers["X-IDENTITY-HEADER"] == "ours"
    with psycopg.connect(server.url) as admin:
        tables = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'penstock'")
        names = [sql.Identifier("penstock", name) for (name,) in tables]
        rows = [str(admin.execute(sql.SQL("TABLE {}").format(name)).fetchall()) for name in names]
        assert "public.t" in str(rows)
        assert "Zz9" not in str(rows)
        assert admin.execute("SELECT count(*) FROM copied").fetchone() == (10_000,)


@pytest.mark.parametrize(
    ("auth", "advice"),
    [("gcp-iam", "the role Cloud SQL Instance User"), ("entra", "a user of the database")],
)
def test_an_endpoint_that_refuses_is_an_error_that_says_what_to_do(
    server: PostgresServer, auth: str, advice: str
) -> None:
    with TokenEndpoint(PASSWORD, status=403) as endpoint:
        environ = {**os.environ, **endpoint.environ}
        ended = run_cli("plan", *words(url_of(server, auth)), env=environ)
    assert ended.returncode == 75
    assert endpoint.asked
    for part in (f": auth={auth}: no token: ", advice):
        assert part in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("auth", "code", "problem"),
    [
        ("gcp-iam", 65, "auth=gcp-iam: Your default credentials were not found."),
        ("entra", 75, "auth=entra: no token: DefaultAzureCredential failed"),
        ("aws-iam", 65, "auth=aws-iam: Unable to locate credentials. Give AWS's own"),
    ],
)
def test_no_identity_is_an_error(
    server: PostgresServer, auth: str, code: int, problem: str
) -> None:
    environ = {**os.environ, "NO_GCE_CHECK": "true", REGION: "eu-central-1", "PATH": "/nowhere"}
    ended = run_cli("plan", *words(url_of(server, auth)), env=environ)
    assert ended.returncode == code
    assert problem in ended.stderr
    assert ended.stderr.count(problem) == 1


def signature(token: str, secret: str) -> str:
    """Return the signature of a request, as AWS itself computes it.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
    """
    parts = urlsplit(f"https://{token}")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    del query["X-Amz-Signature"]
    canonical = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items())
    )
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical}\nhost:{parts.netloc}\n\nhost\n{empty}"
    scope = query["X-Amz-Credential"].partition("/")[2]
    hashed = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for text in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{scope}\n{hashed}"):
        key = hmac.digest(key, text.encode(), "sha256")
    return key.hex()


def aws_token(host: str = RDS) -> tuple[str, float]:
    return AwsTokens.found(host, 5433, "reader", "--source").fetch()


class TestAws:
    @pytest.fixture(autouse=True)
    def keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS[0])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS[1])

    def test_a_token_is_a_signed_request_to_connect(self) -> None:
        token, kept_until = aws_token()
        parts = urlsplit(f"https://{token}")
        assert (parts.hostname, parts.port, parts.path) == (RDS, 5433, "/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert (query["Action"], query["DBUser"]) == ("connect", "reader")
        day = query["X-Amz-Date"][:8]
        assert query["X-Amz-Credential"] == f"{KEYS[0]}/{day}/eu-central-1/rds-db/aws4_request"
        assert query["X-Amz-Signature"] == signature(token, KEYS[1])
        assert signature(token, "another") != signature(token, KEYS[1])
        # It is replaced before AWS refuses it.
        assert 0 < kept_until - time.time() < int(query["X-Amz-Expires"]) - 60

    def test_the_region_of_another_name_is_configured(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(UsageError, match=r"--source: auth=aws-iam: expected the endpoint of"):
            aws_token("shop.example")
        monkeypatch.setenv(REGION, "us-gov-west-1")
        assert "us-gov-west-1%2Frds-db" in aws_token("shop.example")[0]
        assert "eu-central-1%2Frds-db" in aws_token()[0]
        assert "cn-north-1%2Frds-db" in aws_token("a.b.cn-north-1.rds.amazonaws.com.cn")[0]

    def test_all_sessions_log_in_by_it(
        self, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(REGION, "eu-central-1")
        url = url_of(server, "aws-iam", "signed")
        resolved, *_ = resolve(url, "--source")
        token = current_password(str(conninfo.conninfo_to_dict(resolved)["password"]), "source")
        assert token.startswith(f"127.0.0.1:{server.port}/?Action=connect&DBUser=signed")
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("DROP ROLE IF EXISTS signed")
            created = sql.SQL("CREATE ROLE signed SUPERUSER LOGIN PASSWORD {}")
            admin.execute(created.format(token))
        spec = CopySpec(
            source=url,
            target=url,
            table="public.t",
            target_table="public.copied",
            mode="truncate",
            partitions=6,
            strategy="ctid",
            degree=2,
        )
        *_, end = copy(spec)
        assert isinstance(end, Finished)
        assert end.rows == 10_000


def test_aws_signs_by_the_keys_of_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with TokenEndpoint("Zz9 session") as endpoint:
        for name, value in endpoint.environ.items():
            monkeypatch.setenv(name, value)
        token, _ = aws_token()
        assert parse_qs(token)["X-Amz-Security-Token"] == ["Zz9 session"]
        assert parse_qs(token)["X-Amz-Signature"] == [signature(token, KEYS[1])]
        assert len(endpoint.asked) == 1
        endpoint.status = 400
        with pytest.raises(TransientError, match=r"auth=aws-iam: no token: .*Error when retriev"):
            aws_token()


@pytest.mark.parametrize(
    ("url", "is_private"),
    [
        ("postgresql://me@h/d", False),
        ("postgresql://me@h/d?sslmode=prefer", False),
        ("postgresql://me@127.0.0.1,h/d", False),
        ("postgresql://me@127.0.0.1/d?hostaddr=192.0.2.1", False),
        ("postgresql://me@h/d?sslmode=require", True),
        ("postgresql://me@h/d?sslmode=verify-full", True),
        ("postgresql://me@h/d?sslrootcert=system", True),
        ("postgresql://me@localhost/d", True),
        ("postgresql://me@/d?host=/run/postgresql", True),
        ("mysql://me@h/d", False),
        ("mysql://me@h/d?ssl_mode=preferred", False),
        ("mysql://me@h/d?ssl_mode=disabled&ssl_ca=/ca.pem", False),
        ("mysql://me@h/d?ssl_mode=required", True),
        ("mysql://me@h/d?ssl_mode=verify_identity", True),
        ("mysql://me@h/d?ssl_ca=/ca.pem", True),
        ("mariadb://me@127.0.0.1/d", True),
        ("mysql://me@h/d?unix_socket=/run/mysqld/mysqld.sock", True),
    ],
)
def test_a_cloud_needs_tls(url: str, is_private: bool) -> None:
    url += f"{'&' if '?' in url else '?'}auth=entra"
    if is_private:
        resolve(url, "--source")
        return
    with pytest.raises(UsageError, match=r"expected a URL that requires TLS, .*verify.(full|iden)"):
        resolve(url, "--source")


def test_the_variable_of_libpq_may_ask_for_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    resolve("postgresql://me@h/d?auth=entra", "--source")


@pytest.mark.parametrize(
    ("auth", "module", "extra"),
    [
        ("aws-iam", "botocore.session", "aws"),
        ("gcp-iam", "google.auth.transport.requests", "gcp"),
        ("entra", "azure.identity", "azure"),
    ],
)
def test_a_missing_library_is_named(
    auth: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"^--source: auth={auth} needs the module ") as caught:
        resolve(f"postgresql://me@localhost/d?auth={auth}", "--source")
    assert caught.value.message.endswith(install_command(extra))


def test_libraries_are_imported_only_when_asked_for() -> None:
    looking = (
        "import sys; from penstock.engine.connections import resolve;"
        " resolve(sys.argv[1], '--source');"
        " print({'botocore', 'google.auth', 'azure.identity'} & sys.modules.keys())"
    )
    found = []
    for auth in ("command:id", "entra"):
        argv = [sys.executable, "-c", looking, f"postgresql://me@localhost/d?auth={auth}"]
        found.append(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    assert found == ["set()\n", "{'azure.identity'}\n"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:Zz9@h/d?auth=entra", "found a password and auth=entra, which fetches"),
        ("postgresql://me@h/d?auth=entra&auth=gcp-iam", "auth: expected one value, found 2"),
        ("postgresql://h/d?auth=gcp-iam", "auth=gcp-iam: expected a user in the URL"),
        ("mssql://me@h/d?auth=entra", "mssql:// does not support auth=entra"),
        ("s3://lake/o/?auth=aws-iam", "s3:// does not support auth=aws-iam"),
    ],
)
def test_what_cannot_be_is_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(url, "--source")
    assert problem in caught.value.message
    assert "Zz9" not in caught.value.message


def test_a_found_file_sends_no_token_elsewhere() -> None:
    url = "postgresql://me@h/d?sslmode=require&auth=entra"
    assert added_secrets(url, {}) == ["a token of yours"]


def test_an_identity_may_be_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    source = AwsTokens(RDS, 5432, "reader", "eu-central-1")
    with pytest.raises(PermanentError):
        source.fetch()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS[1])
    assert source.fetch()[0]
