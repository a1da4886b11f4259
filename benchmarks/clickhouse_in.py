"""ADBC's reader of PostgreSQL and clickhouse-connect's insert, in batches as large as Penstock's.

One stream.

Usage: clickhouse_in.py SOURCE TABLE TARGET LOADED LOWER:UPPER...   (blocks; an empty UPPER is open)
"""

import sys
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import pyarrow as pa
from adbc_driver_postgresql import dbapi

INSERT_BYTES = 32 << 20


def main() -> None:
    source, table, target, loaded, *ranges = sys.argv[1:]
    parts = urlsplit(target)
    client = clickhouse_connect.get_client(
        host=parts.hostname,
        port=parts.port,
        username=parts.username,
        password=unquote(parts.password or ""),
        autogenerate_session_id=False,
        compress=False,
    )
    with dbapi.connect(source) as connection, connection.cursor() as cursor:
        for text in ranges:
            lower, _, upper = text.partition(":")
            condition = f"ctid >= '({lower},0)'::tid"
            if upper:
                condition += f" AND ctid < '({upper},0)'::tid"
            cursor.execute(f"SELECT * FROM {table} WHERE {condition}")
            waiting: list[pa.RecordBatch] = []
            for batch in cursor.fetch_record_batch():
                waiting.append(batch)
                if sum(each.nbytes for each in waiting) >= INSERT_BYTES:
                    client.insert_arrow(loaded, pa.Table.from_batches(waiting))
                    waiting = []
            if waiting:
                client.insert_arrow(loaded, pa.Table.from_batches(waiting))
    client.close()


if __name__ == "__main__":
    main()
