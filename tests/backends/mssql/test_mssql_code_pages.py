"""Which characters a code page has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.backends.mssql.code_pages import first_unknown


@pytest.mark.parametrize(
    ("page", "text", "known"),
    [
        (1252, "\u20ac\u00df", True),
        (1252, "\u0416", False),
        (1251, "\u0416", True),
        (874, "\u0e01", True),
        (932, "\u65e5", True),
        (936, "\u65e5", True),
        (949, "\ud55c", True),
        (950, "\u65e5", True),
        (950, "\ud55c", False),
        (1258, "\U0001f418", False),
        (437, "\u00e9", True),
        (1, "\u00e9", False),  # there is none
        (1, "e", True),
    ],
)
def test_each(page: int, text: str, known: bool) -> None:
    texts = pa.array(["plain", None, "", "a" + text, text])
    assert first_unknown(texts, page) == (None if known else 3)


def test_nothing() -> None:
    assert first_unknown(pa.array([], pa.string()), 1252) is None
    assert first_unknown(pa.array([None], pa.large_string()), 1252) is None
