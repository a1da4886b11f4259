"""Whether steps that cannot be repeated are done: queries of one boolean, for `Step.done`."""

from __future__ import annotations

from penstock.backends.postgresql.load import ddl
from penstock.backends.postgresql.load.ddl import Json, Names, literal, name
from penstock.model.tables import TableRef


def _table(ref: TableRef) -> str:
    return f"pg_catalog.to_regclass({literal(name(ref))})"


def is_logged(ref: TableRef) -> str:
    return (
        f"SELECT c.relpersistence = 'p' FROM pg_catalog.pg_class AS c WHERE c.oid = {_table(ref)}"
    )


def has_index(ref: TableRef, made: TableRef) -> str:
    return (
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_index AS x"
        f" WHERE x.indexrelid = {_table(made)} AND x.indrelid = {_table(ref)})"
    )


def has_constraint(ref: TableRef, constraint: str) -> str:
    return (
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint AS k"
        f" WHERE k.conrelid = {_table(ref)} AND k.conname = {literal(constraint)})"
    )


def inherits(ref: TableRef, parent: TableRef) -> str:
    return (
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i"
        f" WHERE i.inhrelid = {_table(ref)} AND i.inhparent = {_table(parent)})"
    )


def is_dressed(table: Json, names: Names, *, policies: bool) -> str:
    """What was made last of a step's transaction, or first: it is there with all else.

    Parameters:
        policies: they are made too.
    """
    ref = names.table(table)
    for constraint in table["constraints"]:
        if ddl.is_unchecked(constraint):
            return has_constraint(ref, constraint["name"])
    for item in table["statistics"]:
        made = names.statistics[item["schema"], item["name"]]
        return (
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext AS s"
            f" WHERE s.stxrelid = {_table(ref)} AND s.stxname = {literal(made.name)})"
        )
    for item in table["attached"]["policies"] if policies else ():
        return (
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_policy AS p"
            f" WHERE p.polrelid = {_table(ref)} AND p.polname = {literal(item['name'])})"
        )
    return ""
