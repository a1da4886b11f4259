"""Rows of a Python process as a source, over the readers of Parquet files."""

from __future__ import annotations

from penstock.backends.api.installation import check_installed
from penstock.backends.arrow.backend import ArrowBackend

check_installed("pyarrow", "duckdb", "boto3")

backend = ArrowBackend()
"""The backend object that the entry point refers to."""
