"""The base of components that copy tables: one step, and an asset for each table."""

# No `from __future__ import annotations`: Dagster inspects the types of a step's parameters.
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

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


_NUMBER = re.compile(r"\[(\d+)\]$")
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
            examples=[
                {
                    "pool": "warehouse",
                    "backfill_policy": {"type": "multi_run", "max_partitions_per_run": 30},
                }
            ],
        ),
    ] = None
    workers: Annotated[
        int | None,
        dg.Resolver.default(
            description="The number of workers that share the partitions of the component's only"
            " table, each in a step of its own; by default one step copies everything.",
            examples=[4],
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

    _folder: Path | None = pydantic.PrivateAttr(default=None)
    _folder_name: str = pydantic.PrivateAttr(default="")
    _number: int = pydantic.PrivateAttr(default=0)
    """The number of the document in its file."""

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

    @classmethod
    def load(cls, attributes: pydantic.BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Load the component of a file, and note where it is."""
        component = super().load(attributes, context)
        component._locate(context)
        return component

    def _locate(self, context: dg.ComponentLoadContext) -> None:
        """Note the folder of the component, and its number there."""
        number = _NUMBER.search(place_of_component(context))
        self._number = int(number[1]) if number else 0
        self._folder = context.path if context.path.is_dir() else context.path.parent
        names = self._folder.absolute().relative_to(context.defs_module_path.absolute()).parts
        self._folder_name = "/".join([context.defs_module_name, *names])

    def define(
        self,
        context: dg.ComponentLoadContext,
        specs: Sequence[CopySpec],
        partitions_def: dg.PartitionsDefinition | None,
    ) -> dg.Definitions:
        """Create the assets of copies, and the step that runs them.

        Args:
            context: the context in which the component is loaded.
            specs: the copies.
            partitions_def: the partitions of every asset; None for whole tables.

        Raises:
            DagsterInvalidDefinitionError: the options of a copy are wrong.
        """
        place = place_of_component(context)
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
            workers=self.workers,
        )
        def copies(context: dg.AssetExecutionContext) -> Iterator[CopyEvent]:
            yield from self.execute(context, PenstockResource())

        return dg.Definitions(assets=[copies])


def place_of_component(context: dg.ComponentLoadContext) -> str:
    """Return the name of a component's file, and its number there, for errors."""
    place: str = context.component_path.get_relative_key(context.defs_module_path)
    return place


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
