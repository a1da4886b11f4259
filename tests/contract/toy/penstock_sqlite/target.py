"""The target's tables, and the control store beside them."""

from __future__ import annotations

from penstock.backends.sql.loads.load_plan import TargetTables
from penstock.backends.sql.one_file.target import FileTarget

from . import TARGET
from .dialect import ARROW_TYPES
from .session import SqliteFile


class SqliteTarget(FileTarget):
    capabilities = TARGET
    tables = TargetTables("sqlite")
    arrow_types = ARROW_TYPES

    def __init__(self, path: str, control_schema: str) -> None:
        super().__init__(SqliteFile(path), control_schema)


open_target = SqliteTarget
