"""Facts that identify a relation later, and tell whether its rows may have changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from penstock.backends.postgresql.catalog.sizes import reads_elsewhere
from penstock.backends.postgresql.compare.conditions import select
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import for_server, statement
from penstock.model.extents import Extent
from penstock.model.snapshots import SourceState
from penstock.model.tables import Relation

_OLDEST = re.compile(r"(\d+):\d+:")
_NOW = sql.SQL("SELECT clock_timestamp()::text")


def read_states(connection: Connection, oids: Sequence[int]) -> dict[int, SourceState]:
    """Return the states of tables; their moment is the one of the next statement."""
    query = for_server(connection, "state")
    states = connection.execute(query, {"oids": list(oids)})
    moments = connection.execute(statement("moment"))
    moment = str(moments.fetchall()[0][0])
    return {
        oid: SourceState(
            identity, layout, "" if elsewhere else moment, writes, parts, shape=shape or ""
        )
        for oid, identity, layout, writes, parts, elsewhere, shape in states.fetchall()
    }


def settled_state(connection: Connection, read: Relation, state: SourceState) -> SourceState:
    """Return the state with its moment, for a table some of whose rows may be on another server.

    Args:
        connection: a session on the source.
        read: the relation.
        state: the state from `read_states`; its moment is empty if rows may be on another server.
    """
    if state.moment:
        return state
    if reads_elsewhere(connection, read):
        # The server does not see writes on another one, so such a moment never equals another.
        return replace(state, moment=_text(connection, _NOW))
    return replace(state, moment=read_moment(connection))


def read_moment(connection: Connection) -> str:
    """Return a text that stays the same as long as no session writes to the server."""
    return _text(connection, statement("moment"))


def _text(connection: Connection, query: sql.SQL) -> str:
    return str(connection.value(query))


def may_have_moved(
    connection: Connection,
    relation: Relation,
    where: str | None,
    extents: Sequence[tuple[Extent, int | None]],
    since: SourceState,
) -> bool:
    """Whether rows may have been written since; see `SourceCatalog.may_have_moved`.

    Args:
        connection: a session on the source.
        relation: the source's table or query.
        where: the run's condition; None for all rows.
        extents: block ranges, each with the number of rows that it had; None if unknown.
        since: the state of the source when the run was planned.
    """
    # A transaction older than the oldest one open then is certainly older than the snapshot.
    match = _OLDEST.match(since.moment)
    if match is None:
        return True
    for extent, rows in extents:
        query = statement("written_since").format(
            rows=select(
                relation, extent, where, sql.SQL("xmin::pg_catalog.text::pg_catalog.int8 AS xmin")
            ),
            since=sql.Literal(int(match[1]) % (1 << 32)),
        )
        with planning("source", f"{relation}"), connection.users_path():
            total, written_rows = connection.first(query)
        if written_rows or (rows is not None and total != rows):
            return True
    return False
