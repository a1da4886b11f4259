"""Figures about the rows from both servers, computed without Penstock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

# A sum does not depend on the order of rows, and changes if a row is missing or duplicated.
CHECKSUM = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} AS t"
RECORDS = """\
SELECT partition_id, attempt, rows, bytes, committed_at::text
FROM penstock.commit_record WHERE run_id = %s ORDER BY partition_id"""


@dataclass(frozen=True)
class Record:
    partition_id: str
    attempt: int
    rows: int
    bytes: int
    committed_at: str


def checksums(
    source: str, target: str, table: str, target_table: str | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return rows and checksum of a table on both sides, computed at the same time.

    Args:
        source: the source's URL.
        target: the target's URL.
        table: the table's name in the source, with its schema.
        target_table: the table's name in the target, if it differs.
    """
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(_checksum, (source, target), (table, target_table or table))
    return ours, theirs


def _checksum(url: str, table: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        found = connection.execute(CHECKSUM.format(table=table).encode()).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def commit_records(target: str, run_id: str) -> list[Record]:
    with psycopg.connect(target) as connection:
        return [Record(*row) for row in connection.execute(RECORDS, [run_id]).fetchall()]
