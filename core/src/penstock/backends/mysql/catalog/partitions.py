"""Partitions that a table consists of, each of which can be read by itself."""

from __future__ import annotations

from hashlib import sha256

from penstock.backends.api.facts import ChildTable
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.model.extents import Children, Extent
from penstock.model.tables import TableRef

# As in the names of InnoDB's files.
_MARK = "#P#"
# Historical rows have partitions of their own, which a plain SELECT leaves out.
_VERSIONED = "SYSTEM_TIME"


_PARTS = TableQuery(
    "partition_name, partition_method, table_rows, data_length, subpartition_name,"
    " partition_expression, partition_description, subpartition_method, subpartition_expression",
    "information_schema.partitions",
    "table_schema",
    "table_name",
    "partition_name IS NOT NULL",
    "partition_ordinal_position, subpartition_ordinal_position",
)


def partitions_of(session: MySqlSession, table: TableRef) -> tuple[ChildTable, ...]:
    """Return a table's partitions; empty if there are none."""
    sizes: dict[str, tuple[int, int]] = {}
    for name, method, rows, size, *_ in session.about(_PARTS, table):
        if method == _VERSIONED:
            return ()
        # The sum over its subpartitions.
        count, bytes_ = sizes.get(name, (0, 0))
        sizes[name] = count + int(rows), bytes_ + int(size)
    return tuple(
        ChildTable(TableRef(table.schema, f"{table.name}{_MARK}{name}"), rows, size, None)
        for name, (rows, size) in sizes.items()
    )


def partitioning(session: MySqlSession, table: TableRef) -> str:
    """Return a text that changes with the table's partitions; empty if there are none."""
    parts = [(name, method, *facts) for name, method, _, _, *facts in session.about(_PARTS, table)]
    return sha256(repr(parts).encode()).hexdigest() if parts else ""


def rows_of_extent(rows: str, extent: Extent) -> str:
    """Return an item of FROM with an extent's rows.

    Args:
        rows: an item of FROM with all rows of the table.
        extent: the partition's extent; only `Children` limits the rows here.
    """
    if not isinstance(extent, Children):
        return rows
    names = ", ".join(MYSQL.ident(table.name.rpartition(_MARK)[2]) for table in extent.tables)
    return f"{rows} PARTITION ({names})"
