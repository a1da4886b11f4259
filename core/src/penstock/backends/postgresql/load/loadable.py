"""What kinds of relations can be loaded, and in which modes."""

from __future__ import annotations

from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import for_server, name
from penstock.errors import PlanningError
from penstock.model.tables import TableRef
from penstock.spec.modes import Mode

# https://www.postgresql.org/docs/release/14.0/
TRUNCATE_FOREIGN_VERSION = 140000


def check_loadable(connection: Connection, ref: TableRef, mode: Mode) -> tuple[str, ...]:
    """Check that rows can be loaded into a relation.

    Returns: what its user has to be warned of.

    Raises:
        PlanningError: they cannot.
    """
    with planning("target", f"table {ref}"):
        found = connection.first(for_server(connection, "loadable"), {"table": name(ref)})
    kind, insertable, instead, hidden, foreign = found
    what = KINDS.get(kind, f"kind {kind!r}")
    if kind == "v" and not instead:
        raise PlanningError(
            f"target: expected {ref} to be a table, or a view with an INSTEAD OF INSERT trigger "
            f"for each row; found {what}"
        )
    if kind == "v" and not mode.only_adds:
        raise PlanningError(
            f"target: --mode {mode}: expected {ref} to be a table; found {what}, which --mode "
            "append can load"
        )
    if kind not in "rpfv":
        raise PlanningError(f"target: expected {ref} to be a table, found {what}")
    if not insertable:
        raise PlanningError(f"target: {ref} is {what} that cannot be written to")
    if foreign and mode.truncates and connection.info.server_version < TRUNCATE_FOREIGN_VERSION:
        raise PlanningError(
            f"target: --mode truncate: PostgreSQL before 14 cannot truncate {foreign[0]}, a "
            "foreign table; expected --mode append or replace"
        )
    if hidden:
        raise PlanningError(
            f"target: row security on {ref} holds for {connection.info.user!r}, so COPY cannot "
            "load it; expected its owner (without FORCE ROW LEVEL SECURITY), a user with "
            "BYPASSRLS, or a superuser"
        )
    if not foreign:
        return ()
    return (
        f"{foreign[0]} is on another server, which commits by itself: if one of the two servers "
        "goes down at that very moment, a partition may be there without its commit record, and "
        "be copied twice",
    )
