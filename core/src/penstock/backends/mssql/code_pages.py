"""Texts of columns whose collation has a code page: each has few characters."""

from __future__ import annotations

import codecs

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mssql.catalog import CODE_PAGE
from penstock.model.tables import Column

_UTF8 = 65001


def code_page(column: Column) -> int:
    """0 where a column holds any character."""
    page = int(column.traits[CODE_PAGE])
    return 0 if page == _UTF8 else page


def first_unknown(texts: pa.Array, page: int) -> int | None:
    """The first value with a character that a code page does not have; None where there is none."""
    plain = pc.string_is_ascii(texts).fill_null(True)
    if pc.all(plain).as_py() is not False:
        return None
    codec = _codec(page)
    odd = pc.indices_nonzero(pc.invert(plain))
    values = texts.take(odd).to_pylist()
    try:
        "".join(values).encode(codec)
    except UnicodeEncodeError:
        pass
    else:
        return None
    return next(
        int(row) for row, value in zip(odd.to_pylist(), values, strict=True) if _lacks(codec, value)
    )


def _lacks(codec: str, value: str) -> bool:
    try:
        value.encode(codec)
    except UnicodeEncodeError:
        return True
    return False


def _codec(page: int) -> str:
    """Where there is none, only what all of them have is known to arrive."""
    try:
        return codecs.lookup(f"cp{page}").name
    except LookupError:
        return "ascii"
