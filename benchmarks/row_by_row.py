"""psycopg's copy objects, row by row: a loop from the manual. One stream.

Usage: row_by_row.py SOURCE TARGET TABLE LOWER:UPPER...   (blocks; an empty UPPER is open)
"""

import sys

import psycopg
from psycopg import sql


def main() -> None:
    source_url, target_url, table, *ranges = sys.argv[1:]
    with (
        psycopg.connect(source_url) as source,
        psycopg.connect(target_url) as target,
        source.cursor() as reading,
        target.cursor() as writing,
    ):
        for text in ranges:
            with (
                reading.copy(copy_out(table, text)) as out,
                writing.copy(copy_in(table)) as into,
            ):
                for row in out:
                    into.write(row)
            target.commit()


def copy_out(table: str, text: str) -> sql.Composed:
    """Yield a COPY of a block range to the client."""
    lower, _, upper = text.partition(":")
    condition = sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({lower},0)"))
    if upper:
        condition += sql.SQL(" AND ctid < {}::tid").format(sql.Literal(f"({upper},0)"))
    return sql.SQL("COPY (SELECT * FROM {} WHERE {}) TO STDOUT (FORMAT binary)").format(
        sql.Identifier(*table.split(".")), condition
    )


def copy_in(table: str) -> sql.Composed:
    """Yield a COPY from the client."""
    return sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(sql.Identifier(*table.split(".")))


if __name__ == "__main__":
    main()
