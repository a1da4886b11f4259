"""ADBC's reader and pyarrow's Parquet writer, with one file for each block range. One stream.

Usage: adbc_out.py SOURCE TABLE FOLDER LOWER:UPPER...   (blocks; an empty UPPER is open)
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi


def main() -> None:
    source, table, folder, *ranges = sys.argv[1:]
    with dbapi.connect(source) as connection, connection.cursor() as cursor:
        for text in ranges:
            lower, _, upper = text.partition(":")
            condition = f"ctid >= '({lower},0)'::tid"
            if upper:
                condition += f" AND ctid < '({upper},0)'::tid"
            cursor.execute(f"SELECT * FROM {table} WHERE {condition}")
            batches = cursor.fetch_record_batch()
            path = Path(folder, f"{lower}.parquet")
            with pq.ParquetWriter(path, batches.schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_batch(batch)


if __name__ == "__main__":
    main()
