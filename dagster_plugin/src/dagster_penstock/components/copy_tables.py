"""The component that copies the tables listed in `defs.yaml`."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import dagster as dg
import pydantic

from dagster_penstock.components.base import (
    Connection,
    CopiesComponent,
    place_of_component,
)
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


@dg.scaffold_with(CopyTablesScaffolder)
class CopyTablesComponent(CopiesComponent):
    """Copies big tables between databases in parallel, each partition exactly once.

    Every table is an asset, with a check if `verify` is set. One step copies all tables of the
    component; those between the same two databases share `degree` streams and a snapshot.

    To get started: `dg scaffold defs dagster_penstock.CopyTablesComponent copies`
    """

    source: Annotated[
        Connection,
        dg.Resolver(
            resolve_connection,
            model_field_type=str,
            inject_before_resolve=False,
            description="The source: a URL, or the environment variable that holds it, which is"
            " read when a copy begins.",
            examples=["{{ env.PG_SRC }}", "env:PG_SRC"],
        ),
    ] = pydantic.Field(repr=False)
    target: Annotated[
        Connection,
        dg.Resolver(
            resolve_connection,
            model_field_type=str,
            inject_before_resolve=False,
            description="The target: a URL, or the environment variable that holds it, which is"
            " read when a copy begins.",
            examples=["{{ env.PG_DST }}", "env:PG_DST"],
        ),
    ] = pydantic.Field(repr=False)
    tables: Annotated[
        Sequence[Mapping[str, Any]],
        dg.Resolver(
            resolve_tables,
            model_field_type=list[TableCopy],
            description="The copies, each with a table or a query unless its source is files. Their"
            " options override `options`, `source` and `target`.",
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
            description="Options for all tables.",
            examples=[{"mode": "replace", "degree": 4, "verify": "checksums"}],
        ),
    ] = {}
    partitions: Annotated[
        dg.PartitionsDefinition | None,
        dg.Resolver(
            resolve_partitions,
            model_field_type=Partitions,
            description="Partitions of every asset: windows, values or ranges of `key`. Without"
            " them, whole tables are copied.",
            examples=[{"type": "daily", "start_date": "1992-01-01", "timezone": "Europe/Berlin"}],
        ),
    ] = None

    @classmethod
    def model(cls) -> type[pydantic.BaseModel]:
        """Return the schema of `attributes`, whose errors name the option and its line."""
        return _with_templates(super().model())

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Create the component's assets and the step that copies them.

        Raises:
            DagsterInvalidDefinitionError: the options of a copy are wrong.
        """
        place = place_of_component(context)
        specs = copy_specs(self.source, self.target, self.options, self.tables, place)
        return self.define(context, specs, self.partitions)


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
