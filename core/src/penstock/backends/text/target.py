"""Text files as a target: checked before any change, compared afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.backends.api.facts import Checksum, Fit, LoadRequest
from penstock.backends.api.worker import ROWS
from penstock.backends.parquet.control import folder_control
from penstock.backends.parquet.load.fence import replaces_files
from penstock.backends.parquet.target import ParquetTarget
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.values.arrow import arrow_type, schema_from_text, schema_to_text
from penstock.backends.text.files.comparison import TextComparing
from penstock.backends.text.files.values import FOLDER, JSON
from penstock.backends.text.load.steps import WHOLE, TextSteps, with_whole_file
from penstock.backends.text.load.storage import TextStorage, open_text_storage
from penstock.backends.text.load.texts import is_nested, stored_as
from penstock.backends.text.location import identity, parse
from penstock.errors import PlanningError
from penstock.model.extents import Extent
from penstock.model.plans import LoadPlan
from penstock.model.records import CommitRecord
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, TableRef

# Type names of JSON columns, in any system.
_JSON_TYPES = ("json", "jsonb")
_AS_JSON = "json"
# The trait of a column with the names of all columns of the files.
_ALL = "all"


class TextTarget(ParquetTarget):
    """The catalog of text files as a target.

    Args:
        url: the URL of one file or of a folder.
    """

    _storage: TextStorage

    def __init__(self, url: str, control_schema: str) -> None:
        self._text = parse(url, "--target")
        super().__init__(url, control_schema)

    def _opened(self, url: str, control_schema: str) -> TextStorage:
        return open_text_storage(url, control_schema)

    def _controlled(self) -> RecordedRuns:
        return folder_control(self._storage, self._presence, TextSteps)

    def identity(self, table: TableRef) -> str:
        return identity(self._text)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        defined = super().defined_columns(table, definition, columns, types)
        return self._described(
            replace(mine, type=_AS_JSON)
            if theirs.type.lower() in _JSON_TYPES and theirs.name not in types
            else mine
            for theirs, mine in zip(columns, defined, strict=True)
        )

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        schema = schema_from_text(self._manifest().schema)
        return self._described(
            replace(column, type=_AS_JSON) if schema.field(column.name).metadata == JSON else column
            for column in super().columns(table)
        )

    def _described(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Return all columns, each with facts that decide whether rows of CSV can be stored."""
        columns = tuple(columns)
        names = [column.name for column in columns]
        delimiter = self._text.options.delimiter
        why = "" if delimiter == "," else f"values are separated by {delimiter!r}"
        return tuple(
            replace(column, traits={**column.traits, _ALL: names, ROWS: why}) for column in columns
        )

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        names = [column.name for column in target]
        fits = []
        for mine, theirs, fit in zip(source, target, super().fit(source, target), strict=True):
            # JSON may be formatted differently when it is read back.
            canonical = "" if _is_json(theirs) else fit.canonical
            # Rows have all columns of the files, in their order.
            stored = names == theirs.traits.get(_ALL) and _is_stored_alike(mine, theirs)
            formats = (ROWS, *fit.formats) if stored and not fit.reason else fit.formats
            fits.append(replace(fit, canonical=canonical, formats=formats))
        return fits

    # Plans

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        whole = self._storage.whole
        if whole:
            self._check_whole(request)
        load = super().plan_load(request)
        schema = schema_from_text(load.schema)
        for column in request.new_columns if request.definition is not None else ():
            if column.type == _AS_JSON:
                place = schema.get_field_index(column.name)
                schema = schema.set(place, schema.field(place).with_metadata(JSON))
        load = replace(load, schema=schema_to_text(schema))
        return with_whole_file(load, self._storage) if whole else load

    def _check_whole(self, request: LoadRequest) -> None:
        """Check whether a single file can take a load.

        Raises:
            PlanningError: the file exists, is a folder, or cannot hold what the load writes.
        """
        whole, mode = self._storage.whole, request.mode
        if os.path.isdir(whole):
            raise PlanningError(
                f"target: {self._storage}: expected a file or nothing, found a folder (write "
                f"{whole}/*{self._storage.format.suffix} for files in it)"
            )
        folder = f"a folder, such as {os.path.dirname(whole)}/*{self._storage.format.suffix}"
        for option in ("partition_by", "file_size"):
            if request.writing.get(option):
                flag = "--" + option.replace("_", "-")
                raise PlanningError(f"{flag}: expected {folder}; found one file, {whole}")
        if replaces_files(mode) and (request.where is not None or request.has_given_partitions):
            raise PlanningError(
                f"--mode {mode}: one file, {whole}, cannot tell the rows of a condition or "
                f"partition apart; use {folder}, or --mode truncate, which replaces the whole file"
            )
        if not (replaces_files(mode) or mode.empties_before) and os.path.exists(whole):
            raise PlanningError(
                f"--mode {mode}: {whole} exists, and rows cannot be added to one file; use --mode "
                f"truncate to replace it, or {folder}"
            )

    # Comparing

    def _schema(self) -> pa.Schema:
        current = self._manifest()
        return pa.schema(
            part.with_metadata(FOLDER) if part.name in current.partition_by else part
            for part in schema_from_text(current.schema)
        )

    def _comparing(self, *, is_whole: bool = False) -> TextComparing:
        return TextComparing(self._storage, self._schema(), self._text.options, is_whole=is_whole)

    def _is_whole(self) -> bool:
        """Whether the rows are in the single file instead of its parts."""
        whole = self._storage.whole
        return bool(whole) and os.path.exists(whole) and not self._storage.uploads.visible()

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        if self._is_whole():
            comparing = self._comparing(is_whole=True)
            return comparing.checksum([self._storage.whole], where, extent, pairs)
        return super().checksum(table, where, extent, pairs)

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        digest_others: bool,
    ) -> Mapping[str, Checksum] | None:
        run_ids = [record.transaction for record in records[:1]]
        if self._storage.whole and any(
            WHOLE in done for done in self.control.steps.done(run_ids).values()
        ):
            return None  # the parts no longer exist
        return super().checksums(table, where, records, pairs, digest_others=digest_others)

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        not_loaded_by: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        if self._is_whole():
            comparing = self._comparing(is_whole=True)
            return comparing.row_digests(
                [self._storage.whole], where, extent, pairs, key, only_keys
            )
        return super().row_digests(
            table,
            where,
            extent,
            pairs,
            key,
            only_keys,
            loaded_by=loaded_by,
            not_loaded_by=not_loaded_by,
        )


def _is_json(column: Column) -> bool:
    return column.type == _AS_JSON or is_nested(arrow_type(column))


def _is_stored_alike(source: Column, target: Column) -> bool:
    """Whether the source's CSV has a column's values as the files do."""
    if source.traits.get(ROWS) != "" or target.traits.get(ROWS) != "":
        return False
    same_type = bool(stored_as(arrow_type(source)) == arrow_type(target))
    return same_type and (target.nullable or not source.nullable)
