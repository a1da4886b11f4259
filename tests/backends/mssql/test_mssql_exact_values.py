"""Values that a column would change, found without a server."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends.mssql.catalog.tables import CODE_PAGE
from penstock.backends.mssql.load.code_pages import guards_of, unencodable
from penstock.backends.mssql.types import MAX, TYPES, MsType
from penstock.backends.shared.values.guards import check_values
from penstock.backends.sql.catalog.relations import TYPE
from penstock.errors import PermanentError
from penstock.model.tables import Column


@pytest.mark.parametrize(
    ("page", "text", "is_in_page"),
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
        (1, "\u00e9", False),  # no such code page
        (1, "e", True),
    ],
)
def test_characters_outside_the_code_page(page: int, text: str, is_in_page: bool) -> None:
    texts = pa.array(["plain", None, "", "a" + text, "b"])
    assert unencodable(texts, page).to_pylist() == [False, False, False, not is_in_page, False]


def test_an_array_without_texts() -> None:
    assert unencodable(pa.array([], pa.string()), 1252).to_pylist() == []
    assert unencodable(pa.array([None], pa.string()), 1252).to_pylist() == [False]


def at(micros: int, day: tuple[int, int, int] = (1960, 2, 3)) -> datetime:
    return datetime(*day, 4, 5, 0, micros)  # noqa: DTZ001


TICKS = [at(micros) for micros in (0, 3000, 7000, 10_000, 993_000, 997_000)]


@pytest.mark.parametrize(
    ("type_", "unchanged", "changed"),
    [
        (MsType("varchar", 3), ["abc", "", None], "abcd"),
        (MsType("nvarchar", MAX), ["abc", None], None),
        (MsType("varbinary", 3), [b"abc", b"", None], b"abcd"),
        (MsType("binary", 3), [b"abc", None], b"ab"),
        (MsType("binary", 3), [b"abc", None], b"abcd"),
        (MsType("time", 0), [time(1, 2, 3), None], time(1, 2, 3, 1)),
        (MsType("time", 6), [time(1, 2, 3, 1)], None),
        (MsType("time", 7), [time(1, 2, 3, 1)], None),
        (MsType("datetime2", 3), [at(1000), at(999_000)], at(1001)),
        (MsType("datetime2", 0), [at(0)], at(500_000)),
        (
            MsType("datetimeoffset", 2),
            [datetime(1, 1, 1, tzinfo=UTC)],
            datetime(1, 1, 1, 0, 0, 0, 1000, UTC),
        ),
        (MsType("smalldatetime"), [at(0), None], at(1)),
        (MsType("smalldatetime"), [at(0, (1900, 1, 1))], at(0, (1899, 12, 31))),
        (MsType("smalldatetime"), [at(0, (2079, 6, 6))], at(0, (2079, 6, 7))),
        (MsType("datetime"), [*TICKS, None], at(1000)),
        (MsType("datetime"), [at(0)], at(3001)),
        (MsType("datetime"), [at(0)], at(995_000)),
        (MsType("datetime"), [at(3000, (2020, 1, 1))], at(4000, (2020, 1, 1))),
        (MsType("datetime"), [at(0, (1753, 1, 1))], at(0, (1752, 12, 31))),
    ],
)
def test_values_that_a_column_would_change(
    type_: MsType, unchanged: list[Any], changed: Any
) -> None:
    columns = [Column("c", str(type_), traits={TYPE: type_, CODE_PAGE: 0})]

    def check(values: list[Any]) -> None:
        array = pa.array(values, TYPES.arrow_type(type_))
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        check_values(batch, [guards_of(each) for each in columns], "target", 10)

    check(unchanged)
    if changed is not None:
        with pytest.raises(
            PermanentError, match=f"column 'c', row {11 + len(unchanged)}: expected "
        ):
            check([*unchanged, changed])
