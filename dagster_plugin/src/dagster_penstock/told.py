"""What Dagster has been told already: of a partition that an earlier try has committed."""

from __future__ import annotations

import dagster as dg

from dagster_penstock.metadata import REQUEST, RUN_ID


class Told:
    """The materializations of an asset, as far as they are asked for."""

    def __init__(self, context: dg.AssetExecutionContext, asset: dg.AssetKey) -> None:
        self._instance = context.instance
        self._asset = asset

    def by_run(self, key: str | None, run_id: str) -> bool:
        """Whether the newest materialization tells what this run of the core has committed."""
        return self._newest(key, RUN_ID) == run_id

    def by_request(self, key: str | None) -> str | None:
        """The request whose materialization is the newest; None where there is none."""
        return self._newest(key, REQUEST)

    def _newest(self, key: str | None, name: str) -> str | None:
        asked = dg.AssetRecordsFilter(
            asset_key=self._asset, asset_partitions=None if key is None else [key]
        )
        for record in self._instance.fetch_materializations(asked, limit=1).records:
            materialization = record.asset_materialization
            value = materialization.metadata.get(name) if materialization else None
            return str(value.value) if value is not None else ""
        return None
