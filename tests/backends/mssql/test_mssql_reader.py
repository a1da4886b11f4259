"""Batches have the types that the plan promises, or an error names the value that does not fit."""

from __future__ import annotations

from datetime import time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.backends.mssql.connection import Connection
from penstock.backends.mssql.reader import BATCH_BYTES
from penstock.backends.mssql.types import TYPES, MsType
from penstock.backends.shared.values.planned_types import PromisedTypes
from penstock.backends.sql.server.reader import BATCH_ROWS
from penstock.errors import PermanentError

TEXT = "6F9619FF-8B86-D011-B42D-00C04FC964FF"


def promised_types(*types: MsType) -> PromisedTypes[MsType]:
    names = [f"c{number}" for number in range(len(types))]
    return PromisedTypes(names, list(types), TYPES, "source: dbo.t, p1")


def batch(*columns: tuple[list[Any], pa.DataType]) -> pa.RecordBatch:
    arrays = [pa.array(values, type_) for values, type_ in columns]
    return pa.RecordBatch.from_arrays(arrays, [""] * len(arrays))


def test_uuids_arrive_as_texts() -> None:
    received = batch(([TEXT, None, TEXT.lower()], pa.string()), ([1, 2, 3], pa.int32()))
    found = promised_types(MsType("uniqueidentifier"), MsType("int")).as_travels(received)
    assert found.schema.names == ["c0", "c1"]
    assert found.schema.types == [pa.uuid(), pa.int32()]
    assert found.column(0).to_pylist() == [UUID(TEXT), None, UUID(TEXT)]


@pytest.mark.parametrize(
    ("type_", "received", "value", "expected"),
    [
        (MsType("tinyint"), pa.uint8(), 255, 255),
        (MsType("tinyint"), pa.int16(), 255, 255),
        (MsType("money"), pa.decimal128(19, 4), Decimal("-1.2345"), Decimal("-1.2345")),
        (MsType("decimal", 38, 0), pa.decimal128(38, 0), Decimal("9" * 38), Decimal("9" * 38)),
        (MsType("time", 7), pa.time64("ns"), 1000, time(0, 0, 0, 1)),
        (MsType("nvarchar", 9), pa.large_string(), "é", "é"),
    ],
)
def test_a_value_has_the_promised_type(
    type_: MsType, received: pa.DataType, value: Any, expected: Any
) -> None:
    found = promised_types(type_).as_travels(batch(([value, None], received)))
    assert found.column(0).to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("type_", "received", "value"),
    [
        (MsType("tinyint"), pa.int16(), 256),
        (MsType("time", 7), pa.time64("ns"), 100),
        (MsType("uniqueidentifier"), pa.string(), "nothing of the kind"),
        (MsType("int"), pa.int64(), 1 << 40),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    type_: MsType, received: pa.DataType, value: Any
) -> None:
    reader = promised_types(MsType("int"), type_)
    before = batch(([1, 2], pa.int32()), ([None, None], received))
    reader.as_travels(before)
    with pytest.raises(PermanentError) as raised:
        reader.as_travels(batch(([3, 4], pa.int32()), ([None, value], received)))
    assert raised.value.message.startswith(
        f"source: dbo.t, p1: column 'c1', rows 3 to 4: expected values of type {type_}, found: "
    )
    assert raised.value.diagnosis.side == "source"


def test_a_fraction_of_a_microsecond_is_rejected() -> None:
    fine = MsType("datetime2", 7)
    columns = ([1, 2, 3], pa.int32()), ([None] * 3, pa.timestamp("us"))
    reader = promised_types(MsType("int"), fine)
    found = reader.as_travels(batch(*columns, ([0, 0, 0], pa.int32())))
    assert found.schema.names == ["c0", "c1"]
    with pytest.raises(PermanentError) as raised:
        reader.as_travels(batch(*columns, ([0, 1, 1], pa.int32())))
    assert raised.value.message == (
        "source: dbo.t, p1: column 'c1', row 5: expected whole microseconds, found a time with "
        "100-nanosecond digits, which record batches would lose; use --query with CAST(... AS "
        "datetime2(6)), datetimeoffset(6) or time(6), which rounds it"
    )


def test_all_columns_with_finer_times_are_named() -> None:
    reader = promised_types(
        MsType("datetimeoffset", 7), MsType("datetime2", 6), MsType("datetime2", 7)
    )
    column = ([None], pa.timestamp("us"))
    with pytest.raises(PermanentError, match="column 'c0' or 'c2', row 1: "):
        reader.as_travels(batch(column, column, column, ([1], pa.int32())))


def test_rows_without_columns() -> None:
    assert promised_types().as_travels(batch(([1, 1], pa.int32()))).num_rows == 2


class Slow:
    """A driver that returns rows of some size, each after some time."""

    def __init__(self, rows: int, size: int, seconds: float) -> None:
        self.remaining, self.size, self.seconds = rows, size, seconds
        self.now = 0.0
        self.requested: list[int] = []

    def execute(self, query: str) -> None:
        pass

    def batch(self, rows: int, types: object) -> pa.RecordBatch:
        self.requested.append(rows)
        count = min(rows, self.remaining)
        self.remaining -= count
        self.now += count * self.seconds
        return batch(([b"x" * self.size] * count, pa.binary(self.size)))


def requested(monkeypatch: pytest.MonkeyPatch, rows: int, size: int, seconds: float) -> list[int]:
    """Return the numbers of rows requested for each batch."""
    connection = Connection.__new__(Connection)
    driver = Slow(rows, size, seconds)
    monkeypatch.setattr(connection, "driver", driver, raising=False)
    monkeypatch.setattr(
        "penstock.backends.shared.values.growing_batches.time.monotonic", lambda: driver.now
    )
    found = connection.batches("SELECT ...", BATCH_ROWS, BATCH_BYTES)
    assert sum(batch.num_rows for batch in found) == rows
    return driver.requested


def test_batches_become_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested(monkeypatch, 40_000, 8, 0) == [64, 512, 4096, *[BATCH_ROWS] * 3]


def test_batches_of_wide_rows_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested(monkeypatch, 200, 100_000, 0) == [64, *[41] * 4]
    assert requested(monkeypatch, 70, 1 << 20, 0) == [64, 4, 4]


def test_batches_of_slow_rows_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is silent for 10 s is presumed dead, even if its driver is filling a batch."""
    found = requested(monkeypatch, 10_000, 8, 0.001)
    assert found[:3] == [64, 512, 1000]
    assert set(found[3:]) <= {999, 1000}
    assert requested(monkeypatch, 70, 8, 0.5)[:3] == [64, 2, 2]


@pytest.mark.parametrize("rows", [0, 64, 576])
def test_the_last_batch_may_have_no_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    assert sum(requested(monkeypatch, rows, 8, 0)) > rows
