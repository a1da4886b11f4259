"""SQL Server and Azure SQL."""

from __future__ import annotations

from penstock.backends.mssql.backend import MssqlBackend
from penstock.backends.shared.installed import check_installed

# Which driver there is shows when it connects.
check_installed("pyarrow")

backend = MssqlBackend()
"""The object that the entry point names."""
