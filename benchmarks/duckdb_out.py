"""Parquet files read by DuckDB and written as CSV to its standard output.

Usage: duckdb_out.py FILE...
"""

import sys

import duckdb


def main() -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = connection.read_parquet(sys.argv[1:])
        rows.write_csv("/dev/stdout", header=False)


if __name__ == "__main__":
    main()
