"""A MySQL table to PostgreSQL, with connectorx into Arrow and pgpq to COPY. One stream.

Usage: connectorx_out.py SOURCE TABLE TARGET TABLE CONDITION...   (one for each partition)
"""

import sys

import connectorx
import psycopg
from pgpq import ArrowToPostgresBinaryEncoder
from psycopg import sql


def main() -> None:
    source, read, target, loaded_table, *conditions = sys.argv[1:]
    into = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(
        sql.Identifier(*loaded_table.split("."))
    )
    with psycopg.connect(target) as connection, connection.cursor() as cursor:
        for condition in conditions:
            query = f"SELECT * FROM {read} WHERE {condition}"
            table = connectorx.read_sql(source, query, return_type="arrow")
            encoder = ArrowToPostgresBinaryEncoder(table.schema)
            with cursor.copy(into) as copy:
                copy.write(encoder.write_header())
                for batch in table.to_batches(max_chunksize=16_384):
                    copy.write(encoder.write_batch(batch))
                copy.write(encoder.finish())
            connection.commit()


if __name__ == "__main__":
    main()
