"""The translation of a copied table to an asset: key, group, owners, kinds and other attributes."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from dagster_penstock.connections import key_of, known_place, source_name, target_name
from dagster_penstock.sources import kinds_of, source_asset
from penstock import CopySpec


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The facts about a copied table that are known before a run."""

    spec: CopySpec
    partitions_def: dg.PartitionsDefinition | None = None


class PenstockTranslator:
    """The default translation of tables to assets.

    Override `get_asset_spec` to change the names, groups or owners of assets:

    class Mine(PenstockTranslator):
        def get_asset_spec(self, table):
            return super().get_asset_spec(table).replace_attributes(group_name="warehouse")
    """

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """Return the asset of a table; its partitions and `skippable` are added later.

        By default, its key is the target's schema and table; for files, the path of their folder.
        It depends on the asset from `get_source_asset_spec`.
        """
        spec = table.spec
        by = f" by {spec.key}" if spec.key else ""
        where = known_place(spec.target)
        named = spec.target_ref.schema and not (where and where.located)
        key = dg.AssetKey(key_of(spec))
        source = self.get_source_asset_spec(table)
        return dg.AssetSpec(
            key=key,
            deps=[] if source is None or source.key == key else [source],
            description=f"{source_name(spec)}, copied to {target_name(spec)} in mode "
            f"{spec.mode}{by}.",
            kinds={"penstock", *kinds_of(spec.target)},
            metadata={"dagster/table_name": str(spec.target_ref)} if named else {},
        )

    def get_source_asset_spec(self, table: CopiedTable) -> dg.AssetSpec | None:
        """Return the asset that a copy reads, for lineage; None for no such asset.

        By default, its key is the source's environment variable in lower case, or the database of
        its URL, followed by schema and table; for files, the path of their folder.
        """
        return source_asset(table.spec)
