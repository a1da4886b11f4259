"""The connection strings for URLs of SQL Server, and rejected URLs: none shows a secret."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.backends.mssql import backend
from penstock.backends.mssql.location import URLS, connection_string
from penstock.errors import UsageError

MARK = "Zz9"
ALWAYS = "KeepAlive={60};KeepAliveInterval={10};"


def string(url: str) -> str:
    """Return the connection string, without its constant parts."""
    return connection_string(backend.resolve(url, {}, "--source")).replace(ALWAYS, "")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "mssql://me:secret@db.example:1434/shop",
            "Server={tcp:db.example,1434};PacketSize={16384};Database={shop};UID={me};PWD={secret};",
        ),
        (
            "mssql://me@DB.example",
            "Server={tcp:db.example,1433};PacketSize={16384};UID={me};PWD={};",
        ),
        (
            "mssql://me:a%7Db%3B%7B%7D@h/my%20%7Dshop%3BUID%3Dsa",
            "Server={tcp:h,1433};PacketSize={16384};Database={my }}shop;UID=sa};UID={me};"
            "PWD={a}}b;{}}};",
        ),
        (
            "mssql://d%C3%B6main%5Cme:x@[::1]/s",
            "Server={::1,1433};PacketSize={16384};Database={s};UID={dömain\\me};PWD={x};",
        ),
        (
            "mssql://h/s?trusted_connection=yes&packet_size=4096",
            "Server={tcp:h,1433};PacketSize={4096};Database={s};Trusted_Connection={yes};",
        ),
        (
            "mssql://h/s?authentication=ActiveDirectoryMSI",
            "Server={tcp:h,1433};PacketSize={16384};Database={s};"
            "Authentication={ActiveDirectoryMSI};",
        ),
        (
            "mssql://me:x@h/s?encrypt=strict&trust_server_certificate=no&server_certificate=/c.pem"
            "&host_name_in_certificate=db&server_spn=MSSQLSvc/h&application_intent=readonly"
            "&multi_subnet_failover=yes&connect_timeout=5",
            "Server={tcp:h,1433};PacketSize={16384};Database={s};UID={me};PWD={x};Encrypt={strict};"
            "TrustServerCertificate={no};ServerCertificate={/c.pem};HostnameInCertificate={db};"
            "ServerSPN={MSSQLSvc/h};ApplicationIntent={readonly};MultiSubnetFailover={yes};",
        ),
    ],
)
def test_connection_strings(url: str, expected: str) -> None:
    assert string(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mssql://h/s", "expected a user, .*found none of them"),
        ("mssql://me:x@h/s?encrypt=maybe", "encrypt: expected one of strict, yes, no$"),
        ("mssql://me:x@h/s?authentication=Zz9", "authentication: expected one of ActiveDirectoryD"),
        ("mssql://me:x@h/s?connect_timeout=0", "connect_timeout: expected a whole number from 1$"),
        ("mssql://me:x@h/s?packet_size=big", "packet_size: expected a whole number from 1$"),
        ("mssql://me:x@h/s?Zz9=1", "expected parameters application_intent, .*found another one$"),
        ("mssql://me:x@h/s?uid=sa", "found another one$"),
        ("mssql://me:x@h:0/s", "a port outside 1 to 65535$"),
        ("mssql://me:x@h:Zz9/s", "a host or port that cannot be read"),
        ("mssql://me:x@h/s/t", "a path of several parts as the database$"),
        ("mssql://me:x/Zz9@h/s", "an unescaped '/' or '@' before the host"),
        ("mssql://me:x%zz@h/s", "an unescaped # or %"),
        ("mssql://me:x@h/s#Zz9", "an unescaped # or %"),
    ],
)
def test_rejected_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        string(url)
    assert re.search(message, raised.value.message), raised.value.message
    assert MARK not in raised.value.message


def test_a_password_in_the_environment() -> None:
    environ = {"MSSQL_PASSWORD": "p/w@;}", "USER": "somebody"}
    url = backend.resolve("mssql://me@h/s?encrypt=no", environ, "--source")
    assert url == "mssql://me:p%2Fw%40%3B%7D@h:1433/s?encrypt=no"
    assert "PWD={p/w@;}}};" in connection_string(url)
    assert set(backend.secrets(url)) == {"p/w@;}", "p%2Fw%40%3B%7D"}
    # The URL's password comes first, and the local user's name is not used.
    assert ":x@" in backend.resolve("mssql://me:x@h/s", environ, "--source")
    with pytest.raises(UsageError, match="expected a user"):
        connection_string(backend.resolve("mssql://h/s", environ, "--source"))
    assert not backend.environment


def test_a_place_contains_no_secret() -> None:
    place = backend.place(f"mssql://me:{MARK}@DB:1434/shop?encrypt=no")
    assert (place.scheme, place.host, place.port, place.database) == ("mssql", "db", 1434, "shop")
    assert MARK not in repr(place)
    assert MARK not in repr(URLS.parse(f"mssql://me:{MARK}@h/shop"))


values = st.text(st.sampled_from("ab1@:/?#[]&=%;+ ,\\\"'{}é\n"), max_size=8)


@given(user=values.filter(bool), password=values, database=values)
@example(user="a}", password="}};UID={sa", database="}")
def test_values_are_delimited(user: str, password: str, database: str) -> None:
    """The driver's parser reads back exactly the value, whatever it contains."""
    from urllib.parse import quote  # noqa: PLC0415

    parts = (quote(part, safe="") for part in (user, password, database))
    url = "mssql://{}:{}@h/{}".format(*parts)
    with suppress(UsageError):  # such as a database with a slash
        found = dict(_parsed(string(url)))
        assert (found["UID"], found["PWD"], found.get("Database", "")) == (user, password, database)


def _parsed(text: str) -> list[tuple[str, str]]:
    """Parse a connection string as ODBC does: a value in braces ends at a single brace."""
    form = re.compile(r"(\w+)=\{((?:[^}]|\}\})*)\};")
    assert re.fullmatch(rf"(?:{form.pattern})*", text), text
    return [(name, value.replace("}}", "}")) for name, value in form.findall(text)]
