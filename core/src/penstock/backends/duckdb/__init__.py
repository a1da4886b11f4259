"""DuckDB as source and target.

backend.py     the object that the entry point names
location.py    URLs
connection.py  sessions, set the same everywhere; background.py: their long calls, on a thread
errors.py      what DuckDB's errors mean for us; rows.py: results, read to their end
quoting.py     names, values and bounds; condition.py: a partition's extent
values.py      how values travel, and how they are compared
catalog.py     facts about any rows that DuckDB reads, for planning; keys.py: those about a key
queries.py     a query, checked
source.py      database files; tables.py: what their catalog knows; snapshot.py: one moment of them
reader.py      record batches
target.py      the target's tables; control.py: run and commit records
definition.py  how a table is made; fitting.py: what goes into which column
load_plan.py   the steps around a load
folder.py      whose turn it is to write; database.py: a file, opened for a moment
writer.py      a staged partition; loading.py: into the table, in one transaction with its record
"""

from __future__ import annotations

from penstock.backends.duckdb.backend import DuckBackend

backend = DuckBackend()
"""The backend object that the entry point names."""
