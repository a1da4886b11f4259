"""Parts of a table that the server finds directly: partitions of a partition function, and pages.

https://learn.microsoft.com/en-us/sql/t-sql/functions/partition-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.session import MssqlSession
from penstock.errors import Diagnosis, PermanentError
from penstock.model.extents import BlockRange, Children, Extent
from penstock.model.tables import Relation, TableRef

# Separates the names of a table and its partition.
_MARK = "#"


@dataclass(frozen=True, slots=True)
class Part:
    """A partition of a table by its partition function."""

    number: int
    name: str
    """The name with its boundaries, which changes when the function is split or merged."""
    rows: int
    number_expression: str
    """The expression for the number of a row's partition."""


def parts_of(session: MssqlSession, table: TableRef) -> list[Part]:
    """Return a table's partitions; empty if it is not partitioned."""
    partitions = session.catalog_rows("partitions", table)
    return [
        Part(
            int(number),
            f"{number} {_span(low, high, right=bool(right))}",
            int(rows),
            f"$PARTITION.{MSSQL.ident(function)}({MSSQL.ident(column)})",
        )
        for number, function, column, right, low, high, rows in partitions
    ]


def _span(low: str | None, high: str | None, *, right: bool) -> str:
    """Return the values that a partition holds."""
    first = "" if low is None else f"{'from' if right else 'above'} {low}"
    last = "" if high is None else f"{'below' if right else 'to'} {high}"
    return " ".join(filter(None, [first, last])) or "all"


def child_of(table: TableRef, part: Part) -> TableRef:
    """Return the name of a partition as a child table."""
    return TableRef(table.schema, f"{table.name}{_MARK}{part.name}")


def partitioning(session: MssqlSession, table: TableRef) -> str:
    """Return a text that changes with the table's partitions; empty if there are none."""
    parts = [(part.name, part.number_expression) for part in parts_of(session, table)]
    return sha256(repr(parts).encode()).hexdigest() if parts else ""


def rows_of_extent(rows: str, extent: Extent) -> str:
    """Return an item of FROM for an extent's rows.

    Args:
        rows: an item of FROM with all rows of the table.
        extent: the part of the table.
    """
    # In another index, a row is on a different page.
    return f"{rows} WITH (INDEX(0))" if isinstance(extent, BlockRange) else rows


def with_partition_test(
    session: MssqlSession, relation: Relation, extent: Extent, condition: str
) -> str:
    """Return a condition, extended by the test for an extent's partitions.

    Args:
        session: a session with the source.
        relation: the table or query.
        extent: the part of it.
        condition: the condition to extend.

    Raises:
        PermanentError: the table consists of other partitions now.
    """
    if not isinstance(extent, Children):
        return condition
    assert isinstance(relation, TableRef)
    parts = {child_of(relation, part): part for part in parts_of(session, relation)}
    missing = [table for table in extent.tables if table not in parts]
    if missing:
        raise PermanentError(
            f"source: {relation}: partition {missing[0]} no longer exists: its partition function "
            "was split or merged after the run was planned; start a new run",
            Diagnosis(side="source"),
        )
    numbers = ", ".join(str(parts[table].number) for table in extent.tables)
    return f"{parts[extent.tables[0]].number_expression} IN ({numbers}) AND {condition}"
