"""The copy behind an asset: kept in the asset's metadata, which survives renaming."""

from __future__ import annotations

from dataclasses import dataclass, replace

import dagster as dg

from dagster_penstock.naming import located, source_name, target_name
from dagster_penstock.partitions import check_partitions
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec, PlanningError, UsageError, as_arguments, check_request

METADATA_KEY = "penstock/copy"


@dataclass(frozen=True, slots=True, repr=False)
class Definition:
    """A copy, as an asset's metadata holds it. Not a metadata value: Dagster shows its class."""

    spec: CopySpec

    def __repr__(self) -> str:
        return f"{source_name(self.spec)} to {target_name(self.spec)}"


def define(
    spec: CopySpec,
    partitions_def: dg.PartitionsDefinition | None,
    translator: PenstockTranslator,
) -> dg.AssetSpec:
    """
    Raises:
        DagsterInvalidDefinitionError: the copy does not work with these partitions.
    """
    spec = replace(spec, source=reference(spec.source), target=reference(spec.target))
    try:
        if spec.run_id is not None:
            raise UsageError(
                "run_id: Penstock derives it from the Dagster run: leave it out; found "
                f"{spec.run_id!r}"
            )
        check_ends(spec)
        if partitions_def is not None:
            check_partitions(spec, partitions_def)
        asset = translator.get_asset_spec(CopiedTable(spec, partitions_def))
    except (PlanningError, UsageError) as error:
        raise dg.DagsterInvalidDefinitionError(
            f"copy of {spec.source_name} to {spec.target_ref}: {as_arguments(error.message)}"
        ) from None
    if asset.partitions_def not in (None, partitions_def):
        raise dg.DagsterInvalidDefinitionError(
            f"asset {asset.key.to_user_string()}: the translator returned other partitions than"
            " those of the copy"
        )
    return asset.replace_attributes(
        metadata={**asset.metadata, METADATA_KEY: Definition(spec)},
        partitions_def=partitions_def,
        # A run copies some partitions and reports each by itself: there is no common output.
        skippable=asset.skippable or partitions_def is not None,
    )


def check_ends(spec: CopySpec) -> None:
    """Find mistakes in ends that are URLs; an environment variable is read when a copy begins.

    Raises:
        PlanningError: names the option that an end does not support.
        UsageError: names the option as the command line does.
    """
    spec.check_table_names(source=located(spec.source), target=located(spec.target))
    check_request(spec)


def definition_of(asset: dg.AssetSpec) -> Definition:
    """
    Raises:
        DagsterInvariantViolationError: it is not an asset of `penstock_assets`.
    """
    found = asset.metadata.get(METADATA_KEY)
    if not isinstance(found, Definition):
        raise dg.DagsterInvariantViolationError(
            f"asset {asset.key.to_user_string()}: expected an asset made by penstock_assets, found "
            "another"
        )
    return found


def reference(connection: str) -> str:
    """A connection as the core takes it; an environment variable is read when a copy begins."""
    if isinstance(connection, dg.EnvVar):
        return f"env:{connection.env_var_name}"
    return connection
