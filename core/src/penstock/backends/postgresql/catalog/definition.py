"""How a table is made: its definition as JSON, read from the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.left_out import apart
from penstock.backends.postgresql.statements import quoted, relation, statement
from penstock.errors import PlanningError
from penstock.model.tables import NotCopied, Query, Relation, TableDefinition, TableRef

DIALECT = "postgresql"
# They have no input: COPY could not load them.
UNREADABLE = frozenset(
    f"{name}{array}"
    for name in (
        "pg_node_tree", "anyarray", "pg_ndistinct", "pg_dependencies", "pg_mcv_list",
        "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_ddl_command",
    )
    for array in ("", "[]")
)  # fmt: skip
# Of all other relations the columns are read alone.
_WHOLE = ("r", "p")

Json = dict[str, Any]


@contextmanager
def full_names(connection: Connection) -> Iterator[None]:
    """A transaction in which the server writes, and reads, names with their schemas."""
    with connection.transaction():
        before = one(connection, "SELECT pg_catalog.current_setting('search_path')")
        set_path = "SELECT pg_catalog.set_config('search_path', {}, true)"
        connection.execute(set_path.format("'pg_catalog, pg_temp'").encode())
        yield
        restored = sql.SQL("SELECT pg_catalog.set_config('search_path', {}, true)")
        connection.execute(restored.format(sql.Literal(before)))


def read_definition(
    connection: Connection, read: Relation, *, partitioning: bool
) -> TableDefinition:
    """A table with what belongs to it; of a query, a view or the like, the columns alone.

    Parameters:
        partitioning: a partitioned table with its partitions, and not as a plain one.

    Raises:
        PlanningError: no such table.
    """
    # Names in the query are those of the user's own path.
    described = _describe(connection, read) if isinstance(read, Query) else None
    with planning("source", f"{read}"), full_names(connection):
        if isinstance(read, Query):
            root = _query(connection, described or [])
        else:
            assert isinstance(read, TableRef)
            root = read_table(connection, table_oid(connection, read, "source"))
        tables = [root]
        if root["partition_key"] is not None and partitioning:
            tables += [read_table(connection, oid) for oid in _partitions(connection, root["oid"])]
        else:
            root["partition_key"] = None
        root["bound"] = root["parent"] = None
        types = _types(connection, tables)
        for table in tables:
            made_of = [type_["oid"] for type_ in types]
            table["needs"] = _needs(connection, table, made_of)
        warnings = _readable(root)
    return TableDefinition(
        DIALECT,
        {
            "version": connection.info.server_version,
            "tables": tables,
            "types": types,
            "warnings": warnings,
        },
        _besides(root),
    )


def _besides(table: Json) -> tuple[NotCopied, ...]:
    """What the table has besides columns; without statements, which another system cannot read."""
    keys = {"p": "primary keys", "u": "unique constraints", "x": "exclusion constraints"}
    found = [
        NotCopied(keys[i["constraint"]["kind"]] if i["constraint"] else "indexes", i["name"])
        for i in table["indexes"]
    ]
    found += [
        NotCopied("check constraints", constraint["name"])
        for constraint in table["constraints"]
        if constraint["kind"] == "c"
    ]
    found += [
        NotCopied("defaults", column["name"])
        for column in table["columns"]
        if column["identity"] or (column["default"] is not None and not column["generated"])
    ]
    left = apart([table], lambda item: TableRef(item["schema"], item["name"]))
    return (*found, *(replace(item, table="", remedy="") for item in left))


def table_oid(connection: Connection, ref: TableRef, side: str) -> int:
    """
    Raises:
        PlanningError: no such table.
    """
    found = find_oid(connection, ref)
    if found is None:
        raise PlanningError(f"{side}: table {ref} does not exist in {connection.info.dbname!r}")
    return found


def find_oid(connection: Connection, ref: TableRef) -> int | None:
    name = quoted(ref).as_string(connection)
    found: int | None = one(
        connection, sql.SQL("SELECT pg_catalog.to_regclass({})::oid").format(sql.Literal(name))
    )
    return found


def read_table(connection: Connection, oid: int) -> Json:
    """One table, without those that it consists of. Call it where names are full.

    Raises:
        PlanningError: it is gone.
    """
    version = connection.info.server_version
    found: Json | None = _read(connection, "table", oid)
    if found is None:
        raise PlanningError(
            f"the table with object id {oid} was dropped while the copy was planned; try "
            "again when "
            "no tables are being changed"
        )
    table = found
    table["columns"] = _read(
        connection,
        "columns",
        oid,
        compression="nullif(a.attcompression::text, '')" if version >= 140000 else "NULL",
    )
    whole = table["kind"] in _WHOLE
    if not whole:
        table |= {"partition_key": None, "persistence": "p", "options": [], "toast_options": []}
        table |= {"method": None, "replica_identity": "d"}
        for column in table["columns"]:
            column |= {"not_null": False, "default": None, "generated": "", "identity": ""}
            column |= {"storage": None, "compression": None, "statistics": None, "options": []}
    for part in ("constraints", "indexes", "sequences", "used_sequences"):
        table[part] = _read(connection, part, oid) if whole else []
    table["statistics"] = (
        _read(
            connection,
            "statistics",
            oid,
            target="nullif(e.stxstattarget, -1)" if version >= 130000 else "NULL",
        )
        if whole
        else []
    )
    table["attached"] = _read(
        connection,
        "attached",
        oid,
        publication_columns=(
            "(SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute AS a"
            " WHERE a.attrelid = m.prrelid AND a.attnum = ANY (m.prattrs))"
            if version >= 150000
            else "NULL"
        ),
        publication_condition=(
            "pg_catalog.pg_get_expr(m.prqual, m.prrelid)" if version >= 150000 else "NULL"
        ),
    )
    for sequence in (*table["sequences"], *table["used_sequences"]):
        sequence["value"] = _value(connection, sequence) if sequence["readable"] else None
    return table


def _needs(connection: Connection, table: Json, types: list[int]) -> Any:
    if table["kind"] not in _WHOLE:
        return []
    query = statement("definition_needs").format(
        table=sql.Literal(table["oid"]), types=sql.Literal(types)
    )
    return one(connection, query)


def _value(connection: Connection, sequence: Json) -> list[Any]:
    name = sql.Identifier(sequence["schema"], sequence["name"])
    found = connection.execute(sql.SQL("SELECT last_value, is_called FROM {}").format(name))
    return list(found.fetchone() or ())


def _partitions(connection: Connection, root: int) -> list[int]:
    rows = connection.execute(
        "SELECT relid::oid FROM pg_catalog.pg_partition_tree(%s) WHERE level > 0"
        " ORDER BY level, relid",
        [root],
    ).fetchall()
    return [oid for (oid,) in rows]


def _describe(connection: Connection, query: Query) -> list[tuple[str, int, int]]:
    """Name, type and modifier of each column."""
    with planning("source", "--query"):
        found = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(relation(query)))
    result = found.pgresult
    assert result is not None
    return [
        (column.name, column.type_code, result.fmod(index))
        for index, column in enumerate(found.description or ())
    ]


def _query(connection: Connection, described: list[tuple[str, int, int]]) -> Json:
    """A table such that it could hold the query's rows."""
    columns = []
    for index, (name, oid, modifier) in enumerate(described):
        type_name = one(
            connection,
            sql.SQL("SELECT pg_catalog.format_type({}, {})").format(
                sql.Literal(oid), sql.Literal(modifier)
            ),
        )
        columns.append(
            {
                "number": index + 1, "name": name, "type": type_name,
                "type_oid": oid, "collation": None, "not_null": False,
                "default": None, "generated": "", "identity": "", "storage": None,
                "compression": None, "statistics": None, "options": [], "comment": None,
            }
        )  # fmt: skip
    return {
        "oid": 0, "schema": "", "name": "query", "written": "query",
        "regclass": "", "kind": "q", "persistence": "p", "owner": "",
        "options": [], "toast_options": [], "method": None, "tablespace": None, "comment": None,
        "replica_identity": "d", "typed": False, "row_security": False,
        "force_row_security": False, "partition_key": None, "bound": None, "parent": None,
        "inherits": [],
        "columns": columns, "constraints": [], "indexes": [], "sequences": [], "used_sequences": [],
        "statistics": [],
        "attached": {
            "triggers": [], "rules": [], "policies": [], "grants": [], "default_grants": True,
            "publications": [],
        },
    }  # fmt: skip


