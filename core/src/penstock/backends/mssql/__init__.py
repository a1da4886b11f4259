"""SQL Server and Azure SQL."""

from __future__ import annotations

from penstock.backends.mssql.backend import MssqlBackend

backend = MssqlBackend()
"""The object that the entry point names."""
