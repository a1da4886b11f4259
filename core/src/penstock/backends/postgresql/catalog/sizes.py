"""Sizes of relations, the tables they consist of, and which can be partitioned by blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import sql

from penstock.backends.api.facts import ChildTable, TableStatistics
from penstock.backends.postgresql.catalog.relation_facts import RelationFacts
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.keys import keys
from penstock.backends.postgresql.session.statements import for_server, raw, relation
from penstock.errors import PlanningError
from penstock.model.tables import Query, Relation, TableRef

CTID_VERSION = 140000  # TID range scans: https://www.postgresql.org/docs/release/14.0/


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a relation, as far as the catalog knows it."""

    kind: str
    method: str
    block_size: int
    bytes: int
    main_bytes: int
    tuples: float
    pages: int
    has_children: bool
    hypertable: bool
    analyzed: bool
    """Whether a foreign table has been analyzed."""
    readable: bool
    """Whether the user may read it, or one of its columns."""
    key: str | None


def sizes_of(connection: Connection, oids: Sequence[int]) -> dict[int, Size]:
    """Return the sizes of relations, by object id."""
    ranged = [f"pg_catalog.{kind}" for kind in keys.RANGED]
    parameters = {"oids": list(oids), "ranged": ranged}
    return {
        oid: Size(*row)
        for oid, *row in connection.execute(for_server(connection, "statistics"), parameters)
    }


def read_statistics(described: RelationFacts, read: Relation, where: str | None) -> TableStatistics:
    """Return the statistics of a relation; see `SourceCatalog.statistics`.

    Args:
        described: the facts to look up and to extend.
        read: the relation.
        where: the run's condition, which the server also checks; None for all rows.
    """
    connection = described.connection
    if where is not None:
        with planning("source", f"--where on {read}"):
            keys.check_closed(connection, read, where)
    if isinstance(read, Query):
        return _planner_statistics(
            connection, read, where, "a query, which has no blocks of its own"
        )
    assert isinstance(read, TableRef)
    with planning("source", f"table {read}"):
        size = described.get("size", read, partial(sizes_of, connection))
    if size.kind in "vf":
        storage = f"{KINDS[size.kind]}, whose rows have no blocks of their own"
        sampled = size.kind == "f" and size.analyzed
        return _planner_statistics(connection, read, where, storage, sampled=sampled)
    if where is None and not size.readable:
        _plan(connection, read, None)  # the server's error gives the reason
    if size.kind == "p" or size.hypertable or (size.has_children and not read.only):
        with planning("source", f"table {read}"):
            children = described.get("children", read, partial(_children_of, connection))
        return _tree_statistics(connection, read, where, size, children)
    blocks = size.main_bytes // size.block_size
    rows = _density(size.tuples, size.pages, blocks)
    obstacle = _obstacle(connection, size.kind, size.method)
    return TableStatistics(
        rows=rows,
        bytes=size.bytes,
        selected=_selected_share(connection, read, where, rows),
        blocks=None if obstacle else blocks,
        storage=obstacle or f"heap table, {blocks:,} blocks, {_server(connection)}",
        default_key=size.key,
        rows_hint="ANALYZE the table",
    )


def _server(connection: Connection) -> str:
    return f"PostgreSQL {connection.info.server_version // 10000}"


def _density(tuples: float, pages: int, blocks: int) -> int | None:
    """Estimate the row count from the density at the last ANALYZE and the current size."""
    if blocks == 0:
        return 0
    return round(tuples / pages * blocks) if tuples >= 0 and pages > 0 else None


def _obstacle(connection: Connection, kind: str, method: str) -> str:
    """Return why a table cannot be partitioned by blocks; empty if it can."""
    if kind not in "rm":
        return f"{KINDS[kind]}, whose rows have no blocks of their own"
    if method != "heap":
        return f"its access method is {method or 'unknown'}, not heap"
    if connection.info.server_version < CTID_VERSION:
        return f"{_server(connection)} reads the whole table for each range; 14 and later do not"
    return ""


@dataclass(frozen=True, slots=True)
class _Child:
    child: ChildTable
    readable: bool
    hidden: bool


