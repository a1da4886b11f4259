"""Which runs are executed: the parts that only Snowflake has, whose locks are leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.server.presence import ServerPresence
from penstock.errors import PenstockError
from penstock.model.tables import TableRef


class SnowflakePresence(ServerPresence[SnowflakeRecords]):
    """See `ServerPresence`."""

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        """Enter with one turn at the control tables, if no other run is active on the tables."""
        if len(tables) < 2 or len(set(tables.values())) < len(tables):
            return super().enter(tables, check)
        records = self._records
        with translated("target", "tables"), records.guarded():
            run_ids = self.runs_on(set(tables.values())) | set(tables)
            mine = [self.locks(run_id)[0] for run_id in tables]
            if not self.is_any_held(run_ids) and records.leases.take_all(mine):
                return {}
        return super().enter(tables, check)
