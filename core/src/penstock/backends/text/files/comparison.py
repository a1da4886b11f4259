"""The contents of a target's text files, for verification."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from penstock.backends.parquet.files.comparison import Comparing
from penstock.backends.parquet.files.listing import ListedFile, local_file
from penstock.backends.parquet.files.scan import whole_file
from penstock.backends.parquet.files.types import travelling
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.load.storage import TextStorage
from penstock.backends.text.location import TextOptions


class TextComparing(Comparing):
    """A comparison over one dataset of text files.

    Args:
        schema: the schema of the rows; its metadata says which columns are JSON, or name the
            folders.
        is_whole: whether to compare the one file of all partitions instead of the parts.
    """

    def __init__(
        self, storage: TextStorage, schema: pa.Schema, options: TextOptions, *, is_whole: bool
    ) -> None:
        super().__init__(storage, schema)
        fields = [
            pa.field(part.name, travelling(part.type), part.nullable, part.metadata)
            for part in schema
        ]
        self._schema = pa.schema(fields)
        self._whole = storage.whole if is_whole else ""
        is_part = bool(storage.whole) and not is_whole
        self._options = replace(options, header=False) if is_part else options
        self._names = schema.names if not self._options.header else ()

    @cached_property
    def _listed(self) -> dict[str, ListedFile]:
        if self._whole:
            return {self._whole: local_file(self._whole, os.stat(self._whole))}
        return Comparing._listed.func(self)  # type: ignore[attr-defined, no-any-return]

    def _count(self, paths: Sequence[str]) -> int:
        parts = [whole_file(file) for file in self._files(paths)]
        return sum(batch.num_rows for batch in self._scan().batches(parts, self._schema.names[:1]))

    def _scan(self) -> TextScan:
        return TextScan(self._file_system, self._schema, self._options, "target", names=self._names)
