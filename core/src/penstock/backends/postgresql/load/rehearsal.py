"""A rehearsal of making a table: what cannot be made is found before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.backends.postgresql.catalog.columns import data_type, read_columns
from penstock.backends.postgresql.catalog.datatypes import UNKNOWN, DataType
from penstock.backends.postgresql.catalog.privileges import check_creatable, check_writable_server
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import indexes, tables
from penstock.backends.postgresql.ddl.needs import missing_needs
from penstock.backends.postgresql.ddl.steps import FULL_NAMES
from penstock.backends.postgresql.ddl.text import Json, Names, beside
from penstock.backends.postgresql.ddl.types import create_type, missing_types
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import ident
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

NEEDS = "making the table"


def defined_columns(
    connection: Connection, ref: TableRef, content: Mapping[str, Any]
) -> tuple[Column, ...]:
    """The columns of a table made from a definition: it is made, looked at, and rolled back.

    Parameters:
        content: of the definition.

    Raises:
        PlanningError: it cannot be made.
    """
    check_place(connection, ref)
    with rehearsed(connection, ref, content) as made:
        columns = read_columns(connection, made, "target")
    with planning("target", f"{NEEDS}: {ref}"):
        return _without_rehearsed_ids(connection, columns)


@contextmanager
def rehearsed(
    connection: Connection, ref: TableRef, content: Mapping[str, Any]
) -> Iterator[TableRef]:
    """A table made from a definition, without its indexes, in a transaction that is rolled back."""
    with planning("target", f"{NEEDS}: {ref}"):
        rehearsal = Rehearsal(connection, ref, content)
        with connection.transaction(force_rollback=True):
            rehearsal.make_types()
            rehearsal.make_tables()
            yield rehearsal.ref


def _without_rehearsed_ids(connection: Connection, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Types that the rehearsal made will have other object ids when they are made for good."""
    parts = {part.oid for column in columns for part in data_type(column).parts()}
    rows = connection.execute(
        "SELECT oid FROM pg_catalog.pg_type WHERE oid = ANY (%s::oid[])", [list(parts)]
    ).fetchall()
    known = {oid for (oid,) in rows}

    def settled(type_: DataType) -> DataType:
        below = tuple(settled(part) for part in type_.below)
        return replace(type_, oid=type_.oid if type_.oid in known else UNKNOWN, below=below)

    return tuple(
        replace(column, traits={**column.traits, "type": settled(data_type(column))})
        for column in columns
    )


def check_place(connection: Connection, ref: TableRef) -> None:
    """
    Raises:
        PlanningError: nothing can be made there, whatever its name.
    """
    with planning("target", f"{NEEDS}: {ref}"):
        check_writable_server(connection)
        check_creatable(connection, ref.schema, NEEDS)


class Rehearsal:
    """Makes the tables under names of their own, in a transaction that is rolled back.

    What the target lacks (a function, a collation, an access method, a privilege) is found so.
    """

    def __init__(self, connection: Connection, ref: TableRef, content: Mapping[str, Any]) -> None:
        self._connection = connection
        self._tables: Sequence[Json] = content["tables"]
        self._all_types: Sequence[Json] = content["types"]
        self.ref = TableRef(ref.schema, beside("rehearsal", ref.name))
        self._names = _names_beside("rehearsal", self.ref, self._tables)
        self.missing, lines = missing_types(connection, self._all_types)
        with connection.transaction():
            lines += missing_needs(connection, self._tables)
        if lines:
            raise PlanningError(
                f"{NEEDS}: the target lacks what {ref} needs, or has a different one; create it "
                "there first:\n  " + "\n  ".join(lines)
            )

    def _run(self, statements: Sequence[str]) -> None:
        for one in statements:
            self._connection.execute(one.encode())

    def make_types(self) -> None:
        self._run([FULL_NAMES, "SET LOCAL lock_timeout = 10000"])
        schemas = {self.ref.schema, *(t["schema"] for t in self.missing)}
        for schema in sorted(schemas):
            if not check_creatable(self._connection, schema, NEEDS):
                self._run([f"CREATE SCHEMA {ident(schema)}"])
        for type_ in self.missing:
            self._run([create_type(type_)])
            self._make_apart(type_)

    def _make_apart(self, type_: Json) -> None:
        """See that its object id is not the source's by chance, which would look like agreement."""
        made = ident(type_["schema"], type_["name"])
        query = (
            "SELECT t.oid::bigint, t.typarray::bigint FROM pg_catalog.pg_type AS t"
            " WHERE t.oid = pg_catalog.to_regtype(%s)"
        )
        while True:
            found = self._connection.first(query, [made])
            if set(found).isdisjoint({type_["oid"], type_["array_oid"]}):
                return
            self._run([f"DROP TYPE {made}", create_type(type_)])

    def make_tables(self) -> None:
        version = self._connection.info.server_version
        for table in self._tables:
            self._run(tables.create_table(table, self._names, persistence="u", version=version))

    def make_all(self) -> None:
        self.make_tables()
        for step in indexes.build_steps(self._tables, self._names, tablespaces=False):
            self._run([step.statement])
        for table in self._tables:
            self._run(tables.unchecked(table, self._names))
            self._run(tables.create_statistics(table, self._names))


def _names_beside(run_id: str, ref: TableRef, planned: Sequence[Json]) -> Names:
    refs: dict[int, TableRef] = {}
    sequences: dict[tuple[str, str], TableRef] = {}
    statistics: dict[tuple[str, str], TableRef] = {}
    for table in planned:
        first = not refs
        refs[table["oid"]] = (
            ref if first else TableRef(ref.schema, beside(run_id, str(table["oid"])))
        )
        for sequence in table["sequences"]:
            made = TableRef(ref.schema, beside(run_id, sequence["name"]))
            sequences[sequence["schema"], sequence["name"]] = made
        for sequence in table["used_sequences"]:
            whole = f"{sequence['schema']}.{sequence['name']}"
            made = TableRef(ref.schema, beside(run_id, whole))
            sequences[sequence["schema"], sequence["name"]] = made
        for item in table["statistics"]:
            made = TableRef(ref.schema, beside(run_id, item["name"]))
            statistics[item["schema"], item["name"]] = made
    usable, _ = indexes.usable_indexes(planned)
    by_oid = {oid: beside(run_id, str(oid)) for oid in usable}
    return Names(refs, by_oid, sequences, statistics)
