"""Partitioned tables of MySQL, read partition by partition."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError, PlanningError, RunFailed
from penstock.events import Finished

from .mysql_pair import execute

pytestmark = pytest.mark.both_servers

TABLE = "CREATE TABLE t (id int{}, kind int NOT NULL, note varchar(20){}) PARTITION BY {}"
PARTS = [
    (
        "RANGE (id) (PARTITION p0 VALUES LESS THAN (1000),"
        " PARTITION `odd ``name` VALUES LESS THAN MAXVALUE)",
        ["t#P#p0", "t#P#odd `name"],
    ),
    (
        "LIST (kind) SUBPARTITION BY HASH (id) SUBPARTITIONS 2"
        " (PARTITION a VALUES IN (0, 1, 2), PARTITION b VALUES IN (3, 4, 5, 6))",
        ["t#P#a", "t#P#b"],
    ),
    ("HASH (id) PARTITIONS 3", ["t#P#p0", "t#P#p1", "t#P#p2"]),
]


def fill(url: str) -> None:
    numbers = "WITH RECURSIVE s (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < 900)"
    execute(
        url, f"INSERT INTO t {numbers} SELECT seq + 550, seq % 7, concat('row ', seq) FROM s",
        "ANALYZE TABLE t",
    )  # fmt: skip


def spec(mysql_url: str, target_url: str, **options: object) -> CopySpec:
    arguments = {
        "source": mysql_url, "target": target_url, "table": "t", "target_table": "t",
        "mode": "recreate", "strategy": "children", "degree": 2, "verify": "checksums", **options,
    }  # fmt: skip
    return CopySpec(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("parts", "names"), PARTS)
def test_a_table_is_copied_partition_by_partition(
    mysql_url: str, target_url: str, parts: str, names: list[str]
) -> None:
    execute(mysql_url, TABLE.format("", "", parts))
    fill(mysql_url)
    request = spec(mysql_url, target_url)
    found = [str(partition.extent) for partition in penstock.plan(request).partitions]
    assert [name.partition(".")[2].strip('"') for name in found] == names
    events = list(penstock.copy(request))
    assert isinstance(events[-1], Finished)
    assert (events[-1].rows, events[-1].committed) == (900, len(names))


def test_which_strategy_is_chosen(mysql_url: str, target_url: str) -> None:
    parts, _ = PARTS[2]
    execute(mysql_url, TABLE.format("", "", parts))
    fill(mysql_url)
    request = spec(mysql_url, target_url, strategy="auto", partitions="1KB")
    planned = penstock.plan(request)
    assert planned.strategy == "children"
    assert any("a table in 3 partitions of about" in reason for reason in planned.reasons)
    execute(mysql_url, "ALTER TABLE t ADD PRIMARY KEY (id)", "ANALYZE TABLE t")
    assert penstock.plan(request).strategy == "range"


def test_a_table_without_partitions(mysql_url: str, target_url: str) -> None:
    execute(mysql_url, "CREATE TABLE t (id int, kind int)")
    with pytest.raises(PenstockError, match="to have child tables, all of which"):
        penstock.plan(spec(mysql_url, target_url))


def test_partitions_that_changed_after_planning(mysql_url: str, target_url: str) -> None:
    parts, _ = PARTS[0]
    execute(mysql_url, TABLE.format("", "", parts))
    fill(mysql_url)
    with psycopg.connect(target_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int CHECK (id < 1000), kind int, note text)")
    request = spec(mysql_url, target_url, mode="append", run_id="parts", attempts=1, verify="none")
    with pytest.raises(RunFailed):
        list(penstock.copy(request))
    halves = "PARTITION a VALUES LESS THAN (500), PARTITION p0 VALUES LESS THAN (1000)"
    execute(mysql_url, f"ALTER TABLE t REORGANIZE PARTITION p0 INTO ({halves})")
    with pytest.raises(PlanningError, match="consists of other tables"):
        list(penstock.resume("parts", source=request.source, target=request.target))
    with psycopg.connect(target_url) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT id) FROM t").fetchone()
    assert found == (449, 449)
