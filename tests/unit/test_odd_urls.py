"""URLs with escaped names and passwords, sockets and several hosts lead where they say.

Each part arrives unescaped, and a resolved URL, which is what later code gets, means the same.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest
from psycopg import conninfo

from penstock.backends.api.backend import Backend
from penstock.backends.api.connection_fields import ConnectionFields
from penstock.backends.api.registry import find_backend
from penstock.backends.clickhouse.location import URLS as CLICKHOUSE
from penstock.backends.mssql.location import URLS as MSSQL
from penstock.backends.mysql.location import URLS as MYSQL
from penstock.backends.postgresql.connection_fields import url_of_fields
from penstock.backends.shared.server_url import ServerUrls
from penstock.backends.snowflake.location import URLS as SNOWFLAKE

ODD = [
    "we@ird",
    "a:b",
    "a/b",
    "a?b#c",
    "100%",
    "a b",
    "a+b",
    "[x]",
    "é❤",
    "'\"\\",
    "=&",
    "%40",
    "@@",
]
HOSTS = {"db.example.org": "db.example.org", "[::1]": "::1", "[fe80::1]": "fe80::1"}
POSTGRES = find_backend("postgresql://", "--source")[0]


def escaped(text: str) -> str:
    return quote(text, safe="")


def parts(url: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items()}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("odd", ODD)
def test_postgresql(odd: str, host: str) -> None:
    resolved = POSTGRES.resolve(
        f"postgresql://{escaped('u' + odd)}:{escaped('p' + odd)}@{host}:5433/{escaped('d' + odd)}"
        f"?application_name={escaped('n' + odd)}",
        {},
        "--source",
    )
    assert parts(resolved) == {
        "user": f"u{odd}",
        "password": f"p{odd}",
        "dbname": f"d{odd}",
        "host": HOSTS[host],
        "port": "5433",
        "application_name": f"n{odd}",
    }
    place = POSTGRES.place(resolved)
    assert (place.host, place.port, place.database) == (HOSTS[host], 5433, f"d{odd}")
    assert f"p{odd}" in POSTGRES.secrets(resolved)
    assert POSTGRES.resolve(resolved, {"PGPASSWORD": "other"}, "--source") == resolved


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("postgresql://u%40x:p%40@%2Ftmp%2Fa%40b/db", "localhost"),
        ("postgresql:///db?host=/tmp/a%40b&user=u%40x&password=p%40", "localhost"),
        ("postgresql://u%40x:p%40@one:1,two:2/db?target_session_attrs=any", "one"),
        ("postgresql://u%40x:p%40@/db?host=[::1],two", "[::1]"),
        ("postgres://u%40x:p%40@ONE/db", "one"),
    ],
)
def test_postgresql_places(url: str, host: str) -> None:
    resolved = POSTGRES.resolve(url, {}, "--source")
    assert (parts(resolved)["user"], parts(resolved)["password"]) == ("u@x", "p@")
    assert POSTGRES.place(resolved) == POSTGRES.place(url)
    assert POSTGRES.place(url).host == host


@pytest.mark.parametrize("environ", [{}, {"PGLOADBALANCEHOSTS": "random"}])
def test_all_sessions_of_a_run_try_hosts_in_one_order(environ: dict[str, str]) -> None:
    parameter = "" if environ else "?load_balance_hosts=random"
    resolved = POSTGRES.resolve(f"postgresql://u@one,two/db{parameter}", environ, "--source")
    assert parts(resolved)["load_balance_hosts"] == "disable"
    assert parts(resolved)["host"] == "one,two"


@pytest.mark.parametrize("odd", ODD)
def test_postgresql_from_the_fields_of_an_orchestrator(odd: str) -> None:
    for host in ("::1", "db.example.org", "/tmp/socket", "one,two"):
        fields = ConnectionFields("postgres", host, "5433", f"u{odd}", f"p{odd}", f"d{odd}")
        found = parts(POSTGRES.resolve(url_of_fields(fields), {}, "--source"))
        assert (found["user"], found["password"]) == (f"u{odd}", f"p{odd}")
        assert (found["dbname"], found["host"]) == (f"d{odd}", host)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("urls", [MYSQL, MSSQL, CLICKHOUSE, SNOWFLAKE], ids=lambda u: u.scheme)
def test_other_servers(urls: ServerUrls, odd: str, host: str) -> None:
    backend: Backend = find_backend(f"{urls.scheme}://", "--source")[0]
    several = urls.place_form.count("/") > 1
    if several:
        odd = odd.replace("/", "|")  # it separates the names of a path
    database = f"{escaped('d' + odd)}/s" if several else escaped("d" + odd)
    named = f"d{odd}/s" if several else f"d{odd}"
    resolved = backend.resolve(
        f"{urls.scheme}://{escaped('u' + odd)}:{escaped('p' + odd)}@{host}:5433/{database}",
        {},
        "--source",
    )
    location = urls.parse(resolved)
    assert (location.user, location.password) == (f"u{odd}", f"p{odd}")
    assert (location.host, location.port, location.database) == (HOSTS[host], 5433, named)
    assert f"p{odd}" in backend.secrets(resolved)
    assert backend.resolve(resolved, {}, "--source") == resolved
    assert backend.place(resolved).host == HOSTS[host]