def _types(connection: Connection, tables: list[Json]) -> list[Json]:
    """The types that do not come with the server, each after those that it is made of."""
    found: dict[int, Json | None] = {}
    for table in tables:
        for column in table["columns"]:
            _add_type(connection, column["type_oid"], found)
    return [type_ for type_ in found.values() if type_ is not None]


def _add_type(connection: Connection, oid: int | None, found: dict[int, Json | None]) -> None:
    if oid is None or oid in found:
        return
    found[oid] = None
    type_ = read_type(connection, oid)
    if type_["schema"] in ("pg_catalog", "information_schema"):
        return
    for part in (type_["element"], type_["base_oid"], type_["range_oid"]):
        _add_type(connection, part, found)
    for attribute in type_["attributes"] or ():
        _add_type(connection, attribute["type_oid"], found)
    if type_["range"]:
        _add_type(connection, type_["range"]["subtype_oid"], found)
    del found[oid]
    found[oid] = None if type_["element"] or type_["kind"] == "m" else type_


def read_type(connection: Connection, oid: int) -> Json:
    multirange = connection.info.server_version >= 140000
    query = statement("definition_type").format(
        type=sql.Literal(oid),
        multirange=sql.SQL(
            "(SELECT pg_catalog.format('%I.%I', mn.nspname, mt.typname)"
            " FROM pg_catalog.pg_type AS mt"
            " JOIN pg_catalog.pg_namespace AS mn ON mn.oid = mt.typnamespace"
            " WHERE mt.oid = g.rngmultitypid)"
            if multirange
            else "NULL"
        ),
        range_oid=sql.SQL(
            "(SELECT g.rngtypid::bigint FROM pg_catalog.pg_range AS g"
            " WHERE g.rngmultitypid = t.oid)"
            if multirange
            else "NULL"
        ),
    )
    found: Json = one(connection, query)
    return found


def _readable(table: Json) -> list[str]:
    """Make columns texts whose own type has no input. Returns a line about them."""
    changed = [column for column in table["columns"] if column["type"] in UNREADABLE]
    lines = [f"{column['name']} ({column['type']})" for column in changed]
    for column in changed:
        column |= {"type": "text", "type_oid": 25, "collation": None, "storage": None}
    if not lines:
        return []
    return [f"columns that become text, since their types have no input: {', '.join(lines)}"]


def _read(connection: Connection, part: str, oid: int, **fragments: str) -> Any:
    query = statement(f"definition_{part}").format(
        table=sql.Literal(oid), **{name: sql.SQL(text) for name, text in fragments.items()}
    )
    return one(connection, query)


def one(connection: Connection, query: str | sql.SQL | sql.Composed) -> Any:
    """The first column of the first row."""
    words = query.encode() if isinstance(query, str) else query
    found = connection.execute(words).fetchone()
    return None if found is None else found[0]


def content(definition: TableDefinition) -> Mapping[str, Any]:
    """
    Raises:
        PlanningError: another kind of database wrote it.
    """
    if definition.dialect != DIALECT:
        raise PlanningError(
            f"target: expected a table's definition of {DIALECT}, found {definition.dialect}"
        )
    return definition.content
