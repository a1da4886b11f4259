"""The kinds of relations that can be loaded, by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server, name
from penstock.errors import PlanningError
from penstock.model.tables import TableRef
from penstock.spec.modes import Emptying, Mode

# https://www.postgresql.org/docs/release/14.0/
TRUNCATE_FOREIGN_VERSION = 140000


@dataclass(frozen=True, slots=True)
class Loadable:
    """The properties of a relation that matter to COPY."""

    kind: str
    insertable: bool
    instead: bool
    """Whether a trigger inserts its rows elsewhere."""
    hidden: bool
    """Whether row security applies to the user."""
    foreign: list[str]
    """Foreign tables that its rows go into."""


def read_loadable(connection: Connection, refs: Sequence[TableRef]) -> dict[TableRef, Loadable]:
    """Return these properties of the relations that exist."""
    tables = sql.Literal([name(ref) for ref in refs])
    rows = connection.execute(for_server(connection, "loadable", tables=tables)).fetchall()
    return {refs[row[0] - 1]: Loadable(*row[1:]) for row in rows}


def check_loadable(
    connection: Connection, ref: TableRef, mode: Mode, properties: Loadable
) -> tuple[str, ...]:
    """Check that rows can be loaded into a relation.

    Args:
        connection: a session on the target.
        ref: the relation.
        mode: the run's mode.
        properties: the relation's properties.

    Returns:
        Warnings for the user.

    Raises:
        PlanningError: rows cannot be loaded.
    """
    kind, foreign = properties.kind, properties.foreign
    what = KINDS.get(kind, f"kind {kind!r}")
    if kind == "v" and not properties.instead:
        raise PlanningError(
            f"target: expected {ref} to be a table, or a view with an INSTEAD OF INSERT trigger "
            f"for each row, found {what}"
        )
    if kind == "v" and not mode.only_adds:
        raise PlanningError(
            f"target: --mode {mode}: expected {ref} to be a table, found {what}, which --mode "
            "append can load"
        )
    if kind not in "rpfv":
        raise PlanningError(f"target: expected {ref} to be a table, found {what}")
    if not properties.insertable:
        raise PlanningError(f"target: {ref} is {what} that accepts no rows")
    if (
        foreign
        and mode.emptying is Emptying.TRUNCATE
        and connection.info.server_version < TRUNCATE_FOREIGN_VERSION
    ):
        raise PlanningError(
            f"target: --mode truncate: PostgreSQL before 14 cannot truncate {foreign[0]}, a "
            "foreign table; use --mode append or replace"
        )
    if properties.hidden:
        raise PlanningError(
            f"target: row security on {ref} applies to {connection.info.user!r}, so COPY cannot "
            "load it; expected its owner (without FORCE ROW LEVEL SECURITY), a user with "
            "BYPASSRLS, or a superuser"
        )
    if not foreign:
        return ()
    return (
        f"{foreign[0]} is on another server, which commits separately: if either server fails at "
        "that moment, a partition's rows may be committed without its record, and copied twice",
    )
