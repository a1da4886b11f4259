"""Facts by which a relation can be recognised later."""

from __future__ import annotations

from penstock.backends.postgresql.catalog.relations import inherited
from penstock.backends.postgresql.catalog.sizes import reads_elsewhere
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, statement
from penstock.model.snapshots import SourceState
from penstock.model.tables import Relation, TableRef


def read_state(connection: Connection, read: Relation) -> SourceState:
    state = SourceState("", "", _moment(connection), "")
    elsewhere = True
    if isinstance(read, TableRef):
        state, elsewhere = _state_of_table(connection, read)
    if elsewhere and reads_elsewhere(connection, read):
        # This server does not know who writes there: no moment is ever equal to another.
        return SourceState(
            state.identity, state.layout, _now(connection), state.writes, state.parts
        )
    return state


def _state_of_table(connection: Connection, ref: TableRef) -> tuple[SourceState, bool]:
    with planning("source", f"table {ref}"):
        found = connection.execute(
            statement("state").format(inherited=inherited(connection)),
            {"table": quoted(ref).as_string(connection)},
        ).fetchone()
    assert found is not None
    identity, layout, writes, parts, elsewhere = found
    return SourceState(identity, layout, _moment(connection), writes, parts), elsewhere


def identity(connection: Connection, ref: TableRef) -> str:
    """See `SourceState.identity`."""
    return _state_of_table(connection, ref)[0].identity


def _moment(connection: Connection) -> str:
    return _text(connection, statement("moment").as_string(None))


def _now(connection: Connection) -> str:
    return _text(connection, "SELECT clock_timestamp()::text")


def _text(connection: Connection, query: str) -> str:
    with planning("source", "state"):
        found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return str(found[0])
