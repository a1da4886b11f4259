"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import Fit
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.snowflake.capabilities import TARGET
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.load.presence import SnowflakePresence
from penstock.backends.snowflake.load.tables import SnowflakeTables
from penstock.backends.snowflake.load_hooks import SnowflakeLoadHooks
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import SEMI_STRUCTURED, TYPES
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.server.control import server_control
from penstock.backends.sql.server.target import ServerTarget
from penstock.model.tables import Column


class SnowflakeTarget(ServerTarget[SnowflakeSession]):
    """The catalog of a Snowflake target."""

    capabilities = TARGET
    tables = SnowflakeTables(SNOWFLAKE.name.lower())
    types = TYPES

    def __init__(self, url: str, control_schema: str) -> None:
        super().__init__(SnowflakeSession(connect(url, "target")))
        self._records = SnowflakeRecords(self._session, control_schema, url)
        loads = SnowflakeLoadHooks(Ledger(self._records), self._records)
        self.control = server_control(loads, SnowflakePresence(self._records))

    def close(self) -> None:
        self._records.leases.close()
        super().close()

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [
            Fit(f"files cannot be loaded into {theirs.type}; expected a column of varchar")
            if theirs.traits[TYPE].name in SEMI_STRUCTURED
            else fit
            for fit, theirs in zip(super().fit(source, target), target, strict=True)
        ]


open_target = SnowflakeTarget
