"""Boolean queries for `Step.done`, for steps that cannot be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.tables import is_unchecked
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.session.statements import literal, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart


def _exists(catalog: str, condition: str) -> str:
    return f"SELECT EXISTS (SELECT FROM pg_catalog.{catalog} WHERE {condition})"


def _oid(ref: TableRef) -> str:
    return f"pg_catalog.to_regclass({literal(name(ref))})"


def has_schema(schema: str) -> str:
    """Return a query for whether a schema exists."""
    return _exists("pg_namespace", f"nspname = {literal(schema)}")


def has_type(schema: str, type_: str) -> str:
    """Return a query for whether a type exists."""
    namespace = f"SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = {literal(schema)}"
    return _exists("pg_type", f"typname = {literal(type_)} AND typnamespace = ({namespace})")


def relation_exists(ref: TableRef) -> str:
    """Return a query for whether a relation exists."""
    # Queries read catalog tables directly: a session that has looked up a missing name may cache
    # the result until it locks a relation, and would not see what another session created.
    schema = f"SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = {literal(ref.schema)}"
    return _exists("pg_class", f"relname = {literal(ref.name)} AND relnamespace = ({schema})")


def is_logged(ref: TableRef) -> str:
    """Return a query for whether a table is logged."""
    return _exists("pg_class", f"oid = {_oid(ref)} AND relpersistence = 'p'")


def has_index(ref: TableRef, index: TableRef) -> str:
    """Return a query for whether a table has an index."""
    return _exists("pg_index", f"indexrelid = {_oid(index)} AND indrelid = {_oid(ref)}")


def has_constraint(ref: TableRef, constraint: str) -> str:
    """Return a query for whether a table has a constraint."""
    return _exists("pg_constraint", f"conrelid = {_oid(ref)} AND conname = {literal(constraint)}")


def is_valid(ref: TableRef, constraint: str) -> str:
    """Return a query for whether a table's constraint is valid."""
    condition = f"conrelid = {_oid(ref)} AND conname = {literal(constraint)}"
    return _exists("pg_constraint", f"{condition} AND convalidated")


def inherits(ref: TableRef, parent: TableRef) -> str:
    """Return a query for whether a table inherits from another one."""
    return _exists("pg_inherits", f"inhrelid = {_oid(ref)} AND inhparent = {_oid(parent)}")


def is_complete(table: TablePart, names: Names, *, policies: bool) -> str:
    """Return a query for the object that a step's transaction creates last, or first.

    If it exists, so does everything else.

    Args:
        table: the table's definition.
        names: its names in the target.
        policies: whether the step creates policies too.
    """
    ref = names.table(table)
    for constraint in table["constraints"]:
        if is_unchecked(constraint):
            return has_constraint(ref, constraint["name"])
    for item in table["statistics"]:
        object_name = literal(names.statistics[item["schema"], item["name"]].name)
        return _exists("pg_statistic_ext", f"stxrelid = {_oid(ref)} AND stxname = {object_name}")
    for policy in table["attached"]["policies"] if policies else ():
        object_name = literal(policy["name"])
        return _exists("pg_policy", f"polrelid = {_oid(ref)} AND polname = {object_name}")
    return ""
