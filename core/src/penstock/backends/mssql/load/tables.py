"""Tables that Penstock creates in the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.mssql.catalog.native_parts import (
    COMMENTS,
    GRANTS,
    NativeParts,
    attached,
)
from penstock.backends.mssql.catalog.tables import enabled_indexes, unique_keys
from penstock.backends.mssql.dialect import BY_BYTES
from penstock.backends.mssql.load.exchange import like_statements
from penstock.backends.mssql.load.table_clone import clone_parts, identity_steps
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.sql.catalog.relations import check_is_table
from penstock.backends.sql.definitions.definition import TableExtras
from penstock.backends.sql.definitions.rendering import with_final_name
from penstock.backends.sql.server.target import ServerTables
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.table_model import Expression, IndexModel, KeyModel, TableDefinition
from penstock.model.tables import Column, NotCopied, TableRef

KEY_CHARACTERS = 400
"""The characters of a text that fit into a key: 900 bytes, less those of other columns."""
ROW_UNITS = 4000
"""The UTF-16 code units of a text that fit into its row."""


def text_type(column: Column, definition: TableDefinition) -> str:
    """Return the type of a text column with a length; empty if it has none, or is too long."""
    length = definition.model.lengths.get(column.name, ROW_UNITS)
    if type_ := key_type(column, definition):
        return type_
    # A character takes up to two units.
    return f"nvarchar({2 * length})" if 0 < 2 * length <= ROW_UNITS else ""


def key_type(column: Column, definition: TableDefinition) -> str:
    """Return the type of a text column in a key or index; empty if it is in none, or too long."""
    model = definition.model
    length = model.lengths.get(column.name, KEY_CHARACTERS + 1)
    indexed = [key.columns for key in model.keys]
    indexed += [index.columns for index in model.indexes if not index.method]
    if length > KEY_CHARACTERS or not any(column.name in names for names in indexed):
        return ""
    return f"nvarchar({length}) COLLATE {BY_BYTES}"


class MssqlTables(ServerTables):
    """Tables that Penstock creates in SQL Server."""

    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def extras(
        self, session: Session, request: LoadRequest, columns: Sequence[Column], loaded: TableRef
    ) -> TableExtras:
        assert isinstance(session, MssqlSession)
        assert request.definition is not None
        native = request.definition.native
        unmodelled: tuple[NotCopied, ...] = ()
        if isinstance(native, NativeParts):
            extras = clone_parts(session, request, native, columns, loaded)
            unmodelled = request.definition.omitted
        else:
            definition = _keys_of_values(request.definition, columns)
            request = replace(request, definition=definition)
            extras = super().extras(session, request, columns, loaded)
            if loaded != request.target:
                extras = _with_late_checks(extras, loaded, request.target)
            identities = [name for name, text in extras.columns.items() if "IDENTITY" in text]
            extras = replace(extras, after=(*extras.after, *identity_steps(request, identities)))
        dropped = [replace(item, dropped=True) for item in attached(session, request.target)]
        omitted = [replace(item, table=str(request.target)) for item in (*unmodelled, *dropped)]
        return replace(extras, omitted=(*extras.omitted, *omitted))

    def refused_keys(
        self,
        session: Session,
        columns: Sequence[Column],
        clauses: Sequence[str],
        *,
        same_system: bool,
    ) -> Mapping[str, str]:
        long = {column.name: column.type for column in columns if _is_long(column)}
        reasons = {}
        for clause in clauses:
            for name, type_ in long.items():
                if session.dialect.ident(name) in clause:
                    reasons[clause] = (
                        f"{type_} cannot be part of a key; specify another type, such as --types "
                        f"'{name}=nvarchar(100)'"
                    )
        return reasons

    def guards(self, column: Column) -> bool:
        return column.type == "tinyint"

    def unindexed(self, columns: Sequence[Column]) -> Collection[str]:
        return [column.name for column in columns if _is_long(column)]

    def deferrable_indexes(
        self, session: Session, table: TableRef
    ) -> tuple[Mapping[str, str], Sequence[str]]:
        assert isinstance(session, MssqlSession)
        return enabled_indexes(session, table), ()

    def clone_statements(
        self, session: Session, table: TableRef, new_table: TableRef
    ) -> tuple[str, list[str]]:
        assert isinstance(session, MssqlSession)
        return like_statements(session, table, new_table)

    def check_replaceable(
        self, session: Session, table: TableRef, option: str, recreated: Collection[TableRef] = ()
    ) -> None:
        """Check that a table can be replaced.

        Args:
            session: a session with the target.
            table: the table to replace.
            option: the option that requires it, for messages.
            recreated: other tables that are recreated along with this one.

        Raises:
            PlanningError: the table is a view, or something would be lost with it.
        """
        check_is_table(session, table, option)
        assert isinstance(session, MssqlSession)
        keys = session.catalog_rows("referencing", table)
        referencing = sorted({f"{schema}.{name}" for schema, name in keys} - {str(table)})
        if referencing:
            raise PlanningError(
                f"{option}: foreign keys of other tables reference {table}: "
                f"{', '.join(referencing)}; drop them first, or use --mode replace"
            )
        bound = session.catalog_rows("schema_bound", table)
        if bound:
            raise PlanningError(
                f"{option}: {table} is bound WITH SCHEMABINDING to "
                f"{', '.join(name for (name,) in bound)}; drop what is bound first, or use --mode "
                "truncate"
            )
        dropped_objects = [
            item for item in attached(session, table) if _prevents_replacement(item, option)
        ]
        if dropped_objects:
            listed = ", ".join(f"{item.name} ({item.kind})" for item in dropped_objects)
            raise PlanningError(
                f"{option}: {table} would lose {listed}; drop what you do not need, or use --mode "
                "truncate or replace, which keep the table"
            )


def _with_late_checks(extras: TableExtras, loaded: TableRef, table: TableRef) -> TableExtras:
    """Return the parts, with checks after the exchange: their names are unique in a schema."""
    checks = [step for step in extras.after if step.id.startswith("check ")]
    after = (step for step in extras.after if step not in checks)
    late = (with_final_name(step, loaded, table) for step in checks)
    return replace(extras, after=tuple(after), late=(*late, *extras.late))


def _keys_of_values(definition: TableDefinition, columns: Sequence[Column]) -> TableDefinition:
    """Make keys ignore NULL.

    SQL Server treats NULLs as equal in a unique key, which other systems do not.
    """
    nullable = {column.name for column in columns if column.nullable}
    model = definition.model
    weak = [key for key in model.keys if not key.primary and nullable & set(key.columns)]
    indexes = [_of_values(key) for key in weak]
    keys = tuple(key for key in model.keys if key not in weak)
    model = replace(model, keys=keys, indexes=(*model.indexes, *indexes))
    return replace(definition, model=model)


def _of_values(key: KeyModel) -> IndexModel:
    test: list[object] = ["and", *(["not", ["null", ["column", name]]] for name in key.columns)]
    predicate = Expression("", test)
    name = key.name or f"{'_'.join(key.columns)}_key"
    return IndexModel(name, key.columns, unique=True, predicate=predicate)


def _is_long(column: Column) -> bool:
    return "max)" in column.type or column.type in ("xml", "ntext", "text", "image")


def _prevents_replacement(item: NotCopied, needs: str) -> bool:
    """Whether an attached object prevents another table from replacing this one."""
    if needs == "--mode swap":
        return item.kind not in (GRANTS, COMMENTS)
    return item.kind in ("triggers", "security policies") or item.name == "SYSTEM_VERSIONING"
