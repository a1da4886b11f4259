"""Write the table of supported parts of a definition into the page on moving a database.

For each pair of systems, it shows the parts that are rendered, and those that the tests find in the
sources' catalogs.

Usage: ``.venv/bin/python scripts/parts_tables.py [--check]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

# A script can import only from its own folder and from installed packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.marked_tables import main, markdown
from tests.backends.sql.known_parts import KNOWN

from penstock.backends.api.facts import Siblings
from penstock.backends.clickhouse.dialect import CLICKHOUSE
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mysql.dialect import MySqlDialect
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.sql.definitions.rendering import Rendering, computed_columns
from penstock.backends.sql.dialect import NOW, Dialect
from penstock.model.table_model import (
    CHECKS,
    COMMENTS,
    DEFAULTS,
    FOREIGN_KEYS,
    GENERATED,
    IDENTITIES,
    INDEXES,
    ON_UPDATES,
    PARTITIONING,
    PRIMARY_KEYS,
    UNIQUE_KEYS,
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    ForeignKeyModel,
    Generated,
    Identity,
    IndexModel,
    TableModel,
)
from penstock.model.tables import TableRef

MADE, STATEMENT, LISTED = "created", "statement", "listed"
TARGETS: Mapping[str, Dialect | None] = {
    "PostgreSQL": DIALECT,
    "MySQL, MariaDB": MySqlDialect(),
    "SQL Server": MSSQL,
    "DuckDB": DUCKDB,
    "Snowflake": SNOWFLAKE,
    "ClickHouse": CLICKHOUSE,
    "Parquet": None,
}
SOURCES = ("postgresql", "mysql", "mssql", "duckdb", "snowflake", "clickhouse")
NAMES = dict(zip(SOURCES, TARGETS, strict=False))
TABLE, OTHER = TableRef("s", "t"), TableRef("s", "other")
KINDS = {"a": "integer", "b": "text", "at": "timestamp", "sum": "integer"}
NUMBER = ColumnModel("a", nullable=False)
POSITIVE = Expression("a > 0", [">", ["column", "a"], ["value", "number", "0"]])
SUM = Expression("a + 1", ["+", ["column", "a"], ["value", "number", "1"]])
ODD = Expression("a % 2 = 1")
KEY = ForeignKeyModel("f", ("a",), OTHER, ("id",))


def _column(**parts: object) -> TableModel:
    return TableModel((replace(NUMBER, **parts),))  # type: ignore[arg-type]


def _now(name: str) -> TableModel:
    expression = Expression("now()", ["call", NOW])
    return TableModel((replace(ColumnModel("at"), **{name: expression}),))  # type: ignore[arg-type]


ONE = Expression("1", ["value", "number", "1"])
# The part, the kind under which it is listed, and a table with that part.
PARTS: tuple[tuple[str, str, TableModel], ...] = (
    ("primary keys", PRIMARY_KEYS, TableModel()),
    ("unique constraints", UNIQUE_KEYS, TableModel()),
    ("identity columns", IDENTITIES, _column(identity=Identity())),
    ("identity columns with larger steps", IDENTITIES, _column(identity=Identity(1, 5))),
    ("defaults that are values", DEFAULTS, _column(default=ONE)),
    ("defaults that are the current time", DEFAULTS, _now("default")),
    ("other defaults", DEFAULTS, _column(default=Expression("abs(-1)"))),
    ("defaults on update", ON_UPDATES, _now("on_update")),
    (
        "generated columns that translate",
        GENERATED,
        TableModel((NUMBER, ColumnModel("sum", generated=Generated(SUM)))),
    ),
    ("other generated columns", GENERATED, _column(generated=Generated(Expression("b + b")))),
    ("checks that translate", CHECKS, TableModel(checks=(CheckModel("c", POSITIVE),))),
    ("other checks", CHECKS, TableModel(checks=(CheckModel("c", ODD),))),
    (
        "labels of enum types, as a check",
        CHECKS,
        TableModel((ColumnModel("b", ColumnType("enum", labels=("x", "y"))),)),
    ),
    ("indexes on columns", INDEXES, TableModel(indexes=(IndexModel("i", ("a",)),))),
    ("their sort orders", INDEXES, TableModel(indexes=(IndexModel("i", ("a",), ("a",)),))),
    (
        "their included columns",
        INDEXES,
        TableModel(indexes=(IndexModel("i", ("a",), included=("at",)),)),
    ),
    (
        "partial indexes",
        INDEXES,
        TableModel(indexes=(IndexModel("i", ("a",), predicate=POSITIVE),)),
    ),
    (
        "indexes on expressions, or with methods of one system",
        INDEXES,
        TableModel(indexes=(IndexModel("i", text="(abs(a))"),)),
    ),
    ("foreign keys within the batch", FOREIGN_KEYS, TableModel(foreign_keys=(KEY,))),
    (
        "their deferred checks",
        FOREIGN_KEYS,
        TableModel(foreign_keys=(replace(KEY, deferrable=True),)),
    ),
    ("comments of tables", COMMENTS, TableModel(comment="x")),
    ("comments of columns", COMMENTS, _column(comment="x")),
    ("partitioning", PARTITIONING, TableModel(partitioning="BY a")),
)


def cell(kind: str, model: TableModel, dialect: Dialect | None) -> str:
    """Return what happens to a part in a target.

    Args:
        kind: the kind of the part.
        model: a table with such a part.
        dialect: the target's dialect; None if it only lists the part.
    """
    if dialect is None:
        return LISTED
    if kind in (PRIMARY_KEYS, UNIQUE_KEYS):
        primary = kind == PRIMARY_KEYS
        return MADE if dialect.key_statement(TABLE, ["a"], primary=primary) else LISTED
    siblings = Siblings({OTHER: TableRef("s", "other")})
    types = {"a": "int", "b": "varchar(20)", "at": "timestamp", "sum": "int"}
    computed = computed_columns(model, KINDS, dialect)
    rendering = Rendering(dialect, TABLE, TABLE, KINDS, siblings, types=types, computed=computed)
    found = rendering.of(model)
    if not found.omitted:
        return MADE
    return STATEMENT if all(item.remedy for item in found.omitted) else LISTED


def readers(kind: str) -> str:
    """Return the systems whose catalogs have a kind of part, or "all but" the others."""
    sources = [NAMES[source] for source in SOURCES if kind in KNOWN[source]]
    others = [NAMES[source] for source in SOURCES if kind not in KNOWN[source]]
    if not others:
        return "all"
    return f"all but {'; '.join(others)}" if len(others) < len(sources) else "; ".join(sources)


def rows() -> Iterator[list[str]]:
    for name, kind, model in PARTS:
        yield [name, readers(kind), *(cell(kind, model, dialect) for dialect in TARGETS.values())]


if __name__ == "__main__":
    table = markdown(["part", "read from", *(f"into {name}" for name in TARGETS)], rows())
    sys.exit(main({"docs/moving-a-database.md": {"parts": table}}))
