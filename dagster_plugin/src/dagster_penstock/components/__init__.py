"""Components that copy tables: those listed in `defs.yaml`, or those of a file next to it."""

from __future__ import annotations

from dagster_penstock.components.copy_file import CopyFileComponent
from dagster_penstock.components.copy_tables import CopyTablesComponent

__all__ = ["CopyFileComponent", "CopyTablesComponent"]
