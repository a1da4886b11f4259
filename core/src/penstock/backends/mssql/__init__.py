"""SQL Server and Azure SQL."""

from __future__ import annotations

from contextlib import suppress

from penstock.backends.api.installation import check_installed
from penstock.backends.mssql.capabilities import SOURCE, TARGET
from penstock.backends.mssql.drivers.urls import AnyUrls
from penstock.backends.sql.backend import ModularBackend

# Which driver is installed is checked when it connects.
check_installed("pyarrow")


class MssqlBackend(ModularBackend):
    """The backend of SQL Server."""

    def preload(self) -> None:
        super().preload()
        with suppress(ModuleNotFoundError):  # there may be another driver
            self._module("drivers.native")


backend = MssqlBackend(
    __name__,
    AnyUrls(),
    SOURCE,
    TARGET,
    kinds=("sqlserver",),
    rewrites="ALTER TABLE, TRUNCATE or a rebuilt index",
    snapshot_burden="kept old pages of the source's database",
)
"""The object that the entry point refers to."""
