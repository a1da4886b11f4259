"""A table like another system's, as far as this server takes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.mysql.load.alike import free_name, names_taken
from penstock.backends.mysql.load.rehearsal import AUTOMATIC, refused_clauses, refused_columns
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definition import Besides
from penstock.backends.sql.index_changes import IndexChange
from penstock.backends.sql.rendering import Clause, Rendered
from penstock.backends.sql.session import Session
from penstock.model.table_model import (
    DEFAULTS,
    IDENTITIES,
    ON_UPDATES,
    left_of_column,
)

UTF8 = "CHARACTER SET utf8mb4"
_CHANGES = re.compile(r" ON (?:UPDATE|DELETE) (?:CASCADE|SET NULL|SET DEFAULT)")
Rendering = Callable[[Session, LoadRequest, Besides, Rendered], Besides]


def made_unlike(
    session: MySqlSession,
    request: LoadRequest,
    found: Besides,
    rendered: Rendered,
    render: Rendering,
) -> Besides:
    """See `TargetTables.rendered`. Whatever makes the table is tried before anything is dropped.

    Parameters:
        found: the keys alone.
        render: of what the server takes.
    """
    dialect, table = session.dialect, request.target
    keys = list(found.constraints)
    for name in rendered.numbered:
        if not any(key.partition("(")[2].startswith(dialect.ident(name)) for key in keys):
            keys.append(f"KEY ({dialect.ident(name)})")
    # One column alone can be automatic.
    for name in rendered.numbered[1:]:
        _leave(session, request, rendered, name)
    for name, why in refused_columns(session, request.made, rendered.columns, keys, UTF8).items():
        rendered.warnings.append(f"{name} {rendered.columns[name]} is not made: {why}")
        _leave(session, request, rendered, name)
    automatic = [name for name, text in rendered.columns.items() if AUTOMATIC in text]
    if not automatic:
        keys = list(found.constraints)
    _leave_checks(session, rendered, automatic)
    _try_clauses(session, request, rendered)
    _name_constraints(session, request, rendered)
    indexes = {each.name: _index(session, each) for each in rendered.indexes}
    rendered.indexes.clear()
    besides = render(session, request, replace(found, constraints=tuple(keys)), rendered)
    if not indexes:
        return besides
    if not request.mode.loads_new_table:
        return replace(besides, constraints=(*besides.constraints, *indexes.values()))
    made = IndexChange(table, indexes, makes=True, exact=False).step(dialect)
    return replace(besides, after=(made, *besides.after))


def _index(session: MySqlSession, clause: Clause) -> str:
    unique = "UNIQUE " * clause.unique
    return f"{unique}KEY {session.dialect.ident(clause.name)} {clause.text}"


def _leave(session: MySqlSession, request: LoadRequest, rendered: Rendered, name: str) -> None:
    """Make a column with its comment alone."""
    assert request.definition is not None
    model = request.definition.model.column(name)
    for kind, item in left_of_column(model).items():
        if kind in (DEFAULTS, ON_UPDATES, IDENTITIES):
            rendered.left.append(replace(item, table=str(request.target)))
    if model.comment:
        rendered.columns[name] = session.dialect.commented(model.comment)
    else:
        rendered.columns.pop(name, None)


def _leave_checks(session: MySqlSession, rendered: Rendered, automatic: Sequence[str]) -> None:
    """Neither an automatic column nor one that a foreign key changes may be in a check. MySQL:
    https://dev.mysql.com/doc/refman/8.4/en/create-table-check-constraints.html"""
    barred = set(automatic)
    for key in rendered.foreign_keys:
        if _CHANGES.search(key.definition):
            barred.update(key.columns)
    named = [session.dialect.ident(name) for name in barred]
    gone = [check for check in rendered.checks if any(name in check.text for name in named)]
    rendered.left += (check.left for check in gone)
    rendered.checks[:] = [check for check in rendered.checks if check not in gone]


def _try_clauses(session: MySqlSession, request: LoadRequest, rendered: Rendered) -> None:
    clauses = {_index(session, each): each for each in rendered.indexes}
    clauses |= {each.text: each for each in rendered.checks}
    refused = refused_clauses(session, request.made, list(clauses), UTF8)
    for text, why in refused.items():
        rendered.warnings.append(f"{text} is not made: {why}")
        rendered.left.append(clauses[text].left)
    gone = [clauses[text] for text in refused]
    rendered.indexes[:] = [each for each in rendered.indexes if each not in gone]
    rendered.checks[:] = [each for each in rendered.checks if each not in gone]


def _name_constraints(session: MySqlSession, request: LoadRequest, rendered: Rendered) -> None:
    """Names of checks and foreign keys are a database's."""
    if not (rendered.checks or rendered.foreign_keys):
        return
    taken = names_taken(session, request.target)
    for number, check in enumerate(rendered.checks):
        name = free_name(check.name, request.target, taken)
        inline = f"CONSTRAINT {session.dialect.ident(name)} {check.text}"
        rendered.checks[number] = replace(check, name=name, inline=inline)
    for number, key in enumerate(rendered.foreign_keys):
        name = free_name(key.name, request.target, taken)
        rendered.foreign_keys[number] = replace(key, name=name)
