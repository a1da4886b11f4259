"""Which runs are executed: the parts that only Snowflake has, whose locks are leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.server.presence import MOST_NAMES, ServerPresence
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
            names = [name for run_id in run_ids for name in self.locks(run_id)]
            mine = [self.locks(run_id)[0] for run_id in tables]
            chunks = (
                names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES)
            )
            if not any(map(records.is_held, chunks)) and records.leases.take_all(mine):
                return {}
        return super().enter(tables, check)
