"""The component that copies the tables of a file, `penstock.toml`, next to `defs.yaml`."""

from collections.abc import Sequence
from typing import Annotated

import dagster as dg
import pydantic

from dagster_penstock.components.base import Connection, CopiesComponent
from dagster_penstock.components.options import resolve_connection
from dagster_penstock.connections import check_not_refused
from dagster_penstock.tables_file import specs_of_file
from penstock import CopySpec, UsageError


class CopyFileComponent(CopiesComponent):
    """Copies the tables of a file, `penstock.toml`, with the options of its sections.

    Each table that a section names is an asset, with a check if `verify` is set. One step copies
    all of them from one snapshot.
    """

    file: Annotated[
        str,
        dg.Resolver.default(
            description="The path of the file, relative to the folder of `defs.yaml`.",
            examples=["penstock.toml"],
        ),
    ] = "penstock.toml"
    tables: Annotated[
        Sequence[str],
        dg.Resolver.default(
            description="Names of further tables, which match patterns of the file's sections.",
            examples=[["public.log_visits"]],
        ),
    ] = ()
    source: Annotated[
        Connection | None,
        dg.Resolver(
            resolve_connection,
            model_field_type=str | None,
            inject_before_resolve=False,
            description="The source, in place of the file's.",
            examples=["{{ env.PG_SRC }}", "env:PG_SRC"],
        ),
    ] = pydantic.Field(default=None, repr=False)
    target: Annotated[
        Connection | None,
        dg.Resolver(
            resolve_connection,
            model_field_type=str | None,
            inject_before_resolve=False,
            description="The target, in place of the file's.",
            examples=["{{ env.PG_DST }}", "env:PG_DST"],
        ),
    ] = pydantic.Field(default=None, repr=False)

    def _copies(
        self, context: dg.ComponentLoadContext, place: str
    ) -> tuple[Sequence[CopySpec], dg.PartitionsDefinition | None]:
        path = context.path if context.path.is_dir() else context.path.parent
        ends = {"source": self.source, "target": self.target}
        for side, connection in ends.items():
            try:
                check_not_refused(side, connection)
            except UsageError as error:
                raise dg.DagsterInvalidDefinitionError(f"{place}: {error.message}") from None
        return specs_of_file(path / self.file, tables=self.tables, **ends), None
