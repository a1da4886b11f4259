"""Parquet files that are encrypted or damaged, or hold values that would change: rejected."""

from __future__ import annotations

import base64
import datetime
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from penstock import CopySpec, PenstockError, RunFailed, copy
from penstock.backends.parquet.files.duckdb_scan import ScannedFiles
from penstock.backends.parquet.files.scan import FileScan
from penstock.backends.shared.values.arrow import TRAIT, arrow_type
from penstock.errors import PermanentError, PlanningError
from penstock.events import Event, Failed, Finished
from penstock.model.tables import Column

from .parquet_stores import Store, all_files, encoded, read

ROWS = 77
DAY = datetime.datetime.fromisoformat("2000-01-01")
PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "none", "store_schema": False}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "files")


def rows_of(store: Store, **options: Any) -> pa.Table:
    return read(store.url(), all_files(store), **options)


def refused(store: Store, message: str, **options: Any) -> None:
    with pytest.raises(PermanentError, match=message) as raised:
        rows_of(store, **options)
    assert "a.parquet" in raised.value.message
    assert raised.value.transient is False


# INT96


def int96(*values: tuple[int, int] | None) -> bytes:
    """Write a file of Julian days and nanoseconds."""
    days = [DAY + datetime.timedelta(days=n) for n in range(len(values))]
    moments = [day if value else None for day, value in zip(days, values, strict=True)]
    table = pa.table({"id": range(len(values)), "at": pa.array(moments, pa.timestamp("ns"))})
    content = encoded(table, use_deprecated_int96_timestamps=True, write_statistics=False, **PLAIN)
    for place, value in enumerate(values):
        if value is not None:
            stored = struct.pack("<qI", 0, 2_451_545 + place)
            assert content.count(stored) == 1
            content = content.replace(stored, struct.pack("<qI", value[1], value[0]))
    return content


def test_int96_within_the_range_of_microseconds(store: Store) -> None:
    # The last day of 9999, which nanoseconds do not reach, and a microsecond before its end.
    store.put("a.parquet", int96((2_451_545, 0), None, (5_373_484, 86_399_999_999_000)))
    assert rows_of(store).column("at").to_pylist() == [
        DAY,
        None,
        datetime.datetime.fromisoformat("9999-12-31 23:59:59.999999"),
    ]


@pytest.mark.parametrize("where", [None, "id >= 0"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            (110_000_000, 0),
            r"column 'at', row 3: expected a timestamp from year .* found one outside",
        ),
        (
            (4_200_000_000, 0),
            r"column 'at', row 3: expected a timestamp from year .* found one outside",
        ),
        ((2_451_545, 1_234_567), r"column 'at', row 3: .* found 567 ns beyond the microsecond"),
        ((110_000, 1), r"column 'at', row 3: .* found 1 ns beyond the microsecond"),
    ],
)
def test_int96_outside_the_range_of_microseconds(
    store: Store, value: tuple[int, int], message: str, where: str | None
) -> None:
    store.put("a.parquet", int96((2_451_545, 0), None, value))
    refused(store, message, where=where)


# Values


def text(*values: bytes) -> pa.Array:
    stored = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())


@pytest.mark.parametrize("where", [None, "id >= 0"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (text(b"a", b"b\xff"), r"column 'v', row 2: .* found b'b\\xff', which is not UTF-8"),
        (
            pa.array([0, 86_400_000_001], pa.int64()).view(pa.time64("us")),
            r"column 'v', row 2: expected a value of time64\[us\], found 86400000001 us",
        ),
        (
            pa.ListArray.from_arrays([0, 1, 2], text(b"a", b"\xff")),
            r"column 'v', row 2: .* found \[b'\\xff', which is not UTF-8\]",
        ),
    ],
)
def test_impossible_values(store: Store, values: pa.Array, message: str, where: str | None) -> None:
    store.write("a.parquet", {"id": [1, 2], "v": values}, row_group_size=1)
    refused(store, message, where=where)


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_an_impossible_value_in_a_dictionary(store: Store, compression: str) -> None:
    """Dictionary values are checked once, not in each row."""
    values = text(*(b"good" for _ in range(5_000)), b"b\xff", *(b"good" for _ in range(5_000)))
    columns = {"id": pa.array(range(len(values))), "v": values}
    store.write("a.parquet", columns, compression=compression)
    refused(store, r"column 'v', row 5,001: .* found b'b\\xff', which is not UTF-8")


def test_few_values_and_nulls(store: Store) -> None:
    values = [None, "", "é", "two"] * 3_000
    store.write("a.parquet", {"v": values}, row_group_size=5_000)
    assert rows_of(store).column("v").to_pylist() == values


def test_24_00_is_a_time(store: Store) -> None:
    ends = pa.array([86_400_000_000], pa.int64()).view(pa.time64("us"))
    store.write("a.parquet", {"v": ends})
    assert rows_of(store).column("v").combine_chunks().view(pa.int64()).to_pylist() == [
        86_400_000_000
    ]


# Files


