"""Tables that Penstock creates, and those that replace another one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.mysql.catalog.indexes import deferrable, referring_keys
from penstock.backends.mysql.catalog.table_model import model_of
from penstock.backends.mysql.catalog.tables import (
    DIALECT,
    TRIGGERS_OF,
    flavour_of,
    unique_keys,
)
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.load.rehearsal import check_creatable, refused_clauses
from penstock.backends.mysql.load.table_parts import (
    UTF8,
    clone_parts,
    foreign_parts,
    omitted_of_flavour,
)
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.types import TYPES
from penstock.backends.shared.values.arrow import value_kinds
from penstock.backends.sql.catalog.relations import check_is_table
from penstock.backends.sql.definitions.definition import TableExtras
from penstock.backends.sql.definitions.expressions import UUID
from penstock.backends.sql.definitions.foreign_keys import RELINK, UNLINK, ForeignKeyChange
from penstock.backends.sql.definitions.rendering import Rendered, computed_columns
from penstock.backends.sql.definitions.rendering import referring as refers
from penstock.backends.sql.loads.load_plan import TargetTables, UnLinks
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.table_model import ENUM, JSON, TEXT, ColumnType, TableDefinition
from penstock.model.tables import Column, TableRef

_CREATED = TYPES.created
KEY_CHARACTERS = 768
"""The characters of a text that fit into a key: 3,072 bytes."""


def byte_collation(session: MySqlSession) -> str:
    """Return the collation that distinguishes all texts."""
    return "utf8mb4_nopad_bin" if session.connection.is_mariadb else "utf8mb4_0900_bin"


# The maximum bytes of a row, and of its part within the page; long values are stored separately.
# https://dev.mysql.com/doc/refman/8.4/en/column-count-limit.html
_MOST_ROW, _MOST_PAGE = 65_000, 8_000
_APART = 42
"""The bytes that separately stored values take in their page."""
_MOST_SHORT = 255
"""The maximum bytes of a text that is never stored separately."""
_UUID = 144
_MOST_LABEL, _MOST_LABELS = 255, 65_535
# https://dev.mysql.com/doc/refman/8.4/en/enum.html


def translated_types(
    session: MySqlSession,
    columns: Sequence[Column],
    definition: TableDefinition,
    specified: Collection[str],
) -> dict[str, str]:
    """Return, by name, the column types of a table like another system's.

    Args:
        session: a session on the target.
        columns: with the trait `arrow`.
        definition: the source's definition.
        specified: columns whose types the user specified, which are left out.
    """
    model = definition.model.types
    types = _CREATED.of_all(columns, definition, specified)
    lengths: dict[str, int] = {}
    for column in columns:
        type_ = model.get(column.name, ColumnType())
        if types.get(column.name) != _CREATED.text:
            continue
        if type_.kind == JSON:
            types[column.name] = _CREATED.json
        elif type_.kind == ENUM and _are_labels(type_.labels):
            listed = ", ".join(map(session.dialect.literal, type_.labels))
            types[column.name] = f"enum({listed}) COLLATE {byte_collation(session)}"
        elif key_text := key_type(session, column, definition):
            types[column.name] = key_text
        elif type_.kind == TEXT and type_.length:
            lengths[column.name] = type_.length
    fixed = [type_ for name, type_ in types.items() if name not in lengths]
    row = sum(map(_bytes, fixed)) + _APART * len(lengths)
    page = sum(_UUID if type_ == _CREATED.uuid else _APART for type_ in fixed)
    page += _APART * len(lengths)
    for name, length in sorted(lengths.items(), key=lambda item: item[1]):
        size = 4 * length
        kept_row = row + size
        kept_page = page + max(0, size - _APART) * (size <= _MOST_SHORT)
        if kept_row <= _MOST_ROW and kept_page <= _MOST_PAGE:
            types[name] = f"varchar({length})"
            row, page = kept_row, kept_page
    return types


def _bytes(type_: str) -> int:
    """Return the bytes that a value takes in its row."""
    if type_ == _CREATED.uuid:
        return _UUID
    match = re.match(r"varchar\((\d+)\)", type_)
    return 4 * int(match[1]) + 2 if match else _APART


def _are_labels(labels: Sequence[str]) -> bool:
    """Whether an enum can have these labels.

    The empty label stands for an error, and trailing blanks are removed.
    """
    return 0 < len(labels) <= _MOST_LABELS and all(
        label and label == label.rstrip(" ") and len(label) <= _MOST_LABEL for label in labels
    )


def key_type(session: MySqlSession, column: Column, definition: TableDefinition) -> str:
    """Return the type of a text column in a key; empty if it is not in one, or too long.

    Args:
        session: a session on the target.
        column: a text column.
        definition: the source's definition, with its keys.
    """
    model = definition.model
    length = model.lengths.get(column.name, KEY_CHARACTERS + 1)
    if length > KEY_CHARACTERS or not any(column.name in key.columns for key in model.keys):
        return ""
    return f"varchar({length}) COLLATE {byte_collation(session)}"


def _is_compared(column: Column) -> bool:
    """Whether a column is compared by a collation. A UUID's digits have only one spelling."""
    return (
        bool(re.match(r"(var)?char|(tiny|medium|long)?text|enum|set", column.type, re.IGNORECASE))
        and column.type != "char(36)"
        and not re.search(r"_bin\b", column.type)
    )


