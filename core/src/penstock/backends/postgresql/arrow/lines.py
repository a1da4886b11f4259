"""Rows as text lines that other systems load unchanged: see `api.worker.LINES`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow.types as pt
from psycopg import sql

from penstock.backends.api.worker import LINES
from penstock.backends.postgresql.arrow.types import arrow_type_of
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.session.statements import copy_format
from penstock.model.tables import Column

# COPY also escapes two more characters by a letter: form feed and vertical tab.
# https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2
_LETTERS = {rb"\f": b"\f", rb"\v": b"\v"}
_LETTER = re.compile(rb"\\[fv]")
_ESCAPE = re.compile(rb"\\.", re.S)


class Lines:
    """The lines of one stream.

    Args:
        columns: the source columns to read, with this server's traits.
        native: whether lines are gathered outside the interpreter, which trims values for less
            than the server.
    """

    copy_options = copy_format(LINES)
    block_bytes = 1 << 17
    """Bytes per block. Larger gains nothing."""

    def __init__(self, columns: Sequence[Column], *, native: bool = False) -> None:
        self._columns = columns
        self.trimmed = [native and _is_padded(column) for column in columns]
        """For each column whether its values arrive with blanks at their end that do not count."""

    @property
    def select_list(self) -> sql.Composed:
        """The select list of a COPY in text format that writes such lines."""
        return sql.SQL(", ").join(map(_expression, self._columns, self.trimmed))

    def decode(self, block: bytes | memoryview) -> memoryview:
        """Rewrite COPY's lines for the other system.

        Args:
            block: whole lines from COPY.
        """
        if not _LETTER.search(block):
            return memoryview(block)
        return memoryview(_ESCAPE.sub(lambda match: _LETTERS.get(match[0], match[0]), block))


def _is_padded(column: Column) -> bool:
    bare = data_type(column).bare
    return (bare.kind, bare.schema, bare.name) == ("base", "pg_catalog", "bpchar")


def _expression(column: Column, trimmed: bool) -> sql.Composable:
    type_ = arrow_type_of(column)
    name = sql.Identifier(column.name)
    if trimmed:
        return name
    if pt.is_boolean(type_):
        return sql.SQL("{}::pg_catalog.int4").format(name)
    if pt.is_binary(type_):
        return sql.SQL("pg_catalog.encode({}, 'hex')").format(name)
    if pt.is_timestamp(type_) and type_.tz:
        return sql.SQL("pg_catalog.timezone('UTC', {})").format(name)
    # Checksums use the text of a cast, which for some types differs from that in a stream.
    return sql.SQL("{}::pg_catalog.text").format(name) if pt.is_string(type_) else name
