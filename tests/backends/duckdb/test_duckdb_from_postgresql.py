"""Copies from PostgreSQL: how the rows lie in the file afterwards."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from psycopg import Connection

import penstock
from penstock import CopySpec
from penstock.events import Finished

ROWS = 850_000
GROUP = 122_880


@pytest.mark.parametrize("mode", ["recreate", "append"])
def test_no_row_group_is_written_twice(
    source: Connection, source_url: str, tmp_path: Path, mode: penstock.ModeName
) -> None:
    source.execute(
        f"CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1, {ROWS}) AS r (i)"
    )
    source.execute("ANALYZE t")
    source.commit()
    path = tmp_path / "target.duckdb"
    if mode == "append":
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE SCHEMA public; CREATE TABLE public.t (i INTEGER, md5 TEXT)")
    spec = CopySpec(
        source=source_url,
        target=f"duckdb:///{path}",
        table="public.t",
        mode=mode,
        degree=2,
        verify="checksums",
    )
    *_, finished = penstock.copy(spec)
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    with duckdb.connect(str(path), read_only=True) as connection:
        groups = connection.execute(
            "SELECT any_value(count) FROM pragma_storage_info('public.t') WHERE column_name = 'i'"
            " AND segment_type <> 'VALIDITY' GROUP BY row_group_id ORDER BY row_group_id"
        ).fetchall()
    assert sum(count for (count,) in groups) == ROWS
    # Each of the two partitions ends with its own incomplete group: none was merged.
    assert [count == GROUP for (count,) in groups] == 2 * [*3 * [True], False]
