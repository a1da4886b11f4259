"""The types in which values of files are sent: values arrive for every encoding of a file."""

from __future__ import annotations

import datetime
import decimal
import uuid

import pyarrow as pa
import pytest

from penstock.backends.parquet.files.types import converted, engine, travelling

D = decimal.Decimal
WHEN = datetime.datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=datetime.UTC)
ID = uuid.UUID(int=7)

CASES = [
    (pa.array(["a", None], pa.string_view()), pa.string()),
    (pa.array(["a", None], pa.large_string()), pa.string()),
    (pa.array([b"a", None], pa.binary_view()), pa.binary()),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
    (pa.array([1.5, None], pa.float32()).cast(pa.float16()), pa.float32()),
    (pa.array([D("1.50"), None], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pa.array([D("1.50"), None], pa.decimal256(60, 2)), pa.decimal256(60, 2)),
    (pa.array([datetime.date(2024, 2, 29)], pa.date64()), pa.date32()),
    (pa.array([datetime.time(1, 2, 3)], pa.time32("s")), pa.time64("us")),
    (pa.array([WHEN, None], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "UTC")),
    (pa.array([ID.bytes, None], pa.uuid()), pa.uuid()),
    (pa.array(["{}", None], pa.json_()), pa.string()),
    (pa.nulls(2), pa.int32()),
    (pa.array([["a", None], None], pa.list_view(pa.string_view())), pa.list_(pa.string())),
    (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.list_(pa.int32())),
    (
        pa.array([{"a": "x"}, None], pa.struct([("a", pa.large_string())])),
        pa.struct([("a", pa.string())]),
    ),
    (
        pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string_view())),
        pa.map_(pa.string(), pa.string()),
    ),
    (pa.array([datetime.timedelta(seconds=1)], pa.duration("us")), pa.duration("us")),
]


@pytest.mark.parametrize(
    ("array", "expected"), CASES, ids=lambda case: str(getattr(case, "type", ""))
)
def test_values_arrive(array: pa.Array, expected: pa.DataType) -> None:
    type_ = travelling(array.type)
    assert type_ == expected
    assert travelling(type_) == type_
    arrived = converted(array, type_)
    assert arrived.type == type_
    assert arrived.to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    ("array", "expected"), CASES, ids=lambda case: str(getattr(case, "type", ""))
)
def test_types_unknown_to_duckdb_survive_a_round_trip(
    array: pa.Array, expected: pa.DataType
) -> None:
    arrived = converted(array, expected)
    arrived_values = arrived.cast(engine(expected))
    assert arrived_values.cast(expected).to_pylist() == arrived.to_pylist()


def test_dictionaries_of_views_are_supported() -> None:
    values = pa.array(["x", "y"], pa.string_view())
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), values)
    assert converted(array, travelling(array.type)).to_pylist() == ["y", None, "x"]
