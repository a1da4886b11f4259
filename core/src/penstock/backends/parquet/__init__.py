"""Parquet files as source and target, local and on S3."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.backends.parquet.backend import ParquetBackend

# Imported where they are used; that one is not installed is said before.
for _name in ("boto3", "duckdb", "pyarrow"):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)

local = ParquetBackend(remote=False)
s3 = ParquetBackend(remote=True)
"""The backend objects that the entry points name."""
