"""Tables, views and queries, as a source."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import TableStatistics
from penstock.backends.snowflake.catalog.table_model import model_of
from penstock.backends.snowflake.catalog.tables import facts_of, unique_keys
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import TYPES
from penstock.backends.sql.definition import definition_of
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.source import SqlSource
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Query, Relation, TableRef

# Rows that are sampled for the bounds of ranges; of larger tables, some of their files are.
SAMPLE = 100_000
MOST_BY_ROWS = 10_000_000


def server_of(session: SnowflakeSession, host: str) -> str:
    """What tells an account's database from others."""
    return f"{host.partition('.')[0].lower()}/{session.catalog}"


class SnowflakeSource(SqlSource):
    settle_seconds = 0.0
    _session: SnowflakeSession

    def __init__(self, url: str) -> None:
        session = SnowflakeSession(connect(url, "source"))
        super().__init__(session, session.rows_of)
        self._server = server_of(session, session.connection.host)

    def close(self) -> None:
        self._session.connection.close()

    def adopt(self, snapshot: Snapshot) -> None:
        if self._session.moment != snapshot.token:
            self._session.moment = snapshot.token
            self.forget()

    # Columns

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, Query):
            found = self.described(relation)
            return tuple(Column(n, str(type_), traits={TYPE: type_}) for n, type_ in found.items())
        return super().columns(relation)

    def described(self, relation: Relation) -> dict[str, Type]:
        if isinstance(relation, TableRef):
            return {column.name: column.traits[TYPE] for column in self.columns(relation)}
        return super().described(relation)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(TYPES.in_arrow(column, column.traits[TYPE]) for column in columns)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        if not self.is_table(relation):
            return super().definition(relation, partitioning=partitioning)
        assert isinstance(relation, TableRef)
        columns = self.columns(relation)
        keys = unique_keys(self._session, relation)
        model = model_of(self._session, relation, columns, keys)
        return definition_of(SNOWFLAKE.name.lower(), columns, model)

    def state(self, relation: Relation) -> SourceState:
        # Nothing tells for sure whether somebody has written: no moment is like another one.
        ((now,),) = self._session.fetch("SELECT CAST(SYSDATE() AS VARCHAR)", "state")
        if not isinstance(relation, TableRef):
            return SourceState(self._server, "", now, "")
        found = facts_of(self._session, relation)
        return SourceState(f"{self._server}:{relation}", found[0] if found else "", now, "")

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return True  # nothing tells

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        found = None
        if self.is_table(relation):
            assert isinstance(relation, TableRef)
            found = facts_of(self._session, relation)
        _, rows, size = found or ("", None, 0)
        storage = "a query or a view of unknown size"
        if found:
            storage = f"a table of {rows:,} rows, {size / 1e6:,.1f} MB"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=storage,
            default_key=self._default_key(relation),
            sampled=found is not None,
        )

    def _default_key(self, relation: Relation) -> str | None:
        if not self.is_table(relation):
            return None
        assert isinstance(relation, TableRef)
        for key in unique_keys(self._session, relation)[:1]:
            if self.key_type(relation, Key(key.names[0])) in SNOWFLAKE.ranged:
                return key.names[0]
        return None

    def finds(self, relation: Relation) -> bool:
        # It knows the least and greatest value in each of a table's files.
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
