"""A whole table by dlt, pyarrow and CSV: source URL, target URL, its schema, SCHEMA.TABLE."""

from __future__ import annotations

import sys

import dlt
from dlt.sources.sql_database import sql_table

# dlt requires a password, even for servers that need none.
source, target, schema = (text.replace("postgres@", "postgres:none@") for text in sys.argv[1:4])
of, _, table = sys.argv[4].partition(".")
rows = sql_table(
    credentials=source.replace("postgresql://", "postgresql+psycopg2://"),
    schema=of,
    table=table,
    backend="pyarrow",
    reflection_level="full_with_precision",
)
pipeline = dlt.pipeline(
    pipeline_name=f"copy_{schema}",
    table=dlt.destinations.postgres(target),
    dataset_name=schema,
)
pipeline.run(rows, table_name=table, write_disposition="replace", loader_file_format="csv")
