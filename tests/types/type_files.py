"""Reads the type mappings in this folder, which tests check and `docs/types.md` shows.

A file has a line for each type; its first line names the columns. In `docs/types.md`, an indented
line shares a row with the line above it.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
Line = tuple[str, ...]


def table(name: str) -> tuple[Line, list[list[Line]]]:
    """Return the columns of a file, such as `duckdb/to_arrow`, and its lines, grouped by row."""
    head, *rest = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    columns = _cells(head)
    rows: list[list[Line]] = []
    for text in rest:
        line = _cells(text)
        assert len(line) == len(columns), f"{name}: expected {' | '.join(columns)}; found: {text}"
        if text.startswith(" "):
            rows[-1].append(line)
        else:
            rows.append([line])
    assert rows, f"{name}: expected lines"
    return columns, rows


def lines(name: str) -> list[Line]:
    """Return all lines of a file except the first."""
    _, rows = table(name)
    return [line for row in rows for line in row]


def examples(database: str) -> str:
    """Return the statements that create the user-defined types in a database's files."""
    return (FOLDER / database / "examples.sql").read_text(encoding="utf-8")


def _cells(line: str) -> Line:
    return tuple(cell.strip() for cell in line.split("|"))
