"""An Airflow connection becomes a URL that libpq reads as Airflow's own hook would connect."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import conninfo

from penstock import CopySpec, UsageError, place_of
from penstock.engine.connections import resolve
from penstock.spec.references import redact

SECRET = "pa55:w@rd/?#%&="


def connection(**fields: Any) -> Any:
    sdk = import_module("airflow.providers.common.compat.sdk")
    extra = fields.pop("extra", None)
    return sdk.Connection(
        **{"conn_id": "pg", "conn_type": "postgres", **fields},
        extra=None if extra is None else json.dumps(extra),
    )


def url_of(**fields: Any) -> str:
    url: str = import_module("penstock_airflow.hooks.penstock").connection_url(
        connection(**fields), "pg"
    )
    return url


def parameters(url: str) -> dict[str, Any]:
    return dict(conninfo.conninfo_to_dict(url))


CASES: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    (
        {"host": "h.example", "port": 5433, "login": "me", "password": SECRET, "schema": "db"},
        {"host": "h.example", "port": "5433", "user": "me", "password": SECRET, "dbname": "db"},
    ),
    (
        {"host": "h", "login": "dömain\\me @:/", "schema": "my db/ü?"},
        {"host": "h", "user": "dömain\\me @:/", "dbname": "my db/ü?"},
    ),
    ({"host": "h", "password": SECRET}, {"host": "h", "password": SECRET}),
    ({"host": "::1", "port": 5433}, {"host": "::1", "port": "5433"}),
    ({"host": "[fe80::a]"}, {"host": "fe80::a"}),
    ({"host": "fe80::1%eth0", "login": "me"}, {"host": "fe80::1%eth0", "user": "me"}),
    ({"host": "10.0.0.1"}, {"host": "10.0.0.1"}),
    ({"host": "my_host"}, {"host": "my_host"}),
    (
        {"host": "/run/my sockets", "port": 5433, "schema": "db"},
        {"host": "/run/my sockets", "port": "5433", "dbname": "db"},
    ),
    ({"schema": "db", "port": 5433}, {"dbname": "db", "port": "5433"}),
    ({"host": "a,b", "login": "me"}, {"host": "a,b", "user": "me"}),
    ({"host": "a,b", "port": 5433}, {"host": "a,b", "port": "5433"}),
    ({"host": "a,::1,/run", "port": 5433}, {"host": "a,::1,/run", "port": "5433"}),
    ({"host": "/run/]"}, {"host": "/run/]"}),
    ({"extra": {"service": "orders"}}, {"service": "orders"}),
    (
        {
            "host": "h",
            "extra": {
                "sslmode": "verify-full",
                "sslrootcert": "/etc/ssl/my ca.pem",
                "sslcert": "/c&d.pem",
                "sslkey": "/k=e.pem",
                "connect_timeout": 5,
                "keepalives_idle": 60,
                "options": "-c search_path=a,b -c work_mem=64MB",
                "application_name": "mine",
                "target_session_attrs": "read-write",
                "channel_binding": "require",
                "gssencmode": "disable",
                "passfile": "/home/me/.pgpass",
                "hostaddr": "10.1.1.1",
            },
        },
        {
            "host": "h",
            "sslmode": "verify-full",
            "sslrootcert": "/etc/ssl/my ca.pem",
            "sslcert": "/c&d.pem",
            "sslkey": "/k=e.pem",
            "connect_timeout": "5",
            "keepalives_idle": "60",
            "options": "-c search_path=a,b -c work_mem=64MB",
            "application_name": "mine",
            "target_session_attrs": "read-write",
            "channel_binding": "require",
            "gssencmode": "disable",
            "passfile": "/home/me/.pgpass",
            "hostaddr": "10.1.1.1",
        },
    ),
    (
        {
            "host": "h",
            "extra": {
                "cursor": "dictcursor",
                "iam": False,
                "redshift": False,
                "aws_conn_id": "aws",
                "client_encoding": "utf8",
                "sqlalchemy_scheme": "postgresql+psycopg",
                "sqlalchemy_query": {"a": "b"},
                "enable_log_db_messages": True,
                "sslmode": "",
                "connect_timeout": None,
            },
        },
        {"host": "h"},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_libpq_reads_the_fields_of_the_connection(
    fields: dict[str, Any], expected: dict[str, str]
) -> None:
    assert parameters(url_of(**fields)) == expected


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@given(
    login=st.none() | TEXT,
    password=st.none() | TEXT,
    schema=st.none() | TEXT,
    host=st.none()
    | st.from_regex(r"[a-z][a-z0-9._-]{0,20}", fullmatch=True)
    | st.ip_addresses().map(str)
    | TEXT.map(lambda text: f"/run/{text}").filter(lambda path: "," not in path),
    port=st.none() | st.integers(1, 65535),
)
def test_every_character_survives(**fields: Any) -> None:
    names = {"login": "user", "schema": "dbname"}
    expected = {names.get(name, name): str(v) for name, v in fields.items() if v is not None}
    assert parameters(url_of(**fields)) == expected


@pytest.mark.parametrize("kind", ["postgres", "postgresql", "Postgres"])
def test_both_names_of_the_postgres_type_are_accepted(kind: str) -> None:
    assert url_of(conn_type=kind, host="h") == "postgresql://h/"


@pytest.mark.parametrize("kind", ["oracle", "redshift", "http", "generic", ""])
def test_another_type_is_rejected_without_showing_secrets(kind: str) -> None:
    with pytest.raises(UsageError) as raised:
        url_of(conn_type=kind, host="h", login="me", password=SECRET, extra={"token": SECRET})
    assert raised.value.message == (
        "connection 'pg': expected one of the types clickhouse, duckdb, file, gcpcloudsql, "
        "mariadb, mssql, mysql, odbc, postgres, postgresql, s3, snowflake; found "
        f"{kind or 'none'!r}; if the connection is to one of these systems, correct its "
        "Connection Type; otherwise copy to or from files on S3, and let the other system load or "
        "unload them"
    )
    assert "pa55" not in repr(raised.value)


def test_a_type_with_a_postgresql_hook_is_accepted() -> None:
    theirs = type("PostgresHook", (), {"conn_type": "postgres"})
    hook = type("CrateHook", (theirs,), {"conn_type": "crate"})
    found = connection(conn_type="crate", host="h", password=SECRET, schema="db")
    kind = type("WithHook", (type(found),), {"get_hook": lambda *_, **__: hook()})
    converted = kind(conn_id="pg", conn_type="crate", host="h", password=SECRET, schema="db")
    url = import_module("penstock_airflow.hooks.penstock").connection_url(converted, "pg")
    assert parameters(url) == {"host": "h", "password": SECRET, "dbname": "db"}


CLOUD_SQL = {"database_type": "postgres", "project_id": "p", "location": "l", "instance": "i"}


def test_a_cloud_sql_instance_is_reached_by_its_address() -> None:
    fields = {"conn_type": "gcpcloudsql", "host": "10.1.1.1", "login": "me", "schema": "db"}
    assert parameters(url_of(**fields, extra=CLOUD_SQL)) == {
        "host": "10.1.1.1",
        "user": "me",
        "dbname": "db",
    }
    ssl = {"use_ssl": "True", "sslcert": "/c", "sslkey": "/k", "sslrootcert": "/r"}
    found = parameters(url_of(**fields, extra={**CLOUD_SQL, **ssl}))
    assert (found["sslmode"], found["sslcert"], found["sslrootcert"]) == ("verify-ca", "/c", "/r")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"database_type": "mysql"}, "expected postgres as database_type in its field Extra"),
        ({"use_proxy": True}, "no use_proxy in its field Extra"),
        ({"use_iam": "true"}, "no use_iam in its field Extra"),
    ],
)
def test_a_cloud_sql_instance_that_needs_a_proxy_is_rejected(
    extra: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        url_of(conn_type="gcpcloudsql", host="h", extra={**CLOUD_SQL, **extra})


@pytest.mark.parametrize("name", ["iam", "azure_conn_id", "redshift", "redshift-serverless"])
def test_a_token_that_has_to_be_fetched_is_rejected(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        url_of(host="h", password=SECRET, extra={name: "yes" if "conn" in name else True})
    assert "in its field Password" in raised.value.message
    assert f"found {name!r} in Extra" in raised.value.message
    assert "pa55" not in repr(raised.value)


def test_a_missing_connection_is_named() -> None:
    end = import_module("penstock_airflow.arguments.endpoint").Endpoint(
        "source", "nobody_made_it", None, None
    )
    with pytest.raises(Exception, match="nobody_made_it"):
        end.connect()


def test_the_url_never_shows_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = url_of(
        host="a,b", login="me", password=SECRET, schema="db", extra={"sslpassword": SECRET}
    )
    assert "pa55" in url
    spec = CopySpec(source=url, target=url, table="a.b")
    for shown in (redact(url), repr(spec), str(spec.stored()), repr(place_of(url))):
        assert "pa55" not in shown


PLACES = [
    ({"host": "DB.example", "port": 5433, "schema": "d"}, "postgres://db.example:5433", "d"),
    ({"host": "h", "schema": "my db", "password": SECRET}, "postgres://h:5432", "my db"),
    ({"host": "::1", "schema": "d"}, "postgres://[::1]:5432", "d"),
    ({"host": "/run/pg", "port": 5433, "schema": "d"}, "postgres://localhost:5433", "d"),
    ({"host": "a,b", "port": 5433, "schema": "d"}, "postgres://a:5433", "d"),
    ({"login": "me", "password": SECRET}, "postgres://localhost:5432", "me"),
    ({"extra": {"hostaddr": "10.0.0.1", "dbname": "d"}}, "postgres://10.0.0.1:5432", "d"),
    ({"extra": {"service": "orders"}}, "postgres://orders:5432", "orders"),
]


@pytest.mark.parametrize(("fields", "namespace", "database"), PLACES)
def test_the_place_of_a_connection_has_no_secrets(
    fields: dict[str, Any], namespace: str, database: str
) -> None:
    place = place_of(url_of(**fields))
    assert (place.namespace, place.database) == (namespace, database)


def test_each_host_of_a_url_may_have_a_port() -> None:
    assert place_of("postgresql://me:x@[::1]:5433,b:5434/d").namespace == "postgres://[::1]:5433"
    assert place_of("postgresql://me:x@b:5434,c/d").namespace == "postgres://b:5434"


def test_mysql_extras_become_parameters() -> None:
    extra = {
        "charset": "utf8",
        "cursor": "sscursor",
        "ssl": {"ca": "/ca.pem"},
        "ssl_mode": "REQUIRED",
    }
    found = url_of(
        conn_type="mysql",
        host="db",
        port=3307,
        login="me",
        password="p/w",
        schema="shop",
        extra=extra,
    )
    assert found == "mysql://me:p%2Fw@db:3307/shop?ssl_mode=required&ssl_ca=%2Fca.pem"


def test_mysql_with_a_token_is_rejected() -> None:
    with pytest.raises(UsageError, match='or "auth": "aws-iam" in its field Extra'):
        url_of(conn_type="mysql", host="db", login="me", schema="shop", extra={"iam": True})


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_extras_ask_for_tokens_and_tunnels(kind: str) -> None:
    extra = {"auth": "command:id", "ssh": "me@bastion"}
    url = url_of(conn_type=kind, host="db", login="me", schema="shop", extra=extra)
    resolved, *_ = resolve(url, "--source")
    assert "penstock-token" in resolved
    assert "penstock-tunnel" in resolved


def test_clickhouse_extras_become_parameters() -> None:
    fields = {"conn_type": "clickhouse", "login": "me", "password": "p/w", "schema": "shop"}
    assert resolve(url_of(**fields), "--source")[0] == "clickhouse://me:p%2Fw@localhost:8123/shop"
    extra = {
        "secure": True,
        "verify": False,
        "connect_timeout": 5,
        "send_receive_timeout": 600,
        "compress": False,
        "client_name": "nightly",
    }
    url = url_of(**fields, host="db", port=8443, extra=extra)
    assert resolve(url, "--source")[0] == (
        "clickhouse://me:p%2Fw@db:8443/shop?secure=true&verify=false&connect_timeout=5"
    )
    assert "p%2Fw" not in repr(place_of(url))


def test_clickhouse_settings_are_rejected_without_showing_them() -> None:
    url = url_of(conn_type="clickhouse", host="db", extra={"session_settings": {"a": SECRET}})
    with pytest.raises(UsageError, match="found another one") as raised:
        resolve(url, "--source")
    assert "pa55" not in repr(raised.value)


def mssql_url(**fields: Any) -> str:
    url = url_of(conn_type="mssql", **{"host": "db", "login": "me", "password": "p/w", **fields})
    return resolve(url, "--source")[0]


def test_mssql_fields_become_a_url() -> None:
    assert mssql_url(port=14330, schema="my shop") == "mssql://me:p%2Fw@db:14330/my%20shop"
    assert mssql_url(host="db.example,1434") == "mssql://me:p%2Fw@db.example:1434/"
    assert mssql_url(host="::1") == "mssql://me:p%2Fw@[::1]:1433/"
    url = mssql_url(login="dömain\\me", password=SECRET)
    assert "d%C3%B6main%5Cme" in url
    assert SECRET not in url
    assert SECRET not in repr(place_of(url))


def test_mssql_accepts_the_parameters_of_its_url_as_extras() -> None:
    extra = {"encrypt": "strict", "trust_server_certificate": True, "connect_timeout": 5}
    assert mssql_url(extra=extra) == (
        "mssql://me:p%2Fw@db:1433/?encrypt=strict&trust_server_certificate=yes&connect_timeout=5"
    )


@pytest.mark.parametrize(
    ("extra", "parameters"),
    [
        ({"encryption": "require"}, "encrypt=yes"),
        ({"encryption": "off"}, "encrypt=no"),
        ({"login_timeout": 7}, "connect_timeout=7"),
        ({"read_only": True}, "application_intent=readonly"),
        ({"sqlalchemy_scheme": "mssql+pymssql", "charset": "UTF-8", "tds_version": "7.3"}, ""),
    ],
)
def test_mssql_accepts_the_extras_of_its_hook(extra: dict[str, Any], parameters: str) -> None:
    assert mssql_url(extra=extra).partition("/?")[2] == parameters


def test_mssql_with_an_instance_is_rejected() -> None:
    with pytest.raises(UsageError, match="the instance's port in the field Port"):
        mssql_url(host="db\\SQLEXPRESS")


def test_mssql_rejects_an_unknown_extra_without_showing_it() -> None:
    with pytest.raises(UsageError, match="found another one") as raised:
        mssql_url(extra={"wharehouse": SECRET})
    assert "pa55" not in repr(raised.value)


def snowflake_url(**fields: Any) -> str:
    defaults = {"conn_type": "snowflake", "login": "me", "password": "p/w", **fields}
    return resolve(url_of(**defaults), "--source")[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"schema": "raw", "extra": {"account": "acme-prod", "database": "sales"}},
            "acme-prod:443/sales/raw",
        ),
        (
            {"extra": {"account": "ab1", "region": "eu-central-1", "database": "sales"}},
            "ab1.eu-central-1:443/sales",
        ),
        (
            {
                "schema": "raw",
                "extra": {
                    "extra__snowflake__account": "acme",
                    "extra__snowflake__database": "sales",
                    "extra__snowflake__warehouse": "load",
                    "role": "loader",
                    "authenticator": "snowflake",
                    "insecure_mode": False,
                    "session_parameters": {"QUERY_TAG": "x"},
                },
            },
            "acme:443/sales/raw?warehouse=load&role=loader&authenticator=password",
        ),
        (
            {
                "extra": {
                    "account": "acme",
                    "database": "sales",
                    "authenticator": "snowflake",
                    "private_key_file": "/k.p8",
                }
            },
            "acme:443/sales?private_key_file=%2Fk.p8",
        ),
        (
            {"extra": {"account": "a", "database": "d", "authenticator": "oauth"}},
            "a:443/d?authenticator=oauth",
        ),
        (
            {
                "extra": {
                    "account": "a",
                    "database": "d",
                    "authenticator": "PROGRAMMATIC_ACCESS_TOKEN",
                }
            },
            "a:443/d?authenticator=pat",
        ),
        (
            {
                "extra": {
                    "account": "test",
                    "host": "snow.example",
                    "port": 4566,
                    "protocol": "http",
                    "database": "d",
                }
            },
            "snow.example:4566/d?protocol=http",
        ),
        # As in a URL of Penstock's.
        ({"host": "acme", "schema": "sales/raw"}, "acme:443/sales/raw"),
    ],
)
def test_snowflake_fields_become_a_url(fields: dict[str, Any], expected: str) -> None:
    assert snowflake_url(**fields) == f"snowflake://me:p%2Fw@{expected}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refresh_token", "expected a token in the field Password"),
        ("azure_conn_id", "expected a token in the field Password"),
        ("private_key_content", "the path of a key file, as private_key_file"),
        ("proxy_password", "HTTPS_PROXY"),
        ("wharehouse", "found another one"),
    ],
)
def test_unsupported_snowflake_extras_are_rejected(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        snowflake_url(extra={"account": "acme", "database": "sales", name: SECRET})
    assert "pa55" not in repr(raised.value)


def odbc_url(**fields: Any) -> str:
    url = url_of(conn_type="odbc", **{"host": "db", "login": "me", "password": "p/w", **fields})
    return resolve(url, "--source")[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"port": 14330, "schema": "my shop", "extra": {"driver": "FreeTDS"}},
            "mssql+pyodbc://me:p%2Fw@db:14330/my%20shop?driver=FreeTDS",
        ),
        (
            {"host": "db.example,1434", "extra": {"Driver": "{ODBC Driver 18 for SQL Server}"}},
            "mssql+pyodbc://me:p%2Fw@db.example:1434/?driver=ODBC+Driver+18+for+SQL+Server",
        ),
        (
            {
                "extra": {
                    "driver": "ODBC Driver 17 for SQL Server",
                    "Encrypt": "Yes",
                    "TrustServerCertificate": True,
                    "ApplicationIntent": "ReadOnly",
                    "ServerCertificate": "/Etc/c.pem",
                    "connect_kwargs": {"autocommit": True},
                    "TDS_Version": "7.4",
                }
            },
            "mssql+pyodbc://me:p%2Fw@db:1433/?driver=ODBC+Driver+17+for+SQL+Server&encrypt=yes"
            "&trust_server_certificate=yes&application_intent=readonly"
            "&server_certificate=%2FEtc%2Fc.pem",
        ),
        (
            {"host": "", "schema": "s", "extra": {"dsn": "shop"}},
            "mssql+pyodbc://me:p%2Fw@localhost:1433/s?dsn=shop",
        ),
    ],
    ids=["FreeTDS", "braces", "keywords", "dsn"],
)
def test_odbc_fields_become_a_url(fields: dict[str, Any], expected: str) -> None:
    url = odbc_url(**fields)
    assert url == expected
    assert "p%2Fw" not in repr(place_of(url))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"expected either \?driver=NAME.*or \?dsn=NAME"),
        ({"extra": {"dsn": "shop"}}, "found one in the URL"),
        ({"host": "db\\X", "extra": {"driver": "FreeTDS"}}, "the instance's port"),
        ({"extra": {"driver": "FreeTDS", "pwd": SECRET}}, "found another one"),
    ],
)
def test_unsupported_odbc_fields_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        odbc_url(**fields)
    assert "pa55" not in repr(raised.value)


class ThirdParty:
    """A backend of another package, as an entry point."""

    name = "exasol"
    module = "penstock_exasol"

    @staticmethod
    def load() -> Any:
        def url_of_fields(fields: Any) -> str:
            if "cluster" not in fields.extra:
                raise UsageError("expected cluster in its field Extra; found none")
            return str(fields.url("exasol", {"cluster": fields.extra["cluster"]}))

        return url_of_fields


def test_a_backend_of_another_package_creates_its_own_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = import_module("penstock.backends.api.registry")
    before = registry._entry_points

    def with_another(group: str = registry.ENTRY_POINTS) -> Any:
        more = [ThirdParty] if group == registry.CONNECTION_TYPES else []
        return [*before(group), *more]

    monkeypatch.setattr(registry, "_entry_points", with_another)
    fields = {"conn_type": "exasol", "host": "db", "login": "me", "password": SECRET}
    url = url_of(**fields, extra={"cluster": "a b"})
    assert url == f"exasol://me:{quote(SECRET, safe='')}@db/?cluster=a%20b"
    with pytest.raises(UsageError, match="connection 'pg': expected cluster in its field Extra"):
        url_of(**fields)
