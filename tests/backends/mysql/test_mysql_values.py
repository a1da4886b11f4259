"""Numbers and times that MySQL writes, casts and names in its own way, copied into files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock import CopySpec, PlanningError, copy, plan
from penstock.events import Committed

from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

TABLE = """
    CREATE TABLE item (
        small smallint, whole int, wide bigint unsigned, tiny tinyint(1), filled int(8) ZEROFILL,
        exact decimal(10, 2) unsigned, padded decimal(10, 2) ZEROFILL, twice double, made year,
        moment timestamp(3) NULL, local datetime, note varchar(20), code binary(4),
        free varbinary(20), kind enum('a', 'b'), flags bit(3)
    )
"""
ROWS = (
    "INSERT INTO item VALUES"
    " (-1, -2, 0, 0, 0, 0.5, 0.25, 0.1, '0000', '1970-01-01 00:00:01.5', '1000-01-01', 'a', 'b',"
    " 'c\\0', 'a', 1),"
    " (7, 8, 18446744073709551615, 1, 42, 12, 12.5, -1e300, 2155, '2038-01-19 03:14:07.999',"
    " '9999-12-31 23:59:59', 'é', 'abcd', '', 'b', 7),"
    f" ({', '.join(['NULL'] * 16)})"
)
KEYS = (
    *("small", "whole", "wide", "tiny", "filled", "exact", "padded", "twice", "made", "moment"),
    *("local", "note", "code", "free", "kind"),
)


@pytest.fixture
def spec(mysql_url: str, tmp_path: Path) -> CopySpec:
    execute(mysql_url, "SET sql_mode = '', time_zone = '+00:00'", TABLE, ROWS)
    ((database,),) = rows(mysql_url, "SELECT database()")
    return CopySpec(
        source=mysql_url,
        table=f"{database}.item",
        target=f"file://{tmp_path}/items",
        verify="checksums",
        degree=1,
    )


@pytest.mark.parametrize("key", KEYS)
def test_each_value_gets_a_partition(spec: CopySpec, key: str) -> None:
    """No two values share a partition."""
    spec = replace(spec, strategy="values", key=key)
    committed = {e.partition_id: e.rows for e in copy(spec) if isinstance(e, Committed)}
    assert committed == {"p0001": 1, "p0002": 1, "p0003": 0, "p0004": 1}


def test_partitions_by_values_of_a_query(spec: CopySpec) -> None:
    listed = "SELECT 0 UNION SELECT 18446744073709551615"
    spec = replace(spec, strategy="values", key="wide", values_query=listed)
    assert [e.rows for e in copy(spec) if isinstance(e, Committed)] == [1, 1, 0, 1]


def test_values_that_no_condition_can_select(spec: CopySpec) -> None:
    with pytest.raises(PlanningError, match="--key flags: no condition can name values of type"):
        plan(replace(spec, strategy="values", key="flags"))


def test_ranges_of_widely_spaced_keys(mysql_url: str, tmp_path: Path) -> None:
    """One distant key does not put all others into one range."""
    execute(
        mysql_url,
        "CREATE TABLE far (id bigint unsigned PRIMARY KEY)",
        f"INSERT INTO far VALUES {', '.join(f'({number})' for number in range(1000))}",
        "INSERT INTO far VALUES (9223372036854775808), (18446744073709551615)",
        "ANALYZE TABLE far",
    )
    ((database,),) = rows(mysql_url, "SELECT database()")
    spec = CopySpec(source=mysql_url, table=f"{database}.far", target=f"file://{tmp_path}/items")
    found = plan(replace(spec, strategy="range", key="id", partitions=4))
    assert [200 < (each.rows or 0) < 300 for each in found.partitions] == [True] * 4
