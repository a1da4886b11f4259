"""Partitions of a table: it consists of them, and each can be read by itself."""

from __future__ import annotations

from hashlib import sha256

from penstock.backends.api.facts import ChildTable
from penstock.backends.mysql.catalog.described import TableQuery
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.model.extents import Children, Extent
from penstock.model.tables import TableRef

# As InnoDB names their files.
_MARK = "#P#"
# Rows of the past are in partitions of their own, which a plain SELECT leaves out.
_VERSIONED = "SYSTEM_TIME"


_SIZES = TableQuery(
    "partition_name, min(partition_method), sum(table_rows), sum(data_length)",
    "partitions",
    tested="partition_name IS NOT NULL",
    grouped="partition_name",
    ordered="min(partition_ordinal_position)",
)
_PARTS = TableQuery(
    "partition_name, subpartition_name, partition_method, partition_expression,"
    " partition_description, subpartition_method, subpartition_expression",
    "partitions",
    tested="partition_name IS NOT NULL",
    ordered="partition_ordinal_position, subpartition_ordinal_position",
)


def partitions_of(session: MySqlSession, table: TableRef) -> tuple[ChildTable, ...]:
    """Empty where there are none."""
    found = session.information(_SIZES, table)
    if any(method == _VERSIONED for _, method, *_ in found):
        return ()
    return tuple(
        ChildTable(TableRef(table.schema, f"{table.name}{_MARK}{name}"), int(rows), int(size), None)
        for name, _, rows, size in found
    )


def partitioning(session: MySqlSession, table: TableRef) -> str:
    """Equal: the table consists of the same partitions. Empty where there are none."""
    found = session.information(_PARTS, table)
    return sha256(repr(found).encode()).hexdigest() if found else ""


def within(rows: str, extent: Extent) -> str:
    """An item of FROM with an extent's rows.

    Parameters:
        rows: one with all of the table's.
    """
    if not isinstance(extent, Children):
        return rows
    names = ", ".join(MYSQL.ident(table.name.rpartition(_MARK)[2]) for table in extent.tables)
    return f"{rows} PARTITION ({names})"
