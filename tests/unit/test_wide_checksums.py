"""Checksums of wide tables: an expression over all columns that databases still parse."""

from __future__ import annotations

import duckdb

from penstock.backends.duckdb.dialect import DUCKDB


def test_thousands_of_texts_are_joined() -> None:
    texts = [f"'{number}'" for number in range(5000)]
    with duckdb.connect() as connection:
        ((joined,),) = connection.execute(f"SELECT {DUCKDB.joined(texts)}").fetchall()
    assert joined == "".join(map(str, range(5000)))
