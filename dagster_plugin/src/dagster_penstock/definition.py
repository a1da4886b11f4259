"""What an asset keeps of its copy: in its own metadata, where renaming an asset leaves it alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import dagster as dg

from dagster_penstock.naming import located, source_name, target_name
from dagster_penstock.partitions import check_partitions
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec, UsageError, as_arguments

METADATA_KEY = "penstock/copy"


@dataclass(frozen=True, slots=True, repr=False)
class Definition:
    """A copy, as an asset's metadata holds it. It is no metadata value: Dagster shows its class."""

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
        DagsterInvalidDefinitionError: the copy cannot be had with these partitions.
    """
    spec = replace(spec, source=reference(spec.source), target=reference(spec.target))
    try:
        if spec.run_id is not None:
            raise UsageError(
                f"run_id: each Dagster run has one of its own; expected none, found {spec.run_id!r}"
            )
        check_ends(spec)
        if partitions_def is not None:
            check_partitions(spec, partitions_def)
        asset = translator.get_asset_spec(CopiedTable(spec, partitions_def))
    except UsageError as error:
        raise dg.DagsterInvalidDefinitionError(
            f"copy of {spec.source_name} to {spec.target_ref}: {as_arguments(error.message)}"
        ) from None
    if asset.partitions_def not in (None, partitions_def):
        raise dg.DagsterInvalidDefinitionError(
            f"asset {asset.key.to_user_string()}: expected the partitions of its copy, found others"
            " in what the translator returns"
        )
    return asset.replace_attributes(
        metadata={**asset.metadata, METADATA_KEY: Definition(spec)},
        partitions_def=partitions_def,
        # A run copies some partitions and says so of each by itself: there is no output of all.
        skippable=asset.skippable or partitions_def is not None,
    )


def check_ends(spec: CopySpec) -> None:
    """Find what cannot be right, where the ends are URLs; a variable is read where a copy begins.

    Raises:
        UsageError: names the option as the command line does.
    """
    spec.check_named(source=located(spec.source), target=located(spec.target))
    if located(spec.target) is False:
        spec.check_replaceable()


def definition_of(asset: dg.AssetSpec) -> Definition:
    """
    Raises:
        DagsterInvariantViolationError: it is no asset of `penstock_assets`.
    """
    found = asset.metadata.get(METADATA_KEY)
    if not isinstance(found, Definition):
        raise dg.DagsterInvariantViolationError(
            f"asset {asset.key.to_user_string()}: expected an asset of penstock_assets, found one "
            "without a copy"
        )
    return found


def reference(connection: str) -> str:
    """A connection as the core takes it: read from the environment where a copy begins."""
    if isinstance(connection, dg.EnvVar):
        return f"env:{connection.env_var_name}"
    return connection
