"""The copy behind each asset, checked when it is defined and looked up when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from dagster_penstock.connections import located
from dagster_penstock.partitions import check_partitions
from dagster_penstock.sources import without_waiting_for
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec, PlanningError, UsageError, as_arguments, check_request

METADATA_KEY = "penstock/copy"
# The copies by step and, within a step, by output. Neither changes when an asset is renamed, and
# metadata can hold only values that Dagster can show.
_DEFINED: WeakKeyDictionary[dg.OpDefinition, Mapping[str, Definition]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Definition:
    spec: CopySpec
    asset: dg.AssetSpec
    source: dg.AssetSpec | None
    """The asset's default upstream asset."""


def define(
    spec: CopySpec,
    partitions_def: dg.PartitionsDefinition | None,
    translator: PenstockTranslator,
) -> Definition:
    """Define a copy as an asset.

    Raises:
        DagsterInvalidDefinitionError: the copy does not work with these partitions.
    """
    spec = replace(spec, source=reference(spec.source), target=reference(spec.target))
    table = CopiedTable(spec, partitions_def)
    try:
        if spec.run_id is not None:
            raise UsageError(
                "run_id: Penstock derives it from the Dagster run: leave it out; found "
                f"{spec.run_id!r}"
            )
        check_ends(spec)
        if partitions_def is not None:
            check_partitions(spec, partitions_def)
        asset = translator.get_asset_spec(table)
        source = translator.get_source_asset_spec(table)
    except (PlanningError, UsageError) as error:
        raise dg.DagsterInvalidDefinitionError(
            f"copy of {spec.source_name} to {spec.target_ref}: {as_arguments(error.message)}"
        ) from None
    if asset.partitions_def not in (None, partitions_def):
        raise dg.DagsterInvalidDefinitionError(
            f"asset {asset.key.to_user_string()}: the translator returned other partitions than"
            " those of the copy"
        )
    if source is not None and source.key not in {dep.asset_key for dep in asset.deps}:
        source = None
    asset = asset.replace_attributes(
        metadata={**asset.metadata, METADATA_KEY: shown_options(spec)},
        partitions_def=partitions_def,
        automation_condition=without_waiting_for(source, asset.automation_condition),
        # A run copies some partitions and reports each on its own, so there is no common output.
        skippable=asset.skippable or partitions_def is not None,
    )
    return Definition(spec, asset, source)


def shown_options(spec: CopySpec) -> dg.JsonMetadataValue:
    """Return the options that differ from their defaults, without secrets."""
    default = replace(
        CopySpec(source=spec.source, target=spec.target, table="t"), control_schema="penstock"
    ).stored()
    named = {"source", "target", "mode", "table", "target_table"}
    return dg.JsonMetadataValue(
        {
            name: value
            for name, value in spec.stored().items()
            if value is not None and (name in named or value != default[name])
        }
    )


def register(assets_def: dg.AssetsDefinition, defined: Sequence[Definition]) -> None:
    """Store the copies of a step."""
    _DEFINED[_step_of(assets_def)] = {
        assets_def.get_output_name_for_asset_key(each.asset.key): each for each in defined
    }


def definitions_of(assets_def: dg.AssetsDefinition) -> dict[dg.AssetKey, Definition]:
    """Return the copies of a step, by asset.

    Raises:
        DagsterInvariantViolationError: the step does not come from `penstock_assets`.
    """
    found = _DEFINED.get(_step_of(assets_def))
    if found is None:
        raise dg.DagsterInvariantViolationError(
            f"{', '.join(key.to_user_string() for key in assets_def.keys)}: expected assets made "
            "by penstock_assets, found others"
        )
    return {key: found[name] for name, key in assets_def.keys_by_output_name.items()}


def _step_of(assets_def: dg.AssetsDefinition) -> Any:
    return assets_def.node_def


def check_ends(spec: CopySpec) -> None:
    """Find mistakes in ends that are URLs; environment variables are resolved when a copy begins.

    Raises:
        PlanningError: an end does not support the option in the message.
        UsageError: the option in the message, named as on the command line, is wrong.
    """
    spec.check_table_names(source=located(spec.source), target=located(spec.target))
    check_request(spec)


def reference(connection: str) -> str:
    """Return a connection for the core; environment variables are resolved when a copy begins."""
    if isinstance(connection, dg.EnvVar):
        return f"env:{connection.env_var_name}"
    return connection
