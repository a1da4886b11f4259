"""The unique key by which mode upsert finds its rows, and the privileges that it needs."""

from __future__ import annotations

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.privileges import missing_grant
from penstock.backends.postgresql.catalog.unique_keys import read_unique_keys
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import ident, name, statement
from penstock.backends.sql.unique_keys import choose_key
from penstock.model.tables import TableRef

_WANTED = (
    "primary key or unique index of {} that is valid, not deferrable, not partial and without "
    "expressions"
)


def conflict_columns(
    connection: Connection, request: LoadRequest, table: TableRef | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of the key, and warnings; both empty in other modes.

    Parameters:
        table: one that stands for the target's, where that is still to be made.

    Raises:
        PlanningError: no unique key can be used, or a privilege is missing.
    """
    if not request.mode.merges_by_key:
        return (), ()
    table = table or request.target
    with planning("target", f"table {request.target}"):
        copied = {pair.target for pair in request.pairs}
        keys = read_unique_keys(connection, table)
        key = choose_key(request, keys, _WANTED)
        _check_privileges(connection, request, table)
        facts = connection.first(statement("upsert_facts"), {"table": name(table)})
    warnings = []
    if key.may_repeat:
        warnings.append(
            f"--mode upsert: {', '.join(key.may_repeat)} may be NULL, and {key.index} "
            "treats NULLs as distinct: a row with a NULL there fails its partition"
        )
    fixed = sorted(copied.intersection(facts[1]).difference(key.names))
    if fixed:
        warnings.append(
            f"--mode upsert: {', '.join(fixed)} is GENERATED ALWAYS AS IDENTITY: rows that "
            "exist already keep theirs"
        )
    return key.names, tuple(warnings)


def _check_privileges(connection: Connection, request: LoadRequest, of: TableRef) -> None:
    table = name(of)
    columns = [pair.target for pair in request.pairs]
    wanted = {"table": table, "columns": columns}
    missing, may_stage, database = connection.first(statement("upsert_privileges"), wanted)
    if missing:
        listed = ", ".join(missing)
        refused = f"may not {listed} on {request.target}"
        raise missing_grant(
            connection, refused, "--mode upsert", f"{listed} ON {name(request.target)}"
        )
    if not may_stage:
        refused = f"may not create temporary tables in database {database!r}"
        grant = f"TEMPORARY ON DATABASE {ident(database)}"
        raise missing_grant(connection, refused, "--mode upsert", grant)
