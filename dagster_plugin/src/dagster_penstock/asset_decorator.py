"""The `penstock_assets` decorator, and the copies behind the assets that it creates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from dagster_penstock.checks import check_spec
from dagster_penstock.connections import check_ends, reference
from dagster_penstock.partitions import check_partitions
from dagster_penstock.translator import CopiedTable, PenstockTranslator, without_waiting_for
from dagster_penstock.workers import check_workers, with_workers
from penstock import CopySpec, PlanningError, UsageError, as_arguments

METADATA_KEY = "penstock/options"


@dataclass(frozen=True, slots=True)
class Definition:
    """A copy and its asset."""

    spec: CopySpec
    asset: dg.AssetSpec
    source: dg.AssetSpec | None
    """The asset that the copy reads; None if the translator returns none, or another upstream."""


# The copies by step and, within a step, by output. Neither changes when an asset is renamed, and
# metadata can hold only values that Dagster can show.
_DEFINITIONS: WeakKeyDictionary[Any, Mapping[str, Definition]] = WeakKeyDictionary()


def penstock_assets(
    *,
    specs: Sequence[CopySpec],
    partitions_def: dg.PartitionsDefinition | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    name: str | None = None,
    group_name: str | None = None,
    translator: PenstockTranslator | None = None,
    blocking: bool = False,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    description: str | None = None,
    workers: int | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Create an asset for each copy; the decorated function is a step that copies selected assets.

        @penstock_assets(specs=[CopySpec(source=dg.EnvVar("PG_SRC"), ...)])
        def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
            yield from penstock.copy(context)

    A `CopySpec` with `verify="counts"` or `"checksums"` gives its asset a check: once a step has
    copied all its partitions, it compares source and target as of the same moment.

    Args:
        specs: the copies; connections as `dg.EnvVar`, or as URLs without a password.
        partitions_def: time windows, `ranges`, or values of the key; None for whole tables.
        backfill_policy: by default a backfill is one run that copies its partitions in parallel;
            `dg.BackfillPolicy.multi_run()` starts one run for each.
        name: the name of the step; by default that of the function.
        group_name: the group of the assets for which the translator sets none.
        translator: sets the keys and other attributes of the assets.
        blocking: whether a failed check keeps downstream assets from running.
        pool: the pool that limits the number of such steps that run at once, over all runs.
        retry_policy: when Dagster retries the step. A retry copies only what is not committed.
        op_tags: the tags of the step.
        description: the description of the step.
        workers: the number of workers that share the partitions of one copy, each in a step of its
            own, so that the executor may place them on several machines; None for a single step.
            The function runs in every step.

    Returns:
        The decorator.

    Raises:
        DagsterInvalidDefinitionError: the options of a copy are wrong, or do not work with these
            partitions.
    """
    if not specs:
        raise dg.DagsterInvalidDefinitionError("penstock_assets: expected specs, found none")
    translator = translator or PenstockTranslator()
    definitions = [define(spec, partitions_def, translator) for spec in specs]
    checks = [
        check_spec(each.asset.key, each.spec.verify, partitions_def, blocking=blocking)
        for each in definitions
        if each.spec.verify != "none"
    ]
    if workers is not None:
        try:
            check_workers(workers, specs, backfill_policy)
        except UsageError as error:
            raise dg.DagsterInvalidDefinitionError(f"penstock_assets: {error.message}") from None
    assets = [each.asset for each in definitions]
    if group_name is not None:
        assets = [
            asset if asset.group_name else asset.replace_attributes(group_name=group_name)
            for asset in assets
        ]
    if backfill_policy is None and partitions_def is not None:
        backfill_policy = dg.BackfillPolicy.single_run()
    with warnings.catch_warnings():
        # Backfill policies are in beta, and the user may not have passed one.
        warnings.simplefilter("ignore", dg.BetaWarning)
        multi_asset = dg.multi_asset(
            name=name,
            specs=assets,
            check_specs=checks or None,
            # Even for a single asset, which may be copied without its check.
            can_subset=len(assets) + len(checks) > 1,
            partitions_def=partitions_def,
            backfill_policy=backfill_policy,
            pool=pool,
            retry_policy=retry_policy,
            op_tags=op_tags,
            description=description,
        )

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        assets_def = multi_asset(_as_step(function))
        if workers is not None:
            assets_def = with_workers(
                assets_def,
                _as_step(function),
                workers,
                checks,
                backfill_policy,
                pool=pool,
                retry_policy=retry_policy,
                tags=op_tags,
                description=description,
            )
        register(assets_def, definitions)
        return assets_def

    return decorate


