"""One incremental load by dlt: source URL, target URL, name of the target's schema."""

from __future__ import annotations

import sys

import dlt
from dlt.sources.sql_database import sql_table

# dlt requires a password, even for servers that need none.
source, target, schema = (text.replace("postgres@", "postgres:none@") for text in sys.argv[1:])
rows = sql_table(
    credentials=source.replace("postgresql://", "postgresql+psycopg2://"),
    schema="losses",
    table="items",
    incremental=dlt.sources.incremental("updated_at"),
)
rows.apply_hints(primary_key="id", write_disposition="merge")
pipeline = dlt.pipeline(
    pipeline_name=f"night_{schema}",
    table=dlt.destinations.postgres(target),
    dataset_name=schema,
)
pipeline.run(rows, table_name="items")
