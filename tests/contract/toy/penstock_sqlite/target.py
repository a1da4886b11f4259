"""The target's tables, and the control store beside them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.sql.load_plan import TargetTables
from penstock.backends.sql.one_file.target import FileTarget
from penstock.backends.sql.session import Session
from penstock.model.tables import Column

from . import TARGET
from .database import SqliteFile
from .dialect import with_arrow


class SqliteTarget(FileTarget):
    capabilities = TARGET
    tables = TargetTables("sqlite")

    def __init__(self, path: str, control_schema: str) -> None:
        super().__init__(SqliteFile(path), control_schema)

    def in_arrow(
        self, session: Session, rows: str, columns: Sequence[Column]
    ) -> tuple[Column, ...]:
        return with_arrow(columns, "target")


open_target = SqliteTarget
