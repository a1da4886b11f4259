"""Checksums of wide tables: an expression over all columns that databases still parse."""

from __future__ import annotations

import duckdb

from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.sql.dialect import Dialect


def test_thousands_of_texts_are_joined() -> None:
    texts = [f"'{number}'" for number in range(3000)]
    with duckdb.connect() as connection:
        for expression in (DUCKDB.joined_all(texts), Dialect.joined_all(DUCKDB, texts)):
            ((joined,),) = connection.execute(f"SELECT {expression}").fetchall()
            assert joined == "".join(map(str, range(3000)))
