"""The parts of a table other than its columns, tried on temporary tables.

For a source of the same flavor they are in its own text, otherwise as far as the server supports
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.mysql.catalog.table_model import (
    COLLATIONS,
    COLUMN_OPTIONS,
    TABLE_OPTIONS,
    UNVERSIONED,
    clause_of,
)
from penstock.backends.mysql.catalog.tables import TRIGGERS, native_columns
from penstock.backends.mysql.load.rehearsal import (
    AUTOMATIC,
    refused_clauses,
    refused_columns,
    rehearse_all,
)
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.shared.values.arrow import value_kinds
from penstock.backends.sql.definitions.definition import TableExtras, omitted_parts
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.definitions.rendering import Clause, Rendered, Rendering
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.table_model import (
    DEFAULTS,
    IDENTITIES,
    ON_UPDATES,
    ColumnModel,
    KeyModel,
    TableDefinition,
    omitted_of_column,
)
from penstock.model.tables import Column, NotCopied, Relation, TableRef
from penstock.spec.modes import Table

UTF8 = "CHARACTER SET utf8mb4"
LONGEST_NAME = 64
# A default from a sequence, which is not copied with the table.
_NEXT = re.compile(r"nextval\(", re.IGNORECASE)
_CHANGES = re.compile(r" ON (?:UPDATE|DELETE) (?:CASCADE|SET NULL|SET DEFAULT)")
# Not supported for temporary tables.
_UNTRIED = ("FULLTEXT", "SPATIAL")
Renders = Callable[[Session, LoadRequest, TableExtras, Rendered, TableRef], TableExtras]


# Same flavor


def clone_parts(
    session: MySqlSession,
    request: LoadRequest,
    columns: Sequence[Column],
    loaded: TableRef,
    render: Renders,
) -> TableExtras:
    """Return the parts of a table of the same flavor.

    Args:
        session: a session on the target.
        request: the request, with the source's definition.
        columns: the columns of the target's table.
        loaded: the new table: the target's, or one that will replace it.
        render: renders what the server accepts.
    """
    definition, table = request.definition, request.target
    assert definition is not None
    fresh = request.mode.table is not Table.TARGET
    options = definition.model.options
    rendered = _render_native(
        session, definition, columns, request.source, table, request.siblings, at_once=not fresh
    )
    keys, clauses = _keys(definition, columns), _clauses(session, rendered)
    reasons = refused_clauses(session, columns, [*keys, *clauses], options)
    rendered.warnings += _warnings(reasons)
    _leave(rendered, [clauses[text] for text in reasons if text in clauses])
    accepted = {text: key for text, key in keys.items() if text not in reasons}
    _leave_columns(session, request, rendered, list(accepted), options)
    rendered.omitted += omitted_parts(
        session.dialect, replace(definition, others=()), table, accepted.values()
    )
    rendered.omitted += _not_created(session, definition, table)
    now = [each for each in rendered.indexes if each.kind == "UNIQUE" or not fresh]
    for column in definition.model.columns:
        if column.identity is not None:
            begins = re.compile(rf"\({re.escape(session.dialect.ident(column.name))}[ ,)]")
            leading = [*accepted, *(each.text for each in now)]
            if not any(map(begins.search, leading)):
                now += [each for each in rendered.indexes if begins.match(each.text)][:1]
    parts = TableExtras(tuple(accepted), keys=tuple(accepted.values()))
    return _complete(session, request, parts, rendered, loaded, render, now)


def rehearse_clones(session: MySqlSession, definitions: Sequence[TableDefinition]) -> None:
    """Try together what `clone_parts` tries for each of these tables, if all of it is created."""
    expected = []
    table = TableRef("", "")
    for definition in definitions:
        columns = native_columns(definition)
        rendered = _render_native(session, definition, columns, table, table)
        clauses = [*_keys(definition, columns), *_clauses(session, rendered)]
        expected.append((columns, clauses, definition.model.options))
    rehearse_all(session, expected)


def _render_native(
    session: MySqlSession,
    definition: TableDefinition,
    columns: Sequence[Column],
    source: Relation,
    table: TableRef,
    siblings: Siblings | None = None,
    *,
    at_once: bool = False,
) -> Rendered:
    """Render everything except keys.

    The text after a column's name is its type, unless the user specified one.
    """
    model, by_name = definition.model, {column.name: column for column in columns}
    native_types = {column.name: column.type for column in native_columns(definition)}
    rendering = Rendering(
        session.dialect,
        source,
        table,
        {**dict.fromkeys(by_name, ""), **value_kinds([each for each in columns if each.traits])},
        siblings or Siblings(),
        types={name: column.type for name, column in by_name.items()},
        at_once=at_once,
        same_dialect=True,
        missing_columns=[each.name for each in model.columns if each.name not in by_name],
    )
    texts = {name: column.type for name, column in by_name.items()}
    unchanged = {name for name, text in texts.items() if text == native_types[name]}
    omitted = [
        ColumnModel(each.name, native=each.native, generated=each.generated)
        if each.name in unchanged
        else replace(each, default=None)
        if each.default is not None and _NEXT.match(each.default.text)
        else each
        for each in model.columns
        if each.name in by_name and not by_name[each.name].generated
    ]
    # A column's own check is part of its text.
    tests = [
        check
        for check in model.checks
        if check.name or not any(f"CHECK ({check.test.text})" in texts[name] for name in unchanged)
    ]
    return rendering.of(replace(model, columns=tuple(omitted), checks=tuple(tests)))


def _not_created(
    session: MySqlSession, definition: TableDefinition, table: TableRef
) -> Iterator[NotCopied]:
    """Yield what is not created, with the statement that creates it."""
    quoted = session.table(table)
    for column in definition.model.columns:
        if column.default is not None and _NEXT.match(column.default.text):
            omitted = omitted_of_column(column)[DEFAULTS]
            remedy = session.dialect.default_set(table, column.name, column.default.text)
            yield replace(omitted, remedy=f"{remedy};", table=str(table))
    for text in definition.model.completions:
        name = text.removeprefix("ADD ")
        yield NotCopied(TABLE_OPTIONS, name, f"ALTER TABLE {quoted} {text};", str(table))
    # Only a versioned table has columns without versioning.
    yield from (replace(each, table=str(table)) for each in definition.others
                if each.name.endswith(UNVERSIONED))  # fmt: skip
    yield from omitted_triggers(session, definition, table)


def omitted_triggers(
    session: MySqlSession, definition: TableDefinition, table: TableRef
) -> Iterator[NotCopied]:
    """Yield the triggers of a table of MySQL or MariaDB.

    Args:
        session: a session on the target, for quoting.
        definition: the source's definition.
        table: the target's table, which the statements name.
    """
    quoted = session.table(table)
    for trigger in definition.model.triggers:
        # In the database of its table.
        name = session.table(replace(table, name=trigger.name))
        statement = f"CREATE TRIGGER {name} {trigger.event} ON {quoted} FOR EACH ROW {trigger.body}"
        yield NotCopied(TRIGGERS, trigger.name, f"{statement};", str(table))


def _keys(definition: TableDefinition, columns: Sequence[Column]) -> Mapping[str, KeyModel]:
    """Return the keys of existing columns, as clauses of CREATE TABLE."""
    names = {column.name for column in columns}
    return {clause_of(key): key for key in definition.model.keys if names.issuperset(key.columns)}


# Other flavor, and all other systems


def omitted_of_flavour(
    session: MySqlSession,
    request: LoadRequest,
    omitted: Sequence[NotCopied],
    columns: Sequence[Column],
) -> Iterator[NotCopied]:
    """Yield what is not copied from a table of the other flavor.

    Args:
        session: a session on the target.
        request: the request, with the source's definition.
        omitted: what is not copied from any system.
        columns: the columns of the target's table, whose types cover part of it.
    """
    assert request.definition is not None
    types = {column.name: column.type for column in columns}
    for item in omitted:
        name, _, text = item.name.partition(": ")
        is_in_type = item.kind in (COLLATIONS, COLUMN_OPTIONS) and text in types.get(name, "")
        if not is_in_type and item.kind != TRIGGERS:
            yield item
    yield from omitted_triggers(session, request.definition, request.target)


def foreign_parts(
    session: MySqlSession,
    request: LoadRequest,
    key_parts: TableExtras,
    rendered: Rendered,
    loaded: TableRef,
    render: Renders,
) -> TableExtras:
    """Return the parts of another system's table; see `TargetTables.rendered_extras`.

    Args:
        session: a session on the target.
        request: the request, with the source's definition.
        key_parts: the keys alone.
        rendered: the parts in the target's dialect, changed in place.
        loaded: the new table: the target's, or one that will replace it.
        render: renders what the server accepts.
    """
    dialect = session.dialect
    keys = list(key_parts.constraints)
    for name in rendered.numbered:
        if not any(key.partition("(")[2].startswith(dialect.ident(name)) for key in keys):
            keys.append(f"KEY ({dialect.ident(name)})")
    # Only one column can be AUTO_INCREMENT.
    for name in rendered.numbered[1:]:
        _leave_column(session, request, rendered, name)
    _leave_columns(session, request, rendered, keys, UTF8)
    automatic = [name for name, text in rendered.columns.items() if AUTOMATIC in text]
    if not automatic:
        keys = list(key_parts.constraints)
    _leave_checks(session, rendered, automatic)
    clauses = _clauses(session, rendered, untried=())
    refused = refused_clauses(session, request.new_columns, list(clauses), UTF8)
    rendered.warnings += _warnings(refused)
    _leave(rendered, [clauses[text] for text in refused])
    now = [] if request.mode.table is not Table.TARGET else list(rendered.indexes)
    key_parts = replace(key_parts, constraints=tuple(keys))
    return _complete(session, request, key_parts, rendered, loaded, render, now)


def _leave_columns(
    session: MySqlSession,
    request: LoadRequest,
    rendered: Rendered,
    keys: Sequence[str],
    options: str,
) -> None:
    """Leave out column clauses that the server rejects.

    Raises:
        PlanningError: the clause is the one that computes a column.
    """
    refused = refused_columns(session, request.new_columns, rendered.columns, keys, options)
    computed = {column.name for column in request.new_columns if column.generated}
    for name, why in refused.items():
        if name in computed:
            # Otherwise nothing would fill the column.
            raise PlanningError(
                f"target: {request.target}: column {name} {rendered.columns[name]} cannot be "
                f"created: {why}; pass --types {name}=... to copy its values instead"
            )
        rendered.warnings.append(f"{name} {rendered.columns[name]} is not created: {why}")
        _leave_column(session, request, rendered, name)


def _leave_column(
    session: MySqlSession, request: LoadRequest, rendered: Rendered, name: str
) -> None:
    """Create a column with only its comment."""
    assert request.definition is not None
    model = request.definition.model.column(name)
    for kind, item in omitted_of_column(model).items():
        if kind in (DEFAULTS, ON_UPDATES, IDENTITIES):
            rendered.omitted.append(replace(item, table=str(request.target)))
    if model.comment:
        rendered.columns[name] = session.dialect.comment_clause(model.comment)
    else:
        rendered.columns.pop(name, None)


def _leave_checks(session: MySqlSession, rendered: Rendered, automatic: Sequence[str]) -> None:
    """Leave out checks on AUTO_INCREMENT columns, and on columns that a foreign key changes.

    https://dev.mysql.com/doc/refman/8.4/en/create-table-check-constraints.html
    """
    barred = set(automatic)
    for key in rendered.foreign_keys:
        if _CHANGES.search(key.definition):
            barred.update(key.columns)
    quoted = [session.dialect.ident(name) for name in barred]
    _leave(rendered, [each for each in rendered.checks if any(n in each.text for n in quoted)])


# Both


def _clauses(
    session: MySqlSession, rendered: Rendered, untried: Sequence[str] = _UNTRIED
) -> dict[str, Clause]:
    """Return the indexes and checks that can be tried."""
    clauses = {_index(session, each): each for each in rendered.indexes if each.kind not in untried}
    return clauses | {each.text: each for each in rendered.checks}


def _index(session: MySqlSession, clause: Clause) -> str:
    return f"{clause.kind} KEY {session.dialect.ident(clause.name)} {clause.text}".lstrip()


def _warnings(refused: Mapping[str, str]) -> list[str]:
    return [f"{text} is not created: {why}" for text, why in refused.items()]


def _leave(rendered: Rendered, clauses: Sequence[Clause]) -> None:
    rendered.omitted += (each.omitted for each in clauses)
    rendered.indexes[:] = [each for each in rendered.indexes if each not in clauses]
    rendered.checks[:] = [each for each in rendered.checks if each not in clauses]


def _complete(
    session: MySqlSession,
    request: LoadRequest,
    key_parts: TableExtras,
    rendered: Rendered,
    loaded: TableRef,
    render: Renders,
    now: Sequence[Clause],
) -> TableExtras:
    """Complete the parts of a table with what the server accepts.

    Args:
        session: a session on the target.
        request: the request, with the source's definition.
        key_parts: the keys.
        rendered: the parts that the server accepts; its indexes are emptied.
        loaded: the new table: the target's, or one that will replace it.
        render: renders what the server accepts.
        now: the indexes created with the table.
    """
    _name_constraints(session, request.target, rendered, loaded)
    later = {each.name: _index(session, each) for each in rendered.indexes if each not in now}
    rendered.indexes.clear()
    keys = (*key_parts.constraints, *(_index(session, each) for each in now))
    key_parts = replace(key_parts, constraints=keys)
    extras = render(session, request, key_parts, rendered, loaded)
    if not later:
        return extras
    step = IndexChange(loaded, later, creates=True, exact=False).step(session.dialect)
    return replace(extras, after=(step, *extras.after))


def _name_constraints(
    session: MySqlSession, table: TableRef, rendered: Rendered, loaded: TableRef
) -> None:
    """Give names to checks and foreign keys that are unique in their database."""
    if not (rendered.checks or rendered.foreign_keys):
        return
    constraints = _constraint_names(session, table)
    names = {name for table_name, name in constraints if table_name != table.name}
    replaced: set[str] = set()
    if loaded != table and not session.connection.is_mariadb:
        replaced = {name for table_name, name in constraints if table_name == table.name}

    def free(name: str) -> str:
        return name if name not in names else f"{table.name}_{name}"[:LONGEST_NAME]

    for number, check in enumerate(rendered.checks):
        name = temporary_name = free(check.name)
        beginning, ending = f"{table.name}_chk_", f"{loaded.name}_chk_"
        if replaced & {name, beginning + name}:
            # MySQL cannot rename a check, except that a name with this beginning follows its table.
            part = name.removeprefix(beginning)
            if len(max(beginning, ending, key=len) + part) > LONGEST_NAME:
                part = str(number + 1)
            if len(max(beginning, ending, key=len) + part) > LONGEST_NAME:
                beginning, ending, part = "", "", f"{loaded.name[-8:]}_{name}"[:LONGEST_NAME]
            name, temporary_name = beginning + part, ending + part
        if name != free(check.name):
            rendered.warnings.append(
                f"check {check.name} is named {name}: while {table} exists, another table in its "
                "database cannot have the same name of a check"
            )
        inline = f"CONSTRAINT {session.dialect.ident(temporary_name)} {check.text}"
        rendered.checks[number] = replace(check, name=name, inline=inline)
    for number, key in enumerate(rendered.foreign_keys):
        rendered.foreign_keys[number] = replace(key, name=free(key.name))


def _constraint_names(session: MySqlSession, table: TableRef) -> list[tuple[str, str]]:
    """Return the tables and names of a database's constraints, which are unique in it."""

    def ask() -> list[tuple[str, str]]:
        return session.fetch(
            "SELECT table_name, constraint_name FROM information_schema.table_constraints"
            " WHERE constraint_schema = %s AND constraint_type IN ('FOREIGN KEY', 'CHECK')",
            f"database {table.schema}",
            [table.schema],
        )

    return session.cached(("constraints", table.schema), ask)
