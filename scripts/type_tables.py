"""Write tables of types into the documentation, from the files in `tests/types/`.

Usage: ``.venv/bin/python scripts/type_tables.py [--check]``
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

# A script can import only from its own folder and from installed packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.marked_tables import code, main, markdown
from tests.types.type_files import FOLDER, examples, lines, table

from penstock.planning.support import join_names

DATABASES = {
    "postgresql": "PostgreSQL",
    "clickhouse": "ClickHouse",
    "duckdb": "DuckDB",
    "mysql": "MySQL",
    "parquet": "Parquet",
}
# Systems that are sources only, without a usual type for each kind of value.
SOURCES = ("mssql", "snowflake")
# All other columns hold names.
PROSE = ("kind", "stream", "because", "warning")
CREATE_EXTENSION = "CREATE EXTENSION "


def cell(column: str, values: Sequence[str]) -> str:
    """Return the contents of a column over the lines of a row; once, if they agree."""
    distinct = values[:1] if len(set(values)) == 1 else values
    if column not in PROSE:
        return " ".join(code(filter(None, distinct)))
    assert len(distinct) == 1, f"expected the same {column} in all lines of a row; found {values}"
    return distinct[0]


def types(name: str) -> str:
    """Return all types in a file."""
    columns, rows = table(name)
    return markdown(columns, [map(cell, columns, zip(*row, strict=True)) for row in rows])


def usual_types() -> str:
    """Return the type of each kind of value in each database."""
    _, rows = table("postgresql/kinds")
    by_database = [
        {kind: type_ for kind, type_, *_ in lines(f"{database}/kinds")} for database in DATABASES
    ]
    return markdown(
        ["kind", *DATABASES.values()],
        [
            [kind, *(cell("", [of.get(kind, "")]) for of in by_database)]
            for ((kind, *_), *_) in rows
        ],
    )


def example_types() -> str:
    """Return the types in PostgreSQL's tables that are not its own."""
    statements = examples("postgresql").splitlines()
    extensions = [line for line in statements if line.startswith(CREATE_EXTENSION)]
    names = code(line.removeprefix(CREATE_EXTENSION).rstrip(";") for line in extensions)
    intro = (
        f"The examples use these user-defined types, and the extensions {join_names(names, 'and')}:"
    )
    shown = [line for line in statements if line not in extensions]
    return "\n".join([textwrap.fill(intro, 100), "", "```sql", *shown, "```", ""])


def tables() -> dict[str, str]:
    """Return the page's tables, by the file that each comes from."""
    own = [
        f"{database}/{path.stem}"
        for database in (*DATABASES, *SOURCES)
        for path in sorted((FOLDER / database).glob("*.txt"))
        if path.stem not in ("binary", "kinds")  # the first has no page, the second its own
    ]
    return {
        "postgresql/examples.sql": example_types(),
        "*/kinds.txt": usual_types(),
        **{f"{name}.txt": types(name) for name in own},
    }


if __name__ == "__main__":
    marked = {
        f"tests/types/{name}, by scripts/type_tables.py": text for name, text in tables().items()
    }
    sys.exit(main({"docs/types.md": marked}))
