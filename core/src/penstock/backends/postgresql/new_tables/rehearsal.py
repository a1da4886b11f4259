"""A rehearsal of creating tables, which finds errors before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.backends.postgresql.catalog.columns import (
    Attribute,
    columns_of,
    data_type,
    describe_columns,
)
from penstock.backends.postgresql.catalog.datatypes import UNKNOWN, DataType, Types
from penstock.backends.postgresql.catalog.existing_tables import read_trees
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import indexes, tables
from penstock.backends.postgresql.ddl.prerequisites import (
    address,
    find_addresses,
    missing_lines,
    needs_of,
)
from penstock.backends.postgresql.ddl.steps import FULL_NAMES
from penstock.backends.postgresql.ddl.text import Names, temporary_name
from penstock.backends.postgresql.ddl.types import (
    create_type,
    missing_types,
    read_namesakes,
    type_name,
)
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts, check_place
from penstock.backends.postgresql.new_tables.plain_tables import is_plain
from penstock.backends.postgresql.session.answers import Answers
from penstock.backends.postgresql.session.statements import ident, statement
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import Content, NeedPart, TablePart, TypePart

NEEDS = "creating the table"
# Tables per transaction: each holds some locks until the end, and the server's lock table is
# limited.
MOST = 50
# Object ids below this are the same on every server.
FIRST_USER_OID = 10000
LOCK_MS = 10_000
# One run at a time creates what several may need.
ONE_AT_A_TIME = statement("lock_making").as_string(None)


def defined_columns(facts: TargetFacts, ref: TableRef, content: Content) -> tuple[Column, ...]:
    """Return the columns of a table created from a definition.

    Args:
        facts: the facts about the target.
        ref: the table to create.
        content: the parts of the definition to create.

    Raises:
        PlanningError: the table cannot be created.
    """
    check_place(facts, ref, NEEDS)
    with planning("target", f"{NEEDS}: {ref}"):
        return facts.derive(Rehearsals).columns(ref, content)


@contextmanager
def rehearse(facts: TargetFacts, ref: TableRef, content: Content) -> Iterator[TableRef]:
    """Create a table from a definition, in a transaction that is rolled back.

    Args:
        facts: the facts about the target.
        ref: the table, which gets another name for the rehearsal.
        content: the parts of the definition to create.
    """
    connection = facts.connection
    with planning("target", f"{NEEDS}: {ref}"):
        missing = facts.derive(Rehearsals).missing(ref, content)
        rehearsal = TableRef(ref.schema, temporary_name("rehearsal", ref.name))
        lines = facts.derive(Rehearsals).creation_statements(ref, missing, rehearsal)
        with connection.transaction(force_rollback=True):
            connection.execute(";\n".join(lines).encode())
            yield rehearsal


class Rehearsals:
    """Tables created under temporary names, in a transaction that is rolled back.

    This finds what the target lacks: a function, a collation, an access method, a privilege. Of the
    tables that every server accepts, only one is created in each schema, to show that tables can be
    created there at all.
    """

    def __init__(self, facts: TargetFacts) -> None:
        self._facts = facts
        self._connection = facts.connection
        self._version = facts.connection.info.server_version
        self._contents: dict[TableRef, Content] = {}
        self._types = Answers((), partial(read_namesakes, self._connection))
        self._addresses = Answers((), partial(find_addresses, self._connection))
        self._type_modifiers = Answers((), partial(read_modifiers, self._connection))
        self._created_columns: Answers[TableRef, tuple[Column, ...] | None] = Answers(
            (), self._make, MOST
        )
        self._described_columns = Answers((), self._describe)
        self._schemas_tried: set[str] = set()
        """Schemas in which a table was made."""

    def expect(self, contents: Mapping[TableRef, Content]) -> None:
        """Announce definitions that it will be asked about."""
        for ref, content in contents.items():
            if self._contents.get(ref) == content:
                continue
            self._contents[ref] = content
            self._created_columns.forget(ref)
            self._described_columns.forget(ref)
            self._types.expect(map(type_name, content["types"]))
            self._addresses.expect(map(address, needs_of(content["tables"])))
            self._facts.expect_sequences(used_sequences(ref, content["tables"]))
        self._created_columns.expect(contents)
        self._described_columns.expect(contents)

    def columns(self, ref: TableRef, content: Content) -> tuple[Column, ...]:
        """Return the columns of a table created from a definition.

        Raises:
            PlanningError, psycopg.Error: the table cannot be created.
        """
        self.missing(ref, content)
        created = self._created_columns[ref]
        return self._described_columns[ref] if created is None else created

    def missing(self, ref: TableRef, content: Content) -> list[TypePart]:
        """Return the types that are created with the table.

        Raises:
            PlanningError, psycopg.Error: the table cannot be created.
        """
        self.expect({ref: content})
        missing, lines = self._find_missing(ref)
        if lines:
            raise PlanningError(
                f"{NEEDS}: the target lacks objects that {ref} needs, or has different ones; "
                "create them there first:\n  " + "\n  ".join(lines)
            )
        list(self._schemas(ref, missing))
        self._created_columns[ref]
        return missing

    def _find_missing(self, ref: TableRef) -> tuple[list[TypePart], list[str]]:
        content = self._contents[ref]
        missing, lines = missing_types(content["types"], self._types.__getitem__)
        needs = [need for need in needs_of(content["tables"]) if not self._exists(need)]
        return missing, [*lines, *missing_lines(needs)]

    def _exists(self, need: NeedPart) -> bool:
        try:
            return self._addresses[address(need)]
        except (psycopg.errors.ProgrammingError, psycopg.errors.DataError):
            return False

    def _make(self, refs: Sequence[TableRef]) -> dict[TableRef, tuple[Column, ...] | None]:
        """Create tables, and return the columns of those with types that are not built in."""
        lines: list[str] = []
        rehearsals: dict[TableRef, TableRef] = {}
        schemas: set[str] = set()
        for ref in refs:
            content = self._contents[ref]
            missing, lacking = self._find_missing(ref)
            if lacking or (self._is_plain(content) and ref.schema in self._schemas_tried | schemas):
                continue
            rehearsal = TableRef(ref.schema, temporary_name("rehearsal", ref.name))
            try:
                lines += self.creation_statements(ref, missing, rehearsal)
            except PlanningError:  # reported when this one is asked for
                continue
            schemas.add(ref.schema)
            if not _is_described(content):
                rehearsals[ref] = rehearsal
        columns_of_tables: dict[TableRef, tuple[Column, ...] | None] = dict.fromkeys(refs)
        if rehearsals:
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(";\n".join(lines).encode())
                columns = read_created(
                    self._connection, list(rehearsals.values()), Types(self._connection)
                )
            settled = without_rehearsed_ids(self._connection, columns)
            columns_of_tables |= {ref: settled[rehearsal] for ref, rehearsal in rehearsals.items()}
        elif schemas:
            run_and_roll_back(self._connection, lines)
        self._schemas_tried |= schemas
        return columns_of_tables

    def creation_statements(
        self, ref: TableRef, missing: Sequence[TypePart], rehearsal: TableRef
    ) -> list[str]:
        """Return statements that create a table under another name, with its types and indexes.

        Args:
            ref: the table, by its own name.
            missing: the types to create first.
            rehearsal: the other name.

        Raises:
            PlanningError: nothing can be created there.
        """
        return [
            FULL_NAMES,
            f"SET LOCAL lock_timeout = {LOCK_MS}",
            *self._schemas(ref, missing),
            *([ONE_AT_A_TIME] if missing else []),
            *map(create_type, missing),
            *_statements(self._contents[ref]["tables"], rehearsal, self._version),
        ]

    def _is_plain(self, content: Content) -> bool:
        definitions = content["tables"]
        return (
            not content["types"]
            and len(definitions) == 1
            and is_plain(definitions[0], self._version)
        )

    def _schemas(self, ref: TableRef, missing: Sequence[TypePart]) -> Iterator[str]:
        """Yield statements that create missing schemas.

        Raises:
            PlanningError: nothing can be created in one of them.
        """
        for schema in sorted({ref.schema, *(type_["schema"] for type_ in missing)}):
            if not self._facts.creatable(schema, NEEDS):
                # Another run may be creating the schema now.
                yield ONE_AT_A_TIME
                yield f"CREATE SCHEMA IF NOT EXISTS {ident(schema)}"

    def _describe(self, refs: Sequence[TableRef]) -> dict[TableRef, tuple[Column, ...]]:
        """Return the columns of tables whose types are all built in."""
        roots = {
            ref: self._contents[ref]["tables"][0]
            for ref in refs
            if _is_described(self._contents[ref])
        }
        self._type_modifiers.expect(
            column["type"] for table in roots.values() for column in table["columns"]
        )
        attributes_of = {ref: self._attributes(table) for ref, table in roots.items()}
        return {ref: self._columns(attributes) for ref, attributes in attributes_of.items()}

    def builtin_columns(self, columns: Sequence[tuple[str, str, bool]]) -> tuple[Column, ...]:
        """Return columns of built-in types.

        Args:
            columns: for each column its name, its type as people write it, and whether NULL is
                allowed.

        Raises:
            psycopg.Error: a type does not exist.
        """
        self._type_modifiers.expect(type_ for _, type_, _ in columns)
        return self._columns(
            [self._attribute(name, type_, nullable=nullable) for name, type_, nullable in columns]
        )

    def _columns(self, attributes: Sequence[Attribute]) -> tuple[Column, ...]:
        types = self._facts.types
        types.learn(self._type_modifiers.values())
        return describe_columns(self._connection, attributes, types)

    def _attribute(self, name: str, type_: str, **more: Any) -> Attribute:
        oid, typmod = self._type_modifiers[type_]
        # Whatever the declaration says, an array column of a new table has one dimension.
        return Attribute(name, oid, typmod, dimensions=int(type_.endswith("[]")), **more)

    def _attributes(self, table: TablePart) -> list[Attribute]:
        return [
            self._attribute(
                column["name"],
                column["type"],
                nullable=nullable,
                generated=bool(column["generated"]),
                has_default=column["default"] is not None or bool(column["identity"]),
            )
            for column, nullable in zip(table["columns"], tables.nullable(table), strict=True)
        ]


def used_sequences(ref: TableRef, definitions: Sequence[TablePart]) -> list[TableRef]:
    """Return, by their names in the target, sequences that defaults use and no column owns.

    Args:
        ref: the table to be created.
        definitions: the table's definition, followed by those of the tables it consists of.
    """
    schema = definitions[0]["schema"]
    return [
        TableRef(ref.schema if item["schema"] == schema else item["schema"], item["name"])
        for table in definitions
        for item in table["used_sequences"]
    ]


def _is_described(content: Content) -> bool:
    """Whether all types of the table are built in, so that their names describe them completely."""
    columns = content["tables"][0]["columns"]
    return not content["types"] and all((c["type_oid"] or 0) < FIRST_USER_OID for c in columns)


def read_modifiers(connection: Connection, types: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the object ids and modifiers of built-in types, as people write them."""
    query = f"SELECT {', '.join(f'NULL::{text}' for text in types)}"
    result = run_and_roll_back(connection, [FULL_NAMES, query])
    return {text: (result.ftype(place), result.fmod(place)) for place, text in enumerate(types)}


