"""Facts about tables of the target, each asked once, for all tables together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg

from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.children import (
    ExistingChild,
    Partitioned,
    children_of,
    read_attached,
    read_partitioned,
)
from penstock.backends.postgresql.catalog.columns import columns_of
from penstock.backends.postgresql.catalog.datatypes import Types
from penstock.backends.postgresql.catalog.privileges import (
    SchemaRights,
    TableRights,
    UpsertRights,
    check_creatable,
    check_writable_server,
    granted_by_default,
    read_schema_rights,
    read_table_rights,
    read_upsert_rights,
)
from penstock.backends.postgresql.catalog.relations import find_oid, heirs_of, table_oid
from penstock.backends.postgresql.catalog.sequences import ColumnSequence, sequences_of
from penstock.backends.postgresql.catalog.unique_keys import UniqueKey, unique_keys_of
from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.loadable_relations import check_loadable, read_loadable
from penstock.backends.postgresql.new_tables.claimed_names import ClaimedNames
from penstock.backends.postgresql.session.answers import Answers
from penstock.errors import PenstockError, PlanningError, TransientError, replaced_while_planned
from penstock.model.tables import Column, TableRef
from penstock.spec.modes import Mode

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart

T = TypeVar("T")

WHOLE_NUMBERS = ("smallint", "integer", "bigint")


class TargetFacts:
    """The facts that planning asks of the target.

    Facts are read once per planning; code that must see later changes creates a new set.

    Args:
        connection: a session on the target.
        refs: the tables it will be asked about.
    """

    def __init__(
        self,
        connection: Connection,
        refs: Sequence[TableRef],
        claimed_names: ClaimedNames | None = None,
    ) -> None:
        self.connection = connection
        self.claimed_names = claimed_names or ClaimedNames()
        self.refs = frozenset(refs)
        self.types = Types(connection)
        schemas = dict.fromkeys(ref.schema for ref in refs)
        self._trees = Answers(refs, partial(existing_tables.read_trees, connection))
        self._columns = Answers(refs, self._read_columns)
        self._links = Answers(refs, self._read_links)
        self._dependents = {
            sequences: Answers(refs, partial(self._read_dependents, sequences))
            for sequences in ("ai", "i")
        }
        self._rights = Answers(schemas, partial(read_schema_rights, connection))
        self._names = Answers(schemas, partial(existing_tables.read_names, connection))
        self._references = Answers(refs, self._read_references)
        self._table_rights = Answers(refs, partial(read_table_rights, connection))
        self._loadable = Answers(refs, partial(read_loadable, connection))
        self._column_sequences = Answers(refs, self._read_column_sequences)
        self._numbers = Answers(refs, self._read_numbers)
        self._shapes = Answers(refs, self._read_shapes)
        self._heirs = Answers(refs, self._read_heirs)
        self._unique_keys = Answers(refs, self._read_unique_keys)
        self._upsert_rights = Answers(refs, self._read_upsert_rights)
        self._partitioned = Answers(refs, self._read_partitioned)
        self._children = Answers(refs, self._read_children)
        self._root_definitions = Answers(refs, self._read_root_definitions)
        self._attached: dict[str, Mapping[int, tuple[str, ...]]] = {}
        self._granted = Answers(schemas, partial(granted_by_default, connection))
        self._definitions = Answers(refs, self._read_definitions)
        self._sequences = Answers((), partial(existing_tables.read_sequences, connection))
        self._writable = False
        self._derived: dict[type[Any], Any] = {}

    def forget(self) -> None:
        """Forget all facts: they refer to each other, so only a collection would free them."""
        vars(self).clear()

    def questions(self, *, creates_tables: bool) -> list[Callable[[], object]]:
        """Return calls that ask what most modes ask about each table.

        Args:
            creates_tables: whether the tables are to be created, and not only loaded.
        """
        if not self.refs:
            return [self.check_server]
        refs = sorted(self.refs, key=str)
        of_schemas: list[Answers[str, Any]] = [self._rights]
        of_tables: list[Answers[TableRef, Any]]
        if creates_tables:
            of_schemas.append(self._names)
            of_tables = [self._links, self._dependents["ai"]]
        else:
            of_tables = [
                *(self._table_rights, self._loadable, self._columns, self._column_sequences)
            ]

        def ask(answers: Answers[TableRef, Any]) -> None:
            existing_ref = next((ref for ref in refs if self.tree(ref)), None)
            if existing_ref is not None:
                with suppress(KeyError):  # replaced: reported when its answer is needed
                    _ = answers[existing_ref]

        return [
            self.check_server,
            partial(self.tree, refs[0]),
            *(partial(each.__getitem__, refs[0].schema) for each in of_schemas),
            *(partial(ask, each) for each in of_tables),
        ]

    def check_server(self) -> None:
        """See `check_writable_server`."""
        if not self._writable:
            check_writable_server(self.connection)
            self._writable = True

    def creatable(self, schema: str, needed_by: str) -> bool:
        """See `check_creatable`."""
        return check_creatable(self.connection, schema, needed_by, self.rights(schema))

    def rights(self, schema: str) -> SchemaRights:
        return self._rights[schema]

    def tree(self, ref: TableRef) -> list[existing_tables.Relation]:
        """See `existing.read_trees`."""
        return self._trees[ref]

    def columns(self, ref: TableRef) -> tuple[Column, ...]:
        """Return a table's columns.

        Raises:
            PlanningError: the table does not exist.
        """
        with planning("target", f"table {ref}"):
            self.check_exists(ref)
            return self._columns[ref]

    @contextmanager
    def noticing_replacement(self, ref: TableRef) -> Iterator[None]:
        """Report errors that come from reading parts of two tables of the same name.

        Raises:
            TableReplaced: reading failed, and the table is not the one that was read at first.
        """
        try:
            yield
        except (LookupError, PlanningError, TransientError) as error:
            if self._is_replaced(ref):
                raise replaced_while_planned(ref, "target") from error
            raise

    def _is_replaced(self, ref: TableRef) -> bool:
        """Whether the name denotes another table now; False if the session cannot tell."""
        try:
            tree = self.tree(ref)
            return find_oid(self.connection, ref) != (tree[0].oid if tree else None)
        except (psycopg.Error, PenstockError):
            return False

    def check_exists(self, ref: TableRef) -> None:
        """Check that a table exists.

        Raises:
            PlanningError: the table does not exist.
        """
        if not self.tree(ref):
            table_oid(self.connection, ref, "target")

    def check_loadable(self, ref: TableRef, mode: Mode) -> tuple[str, ...]:
        """See `check_loadable`."""
        with planning("target", f"table {ref}"):
            self.check_exists(ref)
            properties = self._loadable[ref]
        return check_loadable(self.connection, ref, mode, properties)

    def table_rights(self, ref: TableRef) -> TableRights:
        self.check_exists(ref)
        return self._table_rights[ref]

    def references(self, ref: TableRef) -> list[str]:
        """See `existing.read_references`."""
        return self._references[ref]

    def links(self, ref: TableRef) -> list[existing_tables.TableLink]:
        return self._links[ref]

    def dependents(self, ref: TableRef, sequences: str = "ai") -> list[existing_tables.Dependent]:
        """See `existing.read_dependents`."""
        return self._dependents[sequences][ref]

    def names(self, schema: str) -> existing_tables.NamesInSchema:
        return self._names[schema]

    def definitions(self, ref: TableRef) -> list[TablePart]:
        """Return the definitions of a table and its child tables, without those just dropped."""
        return self._definitions[ref]

    def definition(self, ref: TableRef) -> TablePart:
        """Return the definition of an existing table without child tables.

        Raises:
            PlanningError: the table was dropped in the meantime.
        """
        self.check_exists(ref)
        if not (definitions := self._definitions[ref]):
            raise self._dropped(ref)
        return definitions[0]

    def whole_definition(self, ref: TableRef) -> list[TablePart]:
        """Return the definitions of an existing table and each of its child tables.

        Raises:
            PlanningError: one of the tables was dropped in the meantime.
        """
        definitions = self._definitions[ref]
        if len(definitions) < len(self.tree(ref)):
            raise self._dropped(ref)
        return definitions

    def _dropped(self, ref: TableRef) -> PlanningError:
        from penstock.backends.postgresql.ddl.definition import TableDropped  # noqa: PLC0415 - seldom

        return TableDropped(self.tree(ref)[0].oid)

    def root_definition(self, ref: TableRef) -> TablePart:
        """Return the definition of an existing table alone, even if it has child tables.

        Raises:
            PlanningError: the table was dropped in the meantime.
        """
        self.check_exists(ref)
        try:
            return self._root_definitions[ref]
        except KeyError:
            raise self._dropped(ref) from None

    def heirs(self, ref: TableRef) -> tuple[TableRef, ...]:
        """See `SourceCatalog.heirs`."""
        self.check_exists(ref)
        return self._heirs[ref]

    def unique_keys(self, ref: TableRef) -> tuple[UniqueKey, ...]:
        return self._unique_keys[ref]

    def upsert_rights(self, ref: TableRef) -> UpsertRights:
        return self._upsert_rights[ref]

    def partitioned(self, ref: TableRef) -> Partitioned:
        """Return how a partitioned table is partitioned."""
        return self._partitioned[ref]

    def children(self, ref: TableRef) -> list[ExistingChild]:
        return self._children[ref]

    def attached(self, schema: str) -> Mapping[int, tuple[str, ...]]:
        """See `read_attached`."""
        if schema not in self._attached:
            self._attached[schema] = read_attached(self.connection, schema)
        return self._attached[schema]

    def shape(self, ref: TableRef) -> str:
        """See `existing.shape_of`."""
        return self._shapes[ref]

    def granted_by_default(self, schema: str) -> list[str]:
        """See `granted_by_default`."""
        return self._granted[schema]

    def column_sequences(self, ref: TableRef) -> list[ColumnSequence]:
        return self._column_sequences[ref]

    def numbers(self, ref: TableRef) -> set[str]:
        """Return the readable columns that hold whole numbers."""
        return self._numbers[ref]

    def sequence(self, ref: TableRef) -> tuple[str, bool]:
        """See `existing.read_sequences`."""
        return self._sequences[ref]

    def expect_sequences(self, refs: Iterable[TableRef]) -> None:
        """Announce sequences that it will be asked about."""
        self._sequences.expect(refs)

    def derive(self, make: type[T]) -> T:
        """Return an object computed from these facts, which is created once and kept with them.

        Args:
            make: a class that takes these facts.
        """
        if make not in self._derived:
            self._derived[make] = cast("Callable[[TargetFacts], T]", make)(self)
        return cast("T", self._derived[make])

    def _permitted_trees(
        self, refs: Sequence[TableRef]
    ) -> dict[TableRef, list[existing_tables.Relation]]:
        """Return the trees of tables that the user may look up."""
        trees: dict[TableRef, list[existing_tables.Relation]] = {}
        for ref in refs:
            trees[ref] = [] if self._trees.fails(ref) else self._trees[ref]
        return trees

    def _roots(self, refs: Sequence[TableRef]) -> dict[TableRef, int]:
        """Return the object ids of tables that exist."""
        return {ref: tree[0].oid for ref, tree in self._permitted_trees(refs).items() if tree}

    def _read_columns(self, refs: Sequence[TableRef]) -> dict[TableRef, tuple[Column, ...]]:
        roots = self._roots(refs)
        columns = columns_of(self.connection, list(roots.values()), self.types) if roots else {}
        # Without tables that were replaced in between.
        return {ref: columns[oid] for ref, oid in roots.items() if oid in columns}

    def _read_heirs(self, refs: Sequence[TableRef]) -> dict[TableRef, tuple[TableRef, ...]]:
        roots = self._roots(refs)
        heirs = heirs_of(self.connection, list(roots.values())) if roots else {}
        return {ref: heirs.get(roots.get(ref, 0), ()) for ref in refs}

    def _read_unique_keys(self, refs: Sequence[TableRef]) -> dict[TableRef, tuple[UniqueKey, ...]]:
        return dict.fromkeys(refs, ()) | unique_keys_of(self.connection, list(self._roots(refs)))

    def _read_upsert_rights(self, refs: Sequence[TableRef]) -> dict[TableRef, UpsertRights]:
        return read_upsert_rights(self.connection, list(self._roots(refs)))

    def _read_partitioned(self, refs: Sequence[TableRef]) -> dict[TableRef, Partitioned]:
        roots = self._roots(refs)
        partitioned = read_partitioned(self.connection, list(roots.values()))
        return {ref: partitioned[oid] for ref, oid in roots.items() if oid in partitioned}

    def _read_children(self, refs: Sequence[TableRef]) -> dict[TableRef, list[ExistingChild]]:
        with full_names(self.connection):
            return children_of(self.connection, refs)

    def _read_links(
        self, refs: Sequence[TableRef]
    ) -> dict[TableRef, list[existing_tables.TableLink]]:
        trees = self._permitted_trees(refs)
        if not any(trees.values()):
            return {ref: [] for ref in refs}
        with full_names(self.connection):
            return existing_tables.read_links(self.connection, trees)

    def _read_column_sequences(
        self, refs: Sequence[TableRef]
    ) -> dict[TableRef, list[ColumnSequence]]:
        roots = self._roots(refs)
        sequences = sequences_of(self.connection, list(roots.values())) if roots else {}
        return {ref: sequences.get(roots.get(ref, 0), []) for ref in refs}

    def _read_numbers(self, refs: Sequence[TableRef]) -> dict[TableRef, set[str]]:
        return existing_tables.read_numbers(
            self.connection, self._permitted_trees(refs), WHOLE_NUMBERS
        )

    def _read_shapes(self, refs: Sequence[TableRef]) -> dict[TableRef, str]:
        with full_names(self.connection):
            return existing_tables.read_shapes(self.connection, refs)

    def _read_references(self, refs: Sequence[TableRef]) -> dict[TableRef, list[str]]:
        return existing_tables.read_references(self.connection, self._permitted_trees(refs))

    def _read_dependents(
        self, sequences: str, refs: Sequence[TableRef]
    ) -> dict[TableRef, list[existing_tables.Dependent]]:
        trees = self._permitted_trees(refs)
        if not any(trees.values()):
            return {ref: [] for ref in refs}
        return existing_tables.read_dependents(self.connection, trees, sequences)

    def _read_definitions(self, refs: Sequence[TableRef]) -> dict[TableRef, list[TablePart]]:
        trees = self._permitted_trees(refs)
        definitions = self._read_tables(
            relation.oid for tree in trees.values() for relation in tree
        )
        return {
            ref: [definitions[relation.oid] for relation in tree if relation.oid in definitions]
            for ref, tree in trees.items()
        }

    def _read_root_definitions(self, refs: Sequence[TableRef]) -> dict[TableRef, TablePart]:
        roots = self._roots(refs)
        definitions = self._read_tables(roots.values())
        return {ref: definitions[oid] for ref, oid in roots.items() if oid in definitions}

    def _read_tables(self, requested: Iterable[int]) -> dict[int, TablePart]:
        """Return definitions by object id, without tables just dropped."""
        from penstock.backends.postgresql.ddl.definition import (  # noqa: PLC0415 - seldom
            TableDropped,
            read_tables,
        )

        oids = list(requested)
        if not oids:
            return {}
        tables: dict[int, TablePart] = {}
        try:
            tables = {table["oid"]: table for table in read_tables(self.connection, oids)}
        except TableDropped:
            for oid in oids:
                with suppress(TableDropped):
                    (tables[oid],) = read_tables(self.connection, [oid])
        return tables


def check_place(facts: TargetFacts, ref: TableRef, needed_by: str) -> None:
    """Check that a table can be created in a schema.

    Args:
        facts: the facts about the target.
        ref: the table to create.
        needed_by: what creates it, as the message names it.

    Raises:
        PlanningError: no table can be created there, whatever its name.
    """
    with planning("target", f"{needed_by}: {ref}"):
        facts.check_server()
        facts.creatable(ref.schema, needed_by)
