"""The earlier materializations of an asset in Dagster, which earlier tries reported."""

from __future__ import annotations

import dagster as dg

from dagster_penstock.metadata import REQUEST, RUN_ID

_LOOKED_AT = 20


class MaterializationHistory:
    """Materializations of an asset, looked up on demand."""

    def __init__(self, context: dg.AssetExecutionContext, asset: dg.AssetKey) -> None:
        self._instance = context.instance
        self._asset = asset

    def has_run(self, key: str | None, run_id: str) -> bool:
        """Whether a materialization reports a commit of this run of the core.

        Other runs may have copied the partition again by now, so this looks beyond the newest one.
        """
        return run_id in self._newest(key, RUN_ID, _LOOKED_AT)

    def newest_request(self, key: str | None) -> str | None:
        """Return the request behind the newest materialization; None if there is none."""
        return next(iter(self._newest(key, REQUEST, 1)), None)

    def _newest(self, key: str | None, name: str, most: int) -> list[str]:
        """Return the newest metadata values of a name; a missing value is an empty text."""
        asked = dg.AssetRecordsFilter(
            asset_key=self._asset, asset_partitions=None if key is None else [key]
        )
        found = []
        for record in self._instance.fetch_materializations(asked, limit=most).records:
            materialization = record.asset_materialization
            value = materialization.metadata.get(name) if materialization else None
            found.append("" if value is None else str(value.value))
        return found