def run_and_roll_back(connection: Connection, statements: Sequence[str]) -> psycopg.pq.abc.PGresult:
    """Run statements in one round trip, roll them back, and return the last result."""
    text = ";\n".join(statements)
    if connection.pooled:
        with connection.transaction(force_rollback=True):
            return _last_result(connection.execute(text.encode()))
    try:
        cursor = connection.execute(f"BEGIN;\n{text};\nROLLBACK".encode())
    except psycopg.Error:
        if not connection.closed:
            connection.rollback()
        raise
    return _last_result(cursor, 1)


def _last_result(cursor: psycopg.Cursor[Any], after: int = 0) -> psycopg.pq.abc.PGresult:
    """Return the last result of interest.

    Args:
        cursor: the cursor with the results of all statements.
        after: the number of results after it to ignore.
    """
    results = [cursor.pgresult]
    while cursor.nextset():
        results.append(cursor.pgresult)
    result = results[-1 - after]
    assert result is not None
    return result


def _statements(definitions: Sequence[TablePart], ref: TableRef, version: int) -> list[str]:
    names = _temporary_names("rehearsal", ref, definitions)
    statements: list[str] = []
    for table in definitions:
        statements += tables.create_table(table, names, persistence="u", version=version)
    statements += [
        step.statement for step in indexes.build_steps(definitions, names, tablespaces=False)
    ]
    for table in definitions:
        statements += tables.unchecked_constraints(table, names)
        statements += tables.create_statistics(table, names)
    return statements


