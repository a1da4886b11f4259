"""Parquet files as source and target, local and on S3."""

from __future__ import annotations

from penstock.backends.api.installation import check_installed
from penstock.backends.parquet.backend import ParquetBackend

check_installed("pyarrow", "duckdb", "boto3")

local = ParquetBackend(remote=False)
s3 = ParquetBackend(remote=True)
"""The backend objects that the entry points refer to."""
