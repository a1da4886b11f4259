"""The types of MySQL in `tests/types/`, compared with a server and the code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.backends.mysql.source import MySqlSource
from penstock.backends.mysql.types import TYPES
from penstock.backends.shared.values.arrow import arrow_type, kind_of
from penstock.errors import PlanningError
from penstock.model.tables import TableRef
from penstock_testkit import AnyMysqlServer, connect_mysql

from ...types.arrow_types import ARROW_TYPES
from ...types.type_files import lines

pytestmark = pytest.mark.both_servers


@pytest.fixture(scope="module")
def url(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with mysql_server.new_database() as url:
        yield url


@pytest.mark.parametrize(("mine", "theirs", "kind"), lines("mysql/to_arrow"))
def test_types_read_from_mysql(url: str, mine: str, theirs: str, kind: str) -> None:
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t (c {mine})")
        cursor.execute("SELECT database()")
        ((database,),) = cursor.fetchall()
    source = MySqlSource(url)
    table = TableRef(database, "t")
    (column,) = source.in_arrow(table, source.columns(table))
    source.close()
    assert (str(arrow_type(column)), kind_of(arrow_type(column))) == (theirs, kind)


@pytest.mark.parametrize(("mine", "theirs"), lines("mysql/new_columns"))
def test_types_written_to_mysql(mine: str, theirs: str) -> None:
    try:
        found = TYPES.created.of(ARROW_TYPES[mine], "c")
    except PlanningError:
        found = "refused"
    assert found == theirs


@pytest.mark.parametrize(
    "type_", sorted({theirs for _, theirs in lines("mysql/new_columns")} - {"refused"})
)
def test_the_server_accepts_the_created_type(url: str, type_: str) -> None:
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS m")
        cursor.execute(f"CREATE TABLE m (c {type_} NULL)")
