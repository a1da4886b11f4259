"""What Dagster has been told already: of a partition that an earlier try has committed."""

from __future__ import annotations

import dagster as dg

from dagster_penstock.metadata import REQUEST, RUN_ID

_LOOKED_AT = 20


class Told:
    """The materializations of an asset, as far as they are asked for."""

    def __init__(self, context: dg.AssetExecutionContext, asset: dg.AssetKey) -> None:
        self._instance = context.instance
        self._asset = asset

    def by_run(self, key: str | None, run_id: str) -> bool:
        """Whether a materialization tells what this run of the core has committed.

        By now others may have copied it again: some of the newest are looked at.
        """
        return run_id in self._newest(key, RUN_ID, _LOOKED_AT)

    def by_request(self, key: str | None) -> str | None:
        """The request whose materialization is the newest; None where there is none."""
        return next(iter(self._newest(key, REQUEST, 1)), None)

    def _newest(self, key: str | None, name: str, most: int) -> list[str]:
        """What the newest have under a name; an empty text where one has nothing."""
        asked = dg.AssetRecordsFilter(
            asset_key=self._asset, asset_partitions=None if key is None else [key]
        )
        found = []
        for record in self._instance.fetch_materializations(asked, limit=most).records:
            materialization = record.asset_materialization
            value = materialization.metadata.get(name) if materialization else None
            found.append("" if value is None else str(value.value))
        return found
