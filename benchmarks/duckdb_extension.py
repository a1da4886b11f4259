"""A table of PostgreSQL copied into a new file by DuckDB's postgres extension.

Usage: duckdb_extension.py URL TABLE FILE THREADS
"""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_postgres_scanner


def main() -> None:
    url, table, file, threads = sys.argv[1:]
    (extension,) = Path(duckdb_extension_postgres_scanner.__file__).parent.glob(
        "**/*.duckdb_extension"
    )
    with duckdb.connect(file, config={"threads": threads}) as connection:
        connection.load_extension(str(extension))
        connection.execute(f"ATTACH '{url}' AS source (TYPE postgres, READ_ONLY)")
        schema, _, name = table.partition(".")
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.{name} AS FROM source.{schema}.{name}")


if __name__ == "__main__":
    main()