def _tree_statistics(
    connection: Connection, read: TableRef, where: str | None, size: Size, members: Sequence[_Child]
) -> TableStatistics:
    """Return the statistics of a partitioned table, or of one with inheritance children."""
    children = [each.child for each in members]
    if size.hypertable and read.only:
        raise PlanningError(
            f"source: {read} is a hypertable, whose rows are in its chunks: --descendants exclude "
            "would copy none of them"
        )
    closed = [str(each.child.table) for each in members if not each.readable]
    hidden = [str(each.child.table) for each in members if each.hidden]
    tables = f"{len(members):,} table{'' if len(members) == 1 else 's'}"
    what = f"{KINDS['p']} of {tables}" if size.kind == "p" else _heirs_text(len(members) - 1)
    if not members:
        what = f"{KINDS['p']} without partitions"
    elif size.hypertable:
        what = f"a hypertable of {tables}, whose compressed rows have no blocks of their own"
    elif closed:
        what += (
            f"; {connection.info.user!r} may not read {len(closed):,} of its tables directly "
            f"(GRANT SELECT ON {closed[0]})"
        )
    elif hidden:
        what += f"; row security would hide rows of {len(hidden):,} of its tables ({hidden[0]})"
    counts = [child.rows for child in children]
    rows = None if None in counts else sum(count for count in counts if count is not None)
    return TableStatistics(
        rows=rows,
        bytes=sum(child.bytes for child in children),
        selected=_selected_share(connection, read, where, rows),
        blocks=None,
        storage=what,
        default_key=size.key,
        rows_hint="ANALYZE the table",
        children=() if closed or hidden or size.hypertable else tuple(children),
    )


def _heirs_text(count: int) -> str:
    return (
        "a table that another one inherits from"
        if count == 1
        else f"a table that {count:,} others inherit from"
    )


def _children_of(connection: Connection, oids: Sequence[int]) -> dict[int, list[_Child]]:
    rows = connection.execute(for_server(connection, "children"), {"oids": list(oids)}).fetchall()
    children: dict[int, list[_Child]] = {oid: [] for oid in oids}
    for root, schema, label, kind, method, size, blocks, tuples, pages, readable, hidden in rows:
        table = TableRef(schema, label)
        if kind == "f":
            count = round(tuples) if pages > 0 else None
        else:
            count = _density(tuples, pages, blocks)
        divisible = None if _obstacle(connection, kind, method) else blocks
        children[root].append(_Child(ChildTable(table, count, size, divisible), readable, hidden))
    return children


def _planner_statistics(
    connection: Connection,
    read: Relation,
    where: str | None,
    storage: str,
    *,
    sampled: bool = False,
) -> TableStatistics:
    """Return the planner's estimates for a relation without storage."""
    plan = _plan(connection, read, None, "*")
    rows = round(plan["Plan Rows"])
    return TableStatistics(
        rows=rows,
        bytes=rows * int(plan["Plan Width"]),
        selected=_selected_share(connection, read, where, rows),
        blocks=None,
        storage=storage,
        default_key=None,
        sampled=sampled,
        rows_hint="ANALYZE the table",
    )


def _selected_share(
    connection: Connection, read: Relation, where: str | None, rows: int | None
) -> float:
    """Return the share of rows that the planner expects to match; also checks the condition."""
    if where is None:
        return 1.0
    plan = _plan(connection, read, where)
    return min(1.0, float(plan["Plan Rows"]) / rows) if rows else 1.0


def _plan(
    connection: Connection, read: Relation, where: str | None, columns: str = ""
) -> dict[str, Any]:
    # Without naming a column, the privilege to read any one of them is enough.
    query = sql.SQL("EXPLAIN (FORMAT JSON) SELECT {} FROM {} WHERE {}").format(
        sql.SQL(columns), relation(read), sql.SQL("true") if where is None else raw(where)
    )
    subject = "--query" if isinstance(read, Query) else f"table {read}"
    subject = subject if where is None else f"--where on {read}"
    with planning("source", subject), connection.users_path():
        ((plans,),) = connection.execute(query).fetchall()
    plan: dict[str, Any] = plans[0]["Plan"]
    return plan


def reads_elsewhere(connection: Connection, read: Relation) -> bool:
    """Whether some of the rows are stored on another server or in a file."""
    return "'Foreign Scan'" in repr(_plan(connection, read, None))
