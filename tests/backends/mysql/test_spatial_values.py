"""Spatial values arrive with their reference system, everywhere, and checksums compare it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.one_copy import OneCopy

from penstock import verify
from penstock.backends.mysql.connection import connect

from .mysql_pair import execute, rows

if TYPE_CHECKING:
    from tests.conftest import Connection

TABLE = "CREATE TABLE places (id int PRIMARY KEY, place point, shape geometry NOT NULL)"
# The coordinates of a geographic system are written in its own order.
GEOGRAPHIC = "ST_GeomFromText('POINT(48 11)', 4326)"
ROWS = f"""
    INSERT INTO places VALUES
        (1, {GEOGRAPHIC}, {GEOGRAPHIC}), (2, NULL, ST_GeomFromText('LINESTRING(0 0,1 2)')),
        (3, ST_GeomFromText('POINT(1 2)', 3857),
            ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))', 3857)),
        (4, NULL, ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))', 3857)),
        (5, NULL, ST_GeomFromText('MULTIPOINT(1 1,2 2)', 2180))
"""
ALL = "SELECT id, hex(place), hex(shape), ST_SRID(shape), ST_AsText(shape) FROM places ORDER BY id"


@pytest.fixture
def database(mysql_url: str) -> str:
    execute(mysql_url, TABLE, ROWS)
    return mysql_url.rpartition("/")[2]


def is_mariadb(url: str) -> bool:
    with closing(connect(url, "source")) as connection:
        return connection.is_mariadb


def test_between_tables(mysql_url: str, database: str) -> None:
    options = {"source": mysql_url, "target": mysql_url, "table": f"{database}.places"}
    copied = OneCopy(**options, target_table=f"{database}.copies", verify="checksums")
    found = rows(mysql_url, ALL.replace("places", "copies"))
    assert found == rows(mysql_url, ALL)
    run_id = copied.done().run_id
    assert verify(run_id, source=mysql_url, target=mysql_url, checksum=True).ok
    # Only the reference system changes.
    execute(mysql_url, "UPDATE copies SET shape = ST_GeomFromText('LINESTRING(0 0,1 2)', 3857)"
            " WHERE id = 2")  # fmt: skip
    assert not verify(run_id, source=mysql_url, target=mysql_url, checksum=True).ok


def test_through_postgresql(
    source: Connection, source_url: str, mysql_url: str, database: str
) -> None:
    name = f"{database}.places"
    OneCopy(
        source=mysql_url, table=name, target=source_url, target_table="public.places",
        verify="checksums",
    ).done()  # fmt: skip
    # EWKB, as PostGIS writes it.
    ((octets,),) = source.execute(b"SELECT encode(place, 'hex') FROM places WHERE id = 3")
    assert octets == "0101000020110f0000000000000000f03f0000000000000040"
    before = rows(mysql_url, ALL)
    execute(mysql_url, "DELETE FROM places")
    OneCopy(
        source=source_url, table="public.places", target=mysql_url, target_table=name,
        verify="checksums",
    ).done()  # fmt: skip
    assert rows(mysql_url, ALL) == before


def test_through_files(mysql_url: str, database: str, tmp_path: Path) -> None:
    name, folder = f"{database}.places", f"file://{tmp_path}/places"
    OneCopy(source=mysql_url, table=name, target=folder, verify="checksums").done()
    before = rows(mysql_url, ALL)
    execute(mysql_url, "DELETE FROM places")
    OneCopy(source=folder, target=mysql_url, target_table=name, verify="checksums").done()
    assert rows(mysql_url, ALL) == before


def test_a_column_of_one_reference_system(mysql_url: str, tmp_path: Path) -> None:
    """Values without a system get the column's."""
    if is_mariadb(mysql_url):
        pytest.skip("MariaDB has no such columns")
    database = mysql_url.rpartition("/")[2]
    execute(mysql_url, "CREATE TABLE places (id int, place point SRID 4326, shape geometry)")
    execute(
        mysql_url, f"INSERT INTO places VALUES (1, {GEOGRAPHIC}, {GEOGRAPHIC}), (2, NULL, NULL)"
    )
    before = rows(mysql_url, ALL)
    options = {"source": mysql_url, "target": mysql_url, "table": f"{database}.places"}
    OneCopy(**options, target_table=f"{database}.copies", verify="checksums").done()
    assert rows(mysql_url, ALL.replace("places", "copies")) == before
    plain = bytes.fromhex("010100000000000000000026400000000000004840")
    ids, missing = pa.array([1, 2], pa.int32()), pa.nulls(2, pa.binary())
    table = pa.table({"id": ids, "place": [plain, None], "shape": missing})
    ds.write_dataset(table, tmp_path, format="parquet")
    copied = OneCopy(
        source=f"file://{tmp_path}", target=mysql_url, target_table=f"{database}.copies",
        mode="truncate", verify="checksums",
    )  # fmt: skip
    assert any("a value without a SRID gets the column's, 4326" in str(e) for e in copied.events)
    copied.done()
    assert [row[1] for row in rows(mysql_url, ALL.replace("places", "copies"))] == [
        row[1] for row in before
    ]