def _next(request: LoadRequest) -> str:
    """Return the table option for the next number, which continues the source's.

    A row with a higher number advances it.
    """
    assert request.definition is not None
    columns = request.definition.model.columns
    numbered = [each for each in columns if each.identity is not None and each.identity.step > 0]
    for column in numbered:
        position = (request.sequence_positions or {}).get(column.name)
        if position is not None and column.identity is not None:
            return f"AUTO_INCREMENT={max(1, position.following(column.identity.step))}"
    return ""


def _any_text(session: MySqlSession, table: TableRef) -> str:
    """Return the table option for storing any text, if the database's character set cannot.

    Empty if it can, which keeps the database's own collation.
    """
    ((charset,),) = session.cached(
        ("character set", table.schema),
        lambda: session.fetch(
            "SELECT coalesce((SELECT default_character_set_name FROM information_schema.schemata"
            " WHERE schema_name = %s), @@character_set_server)",
            "character set",
            [table.schema],
        ),
    )
    return "" if charset == "utf8mb4" else UTF8


class MySqlTables(TargetTables):
    """See `TargetTables`."""

    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions
    deferrable_indexes = staticmethod(deferrable)  # type: ignore[assignment]

    def own_key(self, session: Session) -> str:
        assert isinstance(session, MySqlSession)
        with planning("target", "settings"):
            return session.connection.own_key()

    def extras(
        self, session: Session, request: LoadRequest, columns: Sequence[Column], loaded: TableRef
    ) -> TableExtras:
        assert isinstance(session, MySqlSession)
        assert request.definition is not None
        is_native = self.is_native(session, request.definition)
        if is_native:
            charset = request.definition.model.options
            parts = clone_parts(session, request, columns, loaded, super().rendered_extras)
        else:
            charset = _any_text(session, request.target)
            parts = super().extras(session, request, columns, loaded)
            if request.definition.dialect == DIALECT:
                omitted = omitted_of_flavour(session, request, parts.omitted, columns)
                parts = replace(parts, omitted=tuple(omitted))
        options = " ".join(filter(None, (charset, parts.options, _next(request))))
        complete = replace(parts, options=options)
        # Tables created alike were rehearsed in one batch, without further options.
        rehearsed = replace(parts, options=charset) if is_native else complete
        check_creatable(session, request.target, columns, rehearsed)
        return complete

    def planned_columns(
        self, definition: TableDefinition, columns: Sequence[Column], specified: Collection[str]
    ) -> Sequence[Column]:
        numbered = [each.name for each in definition.model.columns if each.identity is not None]
        texts = {
            name: text
            for name, text in computed_columns(definition.model, self.kinds(columns), MYSQL).items()
            # No column may be computed from an AUTO_INCREMENT column.
            if not any(MYSQL.ident(each) in text for each in numbered)
        }
        # MariaDB does not support NOT NULL for them.
        return [
            replace(column, generated=True, nullable=True)
            if column.name in texts and column.name not in specified
            else column
            for column in columns
        ]

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        uuids = {column.name for column in columns if column.type == _CREATED.uuid}
        return {**value_kinds(columns), **dict.fromkeys(uuids, UUID)}

    def is_native(self, session: Session, definition: TableDefinition) -> bool:
        assert isinstance(session, MySqlSession)
        return definition.flavour == flavour_of(session)

    def rendered_extras(
        self,
        session: Session,
        request: LoadRequest,
        extras: TableExtras,
        rendered: Rendered,
        loaded: TableRef,
    ) -> TableExtras:
        assert isinstance(session, MySqlSession)
        return foreign_parts(session, request, extras, rendered, loaded, super().rendered_extras)

    def refused_keys(
        self,
        session: Session,
        columns: Sequence[Column],
        clauses: Sequence[str],
        *,
        same_system: bool,
    ) -> Mapping[str, str]:
        assert isinstance(session, MySqlSession)
        # In utf8mb4 a key of texts takes more bytes than in the database's character set.
        reasons = dict(refused_clauses(session, columns, clauses, UTF8))
        # Texts that differ in the source may be equal in the database's collation, and the load
        # would fail.
        texts = [] if same_system else [each for each in columns if _is_compared(each)]
        for clause in clauses:
            for column in texts:
                if session.dialect.ident(column.name) in clause:
                    remedy = (
                        f"--types '{column.name}=varchar(100) COLLATE {byte_collation(session)}'"
                    )
                    # Whatever the server's message says, this is what the user can do.
                    reasons[clause] = f"{column.type} does not distinguish all texts; {remedy} does"
        return reasons

    def unlink_steps(
        self,
        session: Session,
        table: TableRef,
        recreated: Collection[TableRef],
        *,
        include_own: bool = False,
    ) -> UnLinks:
        assert isinstance(session, MySqlSession)
        drops, restores = [], []
        for of, name in referring_keys(session, table):
            if (of == table and not include_own) or of not in recreated:
                continue
            foreign_keys = model_of(session, of).foreign_keys
            (foreign_key,) = (each for each in foreign_keys if each.name == name)
            definition, _ = refers(session.dialect, foreign_key, table)
            change = ForeignKeyChange(of, name, definition, target=table)
            drops.append(replace(change, kind=UNLINK).step(session.dialect))
            restores.append(replace(change, kind=RELINK).step(session.dialect))
        return drops, restores

    def clone_statements(
        self, session: Session, table: TableRef, new_table: TableRef
    ) -> tuple[str, list[str]]:
        dialect = session.dialect
        return f"CREATE TABLE {dialect.table(new_table)} LIKE {dialect.table(table)}", []

    def check_replaceable(
        self, session: Session, table: TableRef, option: str, recreated: Collection[TableRef] = ()
    ) -> None:
        """Check that a table can be replaced.

        Args:
            session: a session on the target.
            table: the table to replace.
            option: the option that replaces it, for error messages.
            recreated: other tables that the same batch replaces.

        Raises:
            PlanningError: the table is a view, or something would be lost with it.
        """
        check_is_table(session, table, option)
        assert isinstance(session, MySqlSession)
        referrers = {
            str(of)
            for of, _ in referring_keys(session, table)
            if of != table and of not in recreated
        }
        if referrers:
            raise PlanningError(
                f"{option}: foreign keys of other tables reference {table}: "
                f"{', '.join(sorted(referrers))}; drop them first, or use --mode replace"
            )
        dropped_objects = [f"trigger {name}" for name, *_ in session.about(TRIGGERS_OF, table)]
        if option == "--mode swap":
            dropped_objects += [
                f"foreign key {each.name}" for each in model_of(session, table).foreign_keys
            ]
        if dropped_objects:
            raise PlanningError(
                f"{option}: {table} would lose {', '.join(dropped_objects)}; drop what you do not "
                "need, or use --mode truncate or replace, which keep the table"
            )
