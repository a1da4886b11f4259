"""The `penstock_assets` decorator, which turns copied tables into assets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import dagster as dg

from dagster_penstock.checks import check_spec
from dagster_penstock.definition import define, definitions_of, register
from dagster_penstock.translator import PenstockTranslator
from penstock import CopySpec


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
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Create an asset for each copy. The decorated function is a step that copies selected assets:

    @penstock_assets(specs=[CopySpec(source=dg.EnvVar("PG_SRC"), ...)])
    def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
        yield from penstock.copy(context)

    A `CopySpec` with `verify="counts"` or `"checksums"` gives its asset a check: once a step has
    copied all its partitions, it compares source and target, as of the same moment.

    Parameters:
        specs: the copies; connections as `dg.EnvVar`, or as URLs without a password.
        partitions_def: time windows, `ranges`, or values of the key; None: whole tables.
        backfill_policy: by default a backfill is one run that copies its partitions in parallel;
            `dg.BackfillPolicy.multi_run()` starts one run for each.
        translator: sets the names and other attributes of the assets.
        blocking: a failed check keeps downstream assets from running.
        pool: the pool that limits how many such steps run at once, over all runs.

    Raises:
        DagsterInvalidDefinitionError: a copy does not work with these partitions.
    """
    if not specs:
        raise dg.DagsterInvalidDefinitionError("penstock_assets: expected specs, found none")
    translator = translator or PenstockTranslator()
    defined = [define(spec, partitions_def, translator) for spec in specs]
    checks = [
        check_spec(each.asset.key, each.spec.verify, partitions_def, blocking=blocking)
        for each in defined
        if each.spec.verify != "none"
    ]
    assets = [each.asset for each in defined]
    if group_name is not None:
        assets = [
            asset if asset.group_name else asset.replace_attributes(group_name=group_name)
            for asset in assets
        ]
    if backfill_policy is None and partitions_def is not None:
        backfill_policy = dg.BackfillPolicy.single_run()
    with warnings.catch_warnings():
        # It is about backfill policies, new in Dagster 1.3; the user may not have passed any.
        warnings.simplefilter("ignore", dg.BetaWarning)
        make = dg.multi_asset(
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
        assets_def = make(_as_step(function))
        register(assets_def, defined)
        return assets_def

    return decorate


def source_assets(*copies: dg.AssetsDefinition) -> list[dg.AssetSpec]:
    """Return the assets that copies read, with descriptions and kinds, for `dg.Definitions`.

    Without them, Dagster has only the keys of the upstream assets.

    Parameters:
        copies: results of `penstock_assets`.

    Raises:
        DagsterInvariantViolationError: an argument is something else.
    """
    found = [each.source for copy in copies for each in definitions_of(copy).values()]
    return [*{source.key: source for source in found if source is not None}.values()]


def _as_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step, which fails if the function discards the events and so copies nothing."""

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yielded = function(*args, **kwargs)
        if not isinstance(yielded, Iterable):
            raise dg.DagsterInvariantViolationError(
                f"{function.__name__}: expected a function that yields what is copied (yield from "
                f"penstock.copy(context)), found one that returns {type(yielded).__name__}; "
                "nothing was copied"
            )
        yield from yielded

    return step
