"""Components that copy tables, defined in `defs.yaml` or by a file of many tables next to it."""

# No `from __future__ import annotations`: Dagster inspects the types of a step's parameters.
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import dagster as dg
import pydantic
from dagster.components.resolved.core_models import OpSpec
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from dagster_penstock.asset_decorator import penstock_assets
from dagster_penstock.components.options import (
    CopyOptions,
    OrTemplate,
    TableCopy,
    copy_specs,
    resolve_connection,
    resolve_options,
    resolve_tables,
)
from dagster_penstock.components.partitions import Partitions, resolve_partitions
from dagster_penstock.components.scaffolder import CopyTablesScaffolder
from dagster_penstock.connections import source_ref, target_ref
from dagster_penstock.copies.table_copy import Copied
from dagster_penstock.definition import reference
from dagster_penstock.resource import PenstockResource
from dagster_penstock.tables_file import specs_of_file
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec


def _variables(table: CopiedTable) -> Mapping[str, Any]:
    """Return the variables for templates in `translation`."""
    return {"table": table, "source": source_ref(table.spec), "target": target_ref(table.spec)}


_Connection = Annotated[str, pydantic.BeforeValidator(reference)]


class _CopiesComponent(dg.Component, dg.Model, dg.Resolvable):
    """A step that copies tables, each of which is an asset."""

    # Errors leave out the rest of the input, because a URL may hold a password.
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)

    blocking: Annotated[
        bool,
        dg.Resolver.default(
            description="A failed check keeps downstream assets from running.",
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
            description="Attributes of the assets: keys, groups, owners and so on. Templates may"
            " use `target` and `source`, such as `{{ target.schema }}` and `{{ source.name }}`,"
            " `table`, the argument of get_asset_spec, and `spec`, the default asset.",
            examples=[{"key": "warehouse/{{ target.name }}", "group_name": "warehouse"}],
        ),
    ] = None

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """Return a table's asset before `translation`; override it to do what templates cannot."""
        return PenstockTranslator().get_asset_spec(table)

    def execute(
        self, context: dg.AssetExecutionContext, penstock: PenstockResource
    ) -> Iterator[Copied]:
        """Run the step; override it to do more before or after the copies."""
        yield from penstock.copy(context)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Create the component's assets and the step that copies them.

        Raises:
            DagsterInvalidDefinitionError: a table cannot be copied as requested.
        """
        place = context.component_path.get_relative_key(context.defs_module_path)
        specs, partitions_def = self._copies(context, place)
        if self.blocking and all(spec.verify == "none" for spec in specs):
            raise dg.DagsterInvalidDefinitionError(
                f"{place}: blocking needs a check: set verify to counts or checksums"
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
        def copies(context: dg.AssetExecutionContext) -> Iterator[Copied]:
            yield from self.execute(context, PenstockResource())

        return dg.Definitions(assets=[copies])

    def _copies(
        self, context: dg.ComponentLoadContext, place: str
    ) -> tuple[Sequence[CopySpec], dg.PartitionsDefinition | None]:
        """Return the copies, and the definition of their partitions.

        Parameters:
            place: the component's file, for errors.
        """
        raise NotImplementedError


@dg.scaffold_with(CopyTablesScaffolder)
class CopyTablesComponent(_CopiesComponent):
    """Copies big tables between databases in parallel, each partition exactly once.

    Every table is an asset, with a check if `verify` asks for one. One step copies the tables of a
    component; those between the same two databases at the same time, in `degree` streams.

    To get started: `dg scaffold defs dagster_penstock.CopyTablesComponent copies`
    """

    source: Annotated[
        _Connection,
        dg.Resolver(
            resolve_connection,
            model_field_type=str,
            inject_before_resolve=False,
            description="Where rows come from: a URL, or the environment variable that holds it,"
            " read when a copy begins.",
            examples=["{{ env.PG_SRC }}", "env:PG_SRC"],
        ),
    ] = pydantic.Field(repr=False)
    target: Annotated[
        _Connection,
        dg.Resolver(
            resolve_connection,
            model_field_type=str,
            inject_before_resolve=False,
            description="Where rows go: a URL, or the environment variable that holds it,"
            " read when a copy begins.",
            examples=["{{ env.PG_DST }}", "env:PG_DST"],
        ),
    ] = pydantic.Field(repr=False)
    tables: Annotated[
        Sequence[Mapping[str, Any]],
        dg.Resolver(
            resolve_tables,
            model_field_type=list[TableCopy],
            description="The copies: each with a table or a query, unless its source is files, and"
            " with options of its own, source and target included.",
            examples=[
                [{"table": "public.orders", "target_table": "dw.orders", "key": "o_orderdate"}]
            ],
        ),
    ]
    options: Annotated[
        Mapping[str, Any],
        dg.Resolver(
            resolve_options,
            model_field_type=CopyOptions,
            description="Options of a copy, for all tables.",
            examples=[{"mode": "replace", "degree": 4, "verify": "checksums"}],
        ),
    ] = {}
    partitions: Annotated[
        dg.PartitionsDefinition | None,
        dg.Resolver(
            resolve_partitions,
            model_field_type=Partitions,
            description="Partitions of every asset, and so of its copy: time windows, or values or"
            " ranges of `key`. None: whole tables.",
            examples=[{"type": "daily", "start_date": "1992-01-01", "timezone": "Europe/Berlin"}],
        ),
    ] = None

    @classmethod
    def model(cls) -> type[pydantic.BaseModel]:
        """Return the schema of `attributes`, whose errors name the option and its line."""
        return _with_templates(super().model())

    def _copies(
        self, context: dg.ComponentLoadContext, place: str
    ) -> tuple[Sequence[CopySpec], dg.PartitionsDefinition | None]:
        specs = copy_specs(self.source, self.target, self.options, self.tables, place)
        return specs, self.partitions


class CopyFileComponent(_CopiesComponent):
    """Copies the tables of a file, `penstock.toml`, with the options of its sections.

    Each table that a section names is an asset, with a check if `verify` asks for one. One step
    copies all of them from one snapshot.
    """

    file: Annotated[
        str,
        dg.Resolver.default(
            description="The file: its path from the folder of this one.",
            examples=["penstock.toml"],
        ),
    ] = "penstock.toml"
    tables: Annotated[
        Sequence[str],
        dg.Resolver.default(
            description="Names of more tables, which sections of the file match by patterns.",
            examples=[["public.log_visits"]],
        ),
    ] = ()
    source: Annotated[
        _Connection | None,
        dg.Resolver(
            resolve_connection,
            model_field_type=str | None,
            inject_before_resolve=False,
            description="Where rows come from, instead of what the file says.",
            examples=["{{ env.PG_SRC }}", "env:PG_SRC"],
        ),
    ] = pydantic.Field(default=None, repr=False)
    target: Annotated[
        _Connection | None,
        dg.Resolver(
            resolve_connection,
            model_field_type=str | None,
            inject_before_resolve=False,
            description="Where rows go, instead of what the file says.",
            examples=["{{ env.PG_DST }}", "env:PG_DST"],
        ),
    ] = pydantic.Field(default=None, repr=False)

    def _copies(
        self, context: dg.ComponentLoadContext, place: str
    ) -> tuple[Sequence[CopySpec], dg.PartitionsDefinition | None]:
        path = context.path if context.path.is_dir() else context.path.parent
        ends = {"source": self.source, "target": self.target}
        return specs_of_file(path / self.file, tables=self.tables, **ends), None


def _step_name(place: str) -> str:
    """Return a step's name, which stays the same when another component is added to the file."""
    return re.sub(r"\W+", "_", place.removesuffix("[0]")).strip("_")


@cache
def _with_templates(model: type[pydantic.BaseModel]) -> type[pydantic.BaseModel]:
    types: dict[str, Any] = {
        "tables": list[TableCopy],  # type: ignore[valid-type]
        "options": CopyOptions,
        "partitions": Partitions,
    }
    changed: dict[str, Any] = {
        name: (Annotated[type_, OrTemplate()], model.model_fields[name])
        for name, type_ in types.items()
    }
    return pydantic.create_model(model.__name__, __base__=model, **changed)


class _Translator(PenstockTranslator):
    def __init__(self, component: _CopiesComponent) -> None:
        self._component = component

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        asset = self._component.get_asset_spec(table)
        translation = self._component.translation
        return asset if translation is None else translation(asset, table)
