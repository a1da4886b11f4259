"""How a copied table becomes an asset: its key, group, owners, kinds and other attributes."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from dagster_penstock.naming import key_of, known_place, source_name, target_name
from dagster_penstock.sources import kinds_of, source_asset
from penstock import CopySpec


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """What is known of a copied table before anything runs."""

    spec: CopySpec
    partitions_def: dg.PartitionsDefinition | None = None


class PenstockTranslator:
    """Override `get_asset_spec` to name assets, group them, or set their owners:

    class Mine(PenstockTranslator):
        def get_asset_spec(self, table):
            return super().get_asset_spec(table).replace_attributes(group_name="warehouse")
    """

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """The asset of a table. Its partitions, and that it may be skipped, are added later.

        By default its key is the target's schema and table; for files the path of their folder. It
        depends on what `get_source_asset_spec` returns.
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
        """The asset that a copy reads, for lineage; None: none.

        By default its key is the environment variable of the source in small letters, or the
        database of its URL, then schema and table; for files the path of their folder.
        """
        return source_asset(table.spec)
