"""Parts of a definition beyond columns are created or listed: into ClickHouse and elsewhere."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from penstock import CopySpec, copy
from penstock.events import Finished
from penstock_testkit import connect_clickhouse

from ...conftest import fresh_clickhouse

RICH = """
    CREATE TABLE rich (
        id UInt32, n Int32 DEFAULT abs(-7) CODEC(Delta, ZSTD(1)), day Date DEFAULT today(),
        word String DEFAULT concat('a)', '\\'b'), `we\\`ird` Int32,
        twice Int32 MATERIALIZED n * 2,
        CONSTRAINT odd CHECK n % 2 = 1 AND word != '),', CONSTRAINT named CHECK `we\\`ird` >= 0,
        INDEX by_word lower(word) TYPE minmax GRANULARITY 1
    ) ENGINE = ReplacingMergeTree(n) PARTITION BY toYYYYMM(day) ORDER BY (id, n)
    TTL day + INTERVAL 900 YEAR SETTINGS index_granularity = 1024 COMMENT 'it''s'
"""
LISTED = {
    ("table options", "ReplacingMergeTree(n)"),
    ("table options", "TTL day + toIntervalYear(900)"),
    ("table options", "SETTINGS index_granularity = 1024"),
    ("column options", "n: CODEC(Delta(4), ZSTD(1))"),
    ("generated columns", "twice: MATERIALIZED n * 2"),
    ("indexes", "by_word"),
}


def recreated(source: str, target: str, table: str) -> set[tuple[str, str]]:
    spec = CopySpec(
        source=source, target=target, table=f"{source.rpartition('/')[2]}.rich",
        target_table=table, mode="recreate", snapshot="none",
    )  # fmt: skip
    *_, finished = copy(spec)
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    return {(item.kind, item.name) for item in finished.not_copied}


def test_into_clickhouse(clickhouse_server: str) -> None:
    with fresh_clickhouse(clickhouse_server) as source, fresh_clickhouse(
        clickhouse_server
    ) as target:  # fmt: skip
        with closing(connect_clickhouse(source)) as client:
            client.command(RICH)
            client.command("INSERT INTO rich (id, `we\\`ird`) VALUES (1, 1), (2, 2)")
        assert recreated(source, target, f"{target.rpartition('/')[2]}.rich") == LISTED
        with closing(connect_clickhouse(target)) as client:
            client.command("INSERT INTO rich (id, `we\\`ird`) VALUES (3, 3)")
            found = client.query("SELECT n, word, day = today() FROM rich WHERE id = 3")
            assert found.result_rows == [(7, "a)'b", 1)]
            ((statement,),) = client.query("SHOW CREATE TABLE rich").result_rows
        assert "CONSTRAINT odd CHECK (((n % 2) = 1) AND (word != '),'))" in statement
        assert "CONSTRAINT named CHECK" in statement


def test_into_another_system(clickhouse_server: str, tmp_path: Path) -> None:
    with fresh_clickhouse(clickhouse_server) as source:
        with closing(connect_clickhouse(source)) as client:
            client.command(RICH)
        found = recreated(source, f"duckdb:///{tmp_path}/made.duckdb", "main.rich")
    assert found >= LISTED
    kinds = {kind for kind, _ in found - LISTED}
    assert kinds == {"defaults", "check constraints", "partitioning"}
