"""How a copied table becomes an asset: its key, group, owners, kinds, and all else of it."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from penstock import CopySpec


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """What there is to know of a table that is copied, before anything runs."""

    spec: CopySpec
    partitions_def: dg.PartitionsDefinition | None = None


class PenstockTranslator:
    """Override `get_asset_spec` to name assets, group them, or say whose they are:

    class Mine(PenstockTranslator):
        def get_asset_spec(self, table):
            return super().get_asset_spec(table).replace_attributes(group_name="warehouse")
    """

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """The asset of a table. How it is partitioned, and that it may be skipped, is added to it.

        By default its key is the target's schema and table.
        """
        spec = table.spec
        target = spec.target_ref
        by = f" by {spec.key}" if spec.key else ""
        return dg.AssetSpec(
            key=dg.AssetKey([target.schema, target.name]),
            description=f"{spec.source_name}, copied to {target} in mode {spec.mode}{by}.",
            kinds={"penstock"},
            metadata={"dagster/table_name": str(target)},
        )
