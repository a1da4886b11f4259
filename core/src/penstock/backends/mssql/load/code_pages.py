"""Characters that a column's code page lacks, and that the server would replace."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mssql.catalog.tables import CODE_PAGE
from penstock.backends.mssql.types import TYPES
from penstock.backends.shared.values.guards import ValueGuard
from penstock.backends.sql.catalog.relations import TYPE
from penstock.model.tables import Column

_UTF8 = 65001


def guards_of(column: Column) -> Iterator[ValueGuard]:
    """Yield the guards of a column's type and collation."""
    yield from TYPES.guards(column.traits[TYPE])
    if page := code_page(column):
        advice = "change the column's type to nvarchar, or its collation to a UTF-8 one"
        yield ValueGuard(
            f"characters of code page {page} ({advice})", lambda array: unencodable(array, page)
        )


def code_page(column: Column) -> int:
    """Return a column's code page; 0 if it holds any character."""
    page = int(column.traits[CODE_PAGE])
    return 0 if page == _UTF8 else page


def unencodable(texts: pa.Array, page: int) -> pa.Array:
    """Return for each value whether it has a character that the code page lacks."""
    odd = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
    if not pc.any(odd).as_py():
        return odd
    codec = _codec(page)
    if not _lacks(codec, "".join(texts.filter(odd).to_pylist())):
        return pc.and_(odd, False)
    return pa.array(
        [value is not None and _lacks(codec, value) for value in texts.to_pylist()], pa.bool_()
    )


def _lacks(codec: str, value: str) -> bool:
    try:
        value.encode(codec)
    except UnicodeEncodeError:
        return True
    return False


def _codec(page: int) -> str:
    """Return the codec of a code page.

    For an unknown code page, only characters that all have are certain to arrive.
    """
    try:
        return codecs.lookup(f"cp{page}").name
    except LookupError:
        return "ascii"
