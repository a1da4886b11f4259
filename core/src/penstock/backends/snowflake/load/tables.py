"""Tables that Penstock creates in the target."""

from __future__ import annotations

from penstock.backends.snowflake.catalog.tables import unique_keys
from penstock.backends.sql.server.target import ServerTables
from penstock.backends.sql.session import Session
from penstock.model.tables import TableRef


class SnowflakeTables(ServerTables):
    """Tables that Penstock creates in Snowflake."""

    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def clone_statements(
        self, session: Session, table: TableRef, new_table: TableRef
    ) -> tuple[str, list[str]]:
        # The exchange transfers grants along with the rows.
        new, old = session.dialect.table(new_table), session.dialect.table(table)
        return f"CREATE TABLE {new} LIKE {old} COPY GRANTS", []
