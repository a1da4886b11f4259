"""Objects that exist in the target: the table, and those that depend on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server, name, statement
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or one of its child tables."""

    ref: TableRef
    oid: int
    kind: str
    persistence: str
    mine: bool
    """Whether the user has all privileges of its owner."""
    owner: str
    partition: bool
    inherits: bool
    hypertable: bool
    identity: str
    """As in `SourceState.identity`."""


def kind_name(relation: Relation) -> str:
    """Return the kind of a relation as messages name it."""
    return KINDS.get(relation.kind, f"kind {relation.kind!r}")


Trees = Mapping[TableRef, Sequence[Relation]]
"""Tables with their child tables."""


def read_trees(connection: Connection, refs: Sequence[TableRef]) -> dict[TableRef, list[Relation]]:
    """Return each table with its child tables, parents first; empty if the table does not exist."""
    trees: dict[TableRef, list[Relation]] = {ref: [] for ref in refs}
    tables = sql.Literal([name(ref) for ref in refs])
    for place, schema, relation, *facts in connection.execute(
        for_server(connection, "tree", tables=tables)
    ):
        trees[refs[place - 1]].append(Relation(TableRef(schema, relation), *facts))
    return trees


def table_tree(connection: Connection, ref: TableRef) -> list[Relation]:
    """Return the tree of one table; see `read_trees`."""
    return read_trees(connection, [ref])[ref]


def _parts(trees: Trees) -> dict[str, sql.Literal]:
    """Return query parameters: the relations of all trees, and the index of each one's tree."""
    parts = [(place, item.oid) for place, tree in enumerate(trees.values()) for item in tree]
    places, oids = zip(*parts, strict=True) if parts else ((), ())
    return {"places": sql.Literal(list(places)), "tables": sql.Literal(list(oids))}


@dataclass(frozen=True, slots=True)
class TableLink:
    """Another table, and what links it to one of the tables in question."""

    kind: str
    """``foreign key``, ``inheritance`` or ``sequence``, if a default uses one of the table's
    sequences.
    """
    ref: TableRef
    root: TableRef
    """The root of its partition tree, or itself."""
    oid: int
    object: int
    """The object id of the dependent object."""
    name: str
    definition: str | None
    sequence: str | None
    """The sequence's quoted name."""
    parent: str | None
    """The quoted name of the table it inherits from."""


def read_links(connection: Connection, trees: Trees) -> dict[TableRef, list[TableLink]]:
    """Return what links other tables to each of these. Call it while names are full."""
    links: dict[TableRef, list[TableLink]] = {ref: [] for ref in trees}
    refs = list(trees)
    for place, *row in connection.execute(statement("linked").format(**_parts(trees))):
        link = TableLink(row[0], TableRef(*row[1:3]), TableRef(*row[3:5]), *row[5:])
        links[refs[place]].append(link)
    return links


def read_numbers(
    connection: Connection, trees: Trees, types: Sequence[str]
) -> dict[TableRef, set[str]]:
    """Return the tables' columns of some types that the user may read.

    Args:
        connection: a session on the target.
        trees: the tables.
        types: the names of the types, as format_type writes them without a modifier.
    """
    roots = {tree[0].oid: ref for ref, tree in trees.items() if tree}
    columns: dict[TableRef, set[str]] = {ref: set() for ref in trees}
    rows = connection.execute(
        "SELECT a.attrelid, a.attname FROM pg_catalog.pg_attribute AS a"
        " WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped"
        " AND pg_catalog.format_type(a.atttypid, NULL) = ANY (%s)"
        " AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')",
        [list(roots), list(types)],
    )
    for oid, column in rows:
        columns[roots[oid]].add(column)
    return columns


def shape_of(table: sql.Composable) -> sql.Composed:
    """Return a digest of a table's whole definition. Call it while names are full.

    Args:
        table: the table's name as an SQL expression.
    """
    return statement("shape").format(table=table)


