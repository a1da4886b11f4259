"""Binary COPY decoded and encoded by `penstock_native` without a server, and compared with a real
one."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from penstock.backends.postgresql.arrow.array_encoders import _buffers
from penstock.backends.postgresql.arrow.wire import _array

from .binary_fields import END, HEAD, REFUSED, Field, arrow_type, golden, row, stream

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

native = pytest.importorskip("penstock_native", reason="no cargo: penstock-native is not built")

MORE, READY, _, _, _, NOT_HELD = range(6)
NULL = struct.pack(">i", -1)


def decoded(kinds: list[str], message: bytes) -> list[pa.Array]:
    decoder = native.Decoder(kinds, 1 << 16, 1 << 20)
    assert decoder.feed(message) == READY
    _, _, arrays = decoder.take()
    found = [_array(array, arrow_type(kind)) for array, kind in zip(arrays, kinds, strict=True)]
    for array in found:
        array.validate(full=True)
    return found


@pytest.mark.parametrize("field", golden(), ids=str)
def test_golden_fields_are_decoded(field: Field) -> None:
    if field.expected == REFUSED:
        decoder = native.Decoder([field.kind], 10, 1 << 20)
        assert decoder.feed(HEAD + row(NULL) + row(field.encoded)) == NOT_HELD
        column, place, why, _ = decoder.fault
        assert (column, place) == (0, 1)
        assert why in ("value", "dimensions")
        return
    (array,) = decoded([field.kind], stream(row(NULL), row(field.encoded), row(NULL)))
    assert array.is_null().to_pylist() == [True, False, True]
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    value = array[1].as_py()
    assert (repr if isinstance(value, str | bytes) else str)(value) == field.expected


def test_a_server_sends_the_golden_fields(pair: Pair) -> None:
    pair.source.run("CREATE TYPE mood AS ENUM ('sad', 'glad')", "SET timezone = 'UTC'")
    version = pair.source.connection.info.server_version
    for field in golden():
        if field.type == "numeric(2,-3)" and version < 150000:
            continue
        query = sql.SQL("COPY (SELECT {}::{}) TO STDOUT (FORMAT binary)").format(
            sql.Literal(field.value), sql.SQL(field.type)
        )
        with pair.source.connection.cursor().copy(query) as copy:
            assert b"".join(copy) == stream(row(field.encoded)), field


def test_a_batch_ends_when_it_is_full() -> None:
    rows = [row(struct.pack(">ii", 4, number)) for number in range(10)]
    decoder = native.Decoder(["int32"], 3, 1 << 20)
    found = []
    outcomes = [decoder.feed(message) for message in [HEAD + rows[0], *rows[1:3]]]
    assert outcomes == [MORE, MORE, READY]
    found += _array(decoder.take()[2][0], pa.int32()).to_pylist()
    assert [decoder.feed(message) for message in [rows[3], END]] == [MORE, READY]
    assert not decoder.ended
    found += _array(decoder.take()[2][0], pa.int32()).to_pylist()
    assert decoder.ended
    assert found == [0, 1, 2, 3]
    by_size = native.Decoder(["int32"], 100, 49)
    assert [by_size.feed(m) for m in [HEAD + rows[0], rows[1], rows[2]]] == [MORE, MORE, READY]


def test_each_text_is_validated_by_itself() -> None:
    """Two halves of a character are invalid, although valid when concatenated."""
    halves = [struct.pack(">i", 1) + half for half in (b"\xc3", b"\xa9")]
    for kind, fields, place in [
        ("text", halves, 0),
        ("labels", halves, 0),
        ("text", [NULL, struct.pack(">i", 2) + b"a\xff"], 1),
    ]:
        decoder = native.Decoder([kind], 10, 1 << 20)
        assert decoder.feed(stream(*(row(field) for field in fields))) == NOT_HELD
        assert decoder.fault[:3] == (0, place, "value")
    (array,) = decoded(["bytes"], stream(*(row(half) for half in halves)))
    assert array.to_pylist() == [b"\xc3", b"\xa9"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"PGCOPX\n\xff\r\n\0" + bytes(8), "another beginning"),
        (HEAD[:11] + b"\0\1\0\0" + bytes(4), "flags that are not known"),
        (HEAD[:11] + bytes(4) + b"\xff\xff\xff\xff", "negative length"),
        (HEAD + row(b"\0\0\0\4\0\0"), "ends too early"),
        (HEAD + row(b"\0\0\0\2\0\0"), "another length"),
        (HEAD + row(b"\xff\xff\xff\xfe"), "negative length"),
        (HEAD + row(NULL, NULL), "another number of columns"),
    ],
)
def test_a_stream_that_is_not_binary_copy_is_refused(message: bytes, reason: str) -> None:
    decoder = native.Decoder(["int32"], 10, 1 << 20)
    assert decoder.feed(message) == NOT_HELD
    _, _, why, what = decoder.fault
    assert why == "form"
    assert reason in what.decode()


def test_an_array_with_an_excessive_length_allocates_nothing() -> None:
    for lengths in [(1 << 30, 1 << 30), (1 << 30, 0), (0, 1 << 30), (-1, 5), (1 << 30,)]:
        head = struct.pack(">iii", len(lengths), 0, 23)
        value = head + b"".join(struct.pack(">ii", length, 1) for length in lengths)
        kind = "list:" * len(lengths) + "int32"
        decoder = native.Decoder([kind], 10, 1 << 20)
        assert decoder.feed(HEAD + row(struct.pack(">i", len(value)) + value)) == NOT_HELD
        assert decoder.fault[2] == "form"


FIELDS = golden()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_hostile_streams_are_refused_or_decoded(data: st.DataObject) -> None:
    """Nothing crashes on any input, and whatever is decoded is valid."""
    field = data.draw(st.sampled_from(FIELDS))
    message = bytearray(stream(row(field.encoded), row(NULL), row(field.encoded)))
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(message) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                message[place] = data.draw(st.integers(0, 255))
            case 1:
                del message[place : place + data.draw(st.integers(1, 8))]
            case _:
                message[place:place] = data.draw(st.binary(max_size=8))
        if not message:
            return
    decoder = native.Decoder([field.kind], 10, 1 << 20)
    outcome = decoder.feed(bytes(message))
    assert outcome in (MORE, READY, NOT_HELD)
    if outcome == READY:
        _array(decoder.take()[2][0], arrow_type(field.kind)).validate(full=True)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    # Exact when created from text, whatever the context's precision.
    return st.integers(-most, most).map(lambda units: Decimal(f"{units}e-{scale}"))


VALUES: dict[str, tuple[str, int | None, st.SearchStrategy[Any]]] = {
    "bool": ("bool", None, st.booleans()),
    "int16": ("bytes2", None, st.integers(-(1 << 15), (1 << 15) - 1)),
    "int32": ("bytes4", None, st.integers(-(1 << 31), (1 << 31) - 1)),
    "int64": ("bytes8", None, st.integers(-(1 << 63), (1 << 63) - 1)),
    "float64": ("bytes8", None, st.floats(allow_nan=False)),
    "date": ("date", None, st.dates()),
    "timestamp": ("timestamp", None, st.datetimes()),
    "text": ("text", None, st.text(st.characters(exclude_categories=["Cs"]))),
    "jsonb": ("jsonb", None, st.text(st.characters(exclude_categories=["Cs"]))),
    "bytes": ("bytes", None, st.binary()),
    "uuid": ("uuid", None, st.binary(min_size=16, max_size=16)),
    "decimal:38:7": ("decimal:7", None, _decimals(38, 7)),
    "decimal:18:0": ("decimal:0", None, _decimals(18, 0)),
    "decimal:9:9": ("decimal:9", None, _decimals(9, 9)),
    "list:int32": ("bytes4", 23, st.lists(st.none() | st.integers(-5, 5), max_size=5)),
    "list:text": ("text", 25, st.lists(st.none() | st.text("aé", max_size=3), max_size=5)),
}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_decoding_restores_what_was_encoded(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(VALUES)))
    form, element, values = VALUES[kind]
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    type_ = arrow_type(kind)
    wire = pa.binary(16) if kind == "uuid" else type_
    # With an offset, like a slice of a larger array.
    array = pa.array([None, *drawn], wire).slice(data.draw(st.integers(0, 1)))
    encoder = native.Encoder([(form, element)])
    message = bytes(memoryview(encoder.encode(HEAD, len(array), [_buffers(array)])))
    (found,) = decoded([kind], message + END)
    assert (found.storage if kind == "uuid" else found).to_pylist() == array.to_pylist()


def test_timestamps_out_of_the_servers_range_are_refused() -> None:
    least = pa.array([-(1 << 63)], pa.int64())
    for form, array in [
        ("timestamp", least.view(pa.timestamp("us"))),
        ("date", pa.array([-(1 << 31)], pa.int32()).view(pa.date32())),
    ]:
        with pytest.raises(ValueError, match=r"\(0, 0\)|0, 0") as caught:
            native.Encoder([(form, None)]).encode(b"", 1, [_buffers(array)])
        assert caught.value.args == (0, 0)


def _texts(*values: bytes | None) -> pa.Array:
    stored = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())


def test_texts_that_are_not_utf8_are_refused() -> None:
    halves, late = _texts("é".encode(), b"\xc3", b"\xa9"), _texts(*[b"a"] * 300, b"\xff")
    for kind in ("text", "jsonb"):
        for array, place in ((halves, 1), (halves.slice(2), 0), (late, 300)):
            with pytest.raises(ValueError, match=f"0, {place}") as caught:
                native.Encoder([(kind, None)]).encode(b"", len(array), [_buffers(array)])
            assert caught.value.args == (0, place)
    halves = halves.slice(0, 1)
    for kind, array in (("bytes", _texts(b"\xff")), ("text", halves)):
        native.Encoder([(kind, None)]).encode(b"", 1, [_buffers(array)])


def test_what_a_null_hides_may_be_anything() -> None:
    values = pa.array(["é", None, "ü"])
    hidden = pa.Array.from_buffers(
        pa.string(),
        3,
        [values.buffers()[0], pa.array([0, 2, 3, 5], pa.int32()).buffers()[1],
         pa.py_buffer("é".encode() + b"\xff" + "ü".encode())],
    )  # fmt: skip
    message = native.Encoder([("text", None)]).encode(HEAD, 3, [_buffers(hidden)])
    (found,) = decoded(["text"], bytes(memoryview(message)) + END)
    assert found.equals(values)


def test_arrays_that_are_too_short_are_refused() -> None:
    encoder = native.Encoder([("bytes8", None)])
    with pytest.raises(ValueError, match="too short"):
        encoder.encode(b"", 3, [(0, [None, pa.py_buffer(bytes(16))], [])])
    with pytest.raises(ValueError, match="another number"):
        encoder.encode(b"", 3, [])
    with pytest.raises(ValueError, match="no kind"):
        native.Encoder([("complex", None)])
    with pytest.raises(ValueError, match="no kind"):
        native.Decoder(["list:complex"], 1, 1)
