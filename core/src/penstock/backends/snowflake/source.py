"""Tables, views and queries as a source."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import TableStatistics
from penstock.backends.snowflake.catalog.table_model import model_of
from penstock.backends.snowflake.catalog.tables import facts_of, unique_keys
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import TYPES
from penstock.backends.sql.definitions.definition import definition_of
from penstock.backends.sql.server.source import ServerSource
from penstock.model.extents import Key
from penstock.model.snapshots import Snapshot
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Relation, TableRef

# Rows sampled for the bounds of ranges; of larger tables, some files are sampled.
SAMPLE = 100_000
MOST_BY_ROWS = 10_000_000


class SnowflakeSource(ServerSource[SnowflakeSession]):
    """The catalog of a Snowflake source."""

    types = TYPES
    moment = "SELECT CAST(SYSDATE() AS VARCHAR)"

    def __init__(self, url: str) -> None:
        super().__init__(SnowflakeSession(connect(url, "source")))

    def adopt(self, snapshot: Snapshot) -> None:
        if self._session.moment != snapshot.token:
            self._session.moment = snapshot.token
            self.forget()

    # Tables

    def table_definition(self, table: TableRef) -> TableDefinition:
        columns, keys = self.columns(table), unique_keys(self._session, table)
        model = model_of(self._session, table, columns, keys)
        return definition_of(SNOWFLAKE.name.lower(), model)

    def layout(self, table: TableRef) -> tuple[str, str]:
        facts = facts_of(self._session, table)
        return facts[0] if facts else "", ""

    def table_statistics(self, table: TableRef) -> TableStatistics:
        _, rows, size = facts_of(self._session, table) or ("", 0, 0)
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=f"a table of {rows:,} rows, {size / 1e6:,.1f} MB",
            default_key=None,
        )

    def leading_columns(self, table: TableRef) -> Sequence[str]:
        return [key.names[0] for key in unique_keys(self._session, table)]

    # Keys

    def finds(self, relation: Relation) -> bool:
        # It records the lowest and highest value in each of a table's files.
        return self.is_table(relation)

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not self.is_table(relation):
            return None
        assert isinstance(relation, TableRef)
        rows, (_, count, _) = self._rows(relation), facts_of(self._session, relation) or ("", 0, 0)
        if count <= MOST_BY_ROWS:
            return f"{rows} SAMPLE ({SAMPLE} ROWS)", f"a sample of {SAMPLE:,} rows"
        share = 100 * SAMPLE / count
        return f"{rows} SAMPLE SYSTEM ({share:.6f})", f"a sample of about {SAMPLE:,} rows"


open_source = SnowflakeSource
