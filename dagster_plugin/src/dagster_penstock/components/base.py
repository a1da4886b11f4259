"""The base of components that copy tables: one step, and an asset for each table."""

# No `from __future__ import annotations`: Dagster inspects the types of a step's parameters.
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import dagster as dg
import pydantic
from dagster.components.resolved.core_models import OpSpec
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from dagster_penstock.asset_decorator import penstock_assets
from dagster_penstock.connections import reference, source_ref, target_ref
from dagster_penstock.copies.table_copy import CopyEvent
from dagster_penstock.resource import PenstockResource
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec


def _variables(table: CopiedTable) -> Mapping[str, Any]:
    """Return the variables of templates in `translation`."""
    return {"table": table, "source": source_ref(table.spec), "target": target_ref(table.spec)}


Connection = Annotated[str, pydantic.BeforeValidator(reference)]


class CopiesComponent(dg.Component, dg.Model, dg.Resolvable):
    """The base of components: one step that copies tables, each of which is an asset."""

    # Errors leave out the rest of the input, because a URL may hold a password.
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)

    blocking: Annotated[
        bool,
        dg.Resolver.default(
            description="Whether a failed check keeps downstream assets from running.",
        ),
    ] = False
    op: Annotated[
        OpSpec | None,
        dg.Resolver.default(
            description="The step: its name, tags, pool and backfill policy.",
            examples=[{"pool": "warehouse", "backfill_policy": {"type": "multi_run"}}],
        ),
    ] = None
    translation: Annotated[
        Annotated[TranslationFn[CopiedTable], TranslationFnResolver[CopiedTable](_variables)]
        | None,
        dg.Resolver.default(
            description="Attributes of the assets: keys, groups, owners and so on. Templates can"
            " use `source` and `target`, as in `{{ target.schema }}` and `{{ source.name }}`,"
            " `table` (the argument of `get_asset_spec`) and `spec` (the default asset).",
            examples=[{"key": "warehouse/{{ target.name }}", "group_name": "warehouse"}],
        ),
    ] = None

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """Return a table's asset, to which `translation` is applied.

        Override it to set attributes that templates cannot.
        """
        return PenstockTranslator().get_asset_spec(table)

    def execute(
        self, context: dg.AssetExecutionContext, penstock: PenstockResource
    ) -> Iterator[CopyEvent]:
        """Run the step. Override it to do more before or after the copies."""
        yield from penstock.copy(context)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Create the component's assets and the step that copies them.

        Raises:
            DagsterInvalidDefinitionError: the options of a copy are wrong.
        """
        place = context.component_path.get_relative_key(context.defs_module_path)
        specs, partitions_def = self._copies(context, place)
        if self.blocking and all(spec.verify == "none" for spec in specs):
            raise dg.DagsterInvalidDefinitionError(
                f"{place}: blocking: expected a table with verify counts or checksums, found none"
            )
        op = self.op or OpSpec()

        @penstock_assets(
            specs=specs,
            partitions_def=partitions_def,
            backfill_policy=op.backfill_policy,
            name=op.name or _step_name(place),
            translator=_Translator(self),
            blocking=self.blocking,
            pool=op.pool,
            op_tags=op.tags,
            description=op.description,
        )
        def copies(context: dg.AssetExecutionContext) -> Iterator[CopyEvent]:
            yield from self.execute(context, PenstockResource())

        return dg.Definitions(assets=[copies])

    def _copies(
        self, context: dg.ComponentLoadContext, place: str
    ) -> tuple[Sequence[CopySpec], dg.PartitionsDefinition | None]:
        """Return the copies, and the definition of their partitions.

        Args:
            context: the context in which the component is loaded.
            place: the component's file, for errors.
        """
        raise NotImplementedError


def _step_name(place: str) -> str:
    """Return the name of a component's step, which other components in the file do not change."""
    return re.sub(r"\W+", "_", place.removesuffix("[0]")).strip("_")


class _Translator(PenstockTranslator):
    """The translation of a component, with its `translation`."""

    def __init__(self, component: CopiesComponent) -> None:
        self._component = component

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        asset = self._component.get_asset_spec(table)
        translation = self._component.translation
        return asset if translation is None else translation(asset, table)
