"""Rows of CSV that pass through while their values are checked, if types are given.

Blocks of whole rows pass as they are. From the first block on that both systems might read
differently, or that has a value of another type, rows are parsed as always, and written anew.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_
from pyarrow import csv

from penstock.backends.parquet.errors import Broken
from penstock.backends.shared.values.arrow import is_text
from penstock.backends.text.files import csv_rows
from penstock.backends.text.files.csv_quotes import MOST_HEADER_BYTES, first_row
from penstock.backends.text.files.passing import end_of_rows, is_proper
from penstock.backends.text.files.streams import PIECE, TextStream
from penstock.backends.text.files.values import EXACT, typed, typed_batch
from penstock.backends.text.location import TextOptions

# A longer row is parsed.
MOST_ROW_BYTES = 64 << 20
_WRITTEN = csv.WriteOptions(include_header=False, quoting_style="all_valid")


class CheckedRows:
    """The rows of one file.

    Args:
        begin: opens the file at its beginning.
        options: the file's format, with commas as delimiters.
        schema: the columns of the file, in order, with the types of their values.
    """

    def __init__(
        self, begin: Callable[[], TextStream], options: TextOptions, schema: pa.Schema
    ) -> None:
        self._begin = begin
        self._options = options
        self._schema = schema
        # Arrow cannot parse UUIDs; texts may be anything.
        self._parsed = {
            part.name: part.type for part in schema if not (is_text(part.type) or _is_uuid(part))
        }
        self._read = {
            **dict.fromkeys(schema.names, pa.binary()),
            **{part.name: pa.string() for part in schema if _is_uuid(part)},
            **self._parsed,
        }
        checked = [name for name, kind in self._read.items() if not is_.is_binary(kind)]
        self._checked = checked or schema.names[:1]

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield rows with their number, without the header.

        Raises:
            Broken: the file has other columns, or a value is of another type; names the row.
        """
        names = csv_rows.names_of(self._begin, self._options)
        if not names:
            return
        if list(names) != self._schema.names:
            raise Broken(
                f"expected the columns {', '.join(self._schema.names)}, in this order, found "
                f"{', '.join(names)}"
            )
        passed = 0
        for block in self._blocks():
            rows = self._rows_of(block)
            if rows is None:
                yield from self._rewritten(passed)
                return
            passed += rows
            yield block, rows

    def _blocks(self) -> Iterator[bytes]:
        skipped = 0
        if self._options.header:
            skipped = len(first_row(self._begin, self._options.delimiter, MOST_HEADER_BYTES))
        with self._begin() as stream:
            held = b""
            while piece := stream.read(max(PIECE, len(held))):  # so each byte is seen about twice
                if skipped:
                    piece, skipped = piece[skipped:], max(0, skipped - len(piece))
                held += piece
                end = end_of_rows(held)
                if end:
                    yield held[:end]
                    held = held[end:]
                elif len(held) > MOST_ROW_BYTES:
                    break
            if held:
                yield held

    def _rows_of(self, block: bytes) -> int | None:
        """Return the number of rows of a block that can pass; None if it has to be parsed."""
        if not is_proper(block):
            return None
        try:
            if not block.isascii():
                block.decode()
            rows = csv.read_csv(
                pa.py_buffer(block),
                csv.ReadOptions(
                    use_threads=False, block_size=len(block) + 1, column_names=self._schema.names
                ),
                csv.ParseOptions(newlines_in_values=True),
                csv.ConvertOptions(
                    check_utf8=False,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                    include_columns=self._checked,
                    column_types=self._read,
                ),
            )
            for name in self._checked:
                if is_.is_floating(self._read[name]):
                    if not _are_small(rows[name]):
                        return None
                elif is_text(self._read[name]):
                    for texts in rows[name].chunks:
                        typed(texts, self._schema.field(name).type)
        except (pa.ArrowException, ValueError):
            return None
        return int(rows.num_rows)

    def _rewritten(self, passed: int) -> Iterator[tuple[bytes, int]]:
        """Yield the rows after the first ones, parsed and written anew."""
        names = self._schema.names
        row = 1 + self._options.header
        for texts in csv_rows.batches(self._begin, self._options, names, names):
            skipped = min(passed, texts.num_rows)
            passed -= skipped
            row += skipped
            if left := texts.num_rows - skipped:
                rest = texts.slice(skipped)
                typed_batch(rest, self._schema, row, given=True)
                row += left
                written = io.BytesIO()
                csv.write_csv(rest, written, _WRITTEN)
                yield written.getvalue(), left


def _is_uuid(part: pa.Field) -> bool:
    return bool(part.type == pa.uuid())


def _are_small(numbers: pa.ChunkedArray) -> bool:
    """Whether doubles distinguish all whole numbers around; the texts of others are examined."""
    finite = pc.fill_null(pc.is_finite(numbers), True)
    if not pc.all(finite).as_py():
        return False
    most = pc.max(pc.abs(numbers)).as_py()
    return most is None or most < EXACT