def source_assets(*copies: dg.AssetsDefinition) -> list[dg.AssetSpec]:
    """Return the assets that copies read, with descriptions and kinds, for `dg.Definitions`.

    Without them, Dagster has only the keys of the upstream assets.

    Args:
        *copies: results of `penstock_assets`.

    Raises:
        DagsterInvariantViolationError: an argument is not a result of `penstock_assets`.
    """
    sources = [each.source for copy in copies for each in definitions_of(copy).values()]
    return [*{source.key: source for source in sources if source is not None}.values()]


def define(
    spec: CopySpec,
    partitions_def: dg.PartitionsDefinition | None,
    translator: PenstockTranslator,
) -> Definition:
    """Define a copy as an asset.

    Args:
        spec: the copy.
        partitions_def: the asset's partitions; None for a whole table.
        translator: returns the asset's attributes.

    Raises:
        DagsterInvalidDefinitionError: the options of the copy are wrong, or do not work with these
            partitions.
    """
    spec = replace(spec, source=reference(spec.source), target=reference(spec.target))
    table = CopiedTable(spec, partitions_def)
    try:
        if spec.run_id is not None:
            raise UsageError(
                "run_id: leave it out, since Penstock derives it from the Dagster run; found "
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
            f"asset {asset.key.to_user_string()}: partitions_def: expected the same as "
            "penstock_assets has, or None, found another from the translator"
        )
    if source is not None and source.key not in {dep.asset_key for dep in asset.deps}:
        source = None
    asset = asset.replace_attributes(
        metadata={**asset.metadata, METADATA_KEY: options_metadata(spec)},
        partitions_def=partitions_def,
        automation_condition=without_waiting_for(source, asset.automation_condition),
        # A run copies some partitions and reports each on its own, so there is no common output.
        skippable=asset.skippable or partitions_def is not None,
    )
    return Definition(spec, asset, source)


def options_metadata(spec: CopySpec) -> dg.JsonMetadataValue:
    """Return the options that differ from their defaults, without secrets."""
    default = replace(
        CopySpec(source=spec.source, target=spec.target, table="t"), control_schema="penstock"
    ).stored()
    always = {"source", "target", "mode", "table", "target_table"}
    return dg.JsonMetadataValue(
        {
            name: value
            for name, value in spec.stored().items()
            if value is not None and (name in always or value != default[name])
        }
    )


def register(assets_def: dg.AssetsDefinition, definitions: Sequence[Definition]) -> None:
    """Store the copies of a step, for `definitions_of`."""
    _DEFINITIONS[_step_of(assets_def)] = {
        assets_def.get_output_name_for_asset_key(each.asset.key): each for each in definitions
    }


def definitions_of(assets_def: dg.AssetsDefinition) -> dict[dg.AssetKey, Definition]:
    """Return the copies of a step, by asset.

    Raises:
        DagsterInvariantViolationError: `penstock_assets` did not create the step.
    """
    definitions = _DEFINITIONS.get(_step_of(assets_def))
    if definitions is None:
        raise dg.DagsterInvariantViolationError(
            f"{', '.join(key.to_user_string() for key in assets_def.keys)}: expected assets of "
            "penstock_assets, found others"
        )
    return {key: definitions[name] for name, key in assets_def.keys_by_output_name.items()}


def _step_of(assets_def: dg.AssetsDefinition) -> Any:
    return assets_def.node_def


def _as_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that fails if the function discards the events, and so copies nothing."""

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Iterator[Any]:
        events = function(*args, **kwargs)
        if not isinstance(events, Iterable):
            raise dg.DagsterInvariantViolationError(
                f"{function.__name__}: expected a function that yields the events of its copies "
                "(yield from penstock.copy(context)), found one that returns "
                f"{type(events).__name__}; nothing was copied"
            )
        yield from events

    return step
