"""Configuration for the contract suite, one module per backend."""

from __future__ import annotations

from collections.abc import Mapping

from ..database import Database
from .clickhouse import ClickHouse
from .duckdb import DuckDB
from .mssql import MSSQL
from .mysql import MySQL
from .parquet import Parquet
from .postgresql import PostgreSQL
from .s3 import S3
from .snowflake import Snowflake
from .sqlite import SQLite

DATABASES: Mapping[str, type[Database]] = {
    page.name: page
    for page in (PostgreSQL, ClickHouse, DuckDB, MSSQL, MySQL, Parquet, Snowflake, SQLite)
}

PLACES: Mapping[str, type[Database]] = {**DATABASES, "s3": S3}
"""All places that can be opened; a bucket is another place for Parquet files."""