def count_replaced(content: bytes, place: int, count: bytes) -> bytes:
    """Return the file's bytes with another row count in the footer. The first count is the file's,
    the last one a row group's.
    """
    field = b"\x16\x9a\x01"  # a field of 64 bits: 77
    assert len(count) == 2
    parts = content.split(field)
    place %= len(parts) - 1
    return field.join(parts[: place + 1]) + b"\x16" + count + field.join(parts[place + 1 :])


@pytest.mark.parametrize(
    ("place", "count", "message"),
    [
        (-1, b"\x80\x00", "its footer counts 77 rows, its row groups 0"),
        (0, b"\x80\x00", "its footer counts 0 rows, its row groups 77"),
        (-1, b"\x81\x00", "row group 0 has -1 rows"),
    ],
)
def test_a_footer_that_contradicts_itself(
    store: Store, place: int, count: bytes, message: str
) -> None:
    content = encoded({"id": range(ROWS)}, **PLAIN)
    store.put("a.parquet", count_replaced(content, place, count))
    refused(store, f"the file is damaged: .*{message}")


def test_a_page_with_a_wrong_checksum(store: Store) -> None:
    content = encoded({"id": pa.array([7, 8, 9])}, write_page_checksum=True, **PLAIN)
    stored = struct.pack("<3q", 7, 8, 9)
    store.put("a.parquet", content.replace(stored, struct.pack("<3q", 7, 8, 10)))
    refused(store, "CRC checksum verification failed")


class Keys(encryption.KmsClient):  # type: ignore[misc]
    """A key client that keeps no secret."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return base64.b64encode(key_bytes).decode()

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_an_encrypted_file(tmp_path: Path, plaintext_footer: bool) -> None:
    (tmp_path / "files").mkdir()
    table = pa.table({"id": range(ROWS), "secret": range(ROWS)})
    properties = encryption.CryptoFactory(lambda _: Keys()).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"key": ["secret"]}, plaintext_footer=plaintext_footer
        ),
    )
    path = tmp_path / "files" / "a.parquet"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    seen: list[Event] = []
    with pytest.raises(
        PermanentError, match=r"a\.parquet: the file is encrypted; expected one that"
    ):
        seen.extend(
            copy(
                CopySpec(source=f"file://{path.parent}/", target=f"file://{tmp_path}/out", degree=1)
            )
        )
    assert not any(isinstance(event, Failed) for event in seen)  # found before workers start


def test_a_struct_without_fields(tmp_path: Path) -> None:
    """Writers other than pyarrow produce them; a file holds no values of them."""
    nested = pa.struct([("a", pa.int32()), ("inner", pa.struct([]))])
    column = Column("nested", str(nested), True, traits={TRAIT: pa.list_(nested)})
    with pytest.raises(PlanningError, match=r"column 'nested' .*struct with fields; leave"):
        arrow_type(column)
    schema = pa.schema([("id", pa.int64()), ("nested", nested)])
    scan = FileScan(pa.fs.LocalFileSystem(), schema)
    assert ScannedFiles.of(scan, []).schema.names == ["id"]


# Errors of targets


def into_duckdb(tmp_path: Path, values: pa.Array, kind: str) -> Finished:
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"v": values}), tmp_path / "files" / "a.parquet")
    spec = CopySpec(
        source=f"file://{tmp_path}/files/", target=f"duckdb:///{tmp_path}/t.duckdb",
        target_table="main.t", mode="recreate", degree=1, types=(f"v={kind}",), attempts=1,
    )  # fmt: skip
    messages = []
    try:
        for event in copy(spec):
            if isinstance(event, Failed):
                messages.append(event.error["message"])
    except RunFailed as error:
        raise PenstockError(*messages) from error
    assert isinstance(event, Finished)
    return event


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([0, (1 << 63) - 1], pa.timestamp("us")), "TIMESTAMP"),
        (pa.array([0, 1 - (1 << 63)], pa.timestamp("us")), "TIMESTAMP"),
        (pa.array([0, -(1 << 63)], pa.timestamp("us")), "TIMESTAMP"),
        (pa.array([0, (1 << 31) - 1], pa.int32()).view(pa.date32()), "DATE"),
        (pa.array([[0], [(1 << 63) - 1]], pa.list_(pa.timestamp("us"))), "TIMESTAMP[]"),
    ],
)
def test_dates_that_duckdb_treats_as_infinite_are_rejected(
    tmp_path: Path, values: pa.Array, kind: str
) -> None:
    with pytest.raises(
        PenstockError, match=r"column 'v', row 2: expected a .* within DuckDB's range"
    ):
        into_duckdb(tmp_path, values, kind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1000, 1_000_001], pa.timestamp("ns")), "TIMESTAMP"),
        (pa.array([1000, 1_000_001], pa.time64("ns")), "TIME"),
        (pa.array([1000, 1_000_001], pa.duration("ns")), "INTERVAL"),
    ],
)
def test_a_value_with_nanoseconds_is_named(tmp_path: Path, values: pa.Array, kind: str) -> None:
    message = r"column 'v', row 2: .*, which has nanoseconds; cast it to a type of whole"
    with pytest.raises(PenstockError, match=message):
        into_duckdb(tmp_path, values, kind)