def read_created(
    connection: Connection, refs: Sequence[TableRef], types: Types
) -> dict[TableRef, tuple[Column, ...]]:
    """Return the columns of tables that were just created.

    Args:
        connection: a session on the target.
        refs: the tables.
        types: receives the columns' types.
    """
    oids = {ref: tree[0].oid for ref, tree in read_trees(connection, refs).items()}
    columns = columns_of(connection, list(oids.values()), types)
    return {ref: columns[oid] for ref, oid in oids.items()}


def without_rehearsed_ids(
    connection: Connection, columns: Mapping[TableRef, Sequence[Column]]
) -> dict[TableRef, tuple[Column, ...]]:
    """Remove object ids of rehearsed types, which change when the types are created to stay."""
    types = [data_type(column) for table_columns in columns.values() for column in table_columns]
    parts = {part.oid for type_ in types for part in type_.parts()}
    rows = connection.execute(
        "SELECT oid FROM pg_catalog.pg_type WHERE oid = ANY (%s::oid[])", [list(parts)]
    ).fetchall()
    permanent = {oid for (oid,) in rows}

    def without_id(type_: DataType) -> DataType:
        components = tuple(without_id(part) for part in type_.components)
        return replace(
            type_, oid=type_.oid if type_.oid in permanent else UNKNOWN, components=components
        )

    return {
        ref: tuple(
            replace(column, traits={**column.traits, "type": without_id(data_type(column))})
            for column in table_columns
        )
        for ref, table_columns in columns.items()
    }


def _temporary_names(run_id: str, ref: TableRef, planned: Sequence[TablePart]) -> Names:
    refs: dict[int, TableRef] = {}
    sequences: dict[tuple[str, str], TableRef] = {}
    statistics: dict[tuple[str, str], TableRef] = {}
    for table in planned:
        first = not refs
        refs[table["oid"]] = (
            ref if first else TableRef(ref.schema, temporary_name(run_id, str(table["oid"])))
        )
        for sequence in table["sequences"]:
            new_ref = TableRef(ref.schema, temporary_name(run_id, sequence["name"]))
            sequences[sequence["schema"], sequence["name"]] = new_ref
        for sequence in table["used_sequences"]:
            qualified = f"{sequence['schema']}.{sequence['name']}"
            new_ref = TableRef(ref.schema, temporary_name(run_id, qualified))
            sequences[sequence["schema"], sequence["name"]] = new_ref
        for item in table["statistics"]:
            new_ref = TableRef(ref.schema, temporary_name(run_id, item["name"]))
            statistics[item["schema"], item["name"]] = new_ref
    usable, _ = indexes.usable_indexes(planned)
    by_oid = {oid: temporary_name(run_id, str(oid)) for oid in usable}
    return Names(refs, by_oid, sequences, statistics)
