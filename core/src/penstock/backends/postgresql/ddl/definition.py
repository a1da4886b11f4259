"""A table's definition as JSON, read from the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from psycopg import Cursor, errors, sql

from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.queries import described_query
from penstock.backends.postgresql.catalog.sequences import read_positions
from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.ddl.prerequisites import read_needs
from penstock.backends.postgresql.ddl.table_model import model_of, other_objects
from penstock.backends.postgresql.ddl.text import shorten
from penstock.backends.postgresql.ddl.types import read_types, types_of
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import DIALECT, for_server, ident
from penstock.errors import PlanningError
from penstock.model.table_model import KeyModel, TableDefinition
from penstock.model.tables import NotCopied, Query, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        AttachedParts,
        ColumnDetails,
        ColumnPart,
        Content,
        IndexPart,
        TableDetails,
        TablePart,
        TypePart,
    )

# Types without input, which COPY could not load.
UNREADABLE = frozenset(
    f"{name}{array}"
    for name in (
        "pg_node_tree", "anyarray", "pg_ndistinct", "pg_dependencies", "pg_mcv_list",
        "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_ddl_command",
    )
    for array in ("", "[]")
)  # fmt: skip
# For all other relations only the columns are read.
_WHOLE = ("r", "p")
_PARTS = ("constraints", "indexes", "sequences", "used_sequences", "statistics")

# A column that is just a name and a type, and a table that is just its columns.
PLAIN_COLUMN: ColumnDetails = {
    "not_null": False, "default": None, "generated": "", "identity": "", "storage": None,
    "compression": None, "statistics": None, "options": [], "inherited": False,
}  # fmt: skip
_PLAIN_TABLE: TableDetails = {
    "partition_key": None, "persistence": "p", "options": [], "toast_options": [], "method": None,
    "replica_identity": "d", "constraints": [], "indexes": [], "sequences": [],
    "used_sequences": [], "statistics": [],
}  # fmt: skip
_NOTHING_ATTACHED: AttachedParts = {
    "triggers": [], "rules": [], "policies": [], "grants": [], "default_grants": True,
    "publications": [],
}  # fmt: skip


def query_definition(connection: Connection, query: Query) -> TableDefinition:
    """Return the definition of a table with a query's columns."""
    # Names in the query resolve by the user's own search path.
    with planning("source", "--query"):
        described = described_query(connection, query)
    columns = [(column.name, column.type, data_type(column).oid, True) for column in described]
    root = plain_table("query", columns)
    with planning("source", f"{query}"), full_names(connection):
        types = types_of([root], read_types(connection, [root]))
    return _definition([root], types)


def definitions_of(
    connection: Connection, oids: Sequence[int], *, partitioning: bool
) -> dict[int, TableDefinition]:
    """Return tables with everything that belongs to them; for views and the like, only the columns.

    Args:
        connection: a session on the source.
        oids: object ids; relations that no longer exist, or that are part of another in the list,
            are left out.
        partitioning: keep partitioned tables partitioned, instead of making them plain tables.

    Raises:
        TableDropped: the only requested table lost a child in the meantime.
    """
    with full_names(connection):
        tables_by_oid = read_many(connection, oids)
        split = [
            oid
            for oid, root in tables_by_oid.items()
            if partitioning and root["partition_key"] is not None
        ]
        parts = _partitions(connection, split)
        tables_by_oid |= read_many(
            connection, [part for children in parts.values() for part in children]
        )
        all_types = read_types(connection, tables_by_oid.values())
        members = {oid: [oid, *parts.get(oid, ())] for oid in oids if oid in tables_by_oid}
        times = Counter(member for each in members.values() for member in each)
        complete: dict[int, list[TablePart]] = {}
        types: dict[int, Sequence[TypePart]] = {}
        for oid, each in members.items():
            missing = [member for member in each if member not in tables_by_oid]
            if missing and len(oids) == 1:
                raise TableDropped(missing[0])
            if missing or any(times[member] > 1 for member in each):
                continue  # asked for alone, since definitions are not shared
            with suppress(KeyError):  # a type was dropped, and a column with it
                tables = [tables_by_oid[member] for member in each]
                types[oid] = types_of(tables, all_types)
                complete[oid] = tables
        needed = {
            table["oid"]: types[oid]
            for oid, tables in complete.items()
            for table in tables
            if table["kind"] in _WHOLE
        }
        needs = read_needs(connection, needed)
        joined = [
            oid
            for oid, tables in complete.items()
            if tables[0]["partition_key"] is not None and oid not in parts
        ]
        of_children = _partition_objects(connection, joined)
    partitioning_of = {oid: tables[0]["partition_key"] or "" for oid, tables in complete.items()}
    for tables in complete.values():
        root = tables[0]
        if root["oid"] not in parts:
            root["partition_key"] = None
        root["bound"] = root["parent"] = None
        for table in tables:
            table["needs"] = needs.get(table["oid"], [])
    return {
        oid: _definition(tables, types[oid], partitioning_of[oid], of_children.get(oid, ()))
        for oid, tables in complete.items()
    }


