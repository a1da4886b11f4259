"""What the user may do in the target, and the GRANT that helps where one may not."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.catalog.existing import Relation
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import ident, statement
from penstock.errors import PlanningError


def missing_grant(
    connection: Connection, missing: str, needed_by: str, grant: str
) -> PlanningError:
    """
    Parameters:
        missing: what the user may not, or does not have.
        needed_by: what needs it, as the message names it.
        grant: what would help, without the user's name.
    """
    user = connection.info.user
    return PlanningError(
        f"target: {user!r} {missing}, which {needed_by} needs; expected GRANT {grant} TO "
        f"{ident(user)}"
    )


def check_owned(connection: Connection, relations: Sequence[Relation], needed_by: str) -> None:
    """
    Raises:
        PlanningError: the user does not own one of them.
    """
    for relation in relations:
        if not relation.mine:
            missing = f"does not own {relation.ref} (owner {relation.owner!r})"
            raise missing_grant(connection, missing, needed_by, ident(relation.owner))


def check_creatable(connection: Connection, schema: str, needed_by: str) -> bool:
    """Whether the schema is there; the user may make tables in it, or make it.

    Raises:
        PlanningError: the user may not; with the GRANT that would do.
    """
    query = statement("ddl_privileges").format(schema=sql.Literal(ident(schema)))
    exists, usage, create, create_schema, database = connection.first(query)
    if not exists and not create_schema:
        missing = f"may not create the missing schema {schema!r}"
        grant = f"CREATE ON DATABASE {ident(database)}"
        raise missing_grant(connection, missing, needed_by, grant)
    lacking = [word for word, given in (("USAGE", usage), ("CREATE", create)) if not given]
    if exists and lacking:
        missing = f"may not {' and '.join(lacking)} in schema {schema!r}"
        grant = f"{', '.join(lacking)} ON SCHEMA {ident(schema)}"
        raise missing_grant(connection, missing, needed_by, grant)
    return bool(exists)


def check_writable_server(connection: Connection) -> None:
    """
    Raises:
        PlanningError: nothing can be written there.
    """
    if connection.value("SHOW transaction_read_only") == "on":
        raise PlanningError(
            "target: expected a server that can be written, found one that is read-only "
            f"(a standby?) at {connection.info.host}:{connection.info.port}"
        )
