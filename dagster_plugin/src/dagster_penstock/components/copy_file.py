"""The component that copies the tables of a file, `penstock.toml`, next to `defs.yaml`."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click
import dagster as dg
import pydantic
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig

from dagster_penstock.components.base import Connection, CopiesComponent
from dagster_penstock.components.catalog_state import CatalogState
from dagster_penstock.components.options import resolve_connection
from dagster_penstock.components.partitions import Partitions, resolve_partitions
from dagster_penstock.components.scaffolder import CopyFileScaffolder
from dagster_penstock.connections import check_not_refused
from dagster_penstock.tables_file import REFRESH, batch_of_definition, definition_errors
from dagster_penstock.translator import CopiedTable
from penstock import BatchSpec, FoundTables, find_tables

_LOGGER = logging.getLogger("dagster.penstock")


@dg.scaffold_with(CopyFileScaffolder)
class CopyFileComponent(dg.StateBackedComponent, CopiesComponent):
    """Copies the tables of a file, `penstock.toml`, with the options of its sections.

    Each table is an asset, with a check if `verify` is set. One step copies all of them from one
    snapshot. Tables that patterns match are read from the source's catalog by
    `dg utils refresh-defs-state`, which lists what has changed; loading the definitions connects
    to no database.

    To get started: `dg scaffold defs dagster_penstock.CopyFileComponent copies`
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
            description="Patterns that select some of the file's tables; by default all of them.",
            examples=[["sales.*"]],
        ),
    ] = ()
    exclude: Annotated[
        Sequence[str],
        dg.Resolver.default(
            description="Patterns of tables to leave out.", examples=[["sales.tmp_*"]]
        ),
    ] = ()
    partitions: Annotated[
        dg.PartitionsDefinition | None,
        dg.Resolver(
            resolve_partitions,
            model_field_type=Partitions | None,
            description="Partitions of every asset: windows, values or ranges of `key`. Without"
            " them, whole tables are copied.",
            examples=[{"type": "daily", "start_date": "1992-01-01"}],
        ),
    ] = None
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
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.local_filesystem()

    _before: CatalogState | None = pydantic.PrivateAttr(default=None)
    _comments: Mapping[str, str] = pydantic.PrivateAttr(default_factory=dict)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the state is kept: by default in a file of the project."""
        return DefsStateConfig.from_args(self.defs_state, default_key=self._default_key)

    async def refresh_state(self, project_root: Path) -> str:
        """Refresh the state, and list what has changed since the one before."""
        self._before = _stored_state(self.defs_state_config, project_root)
        version: str = await super().refresh_state(project_root)
        return version

    def write_state_to_path(self, state_path: Path) -> None:
        """Read the source's catalog, write it to a file, and list what has changed since.

        Raises:
            PenstockError: the file is wrong, a pattern matches nothing, or the source cannot be
                reached; the state stays as it was.
        """
        state = CatalogState.now(find_tables(self._batch()))
        state.write(state_path)
        lines = [f"  {line}" for line in state.changes_since(self._before)]
        count = len(state.found.tables)
        head = f"{self.defs_state_config.key}: {count} table{'s' * (count != 1)}"
        if self._before is not None:
            head += f"; {'changed' if lines else 'nothing changed'} since {self._before.read_at}"
        # Standard output is that of `dg list defs --json`, for instance.
        click.echo("\n".join([head, *lines]), err=True)

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        """Create the assets of the tables that the file names, and of those in the state.

        Raises:
            DagsterInvalidDefinitionError: the file, or the options of a copy, are wrong.
        """
        state = CatalogState.read(state_path)
        found = FoundTables() if state is None else state.found
        self._comments = {table.name: table.comment for table in found.tables if table.comment}
        with definition_errors():
            batch = self._batch()
            specs = batch.specs_of_known(found.refs, found.schemas)
        if state is None and batch.has_patterns:
            _LOGGER.warning(
                f"{self.file_path}: the tables that its patterns match are not known yet, so they "
                f"are no assets: run {REFRESH}"
            )
        return self.define(context, specs, self.partitions) if specs else dg.Definitions()

    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        """Return a table's asset; its description begins with the comment of the source's table."""
        asset = super().get_asset_spec(table)
        comment = self._comments.get(table.spec.source_name)
        if not comment:
            return asset
        return asset.replace_attributes(description=f"{comment}\n\n{asset.description}")

    @property
    def file_path(self) -> Path:
        """The path of the file.

        Raises:
            DagsterInvalidDefinitionError: it is relative, and no `defs.yaml` has the component.
        """
        if self._folder is None and not Path(self.file).is_absolute():
            raise dg.DagsterInvalidDefinitionError(
                "CopyFileComponent: file: expected an absolute path, because the component is "
                f"created in Python; found {self.file!r}"
            )
        return (self._folder or Path()) / self.file

    @property
    def _default_key(self) -> str:
        """The key of the state: the same on every machine, and another for every component."""
        number = f" {self._number}" if self._number else ""
        return f"CopyFileComponent[{self._folder_name}/{self.file}{number}]"

    def _batch(self) -> BatchSpec:
        """Return the tables of the file that are selected.

        Raises:
            UsageError: the file cannot be read or is wrong, or a URL holds a password.
        """
        ends = {"source": self.source, "target": self.target}
        for side, connection in ends.items():
            check_not_refused(side, connection)
        selection = {"tables": tuple(self.tables), "exclude": tuple(self.exclude)}
        selected = {name: patterns for name, patterns in selection.items() if patterns}
        return batch_of_definition(self.file_path, ends, selected)


def _stored_state(config: DefsStateConfig, project_root: Path) -> CatalogState | None:
    """Return the state that is stored; None if there is none, or Dagster does not tell."""
    try:
        # Not part of Dagster's public API: without it, every table is listed as new.
        from dagster._core.definitions.definitions_load_context import (  # noqa: PLC0415
            DefinitionsLoadContext,
        )
        from dagster._core.storage.defs_state.base import DefsStateStorage  # noqa: PLC0415
    except ImportError:
        return None
    try:
        storage = DefsStateStorage.get()
        with DefinitionsLoadContext.get().state_path(config, storage, project_root) as path:
            return CatalogState.read(path)
    except KeyError:  # kept in the memory of a code server that has just started
        return None
