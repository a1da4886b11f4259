r"""Whether the rows of CSV files can pass through as they are; see `api.worker.CSV`.

What is within quotes may be anything. What is outside must have no carriage return, no blank line
and no ``\.`` at the beginning of a line; and quotes must be where a value begins and ends.
"""

from __future__ import annotations

import re

_BLANK, _END_OF_DATA = re.compile(rb"\n\n"), re.compile(rb"\n\\\.")
_OVERLAP = 2
_QUOTED = rb'"(?:[^"]++|"")*+"'
# Begins with the character before the first value.
_PROPER = re.compile(rb'[^"]++(?:(?<=[,\n])%b(?=[,\n])[^"]++)*+' % _QUOTED)
_WHOLE = re.compile(rb".%b." % _QUOTED, re.DOTALL)
_IMPROPER = re.compile(rb'"(?<![,\n"]")|"(?![,\n"])')
# Of a value that begins in one piece and ends in a later one.
MOST_QUOTED_BYTES = 64 << 20


def end_of_rows(content: bytes) -> int:
    """Return where the last whole row ends, by its quotes; 0 if there is none.

    Args:
        content: begins with a row.
    """
    open_quotes = content.count(b'"') % 2
    before, end = len(content), content.rfind(b"\n")
    while end >= 0:
        open_quotes = (open_quotes + content.count(b'"', end, before)) % 2
        if not open_quotes:
            return end + 1
        before, end = end, content.rfind(b"\n", 0, end)
    return 0


def is_proper(rows: bytes) -> bool:
    """Whether whole rows can pass through as they are."""
    parts = rows.split(b'"')
    if len(parts) % 2 == 0:
        return False
    # Quotes that are doubled within a value follow each other.
    outside = b"\n" + b'"'.join(parts[::2])
    return not (
        b"\r" in outside
        or b"\n\n" in outside
        or (b"\\" in outside and _END_OF_DATA.search(outside))
        or _IMPROPER.search(outside)
    )


class Outside:
    """The parts of a file's pieces that are outside of quotes."""

    def __init__(self) -> None:
        self._is_quoted = False

    def of(self, piece: bytes) -> bytes:
        """Return what is outside, with one or two quotes in place of a value in quotes.

        Args:
            piece: the next bytes of the file.
        """
        if not self._is_quoted and b'"' not in piece:
            return piece
        parts = piece.split(b'"')
        outside = b'"'.join(parts[self._is_quoted :: 2])
        self._is_quoted ^= len(parts) % 2 == 0
        return outside + b'"' * self._is_quoted


class Dialect:
    """What is unusual in some files."""

    def __init__(self) -> None:
        self.reason = ""
        """Why their rows have to be parsed; empty if they do not."""
        self.begin()

    def note(self, reason: str) -> None:
        """Consider a reason; the first one counts."""
        self.reason = self.reason or reason

    def begin(self) -> None:
        """Begin a file."""
        self._outside = Outside()
        self._before = self._unclear = b"\n"

    def look(self, piece: bytes) -> None:
        """Consider the next bytes of a file."""
        if self.reason:
            return
        outside = self._before + self._outside.of(piece)
        if b"\r" in outside:
            self.note("they have carriage returns")
        elif _BLANK.search(outside):
            self.note("they have blank lines")
        elif _END_OF_DATA.search(outside):
            self.note(r"a line begins with \.")
        elif len(self._unclear) > 1 or b'"' in piece:
            self._look_at_quotes(self._unclear + piece)
        else:
            self._unclear = piece[-1:] or self._unclear
        self._before = outside[-_OVERLAP:]

    def _look_at_quotes(self, content: bytes) -> None:
        """Consider quotes.

        Args:
            content: begins with the character before a value, or before a quote.
        """
        match = _PROPER.match(content)
        end = match.end() if match else 1
        self._unclear = content[end - 1 :]
        if end == len(content):
            return
        if self._unclear[:1] not in (b",", b"\n") or _WHOLE.match(self._unclear):
            self.note("a quote is within a value that does not begin or end with it")
        elif len(self._unclear) > MOST_QUOTED_BYTES:
            self.note("they have long values in quotes")
