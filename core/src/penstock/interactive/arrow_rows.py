"""Rows of this process as the source of a copy."""

from __future__ import annotations

import weakref
from typing import Any, Self
from urllib.parse import quote

from penstock.errors import UsageError


class ArrowRows(str):
    """Rows of this process, for `CopySpec.source`: a text that keeps what it stands for.

    Workers read the rows over a socket in a private folder, which exists as long as this object.
    The copy has one partition. A table (of pandas, Polars, pyarrow; anything with a ``shape``) is
    read again by another attempt or another run. A stream (`pyarrow.RecordBatchReader`) is read
    once: if an attempt that has begun to read it fails, the run fails with nothing committed.

    Args:
        rows: a `pyarrow.RecordBatchReader`, or any object with ``__arrow_c_stream__``.

    Raises:
        UsageError: the object has no rows in Arrow.
    """

    description = "ArrowRows"
    """What messages call it, instead of the URL."""

    def __new__(cls, rows: Any) -> Self:
        from penstock.backends.shared.served_rows import RowServer  # noqa: PLC0415 - pyarrow

        if not hasattr(rows, "__arrow_c_stream__"):
            raise UsageError(
                "source: expected a pyarrow.RecordBatchReader or another object with "
                f"__arrow_c_stream__, found {type(rows).__name__}"
            )
        server = RowServer(rows)
        self = super().__new__(cls, f"arrow+unix://{quote(server.path)}")
        weakref.finalize(self, server.close)
        return self
