"""The rows of CSV, found by its quotes alone: the first one, the longest, and one that never ends.

A quote opens a quoted value only at the beginning of a value, as for Arrow's reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.streams import TextStream

MOST_HEADER_BYTES = 64 << 20
NOT_CLOSED = (
    'a quote (") that opens here is not closed; expected each quote within a quoted value to be '
    "doubled"
)


@dataclass(slots=True)
class Survey:
    """The rows of a file."""

    open_row: int | None = None
    """The row, counted from 1, with a quote that is never closed; None if all are closed."""
    longest: int = 0
    """The length of the longest row in bytes."""
    longest_row: int = 1
    """The number of that row."""


def first_row(opened: Callable[[], TextStream], delimiter: str) -> bytes:
    """Return the first row that is not blank, with its line break; empty if there is none.

    Raises:
        Broken: the row never ends.
    """
    mark = re.escape(delimiter.encode())
    value = rb'(?:"[^"]*(?:""[^"]*)*")?[^%b\r\n]*' % mark
    row = re.compile(rb"[\r\n]*(%b(?:%b%b)*[\r\n]+)" % (value, mark, value))
    content = b""
    with opened() as stream:
        while piece := stream.read():
            content += piece
            match = row.match(content)
            if match is not None and match[1].strip(b"\r\n"):
                return match[1]
            if len(content) > MOST_HEADER_BYTES:
                break
    if not content.strip(b"\r\n"):
        return b""
    raise Broken(f"row 1: {NOT_CLOSED}")


def survey(opened: Callable[[], TextStream], delimiter: str) -> Survey:
    """Read a file for the lengths of its rows, and a quote that is never closed."""
    found = Survey()
    begins = (delimiter.encode(), b"\n", b"\r")
    row, row_of_quote, length = 1, 1, 0
    quoted = at_quote = False
    previous = b"\n"
    with opened() as stream:
        while piece := stream.read():
            at = 0
            while at < len(piece):
                if at_quote:  # either the end of the value, or the first of two quotes
                    at_quote = False
                    if piece[at : at + 1] == b'"':
                        at, length = at + 1, length + 1
                    else:
                        quoted = False
                    continue
                quote = piece.find(b'"', at)
                end = len(piece) if quote < 0 else quote
                if quoted:
                    length += end - at
                else:
                    first, *others = piece[at:end].split(b"\n")
                    length += len(first)
                    for line in others:
                        if length > found.longest:
                            found.longest, found.longest_row = length, row
                        row, length = row + 1, len(line)
                at = end
                if quote >= 0:
                    before = piece[quote - 1 : quote] if quote else previous
                    at, length = at + 1, length + 1
                    if quoted:
                        at_quote = True
                    elif before in begins:
                        quoted, row_of_quote = True, row
            previous = piece[-1:]
    if quoted and not at_quote:
        found.open_row = row_of_quote
    return found