def definition_with(
    table: TablePart,
    types: Sequence[TypePart],
    partition_key: str,
    of_children: Sequence[tuple[str, str]],
) -> TableDefinition:
    """Return the definition of one table.

    Args:
        table: the table.
        types: the types that are not built in.
        partition_key: the source's partition key.
        of_children: kinds and names of objects that it has and is created without.
    """
    return _definition([table], types, partition_key, of_children)


def _definition(
    tables: Sequence[TablePart],
    types: Sequence[TypePart],
    partition_key: str = "",
    of_children: Sequence[tuple[str, str]] = (),
) -> TableDefinition:
    """Return the definition of a table.

    Args:
        tables: a table, followed by the tables it consists of.
        types: the types that are not built in.
        partition_key: the source's partition key, even if the target's table is not partitioned.
        of_children: kinds and names of objects that only child tables have, if these are not
            created.
    """
    root = tables[0]
    content: Content = {
        "tables": list(tables),
        "types": list(types),
        "warnings": _make_readable(root),
        "of_partitions": list(of_children),
    }
    text = f"PARTITION BY {partition_key}" if partition_key else ""
    model = replace(model_of(root, types), partitioning=text)
    of_partitions = (NotCopied(*each) for each in of_children)
    return TableDefinition(DIALECT, model, (*other_objects(root), *of_partitions), native=content)


def plain_table(
    name: str,
    columns: Iterable[tuple[str, str, int | None, bool]],
    keys: Iterable[KeyModel] = (),
) -> TablePart:
    """Return the definition of a table with nothing but columns and keys.

    Args:
        name: the table's name.
        columns: for each column, its name, its type, the type's object id if the type may have to
            be created, and whether NULL is allowed.
        keys: the keys, each of which becomes an index.
    """
    return {
        "oid": 0, "schema": "", "name": name, "written": name, "regclass": "", "kind": "q",
        "owner": "", "tablespace": None, "comment": None, "typed": None, "hypertable": False,
        "row_security": False, "force_row_security": False, "bound": None, "parent": None,
        "inherits": [], "needs": [], "schema_comment": None,
        **_PLAIN_TABLE,
        "columns": [
            {
                "name": column, "type": type_, "type_oid": oid, "collation": None, "comment": None,
                **PLAIN_COLUMN, "not_null": not nullable,
            }
            for column, type_, oid, nullable in columns
        ],
        "indexes": [_key_index(name, number, key) for number, key in enumerate(keys)],
        "attached": _NOTHING_ATTACHED,
    }  # fmt: skip


def _key_index(table: str, number: int, key: KeyModel) -> IndexPart:
    """Return the index of a key in the form in which the catalog would be read."""
    listed = ", ".join(map(ident, key.columns))
    suffix = "_pkey" if key.primary else f"_{'_'.join(key.columns)}"[:20] + "_key"
    return {
        "oid": number, "name": shorten(table, suffix), "parent": None, "unique": True,
        "valid": True, "clustered": False, "replica_identity": False, "tablespace": None,
        "tail": f"USING btree ({listed})", "comment": None, "statistics": [], "needed_by": [],
        "constraint": {
            "kind": "p" if key.primary else "u", "columns": list(key.columns), "deferrable": False,
            "definition": f"{'PRIMARY KEY' if key.primary else 'UNIQUE'} ({listed})",
            "deferred": False, "by_index": True, "comment": None,
        },
    }  # fmt: skip


class TableDropped(PlanningError):
    """A table that was dropped while it was read."""

    def __init__(self, oid: int) -> None:
        super().__init__(
            f"the table with object id {oid} was dropped while the copy was being planned; try "
            "again when no tables are being changed"
        )


