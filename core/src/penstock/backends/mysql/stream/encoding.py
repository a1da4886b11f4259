"""Record batches as the rows of a statement, with a few calls of Arrow per column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mysql.stream.texts import texts
from penstock.backends.mysql.types import MyType
from penstock.backends.shared.values.arrow import first_failing, shown, too_fine
from penstock.backends.sql.catalog.relations import TYPE
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import Column

_LARGE = 1 << 30
"""The size in bytes above which texts, with their separators, might exceed 2 GB."""


def kind(column: Column) -> str:
    """Return how values are written in a statement: as `text`, `bits` or `bytes`."""
    type_: MyType = column.traits[TYPE]
    return "bytes" if type_.binary else "bits" if type_.name == "bit" else "text"


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a statement's rows."""

    row_start: str
    separator: str
    row_end: str
    null: str
    escaped_characters: tuple[bytes, ...]
    """Characters that need a backslash in a text."""
    quotes: Mapping[str, tuple[str, str]]
    """The text before and after the values of a kind."""


INFILE = Syntax("", "\t", "\n", r"\N", (b"\\", b"\t", b"\n"), {})
VALUES = Syntax("(", ",", "),", "NULL", (b"\\", b"'"), {"text": ("'", "'"), "bytes": ("X'", "'")})


class RowEncoder:
    """An encoder that turns the batches of one stream into rows.

    Args:
        columns: the table's columns, with their traits, in the order of the batches.
        syntax: the syntax of the statement that receives the rows.
        table: the table, for error messages.
    """

    def __init__(self, columns: Sequence[Column], syntax: Syntax, table: str) -> None:
        self._columns = columns
        self._syntax = syntax
        self._table = table
        self.encoded_rows = 0
        """Rows of the batches so far."""

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return a text for each row, contiguous in memory.

        Raises:
            PermanentError: a value does not fit; names the column, the row (counted from 1 in the
                stream) and the value.
        """
        syntax = self._syntax
        columns = [
            self._encode_column(array, column)
            for array, column in zip(batch.columns, self._columns, strict=True)
        ]
        large = sum(column.nbytes for column in columns) > _LARGE
        text = pa.large_string() if large else pa.string()
        columns = [column.cast(text) for column in columns]
        # The statement's own text is added to two columns; adding it to whole rows would take
        # longer.
        columns[0] = self._enclose(syntax.row_start, columns[0], "")
        columns[-1] = self._enclose("", columns[-1], syntax.row_end)
        self.encoded_rows += batch.num_rows
        return self._join(*columns, pa.scalar(syntax.separator, text))

    def _enclose(self, before: str, array: pa.Array, after: str) -> pa.Array:
        parts = [pa.scalar(text, array.type) for text in (before, after, "")]
        return self._join(parts[0], array, *parts[1:]) if before or after else array

    def _join(self, *parts: pa.Array | pa.Scalar) -> pa.Array:
        return pc.binary_join_element_wise(
            *parts, null_handling="replace", null_replacement=self._syntax.null
        )

    def _encode_column(self, array: pa.Array, column: Column) -> pa.Array:
        if array.null_count and not column.nullable:
            row = pc.index(array.is_null(), True).as_py()
            raise self._refusal(column, array, row)
        attempt = partial(texts, column=column)
        try:
            values = attempt(array)
        except (ValueError, pa.ArrowException) as error:
            raise self._refusal(column, array, first_failing(array, attempt)) from error
        form = kind(column)
        if form == "text":
            values = _escaped(values, self._syntax.escaped_characters)
        if form in self._syntax.quotes:
            parts = (pa.scalar(text, values.type) for text in (*self._syntax.quotes[form], ""))
            before, after, nothing = parts
            values = pc.binary_join_element_wise(before, values, after, nothing)
        return values

    def _refusal(self, column: Column, array: pa.Array, row: int) -> PermanentError:
        place = f"column {column.name!r}, row {self.encoded_rows + row + 1:,}: "
        fits = f"a value that fits into {column.type}{'' if column.nullable else ' NOT NULL'}"
        value = shown(array, row) + too_fine(array, row)
        return refusal(self._table, fits, value, place)


def refusal(table: str, expected: str, value: str, place: str = "") -> PermanentError:
    """Return the error for a column or value that the table does not accept.

    Args:
        table: the quoted name.
        expected: what the table accepts.
        value: what the statement would have sent for this column or value.
        place: the column and row, ending in a colon and a space; empty for the table as a whole.
    """
    return PermanentError(
        f"target: {table}: {place}expected {expected}, found {value}", Diagnosis(side="target")
    )


def _escaped(array: pa.Array, characters: Sequence[bytes]) -> pa.Array:
    """Put a backslash before each of these characters."""
    _, offsets, content = array.buffers()
    if not content:
        return array
    # Searching all texts at once for a character takes microseconds.
    ends = memoryview(offsets).cast("q" if pa.types.is_large_string(array.type) else "i")
    together = bytes(content[ends[array.offset] : ends[array.offset + len(array)]])
    if not any(character in together for character in characters):
        return array
    pattern = "[" + re.escape(b"".join(characters).decode()) + "]"
    return pc.replace_substring_regex(array, pattern, r"\\\0")
