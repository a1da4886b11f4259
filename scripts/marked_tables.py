"""Tables that scripts write into pages, each between a marker with its name and an end marker."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END = "<!-- end of table -->\n"


def code(words: Iterable[object]) -> list[str]:
    return [f"`{word}`" for word in words]


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = list(head)
    cells = [columns, ["---"] * len(columns), *rows]
    return "".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in cells)


def replace_table(page: str, name: str, table: str) -> str:
    """Return the page with a new table below the marker.

    Args:
        page: the text of the page.
        name: the name in the marker.
        table: the text of the new table.

    Raises:
        LookupError: the page lacks the marker, or its end.
    """
    begin = f"<!-- table: {name} -->\n"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise LookupError(f"expected {begin.strip()} and {END.strip()}; found no such lines")
    return f"{before}{begin}\n{table}\n{END}{after}"


def main(pages: Mapping[str, Mapping[str, str]]) -> int:
    """Write the tables, or with ``--check`` list the pages that are out of date.

    Args:
        pages: tables by the name of their page and the name in their marker.
    """
    status = 0
    for name, tables in pages.items():
        page = new = (ROOT / name).read_text(encoding="utf-8")
        try:
            for marker, table in tables.items():
                new = replace_table(new, marker, table)
        except LookupError as error:
            print(f"{name}: {error}")
            return 1
        if new == page:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{name}: its tables are out of date; run {sys.argv[0]}")
            status = 1
        else:
            (ROOT / name).write_text(new, encoding="utf-8")
    return status