def read_table(connection: Connection, oid: int) -> TablePart:
    """Return one table, without its child tables. Call it while names are full.

    Raises:
        TableDropped: the table was dropped before or during the read.
    """
    try:
        return read_many(connection, [oid])[oid]
    except (KeyError, errors.UndefinedTable) as error:
        raise TableDropped(oid) from error


def read_tables(connection: Connection, oids: Iterable[int]) -> list[TablePart]:
    """Return tables as `read_table` does; can be called anywhere."""
    unique = list(oids)
    tables: dict[int, TablePart] = {}
    with suppress(errors.UndefinedTable), full_names(connection):
        tables = read_many(connection, unique)
    missing = [oid for oid in unique if oid not in tables]
    if missing:
        with full_names(connection):
            tables |= {oid: read_table(connection, oid) for oid in missing}
    return [tables[oid] for oid in unique]


def read_many(connection: Connection, oids: Sequence[int]) -> dict[int, TablePart]:
    """Return the tables that still exist, as `read_table` does.

    Raises:
        UndefinedTable: something was dropped during the read.
    """
    if not oids:
        return {}
    # "attached" comes last: if it still finds a table, none of the earlier queries can have missed
    # it.
    cursors = {
        part: _ask(connection, part, oids) for part in ("table", "columns", *_PARTS, "attached")
    }
    parts: dict[str, dict[int, Any]] = {part: dict(each) for part, each in cursors.items()}
    attached = parts["attached"]
    tables: dict[int, TablePart] = {}
    for oid, read in parts["table"].items():
        if oid not in attached:
            continue
        columns: list[ColumnPart] = parts["columns"].get(oid, [])
        table: TablePart = read
        table["attached"] = attached[oid]
        if table["kind"] in _WHOLE:
            table["columns"] = columns
            read |= {part: parts[part].get(oid, []) for part in _PARTS}
        else:
            table = {**table, **_PLAIN_TABLE}
            table["columns"] = [{**column, **PLAIN_COLUMN} for column in columns]
        tables[oid] = table
    sequences = [
        (TableRef(sequence["schema"], sequence["name"]), sequence)
        for table in tables.values()
        for sequence in (*table["sequences"], *table["used_sequences"])
    ]
    values = read_positions(connection, (ref for ref, each in sequences if each["readable"]))
    for ref, sequence in sequences:
        sequence["value"] = values[ref] if sequence["readable"] else None
    return tables


def _ask(connection: Connection, part: str, oids: Collection[int]) -> Cursor[Any]:
    """Return one part of the definitions, by object id; tables without it are left out."""
    query = for_server(connection, f"definition_{part}", tables=sql.Literal(list(oids)))
    return connection.execute(query)


def _partitions(connection: Connection, roots: Sequence[int]) -> dict[int, list[int]]:
    if not roots:
        return {}
    rows = connection.execute(
        "SELECT asked.oid::bigint, tree.relid::oid::bigint"
        " FROM unnest(%s::oid[]) AS asked (oid)"
        " CROSS JOIN LATERAL pg_catalog.pg_partition_tree(asked.oid::regclass) AS tree"
        " WHERE tree.level > 0 ORDER BY tree.level, tree.relid",
        [list(roots)],
    ).fetchall()
    partitions: dict[int, list[int]] = {root: [] for root in roots}
    for root, oid in rows:
        partitions[root].append(oid)
    return partitions


def _partition_objects(
    connection: Connection, roots: Sequence[int]
) -> dict[int, list[tuple[str, str]]]:
    """Return kinds and names of objects that only child tables have, by the root's object id."""
    objects: dict[int, list[tuple[str, str]]] = {}
    if roots:
        query = for_server(connection, "partitions_own", tables=sql.Literal(list(roots)))
        for root, kind, name in connection.execute(query).fetchall():
            objects.setdefault(root, []).append((kind, name))
    return objects


def _make_readable(table: TablePart) -> list[str]:
    """Turn columns whose type has no input into text. Returns a line about them."""
    changed = [column for column in table["columns"] if column["type"] in UNREADABLE]
    lines = [f"{column['name']} ({column['type']})" for column in changed]
    for column in changed:
        column |= {"type": "text", "type_oid": 25, "collation": None, "storage": None}
    if not lines:
        return []
    return [f"columns created as text, since their types accept no input: {', '.join(lines)}"]
