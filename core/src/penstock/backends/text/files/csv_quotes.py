"""The rows of CSV, found by its quotes alone: the first one, the longest, and one that never ends.

A quote opens a quoted value only at the beginning of a value, as for Arrow's reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.streams import PIECE, TextStream

MOST_HEADER_BYTES = 64 << 20
_QUOTES = re.compile(rb'"*')
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


def first_row(opened: Callable[[], TextStream], delimiter: str, most: int) -> bytes:
    """Return the first row that is not blank, with its line break; empty if there is none.

    Args:
        opened: opens the file at its beginning.
        delimiter: the delimiter of values.
        most: the maximum number of bytes in the row.

    Raises:
        Broken: the row never ends, or is longer.
    """
    ends = re.compile(rb"[%b\r\n]" % re.escape(delimiter.encode()))
    content, wanted = b"", 0
    with opened() as stream:
        while piece := stream.read(max(PIECE, len(content))):  # so each byte is seen about twice
            content += piece
            if not wanted:
                content = content.lstrip(b"\r\n")
            wanted = _end_of_row(content, ends)
            if wanted:
                return content[:wanted]
            if len(content) > most:
                break
    if not content.strip(b"\r\n"):
        return b""
    raise Broken(f"row 1: {NOT_CLOSED}")


def _end_of_row(content: bytes, ends: re.Pattern[bytes]) -> int:
    """Return the position after the first row's line break; 0 if the content has no end of it.

    Args:
        content: begins with the row.
        ends: a delimiter or a line break.
    """
    at = 0
    while True:
        if content[at : at + 1] == b'"':
            at = _after_quoted(content, at)
        match = ends.search(content, at) if at >= 0 else None
        if match is None:
            return 0
        at = match.end()
        if match[0] in b"\r\n":
            return at


def _after_quoted(content: bytes, at: int) -> int:
    """Return the position after a quoted value; -1 if it does not end.

    Args:
        content: the row.
        at: the position of the quote that opens the value.
    """
    at += 1
    while True:
        quote = content.find(b'"', at)
        if quote < 0:
            return -1
        at = _after_quotes(content, quote)
        if (at - quote) % 2:  # all others are in pairs
            return at


def _after_quotes(content: bytes, at: int) -> int:
    match = _QUOTES.match(content, at)
    assert match is not None  # it also matches nothing
    return match.end()


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
                    if quoted:
                        at = _after_quotes(piece, quote)
                        at_quote = (at - quote) % 2 == 1  # all others are in pairs
                    else:
                        at += 1
                        if before in begins:
                            quoted, row_of_quote = True, row
                    length += at - quote
            previous = piece[-1:]
    if quoted and not at_quote:
        found.open_row = row_of_quote
    return found
