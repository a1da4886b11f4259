"""The state of `CopyFileComponent`: tables that the source's catalog had when it was refreshed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock import FoundTable, FoundTables, PenstockError, from_json, to_json

_VERSION = 1


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The tables of a file, with the time at which the catalog was read."""

    read_at: str
    """ISO 8601, in UTC."""
    found: FoundTables

    @classmethod
    def now(cls, found: FoundTables) -> CatalogState:
        """Return the state of tables that have just been found."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), found)

    @classmethod
    def read(cls, path: Path | None) -> CatalogState | None:
        """Return the state of a file; None if there is none, or another version has written it."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8")) if path is not None else None
            if not isinstance(raw, Mapping) or raw["version"] != _VERSION:
                return None
            return cls(str(raw["read_at"]), from_json(FoundTables, raw["found"]))
        except (OSError, ValueError, KeyError, PenstockError):
            return None

    def write(self, path: Path) -> None:
        """Write the state to a file; it holds names, types and comments, but no connection."""
        raw = {"version": _VERSION, "read_at": self.read_at, "found": to_json(self.found)}
        path.write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def changes_since(self, before: CatalogState | None) -> Iterator[str]:
        """Yield a line for each table that is new, gone, or has other columns or comments.

        Args:
            before: the state to compare with; None if there was none, so that every table is new.
        """
        now = {table.name: table for table in self.found.tables}
        old = {table.name: table for table in before.found.tables} if before else {}
        for name in sorted(now.keys() | old.keys()):
            if name not in old:
                yield f"+ {name}"
            elif name not in now:
                yield f"- {name}"
            elif differences := ", ".join(_differences(old[name], now[name])):
                yield f"~ {name}: {differences}"


def _differences(before: FoundTable, now: FoundTable) -> Iterator[str]:
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in now.columns}
    for name in [*new, *(name for name in old if name not in new)]:
        if name not in old:
            yield f"+ {name} {new[name].type}"
        elif name not in new:
            yield f"- {name}"
        elif old[name].type != new[name].type:
            yield f"{name} {old[name].type} -> {new[name].type}"
        elif old[name].nullable != new[name].nullable:
            yield f"{name} {'NULL' if new[name].nullable else 'NOT NULL'}"
    if (before.comment, before.comments) != (now.comment, now.comments):
        yield "comments"
