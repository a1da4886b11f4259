"""The translation of a copied table to an asset, and of its source to an upstream asset."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_penstock.connections import (
    asset_path,
    known_place,
    location_metadata,
    source_name,
    source_path,
    target_name,
)
from penstock import CopySpec, TableRef, UsageError, place_of

# Marks the assets that are created here.
READ_BY_PENSTOCK = "penstock/source"


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The facts about a copied table that are known before a run."""

    spec: CopySpec
    partitions_def: dg.PartitionsDefinition | None = None


class PenstockTranslator:
    """The default translation of tables to assets.

    Override `get_asset_spec` to change the names, groups or owners of assets:

    class WarehouseTranslator(PenstockTranslator):
        def get_asset_spec(self, table):
            return super().get_asset_spec(table).replace_attributes(group_name="warehouse")
    """

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """Return the asset of a table; its partitions and `skippable` are added later.

        By default, its key is the target's schema and table; for files, the path of their folder.
        It depends on the asset from `get_source_asset_spec`.
        """
        spec = table.spec
        name = str(spec.target_ref) if spec.target_ref.schema else ""
        by = f" by {spec.key}" if spec.key else ""
        key = dg.AssetKey(asset_path(spec))
        source = self.get_source_asset_spec(table)
        return dg.AssetSpec(
            key=key,
            deps=[] if source is None or source.key == key else [source],
            description=f"{source_name(spec)}, copied to {target_name(spec)} in mode "
            f"{spec.mode}{by}.",
            kinds={"penstock", *kinds_of(spec.target)},
            metadata=_location(spec.target, spec.target_ref if name else None),
        )

    def get_source_asset_spec(self, table: CopiedTable) -> dg.AssetSpec | None:
        """Return the asset that a copy reads, for lineage; None for no such asset.

        By default, its key is the source's environment variable in lower case, or the database of
        its URL, followed by schema and table; for files, the path of their folder.
        """
        spec = table.spec
        return dg.AssetSpec(
            key=dg.AssetKey(source_path(spec)),
            description=f"{source_name(spec)}, from which Penstock copies.",
            kinds=kinds_of(spec.source),
            metadata={
                READ_BY_PENSTOCK: True,
                **_location(spec.source, spec.table_ref if spec.table else None),
            },
        )


def kinds_of(connection: str) -> set[str]:
    """Return the kinds of a connection's system; empty if its environment variable is not set here.

    Nothing else of a variable's URL is shown, and never is it part of a key.
    """
    return {*_kinds(connection)}


def observed(source: dg.AssetSpec | None) -> dg.AssetKey | None:
    """Return the key of a source's asset that copies observe; None if others report it."""
    return source.key if source is not None and READ_BY_PENSTOCK in source.metadata else None


def without_waiting_for(
    source: dg.AssetSpec | None, condition: dg.AutomationCondition[Any] | None
) -> dg.AutomationCondition[Any] | None:
    """Return an automation condition that ignores the copy's source.

    Only the copy reports that asset: `AutomationCondition.eager` and `on_cron` would wait for it,
    and then start another copy.
    """
    ignore = getattr(condition, "ignore", None)
    if source is None or ignore is None or observed(source) is None:
        return condition
    changed: dg.AutomationCondition[Any] = ignore(dg.AssetSelection.assets(source.key))
    return changed


def _kinds(connection: str) -> tuple[str, ...]:
    name = connection.removeprefix("env:")
    if name != connection and name not in os.environ:
        return ()
    try:
        return place_of(connection).kinds
    except UsageError:
        return ()  # the step will report the mistake


def _location(connection: str, table: TableRef | None) -> dict[str, str]:
    """Return the metadata that say where the rows are, as far as the definition says it."""
    place = known_place(connection)
    if place is not None:
        return location_metadata(place, table)
    kinds = _kinds(connection)
    named = {} if table is None else {"dagster/table_name": str(table)}
    return {**named, **({"dagster/storage_kind": kinds[-1]} if kinds else {})}
