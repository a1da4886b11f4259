"""Days, times and bytes between a server's text and Arrow's numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.arrow import first_failing, own
from penstock.backends.postgresql.arrow_in import binary_form
from penstock.backends.postgresql.arrow_parsing import (
    Refused,
    days,
    from_hex,
    microseconds,
    parse,
    uuids,
)
from penstock.backends.postgresql.arrow_texts import as_json, date_text, hexadecimal
from penstock.backends.postgresql.datatypes import DataType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_days_are_those_of_the_calendar(day: date) -> None:
    number = (day - EPOCH.date()).days
    assert days(day.isoformat()) == number
    assert date_text(number) == day.isoformat()


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_day_is_read_as_it_is_written(number: int) -> None:
    assert days(date_text(number)) == number


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds(moment: datetime) -> None:
    expected = (moment - EPOCH) // timedelta(microseconds=1)
    assert microseconds(moment.replace(tzinfo=None).isoformat(" ")) == expected
    assert microseconds(f"{moment.replace(tzinfo=None).isoformat(' ')}+00") == expected


BYTES = st.lists(st.none() | st.binary(max_size=5), max_size=5)


@given(BYTES, st.integers(0, 3))
def test_bytes(values: list[bytes | None], offset: int) -> None:
    """Also where an array begins within its buffers, as one that was cut does."""
    digits = pa.array([None if v is None else v.hex() for v in values], pa.string())
    assert from_hex(digits[offset:]).to_pylist() == values[offset:]
    written = hexadecimal(pa.array(values, pa.binary())[offset:]).to_pylist()
    assert written == [None if v is None else "\\x" + v.hex() for v in values[offset:]]


@given(st.lists(st.none() | st.uuids(), max_size=5), st.integers(0, 3))
def test_uuids(values: list[object], offset: int) -> None:
    digits = pa.array([None if v is None else str(v).replace("-", "") for v in values], pa.string())
    assert uuids(digits[offset:]).to_pylist() == values[offset:]


@pytest.mark.parametrize("place", [0, 1, 499, 998, 999])
def test_the_first_value_that_is_refused(place: int) -> None:
    texts = [b"2026-01-01"] * 1000
    texts[place] = b"infinity"
    with pytest.raises(Refused) as caught:
        parse(pa.array([*texts, b"infinity"]), pa.date32())
    assert (caught.value.index, caught.value.found) == (place, "infinity")


def test_values_that_an_array_was_cut_from_do_not_count() -> None:
    lists = pa.array([[1], [2], [1 << 40]], pa.list_(pa.int64()))
    wanted = pa.list_(pa.int32())
    with pytest.raises(pa.ArrowInvalid):  # a cast of them looks at what is not theirs
        lists[:2].cast(wanted)
    assert own(lists[:2]).cast(wanted).to_pylist() == [[1], [2]]
    assert first_failing(lists, lambda part: part.cast(wanted)) == 2


def test_json() -> None:
    value = {"a": [1, 1.5, None, True, 'é"\n'], "b": date(2026, 1, 2), "c": b"\x00", "d": {}}
    written = '{"a": [1, 1.5, null, true, "é\\"\\n"], "b": "2026-01-02", "c": "00", "d": {}}'
    assert as_json(value) == written
    assert as_json([("k", 1), (2, None)]) == '{"k": 1, "2": null}'
    with pytest.raises(ValueError, match="JSON"):
        as_json(float("nan"))


def test_no_binary_form_for_what_only_the_server_can_read() -> None:
    text = DataType(25, "pg_catalog", "text", "base", "S", True, True, "", "text", True)
    day = DataType(1082, "pg_catalog", "date", "base", "D", True, True, "", "date", True)
    assert binary_form(pa.string(), text) == pa.string()
    assert binary_form(pa.string(), day) is None
    assert binary_form(pa.int32(), text) == pa.string()
    assert binary_form(pa.timestamp("ns"), day) == pa.date32()