def read_shapes(connection: Connection, refs: Sequence[TableRef]) -> dict[TableRef, str]:
    """Return the digest of each table's definition, as `shape_of` computes it."""
    shape = shape_of(sql.SQL("asked.name"))
    query = sql.SQL(
        "SELECT asked.place, ({}) FROM pg_catalog.unnest({}::text[])"
        " WITH ORDINALITY AS asked (name, place)"
    ).format(shape, sql.Literal([name(ref) for ref in refs]))
    return {refs[place - 1]: digest for place, digest in connection.execute(query)}


def read_references(connection: Connection, trees: Trees) -> dict[TableRef, list[str]]:
    """Return the foreign keys of other tables that reference each table, as messages name them."""
    descriptions: dict[TableRef, list[str]] = {ref: [] for ref in trees}
    refs = list(trees)
    for place, described in connection.execute(statement("referenced").format(**_parts(trees))):
        descriptions[refs[place]].append(described)
    return descriptions


@dataclass(frozen=True, slots=True)
class Dependent:
    """Another object that depends on a table's existence."""

    description: str
    """Its description for messages."""
    link_oid: int | None
    """Its object id, if it may be one of the objects of a `TableLink`."""


def read_dependents(
    connection: Connection, trees: Trees, sequences: str = "ai"
) -> dict[TableRef, list[Dependent]]:
    """Return what depends on each table.

    Args:
        connection: a session on the target.
        trees: the tables.
        sequences: the sequences that count as part of a table: of serial columns (a), of identity
            columns (i).
    """
    dependents: dict[TableRef, list[Dependent]] = {ref: [] for ref in trees}
    refs = list(trees)
    query = statement("dependents").format(**_parts(trees), sequences=sql.Literal(list(sequences)))
    for place, *row in connection.execute(query):
        dependents[refs[place]].append(Dependent(*row))
    return dependents


def listed_dependents(
    dependents: Iterable[Dependent], removed: Iterable[TableLink] = ()
) -> list[str]:
    """Return dependents as messages name them.

    Args:
        dependents: the dependents, from `read_dependents`.
        removed: links to ignore, because they are removed first.
    """
    without = {link.object for link in removed}
    return list(
        dict.fromkeys(item.description for item in dependents if item.link_oid not in without)
    )


class NamesInSchema:
    """The relation names in a schema, each with the relations whose removal frees it.

    Args:
        owners: by name, the object ids of the relation and of those that it belongs to.
    """

    def __init__(self, owners: Mapping[str, Collection[int]]) -> None:
        self._owners = owners

    def holds(self, name: str, dropped: Collection[int] = ()) -> bool:
        """Whether a name is still taken after some relations are dropped."""
        owners = self._owners.get(name)
        return owners is not None and not any(oid in dropped for oid in owners)


def read_names(connection: Connection, schemas: Sequence[str]) -> dict[str, NamesInSchema]:
    """Return the relation names in each schema."""
    owners_of: dict[str, dict[str, list[int]]] = {schema: {} for schema in schemas}
    for schema, relation, owners in connection.execute(
        statement("taken_names"), {"schemas": list(schemas)}
    ):
        owners_of[schema][relation] = owners
    return {schema: NamesInSchema(names) for schema, names in owners_of.items()}


def read_sequences(
    connection: Connection, refs: Sequence[TableRef]
) -> dict[TableRef, tuple[str, bool]]:
    """Return, for each name, the kind of relation and whether the user may set it as a sequence.

    A free name counts as a sequence that may be set.
    """
    sequences = dict.fromkeys(refs, ("S", True))
    rows = connection.execute(
        "SELECT asked.place, c.relkind::text, CASE WHEN c.relkind = 'S' THEN"
        " pg_catalog.has_sequence_privilege(c.oid, 'SELECT')"
        " AND pg_catalog.has_sequence_privilege(c.oid, 'UPDATE') ELSE false END"
        " FROM pg_catalog.unnest(%s::text[]) WITH ORDINALITY AS asked (name, place)"
        " JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(asked.name)",
        [[name(ref) for ref in refs]],
    )
    return sequences | {refs[place - 1]: (kind, settable) for place, kind, settable in rows}
