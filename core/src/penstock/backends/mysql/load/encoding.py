"""Record batches as the rows of a statement: a few calls of Arrow for each column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mysql.load.columns import TargetColumn
from penstock.backends.mysql.load.texts import texts
from penstock.backends.shared.arrow import first_failing, shown, too_fine
from penstock.errors import Diagnosis, PermanentError

_LARGE = 1 << 26
"""The texts of a batch of more bytes may have more than 2 GB."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """How the rows of a statement are written."""

    before: str
    between: str
    after: str
    null: str
    escaped: tuple[bytes, ...]
    """Characters that stand in a text after a backslash."""
    around: Mapping[str, tuple[str, str]]
    """What stands before and after the values of a kind."""


INFILE = Syntax("", "\t", "\n", r"\N", (b"\\", b"\t", b"\n"), {})
VALUES = Syntax(
    "(",
    ",",
    "),",
    "NULL",
    (b"\\", b"'"),
    {"text": ("'", "'"), "bytes": ("X'", "'"), "geometry": ("ST_GeomFromWKB(X'", "')")},
)


class Encoder:
    """Turns the batches of one stream into rows.

    Parameters:
        subject: what is loaded, for errors.
    """

    def __init__(self, columns: Sequence[TargetColumn], syntax: Syntax, subject: str) -> None:
        self._columns = columns
        self._syntax = syntax
        self._subject = subject
        self.passed = 0
        """Rows of the batches so far."""

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """A text for each row, one after the other in memory.

        Raises:
            PermanentError: a value does not fit; names the column, the row, counted from 1 in the
                stream, and the value.
        """
        kind = pa.large_string() if batch.nbytes > _LARGE else pa.string()
        syntax = self._syntax
        columns = [
            self._written(array, column).cast(kind)
            for array, column in zip(batch.columns, self._columns, strict=True)
        ]
        columns[0] = self._joined(kind, syntax.before, columns[0], "")
        columns[-1] = self._joined(kind, "", columns[-1], syntax.after)
        self.passed += batch.num_rows
        return self._join(kind, columns, syntax.between)

    def _joined(self, kind: pa.DataType, before: str, array: pa.Array, after: str) -> pa.Array:
        if not before and not after:
            return array
        return self._join(kind, (pa.scalar(before, kind), array, pa.scalar(after, kind)), "")

    def _join(self, kind: pa.DataType, parts: Sequence[object], between: str) -> pa.Array:
        return pc.binary_join_element_wise(
            *parts,
            pa.scalar(between, kind),
            null_handling="replace",
            null_replacement=self._syntax.null,
        )

    def _written(self, array: pa.Array, column: TargetColumn) -> pa.Array:
        if array.null_count and not column.nullable:
            row = pc.index(array.is_null(), True).as_py()
            raise self._refusal(column, array, row, "a value")
        attempt = partial(texts, column=column)
        try:
            found = attempt(array)
        except (ValueError, pa.ArrowException) as error:
            row = first_failing(array, attempt)
            expected = f"a value that fits into {column.definition}"
            raise self._refusal(column, array, row, expected) from error
        kind = column.kind
        if kind == "text":
            found = self._escaped(found)
        if kind in self._syntax.around:
            before, after = (pa.scalar(text, found.type) for text in self._syntax.around[kind])
            nothing = pa.scalar("", found.type)
            found = pc.binary_join_element_wise(before, found, after, nothing)
        return found

    def _escaped(self, array: pa.Array) -> pa.Array:
        """With a backslash before each character that would end a text or begin an escape."""
        content = _content(array)
        if not any(character in content for character in self._syntax.escaped):
            return array
        found = "[" + re.escape("".join(map(bytes.decode, self._syntax.escaped))) + "]"
        return pc.replace_substring_regex(array, found, r"\\\0")

    def _refusal(
        self, column: TargetColumn, array: pa.Array, row: int, expected: str
    ) -> PermanentError:
        return PermanentError(
            f"{self._subject}: column {column.name!r}, row {self.passed + row + 1:,}: expected "
            f"{expected}, found {shown(array, row)}{too_fine(array, row)}",
            Diagnosis(side="target"),
        )


def _content(array: pa.Array) -> bytes:
    """The texts of an array one after the other: to look for a character is a matter of
    microseconds in that."""
    _, offsets, content = array.buffers()
    if not content:
        return b""
    ends = memoryview(offsets).cast("q" if pa.types.is_large_string(array.type) else "i")
    return bytes(content[ends[array.offset] : ends[array.offset + len(array)]])
