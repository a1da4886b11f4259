"""The user's privileges in the target, and the GRANT for a missing one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.postgresql.catalog.existing_tables import Relation
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import ident, name, statement
from penstock.errors import PlanningError
from penstock.model.tables import TableRef


def missing_grant(
    connection: Connection, missing: str, needed_by: str, grant: str
) -> PlanningError:
    """Return the error for a missing privilege.

    Args:
        connection: the session of the user.
        missing: what the user may not do, or lacks.
        needed_by: what needs the privilege, as the message names it.
        grant: the GRANT that would help, without the user's name.
    """
    user = connection.info.user
    return PlanningError(
        f"target: {user!r} {missing}, which {needed_by} needs; run GRANT {grant} TO {ident(user)}"
    )


def check_owned(connection: Connection, relations: Sequence[Relation], needed_by: str) -> None:
    """Check that the user owns some relations.

    Args:
        connection: the session of the user.
        relations: the relations.
        needed_by: what needs the ownership, as the message names it.

    Raises:
        PlanningError: the user does not own one of them.
    """
    for relation in relations:
        if not relation.mine:
            missing = f"does not own {relation.ref} (owner {relation.owner!r})"
            raise missing_grant(connection, missing, needed_by, ident(relation.owner))


@dataclass(frozen=True, slots=True)
class TableRights:
    """Privileges on a table that the user lacks."""

    owner: str
    schema_usage: bool
    lacking: list[str]
    """The missing ones among the privileges that a load may need."""
    closed: list[str]
    """Columns without the INSERT privilege."""


def read_table_rights(
    connection: Connection, refs: Sequence[TableRef]
) -> dict[TableRef, TableRights]:
    """Return the missing privileges on tables that exist."""
    parameters = {"tables": [name(ref) for ref in refs]}
    rows = connection.execute(statement("privileges"), parameters).fetchall()
    return {refs[row[0] - 1]: TableRights(*row[1:]) for row in rows}


@dataclass(frozen=True, slots=True)
class UpsertRights:
    """The additional privileges that mode upsert needs."""

    unread: list[str]
    """Columns without the SELECT privilege."""
    fixed: list[str]
    """Columns without the UPDATE privilege."""
    identities: list[str]
    """Columns GENERATED ALWAYS AS IDENTITY."""
    may_stage: bool
    """Whether the user may create temporary tables in the database."""
    database: str


def read_upsert_rights(
    connection: Connection, refs: Sequence[TableRef]
) -> dict[TableRef, UpsertRights]:
    """Return the missing privileges for mode upsert, on tables that exist."""
    parameters = {"tables": [name(ref) for ref in refs]}
    rows = connection.execute(statement("upsert_privileges"), parameters).fetchall()
    return {refs[row[0] - 1]: UpsertRights(*row[1:]) for row in rows}


@dataclass(frozen=True, slots=True)
class SchemaRights:
    """The user's privileges in a schema, or in the database if the schema does not exist."""

    exists: bool
    usage: bool
    create: bool
    create_schema: bool
    database: str


def read_schema_rights(connection: Connection, schemas: Sequence[str]) -> dict[str, SchemaRights]:
    """Return what the user may do in each schema."""
    parameters = {"schemas": [ident(schema) for schema in schemas]}
    rows = connection.execute(statement("ddl_privileges"), parameters).fetchall()
    return {schema: SchemaRights(*row) for schema, row in zip(schemas, rows, strict=True)}


def check_creatable(
    connection: Connection, schema: str, needed_by: str, rights: SchemaRights | None = None
) -> bool:
    """Check that the user may create tables in a schema, or the schema; return whether it exists.

    Args:
        connection: the session of the user.
        schema: the schema, which need not exist.
        needed_by: what creates the tables, as the message names it.
        rights: the privileges, if already known.

    Raises:
        PlanningError: a privilege is missing; names the GRANT that would help.
    """
    schema_rights = rights or read_schema_rights(connection, [schema])[schema]
    if not schema_rights.exists and not schema_rights.create_schema:
        missing = f"may not create the missing schema {schema!r}"
        grant = f"CREATE ON DATABASE {ident(schema_rights.database)}"
        raise missing_grant(connection, missing, needed_by, grant)
    privileges = (("USAGE", schema_rights.usage), ("CREATE", schema_rights.create))
    lacking = [word for word, may in privileges if not may]
    if schema_rights.exists and lacking:
        missing = f"may not {' and '.join(lacking)} in schema {schema!r}"
        grant = f"{', '.join(lacking)} ON SCHEMA {ident(schema)}"
        raise missing_grant(connection, missing, needed_by, grant)
    return schema_rights.exists


def granted_by_default(connection: Connection, schemas: Sequence[str]) -> dict[str, list[str]]:
    """Return, by schema, the quoted roles that are granted the user's new tables by default."""
    rows = connection.execute(
        "SELECT DISTINCT asked.schema,"
        " pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(acl.grantee))"
        " FROM pg_catalog.unnest(%s::text[]) AS asked (schema)"
        " JOIN pg_catalog.pg_default_acl AS d ON d.defaclnamespace IN (0,"
        "   (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname = asked.schema))"
        " CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) AS acl"
        " WHERE d.defaclobjtype = 'r' AND acl.grantee <> 0"
        " AND d.defaclrole = (SELECT r.oid FROM pg_catalog.pg_roles AS r"
        "   WHERE r.rolname = current_user) ORDER BY 1, 2",
        [list(schemas)],
    )
    roles: dict[str, list[str]] = {schema: [] for schema in schemas}
    for schema, role in rows:
        roles[schema].append(role)
    return roles


def check_writable_server(connection: Connection) -> None:
    """Check that the server accepts writes.

    Raises:
        PlanningError: the server is read-only.
    """
    is_read_only, is_standby = connection.first(
        "SELECT pg_catalog.current_setting('transaction_read_only') = 'on',"
        " pg_catalog.pg_is_in_recovery()"
    )
    if is_read_only:
        found = "a read-only standby" if is_standby else "default_transaction_read_only = on"
        raise PlanningError(
            f"target: expected a server that accepts writes, found {found} at "
            f"{connection.info.host}:{connection.info.port}"
        )
