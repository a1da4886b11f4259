"""ADBC's ingest of Parquet files into an existing table, as in its manual. One stream.

Usage: adbc_in.py TARGET TABLE FILE...
"""

import sys

import pyarrow.dataset as ds
from adbc_driver_postgresql import dbapi


def main() -> None:
    target, table, *files = sys.argv[1:]
    schema, _, name = table.partition(".")
    with dbapi.connect(target) as connection, connection.cursor() as cursor:
        for file in files:
            batches = ds.dataset(file).scanner(batch_size=65_536).to_reader()
            cursor.adbc_ingest(name, batches, mode="append", db_schema_name=schema)
            connection.commit()


if __name__ == "__main__":
    main()
