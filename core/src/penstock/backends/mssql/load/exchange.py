"""Tables that replace others: their names until the exchange, and statements for after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.mssql.catalog.native_parts import DISABLED, NativeParts
from penstock.backends.mssql.catalog.table_model import read_parts
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.load.table_clone import (
    LONGEST_NAME,
    check_statement,
    check_text,
    column_text,
    constraint_clause,
    index_statement,
    key_text,
    no_clause,
    with_name,
)
from penstock.backends.mssql.session import MssqlSession
from penstock.errors import PlanningError
from penstock.model.plans import SWAP_STEP, LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import TableRef


def like_statements(
    session: MssqlSession, table: TableRef, new_table: TableRef, needs: str = "--mode swap"
) -> tuple[str, list[str]]:
    """Return statements for a table like another; see `TargetTables.clone_statements`.

    Names of constraints are unique in a schema, so until the exchange the new ones have temporary
    names.

    Args:
        session: a session with the target.
        table: the table to imitate.
        new_table: the table to create.
        needs: the option that requires it, for messages.

    Returns:
        The statements that create the table, and those to execute after the exchange.

    Raises:
        PlanningError: an index cannot be recreated.
    """
    model, native = read_parts(session, table)
    for index in native.indexes:
        if index.obstacle not in ("", DISABLED):
            raise PlanningError(
                f"{needs}: {table} would lose index {index.name}, which is {index.obstacle} and "
                "cannot be recreated; drop it, or use --mode truncate or replace, which keep the "
                "table"
            )
    names: dict[str, str] = {}

    def temporary_name_clause(name: str) -> str:
        if not name:
            return ""
        names[name] = _temporary_name(name, new_table)
        return constraint_clause(names[name])

    # Babelfish cannot rename constraints.
    name_clause = no_clause if session.connection.babelfish else temporary_name_clause
    parts = [
        f"{MSSQL.ident(each.name)} {column_text(each, native, name_clause)}"
        + ("" if each.nullable else " NOT NULL")
        for each in model.columns
    ]
    off = [check for check in model.checks if not check.enforced]
    parts += [check_text(check, name_clause) for check in model.checks if check.enforced]
    parts += [key_text(index, name_clause) for index in native.indexes if index.constraint]
    create = [f"CREATE TABLE {MSSQL.table(new_table)} ({', '.join(parts)})"]
    create += [
        index_statement(index, new_table)
        for index in sorted(native.indexes, key=lambda each: each.kind != "CLUSTERED")
        if not index.constraint
    ]
    disabled = [index.name for index in native.indexes if index.obstacle]
    create += [MSSQL.drop_indexes_statement(new_table, disabled)] if disabled else []
    after = _renaming(table, names)
    for check in off:
        named_check = check if check.name else with_name(check, table)
        after.append(check_statement(named_check, table, constraint_clause))
    return ";\n".join(create), [*after, *_grants(session, table), *_comments(session, table)]


def _temporary_name(name: str, new_table: TableRef) -> str:
    suffix = f"~{new_table.name.rpartition('~')[2]}"
    return name[: LONGEST_NAME - len(suffix)] + suffix


def _renaming(table: TableRef, names: Mapping[str, str]) -> list[str]:
    """Return the statements that give constraints their final names.

    Args:
        table: the table.
        names: the temporary names, by final name.
    """
    schema = table.schema
    return [MSSQL.rename_statement(TableRef(schema, new), old) for old, new in names.items()]


def with_temporary_names(
    session: MssqlSession, plan: LoadPlan, target: TableRef, definition: TableDefinition
) -> LoadPlan:
    """Return the plan of a table that replaces another, whose constraints are renamed with it.

    Args:
        session: a session with the target.
        plan: the plan, with the final names in the statement that creates the table.
        target: the table that is replaced.
        definition: the definition of the source's table, with the names of constraints.
    """
    native = definition.native
    if not isinstance(native, NativeParts):
        return plan  # the server names them
    called = {check.name for check in definition.model.checks} | set(native.defaults.values())
    called |= {index.name for index in native.indexes}
    (create,) = (step for step in plan.before if step.id == "create")
    statement, names = create.statement, {}
    for name in sorted(filter(None, called)):
        clause = constraint_clause(name)
        if clause not in statement:
            continue
        if session.connection.babelfish:
            statement = statement.replace(clause, "")
            continue
        names[name] = _temporary_name(name, plan.table)
        statement = statement.replace(clause, constraint_clause(names[name]))
    renaming = _renaming(target, names)
    (swap,) = (step for step in plan.after if step.id == SWAP_STEP)
    changed = {create.id: statement, swap.id: ";\n".join([swap.statement, *renaming])}
    steps = (replace(step, statement=changed.get(step.id, step.statement)) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def _grants(session: MssqlSession, table: TableRef) -> list[str]:
    statements = []
    for state, permission, column, grantee in session.catalog_rows("grants", table):
        verb, _, option = state.partition("_")
        on = MSSQL.table(table) + (f" ({MSSQL.ident(column)})" if column else "")
        ending = " WITH GRANT OPTION" if option else ""
        statements.append(f"{verb} {permission} ON {on} TO {MSSQL.ident(grantee)}{ending}")
    return statements


def _comments(session: MssqlSession, table: TableRef) -> list[str]:
    statements = []
    for name, text, column in session.catalog_rows("properties", table):
        value = "NULL" if text is None else MSSQL.literal(text)
        statements.append(MSSQL.property_statement(table, column or "", name, value))
    return statements
