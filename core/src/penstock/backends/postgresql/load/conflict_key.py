"""Which unique key mode upsert finds its rows by, and whether it may."""

from __future__ import annotations

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.unique_keys import read_unique_keys
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, statement
from penstock.backends.sql.unique_keys import choose_key
from penstock.errors import PlanningError

_WANTED = (
    "primary key or unique index of {} that is valid, not deferrable, not partial and without "
    "expressions"
)


def conflict_columns(
    connection: Connection, request: LoadRequest
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of the key, and warnings; nothing of either in other modes.

    Raises:
        PlanningError: no unique key can be used, or a privilege is missing.
    """
    if not request.mode.merges_by_key:
        return (), ()
    with planning("target", f"table {request.target}"):
        copied = {pair.target for pair in request.pairs}
        keys = read_unique_keys(connection, request.target)
        key = choose_key(request, keys, _WANTED)
        _check_privileges(connection, request)
        name = quoted(request.target).as_string(connection)
        facts = connection.execute(statement("upsert_facts"), {"table": name}).fetchone()
    assert facts is not None
    warnings = []
    if key.may_repeat:
        warnings.append(
            f"--mode upsert: {', '.join(key.may_repeat)} may be NULL, and {key.index} holds no "
            "NULL for equal to another one: a row with a NULL there fails its partition"
        )
    fixed = sorted(copied.intersection(facts[1]).difference(key.names))
    if fixed:
        warnings.append(
            f"--mode upsert: {', '.join(fixed)} is GENERATED ALWAYS AS IDENTITY: rows that are "
            "there keep theirs"
        )
    return key.names, tuple(warnings)


def _check_privileges(connection: Connection, request: LoadRequest) -> None:
    table = quoted(request.target).as_string(connection)
    found = connection.execute(
        statement("upsert_privileges"),
        {"table": table, "columns": [pair.target for pair in request.pairs]},
    ).fetchone()
    assert found is not None
    missing, may_stage, database = found
    user = connection.info.user
    grantee = sql.Identifier(user).as_string(connection)
    if missing:
        wanted = ", ".join(missing)
        raise PlanningError(
            f"target: {user!r} may not {wanted} on {request.target}, which --mode upsert needs; "
            f"expected GRANT {wanted} ON {table} TO {grantee}"
        )
    if not may_stage:
        name = sql.Identifier(database).as_string(connection)
        raise PlanningError(
            f"target: {user!r} may not make temporary tables in database {database!r}, which "
            f"--mode upsert needs; expected GRANT TEMPORARY ON DATABASE {name} TO {grantee}"
        )
