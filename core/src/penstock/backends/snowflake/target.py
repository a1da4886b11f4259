"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.facts import Fit
from penstock.backends.shared.arrow import held_kinds
from penstock.backends.snowflake.capabilities import TARGET
from penstock.backends.snowflake.catalog.tables import unique_keys
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.runs import SnowflakeRuns
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import SEMI_STRUCTURED, TYPES
from penstock.backends.sql.load_plan import TargetTables
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.server.target import ServerTarget
from penstock.backends.sql.session import Session
from penstock.model.tables import Column, TableRef


class SnowflakeTables(TargetTables):
    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        return held_kinds(columns)

    def like(self, session: Session, table: TableRef, beside: TableRef) -> tuple[str, list[str]]:
        # The exchange takes grants along with the rows.
        new, old = session.dialect.table(beside), session.dialect.table(table)
        return f"CREATE TABLE {new} LIKE {old} COPY GRANTS", []


class SnowflakeTarget(ServerTarget[SnowflakeSession]):
    capabilities = TARGET
    tables = SnowflakeTables(SNOWFLAKE.name.lower())
    types = TYPES

    def __init__(self, url: str, control_schema: str) -> None:
        super().__init__(SnowflakeSession(connect(url, "target")))
        self._records = SnowflakeRecords(self._session, control_schema, url)
        self.control = SnowflakeRuns(self._records)

    def close(self) -> None:
        self._records.leases.close()
        super().close()

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [
            Fit(f"nothing is loaded into {theirs.type} from files; expected a column of varchar")
            if theirs.traits[TYPE].name in SEMI_STRUCTURED
            else fit
            for fit, theirs in zip(super().fit(source, target), target, strict=True)
        ]


open_target = SnowflakeTarget
