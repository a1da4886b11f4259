"""Days, times and bytes between a server's text and Arrow's numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.postgresql.arrow.encoder import Encoder, binary_form
from penstock.backends.postgresql.arrow.parsing import parse
from penstock.backends.postgresql.arrow.texts import as_json, hexadecimal
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.shared.texts.plain_texts import date_text
from penstock.backends.shared.texts.plain_values import days, microseconds
from penstock.backends.shared.values.arrow import compacted, exactly, first_failing
from penstock.backends.shared.values.hex_values import from_hex, uuids
from penstock.backends.shared.values.text_values import Refused
from penstock.errors import PermanentError
from penstock.model.tables import Column

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_days_match_the_calendar(day: date) -> None:
    number = (day - EPOCH.date()).days
    assert days(day.isoformat()) == number
    assert date_text(number) == day.isoformat()


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_day_survives_a_round_trip(number: int) -> None:
    assert days(date_text(number)) == number


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_match_the_moment(moment: datetime) -> None:
    expected = (moment - EPOCH) // timedelta(microseconds=1)
    assert microseconds(moment.replace(tzinfo=None).isoformat(" ")) == expected
    assert microseconds(f"{moment.replace(tzinfo=None).isoformat(' ')}+00") == expected


BYTES = st.lists(st.none() | st.binary(max_size=5), max_size=5)


@given(BYTES, st.integers(0, 3))
def test_bytes_survive_a_round_trip(values: list[bytes | None], offset: int) -> None:
    """This includes slices, which begin within the buffers of their array."""
    digits = pa.array([None if v is None else v.hex() for v in values], pa.string())
    assert from_hex(digits[offset:]).to_pylist() == values[offset:]
    texts = hexadecimal(pa.array(values, pa.binary())[offset:]).to_pylist()
    assert texts == [None if v is None else "\\x" + v.hex() for v in values[offset:]]


@given(st.lists(st.none() | st.uuids(), max_size=5), st.integers(0, 3))
def test_uuids_are_read_from_hexadecimal(values: list[object], offset: int) -> None:
    digits = pa.array([None if v is None else str(v).replace("-", "") for v in values], pa.string())
    assert uuids(digits[offset:]).to_pylist() == values[offset:]


@pytest.mark.parametrize("place", [0, 1, 499, 998, 999])
def test_the_first_rejected_value_is_found(place: int) -> None:
    texts = [b"2026-01-01"] * 1000
    texts[place] = b"infinity"
    with pytest.raises(Refused) as caught:
        parse(pa.array([*texts, b"infinity"]), pa.date32())
    assert (caught.value.index, caught.value.text) == (place, "infinity")


def test_values_outside_a_slice_are_ignored() -> None:
    lists = pa.array([[1], [2], [1 << 40]], pa.list_(pa.int64()))
    list_type = pa.list_(pa.int32())
    with pytest.raises(pa.ArrowInvalid):  # Arrow's own cast also looks at values outside the slice
        lists[:2].cast(list_type)
    assert compacted(lists[:2]).cast(list_type).to_pylist() == [[1], [2]]
    assert first_failing(lists, lambda part: part.cast(list_type)) == 2


def test_values_as_json() -> None:
    value = {"a": [1, 1.5, None, True, 'é"\n'], "b": date(2026, 1, 2), "c": b"\x00", "d": {}}
    document = '{"a": [1, 1.5, null, true, "é\\"\\n"], "b": "2026-01-02", "c": "00", "d": {}}'
    assert as_json(value) == document
    keys: dict[object, object] = {
        "k": 1,
        2: None,
        True: {},
        Decimal("1E-9"): timedelta(microseconds=1),
    }
    assert as_json(keys) == '{"k": 1, "2": null, "true": {}, "0.000000001": "0.000001"}'
    long = timedelta(days=106_751_991, microseconds=1)  # a float would lose the last digit
    assert as_json(long) == '"9223372022400.000001"'
    with pytest.raises(ValueError, match="twice"):
        as_json({1: "a", "1": "b"})
    with pytest.raises(ValueError, match="JSON"):
        as_json(float("nan"))


def test_types_that_only_the_server_can_parse_have_no_binary_form() -> None:
    text = DataType(25, "pg_catalog", "text", "base", "S", True, True, "", "text", True)
    day = DataType(1082, "pg_catalog", "date", "base", "D", True, True, "", "date", True)
    assert binary_form(pa.string(), text) == pa.string()
    assert binary_form(pa.string(), day) is None
    assert binary_form(pa.int32(), text) == pa.string()
    assert binary_form(pa.timestamp("ns"), day) == pa.date32()


def array_of(element: DataType) -> DataType:
    return replace(element, name=f"_{element.name}", kind="array", components=(element,))


def base(name: str) -> DataType:
    return DataType(0, "pg_catalog", name, "base", "", True, True, "", name, True)


def numbers(type_: pa.DataType, value: int) -> pa.Array:
    """Return an array whose value may have no equivalent in Python."""
    return pa.array([value], pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)


def listed(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)


PAIRS = pa.map_(pa.string(), pa.int32())
GRID = pa.list_(pa.list_(pa.int32()))


@pytest.mark.parametrize(
    ("array", "target"),
    [
        # The server's numbers for -infinity.
        (numbers(pa.date32(), -(1 << 31) + 10_957), base("date")),
        (listed(numbers(pa.date32(), -(1 << 31) + 10_957)), array_of(base("date"))),
        (numbers(pa.timestamp("us"), -(1 << 63) + 946_684_800_000_000), base("timestamp")),
        # More days than 32 bits can represent.
        (numbers(pa.timestamp("ms"), -(1 << 63)), base("date")),
        (pa.array([[1e39]]), array_of(base("float4"))),
        (pa.array([Decimal("9" * 76)], pa.decimal256(76, 0)), base("float4")),
        (pa.array([-1]), base("oid")),
        (pa.array([[1 << 33]]), array_of(base("oid"))),
        (numbers(pa.time64("us"), -1), base("text")),
        (pa.StructArray.from_arrays([numbers(pa.time64("us"), -1)], ["a"]), base("jsonb")),
        (pa.array([[("k", 1), ("k", 2)]], PAIRS), base("jsonb")),
        (pa.array([[None]], GRID), array_of(base("int4"))),
        (pa.array([[[]]], GRID), array_of(base("int4"))),
    ],
    ids=lambda value: getattr(value, "name", "") or str(value.type),
)
@pytest.mark.parametrize("all_send", [True, False])
def test_a_value_that_does_not_fit_is_rejected_with_its_row(
    array: pa.Array, target: DataType, *, all_send: bool
) -> None:
    """In the binary and in the text form."""
    column = Column("a", target.name, True, traits={"type": target})
    chunk = pa.concat_arrays([pa.nulls(2, array.type), array])
    batch = pa.RecordBatch.from_arrays([chunk], ["a"])
    with pytest.raises(PermanentError, match="column 'a', row 3: "):
        Encoder(batch.schema, [column], "t", all_send=all_send).encode(batch)


@pytest.mark.parametrize(
    ("array", "type_", "expected"),
    [
        (pa.array([Decimal("99.99"), None]), pa.float64(), [99.99, None]),
        (pa.array([Decimal("0." + "9" * 76)], pa.decimal256(76, 76)), pa.float32(), [1.0]),
        (pa.array([[Decimal("99.99")], None, []])[1:], pa.list_(pa.float64()), [None, []]),
        (pa.array([[Decimal("99.99")]]), pa.list_(pa.float64(), 1), [[99.99]]),
        (
            pa.array([{"a": Decimal("99.99")}, None]),
            pa.struct({"a": pa.float64()}),
            [{"a": 99.99}, None],
        ),
        (pa.array([math.inf, 1e-50]), pa.float32(), [math.inf, 0.0]),
    ],
)
def test_exact_casts_keep_values(
    array: pa.Array, type_: pa.DataType, expected: list[object]
) -> None:
    assert exactly(array, type_).to_pylist() == expected
    assert exactly(array, type_).type == type_


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([1e39]), pa.float32()),
        (pa.array([{"a": [1e39]}]), pa.struct({"a": pa.list_(pa.float32())})),
        (numbers(pa.timestamp("s"), (1 << 63) - 1), pa.date32()),
    ],
)
def test_casts_that_lose_values_are_rejected(array: pa.Array, type_: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        exactly(array, type_)


@given(st.lists(st.none() | st.uuids(), max_size=5), st.integers(0, 3))
def test_uuids_and_texts_convert_both_ways(values: list[UUID | None], start: int) -> None:
    texts = pa.array([None if value is None else str(value) for value in values], pa.string())
    found = exactly(texts[start:], pa.uuid())
    assert found.to_pylist() == values[start:]
    assert exactly(found, pa.string()) == texts[start:]


@pytest.mark.parametrize("text", ["", "0" * 32, "0" * 36, "00112233-4455-6677-8899-AABBCCDDEEFG"])
def test_a_text_that_is_no_uuid_is_rejected(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no UUID"):
        exactly(pa.array([None, text]), pa.uuid())
