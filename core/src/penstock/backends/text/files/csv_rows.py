"""CSV as columns of texts: an unquoted empty value is NULL, a quoted one is an empty text."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyarrow import csv

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.csv_quotes import (
    MOST_HEADER_BYTES,
    NOT_CLOSED,
    Survey,
    first_row,
    survey,
)
from penstock.backends.text.files.streams import TextStream
from penstock.backends.text.location import TextOptions
from penstock.model import values

# A row must fit into a block; if it does not, the file is read again with larger blocks.
BLOCK_BYTES, MOST_ROW_BYTES = 4 << 20, 1 << 30
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_NOT_UTF8 = re.compile(r"In CSV column #(\d+): Row #(\d+): .*invalid UTF8")

_OTHER_ENCODING = (
    "expected UTF-8, found other bytes; convert the file first, as with iconv -f latin1 -t utf-8"
)

Opened = Callable[[], TextStream]
"""Opens the file at its beginning."""


def names_of(opened: Opened, options: TextOptions) -> tuple[str, ...]:
    """Return the columns' names, ``c1``, ``c2`` ... if the file has none; empty for an empty file.

    Raises:
        Broken: two columns have the same name, or the file cannot be parsed.
    """
    most = MOST_HEADER_BYTES if options.header else MOST_ROW_BYTES
    row = first_row(opened, options.delimiter, most)
    if not row:
        return ()
    try:
        names_row = row.decode()
    except UnicodeDecodeError:
        raise Broken(f"row 1: {_OTHER_ENCODING}") from None
    reader = _reader(io.BytesIO(names_row.encode()), options, len(row) + 1, None)
    header = reader.schema.names
    reader.close()
    names = [name if options.header and name else f"c{n}" for n, name in enumerate(header, 1)]
    for name, count in Counter(names).items():
        if count > 1:
            raise Broken(
                f"its header has two columns {name!r}; expected distinct names (if the first line "
                "is a row, add ?header=false to the file's name)"
            )
    return tuple(names)


def batches(
    opened: Opened, options: TextOptions, names: Sequence[str], selected: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows as texts.

    Args:
        opened: opens the file at its beginning.
        options: the file's format.
        names: the names of all columns of the file.
        selected: the names of the columns to read, in order.

    Raises:
        Broken: a row has too many or too few values, a quote is not closed, or the text is not
            UTF-8.
    """
    if not names:
        return
    block, passed = BLOCK_BYTES, 0
    while True:
        skipped = passed
        try:
            for batch in _batches(opened, options, names, selected, block):
                if skipped >= batch.num_rows:
                    skipped -= batch.num_rows
                    continue
                new, skipped = batch.slice(skipped), 0
                passed += new.num_rows
                yield new
            return
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                raise
            block = _block_for(survey(opened, options.delimiter), block)


def _block_for(rows: Survey, block: int) -> int:
    """Return a block size that holds every row.

    Raises:
        Broken: a row is too long, maybe because a quote is not closed.
    """
    if rows.open_row is not None:
        raise Broken(f"row {rows.open_row:,}: {NOT_CLOSED}")
    if rows.longest >= MOST_ROW_BYTES or rows.longest < block // 2:
        raise Broken(
            f"row {rows.longest_row:,}: expected at most {MOST_ROW_BYTES:,} bytes, found "
            f"{rows.longest:,}"
        )
    return max(2 * block, rows.longest + BLOCK_BYTES)


def _batches(
    opened: Opened,
    options: TextOptions,
    names: Sequence[str],
    selected: Sequence[str],
    block: int,
) -> Iterator[pa.RecordBatch]:
    last: pa.Buffer | None = None
    with opened() as stream:
        try:
            reader = _reader(stream, options, block, names)
        except pa.ArrowInvalid as error:
            raise _explained(error, names, opened, options) from error
        places = [names.index(name) for name in selected]
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            except pa.ArrowInvalid as error:
                raise _explained(error, names, opened, options) from error
            if batch.num_rows:
                last = batch.column(len(names) - 1)[batch.num_rows - 1].as_buffer()
            yield batch.select(places)
    # The value of a quote that is not closed ends with the file's last line break.
    if last is not None and last.to_pybytes()[-1:] == b"\n":
        rows = survey(opened, options.delimiter)
        if rows.open_row is not None:
            raise Broken(f"row {rows.open_row:,}: {NOT_CLOSED}")


def _reader(
    stream: io.IOBase, options: TextOptions, block: int, names: Sequence[str] | None
) -> csv.CSVStreamingReader:
    convert = csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        column_types={name: pa.string() for name in names or ()},
    )
    return csv.open_csv(
        pa.PythonFile(stream, mode="r"),
        read_options=csv.ReadOptions(
            use_threads=False,
            block_size=block,
            column_names=list(names) if names else None,
            # Not lines, since a name may contain a line break.
            skip_rows_after_names=1 if names and options.header else 0,
            autogenerate_column_names=not names and not options.header,
        ),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter,
            newlines_in_values=True,
            # In a file with a single column, an empty line is a NULL.
            ignore_empty_lines=names is None or len(names) > 1,
        ),
        convert_options=convert,
    )


def _explained(
    error: pa.ArrowInvalid, names: Sequence[str], opened: Opened, options: TextOptions
) -> pa.ArrowInvalid:
    words = str(error)
    if isinstance(error, Broken):
        return error
    if "straddling" in words:
        return pa.ArrowInvalid(words)
    if match := _RAGGED.search(words):
        row, expected, got = map(int, match.groups())
        rows = survey(opened, options.delimiter)
        if rows.open_row is not None and rows.open_row <= row:
            return Broken(f"row {rows.open_row:,}: {NOT_CLOSED}")
        return Broken(
            f"row {row:,}: expected {expected:,} values, as in the first row, found "
            f"{got:,}; values that contain delimiters must be quoted"
        )
    if match := _NOT_UTF8.search(words):
        place, row = int(match[1]), int(match[2])
        name = repr(names[place]) if place < len(names) else f"{place + 1:,}"
        return Broken(f"row {row:,}, column {name}: {_OTHER_ENCODING}")
    return Broken(f"cannot be read as CSV: {values.server_message(words)}")
