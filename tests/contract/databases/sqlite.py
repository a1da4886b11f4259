"""SQLite for the contract suite; its backend is the toy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from ..database import Database, Places, SqlDatabase, in_folder

sqlite3.register_adapter(date, date.isoformat)
sqlite3.register_converter("DATE", lambda text: date.fromisoformat(text.decode()))


class SQLite(SqlDatabase):
    name = "sqlite"
    statements = ((130, 2), (10, 18))
    made_type = "TEXT"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "t.sqlite"
        self.url = f"sqlite:///{self._path}"
        self.execute("PRAGMA user_version = 1")  # creates a database without tables

    @classmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        return in_folder(cls, places)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        new_connection = sqlite3.connect(self._path, detect_types=sqlite3.PARSE_DECLTYPES)
        with closing(new_connection) as connection, connection:
            yield connection

    def everything(self) -> list[str]:
        files = [str(path.relative_to(self._folder)) for path in self._folder.rglob("*")]
        with self.connected() as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        return sorted([*files, *(name for (name,) in tables)])
