"""Parquet files as a source: the rows that arrive, their types, and errors."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends.parquet.files.scan import FileScan
from penstock.backends.shared.values.arrow import TRAIT
from penstock.errors import PermanentError, PlanningError, SnapshotLost, UsageError
from penstock.model.extents import (
    Bound,
    Extent,
    FilePart,
    Files,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Located, Query
from penstock_testkit import S3Server

from .parquet_stores import Store, all_files, parts, read, reader, waiter

HERE = Located()


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Store(tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = server.create_bucket(f"bucket-{abs(hash(tmp_path)) % 10**12}")
    return Store(tmp_path, server, bucket)


def numbers(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    texts = pa.array([f"t{n}" if n % 3 else None for n in ids], pa.string())
    return pa.table({"id": pa.array(ids, pa.int64()), "text": texts})


# Planning


def test_footers_suffice_for_planning(store: Store) -> None:
    store.write("t/a.parquet", numbers(0, 1000), row_group_size=300)
    store.write("t/b.parquet", numbers(1000, 10))
    with closing(store.source("t/")) as source:
        found = source.statistics(HERE, None)
        columns = source.columns(HERE)
    assert found.rows == 1010
    assert [file.path for file in found.files] == [
        store.path("t/a.parquet"),
        store.path("t/b.parquet"),
    ]
    assert [[rows for rows, _ in file.groups] for file in found.files] == [
        [300, 300, 300, 100],
        [10],
    ]
    assert all(
        math.isclose(sum(stored for _, stored in file.groups), file.size, rel_tol=0.05)
        for file in found.files
    )
    assert found.bytes == sum(file.size for file in found.files)
    assert [(c.name, c.type, c.nullable) for c in columns] == [
        ("id", "int64", True),
        ("text", "string", True),
    ]


def test_a_column_is_not_nullable_if_no_file_allows_null(store: Store) -> None:
    never = pa.schema([pa.field("id", pa.int64(), False), pa.field("n", pa.int64(), False)])
    maybe = pa.schema([pa.field("id", pa.int64(), False), pa.field("n", pa.int64(), True)])
    store.write("a.parquet", pa.table({"id": [1], "n": [1]}, schema=never))
    store.write("b.parquet", pa.table({"id": [2], "n": [None]}, schema=maybe))
    with closing(store.source()) as source:
        assert [column.nullable for column in source.columns(HERE)] == [False, True]


def test_different_columns_of_all_files_are_listed_at_once(store: Store) -> None:
    store.write("a.parquet", {"id": [1], "n": [1.5], "s": ["x"]})
    store.write("b.parquet", {"id": ["1"], "n": [1.5], "s": ["x"]})
    store.write("c.parquet", {"id": [1], "more": [1.5], "s": ["x"]})
    store.write("d.parquet", {"s": pa.array(["x"], pa.large_string()), "n": [1.5], "id": [1]})
    with pytest.raises(PlanningError) as caught:
        store.source()
    lines = [line.split() for line in caught.value.message.splitlines()[1:]]
    assert lines == [
        ["file", "column", "expected", "found"],
        [store.path("b.parquet"), "id", "int64", "string"],
        [store.path("c.parquet"), "n", "double", "-"],
        [store.path("c.parquet"), "more", "-", "double"],
    ]
    assert store.path("a.parquet") in caught.value.message.splitlines()[0]


def test_different_folders_are_named(store: Store) -> None:
    store.write("day=1/a.parquet", {"id": [1]})
    store.write("b.parquet", {"id": [1]})
    with pytest.raises(PlanningError, match=r"a\.parquet +\(folder\) +- +day="):
        store.source("**/*.parquet")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a,b\n1,2\n" * 9, "magic bytes"), (b"", "0 bytes"), (b"PAR1", "")],
)
def test_other_files_are_named(store: Store, content: bytes, words: str) -> None:
    store.write("a.parquet", numbers(0, 3))
    store.put("b.parquet", content)
    with pytest.raises(PermanentError, match=r"b\.parquet: cannot be read as Parquet") as caught:
        store.source()
    assert words in caught.value.message


def test_a_truncated_file_is_named(store: Store) -> None:
    from .parquet_stores import encoded  # noqa: PLC0415

    store.put("a.parquet", encoded(numbers(0, 100))[:-20])
    with pytest.raises(PermanentError, match=r"a\.parquet: cannot be read as Parquet"):
        store.source()


def test_a_pattern_without_files_is_rejected(store: Store) -> None:
    store.write("t/a.parquet", numbers(0, 3))
    with pytest.raises(PlanningError, match=r"t/\*\.pq: expected at least one file"):
        store.source("t/*.pq")


def test_conditions_exclude_files(store: Store) -> None:
    for number in range(4):
        store.write(f"day=2024-01-0{number + 1}/a.parquet", numbers(number * 100, 100))
    with closing(store.source()) as source:
        assert len(source.statistics(HERE, None).files) == 4

        def matching(where: str) -> list[str]:
            found = source.statistics(HERE, where)
            return [file.path.split("day=2024-01-0")[1][0] for file in found.files]

        assert matching("day = DATE '2024-01-02'") == ["2"]
        assert matching("id BETWEEN 150 AND 250") == ["2", "3"]
        assert matching("id > 50 AND day < DATE '2024-01-03'") == ["1", "2"]
        assert matching("id % 2 = 0") == ["1", "2", "3", "4"]
        # The subquery is a scan of its own, which must not limit the files.
        assert matching("id IN (SELECT max(id) FROM source)") == ["1", "2", "3", "4"]
        assert source.statistics(HERE, "id >= 300").selected == 0.25
        assert len(matching("id > 1000")) == 1


@pytest.mark.parametrize("where", ["nope > 1", "id >", "id > 1) OR (true"])
def test_an_invalid_condition_is_rejected(store: Store, where: str) -> None:
    store.write("a.parquet", numbers(0, 3))
    with closing(store.source()) as source, pytest.raises(PlanningError):
        source.statistics(HERE, where)


# Rows


def test_names_that_differ_only_in_case(store: Store) -> None:
    """DuckDB would confuse them; requests that do not need DuckDB read both."""
    store.write("a.parquet", pa.table({"id": [1], "ID": [2], "é": [3], "É": [4]}))
    for extent in (all_files(store), Whole()):
        found = read(store.url(), extent)
        assert found.to_pylist() == [{"id": 1, "ID": 2, "é": 3, "É": 4}]
    with (
        pytest.raises(PlanningError, match="'id' and 'ID' differ only in"),
        closing(store.source()) as source,
    ):
        source.check_where(HERE, "ID = 2")


def test_files_and_row_groups(store: Store) -> None:
    store.write("a.parquet", numbers(0, 1000), row_group_size=300)
    store.write("b.parquet", numbers(1000, 10))
    first, second = all_files(store).parts
    some = FilePart(first.path, first.size, first.version, 1, 3)
    rest = FilePart(first.path, first.size, first.version, 3, None)
    assert read(store.url(), Files((some,)))["id"].to_pylist() == list(range(300, 900))
    assert read(store.url(), Files((rest, second)))["id"].to_pylist() == list(range(900, 1010))
    chosen = read(store.url(), Files((some, second)), where="id % 2 = 1 AND text IS NOT NULL")
    expected = [*range(300, 900), *range(1000, 1010)]
    assert chosen["id"].to_pylist() == [n for n in expected if n % 2 and n % 3]


def test_columns_have_the_targets_names_in_the_order_of_the_pairs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("a.parquet", {"a": [1], "b.c": ["x"], "d": [None], "e": [{"x": 1}]})
    requested: list[list[str]] = []
    batches = FileScan.batches

    def batches_noted(self: FileScan, some: Any, columns: Any, *args: Any) -> Any:
        requested.append(list(columns))
        return batches(self, some, columns, *args)

    monkeypatch.setattr(FileScan, "batches", batches_noted)
    pairs = [ColumnPair("b.c", "x"), ColumnPair("a", "Y")]
    for extent in (all_files(store), Whole()):
        found = [
            batch
            for batch, _, _ in reader(store.url(), pairs).read(Partition("p", extent), waiter())
        ]
        (batch,) = found
        assert batch.schema.names == ["x", "Y"]
        assert batch.to_pylist() == [{"x": "x", "Y": 1}]
    assert sorted(requested[0]) == sorted(requested[1]) == ["a", "b.c"]


def test_the_first_batch_arrives_even_without_rows(store: Store) -> None:
    store.write("a.parquet", numbers(0, 0))
    for extent in (all_files(store), Whole()):
        table = read(store.url(), extent)
        assert table.num_rows == 0
        assert table.schema == pa.schema([("id", pa.int64()), ("text", pa.string())])


def test_folders_are_columns(store: Store) -> None:
    store.write("n=1/day=2024-02-29/a.parquet", {"id": [1, 2]})
    store.write("n=__HIVE_DEFAULT_PARTITION__/day=2024-03-01/a.parquet", {"id": [3]})
    leap, march = datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)
    rows = [
        {"id": 1, "n": 1, "day": leap},
        {"id": 2, "n": 1, "day": leap},
        {"id": 3, "n": None, "day": march},
    ]
    assert read(store.url(), all_files(store)).to_pylist() == rows
    assert read(store.url(), Whole()).to_pylist() == rows
    # A single folder's column has the type that fits all folders.
    last = Files(all_files(store).parts[1:])
    assert read(store.url(), last).to_pylist() == rows[2:]
    assert read(store.url(), Whole(), where="day = DATE '2024-03-01'").to_pylist() == rows[2:]
    assert read(store.url(), KeyIsNull(Key("n"))).to_pylist() == rows[2:]


def test_a_files_column_takes_precedence_over_its_folders(store: Store) -> None:
    store.write("n=7/a.parquet", {"id": [1], "n": ["own"]})
    for extent in (all_files(store), Whole()):
        assert read(store.url(), extent).to_pylist() == [{"id": 1, "n": "own"}]


AWKWARD = {
    "f": [0.0, -0.0, math.nan, math.inf, -math.inf, None, 1.5, 5e-324],
    "s": ["", "a", "A", "é", "z\n'\"", None, "a ", "10"],
    "d": [
        decimal.Decimal(n) / 100 if n is not None else None for n in (0, 1, -1, 99, None, 5, 7, 8)
    ],
    "t": [datetime.datetime(2024, 1, n + 1, 12, tzinfo=datetime.UTC) for n in range(7)] + [None],
    "b": [True, False, None, True, False, None, True, False],
    "u": [uuid.UUID(int=n).bytes if n else None for n in range(8)],
}


def awkward(store: Store) -> None:
    table = pa.table({**AWKWARD, "id": list(range(8))})
    table = table.set_column(5, "u", table["u"].cast(pa.binary(16)).cast(pa.uuid()))
    for number, first in enumerate((0, 3, 6)):
        store.write(f"{number}.parquet", table.slice(first, 3), row_group_size=2)


def extents(key: str, tag: str, *texts: str) -> list[list[Extent]]:
    """Return ways to partition by a key that cover every row."""
    by = Key(key)
    bounds = [Bound(tag, text) for text in texts]
    ranges: list[Extent] = [
        KeyRange(by, lower, upper)
        for lower, upper in zip([None, *bounds], [*bounds, None], strict=True)
    ]
    values: list[Extent] = [KeyValues(by, (bound,)) for bound in bounds]
    return [
        [*ranges, KeyIsNull(by)],
        [*values, KeyOther(by, tuple(bounds)), KeyIsNull(by)],
        [HashBucket(by, 3, remainder) for remainder in range(3)],
    ]


@pytest.mark.parametrize(
    ("key", "tag", "texts"),
    [
        ("id", "int8", ["2", "5"]),
        ("f", "float8", ["-1", "0", "1.5", "NaN"]),
        ("s", "text", ["A", "a", "a "]),
        ("d", "numeric", ["0.00", "0.07"]),
        ("t", "timestamptz", ["2024-01-03 12:00:00+00", "2024-01-05 00:00:00+00"]),
        ("b", "bool", ["true"]),
        ("u", "uuid", [str(uuid.UUID(int=2)), str(uuid.UUID(int=5))]),
    ],
)
def test_every_row_is_in_one_partition(store: Store, key: str, tag: str, texts: list[str]) -> None:
    awkward(store)
    with closing(store.source()) as source:
        assert source.key_type(HERE, Key(key)) == tag
    for cut in extents(key, tag, *texts):
        if key == "b" and isinstance(cut[0], KeyRange):
            continue  # no order by which ranges could be partitioned
        ids = [n for extent in cut for n in read(store.url(), extent, ["id"])["id"].to_pylist()]
        assert sorted(ids) == list(range(8)), cut


def test_pushed_conditions_read_only_row_groups_that_may_match(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("a.parquet", numbers(0, 1000), row_group_size=100)
    groups: list[int] = []
    group = FileScan._group

    def noted(self: FileScan, *arguments: Any) -> Any:
        groups.append(arguments[3])
        return group(self, *arguments)

    monkeypatch.setattr(FileScan, "_group", noted)
    extent = KeyRange(Key("id"), Bound("int8", "250"), Bound("int8", "410"))
    assert read(store.url(), extent)["id"].to_pylist() == list(range(250, 410))
    assert groups == [2, 3, 4]


def test_queries(store: Store) -> None:
    store.write("n=1/a.parquet", numbers(0, 1000))
    query = Query("SELECT id % 2 AS odd, count(*) AS n, uuid() AS u FROM source GROUP BY ALL")
    table = read(store.url(), Whole(), relation=query)
    assert table.column("odd").to_pylist() in ([0, 1], [1, 0])
    assert table.column("n").to_pylist() == [500, 500]
    assert table.schema.field("u").type == pa.uuid()
    with closing(store.source()) as source:
        columns = source.in_arrow(query, source.columns(query))
        assert [(c.name, c.traits[TRAIT]) for c in columns] == [
            ("odd", pa.int64()),
            ("n", pa.int64()),
            ("u", pa.uuid()),
        ]
        assert source.statistics(query, None).rows is None
        with pytest.raises(UsageError, match="2 statements"):
            source.columns(Query("SELECT 1; SELECT 2"))
        with pytest.raises(PlanningError, match="nope"):
            source.columns(Query("SELECT nope FROM source"))


def every_type() -> pa.Table:
    """Return, for each type that a file may have, a value, NULL, and another value."""
    D = decimal.Decimal  # noqa: N806
    day, one_day = datetime.date(2024, 2, 29), datetime.timedelta(days=1)
    when = datetime.datetime(2024, 2, 29, 1, 2, 3, 4)  # noqa: DTZ001
    id_ = uuid.UUID(int=12345).bytes
    columns: dict[str, pa.Array] = {
        "i8": pa.array([1, None, 100], pa.int8()),
        "i16": pa.array([1, None, 100], pa.int16()),
        "u32": pa.array([1, None, 2**32 - 1], pa.uint32()),
        "u64": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "f16": pa.array([1.5, None, -2], pa.float32()).cast(pa.float16()),
        "f32": pa.array([1.5, None, math.inf], pa.float32()),
        "d32": pa.array([D("1.50"), None, D("-2")], pa.decimal32(5, 2)),
        "d128": pa.array([D("9" * 38), None, D(0)], pa.decimal128(38, 0)),
        "d256": pa.array([D("9" * 50 + ".01"), None, D("-0.10")], pa.decimal256(60, 2)),
        "bool": pa.array([True, None, False]),
        "string": pa.array(["é\n", None, ""]),
        "large": pa.array(["x", None, ""], pa.large_string()),
        "view": pa.array(["x" * 100, None, ""], pa.string_view()),
        "dict": pa.array(["x", None, "x"]).dictionary_encode(),
        "json": pa.array(['{"a": 1}', None, "null"], pa.json_()),
        "binary": pa.array([b"\0\xff", None, b""]),
        "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "uuid": pa.array([id_, None, id_], pa.uuid()),
        "date": pa.array([day, None, datetime.date(1, 1, 1)]),
        "time": pa.array([datetime.time(1, 2, 3), None, datetime.time(0)], pa.time32("ms")),
        "ts_ms": pa.array([when.replace(microsecond=5000), None, None], pa.timestamp("ms")),
        "ts_us": pa.array([when, None, datetime.datetime(1, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001
        "ts_ns": pa.array([1_700_000_000_123_456_789, None, 0], pa.timestamp("ns")),
        "tz": pa.array([when, None, when], pa.timestamp("us", "Europe/Berlin")),
        "duration": pa.array([one_day, None, datetime.timedelta(microseconds=-1)]),
        "null": pa.nulls(3),
        "list": pa.array([["a", None], None, []]),
        "nested": pa.array([[[1], None], None, []]),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}]),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "durations": pa.array([[one_day], None, []], pa.list_(pa.duration("us"))),
    }  # fmt: skip
    if int(pa.__version__.partition(".")[0]) < 22:
        del columns["d32"]  # older ones do not write it
    return pa.table(columns)


def test_every_type_is_read_the_same_way_with_and_without_duckdb(tmp_path: Path) -> None:
    store = Store(tmp_path)
    table = every_type()
    store.write("a.parquet", table)
    direct = read(store.url(), all_files(store))
    selected = read(store.url(), Whole())
    with closing(store.source()) as source:
        columns = source.in_arrow(HERE, source.columns(HERE))
    assert direct.schema.types == [column.traits[TRAIT] for column in columns]
    assert selected.schema.types == direct.schema.types
    for name in table.column_names:
        assert selected[name].equals(direct[name]), name
        if name != "ts_ns":  # Python has no nanoseconds
            assert direct[name].to_pylist() == table[name].to_pylist(), name
    assert direct["ts_ns"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789, None, 0]


# Snapshots


def test_a_rewritten_file_is_not_read(store: Store) -> None:
    store.write("a.parquet", numbers(0, 1000))
    planned = all_files(store)
    store.write("a.parquet", numbers(5000, 1000))
    with pytest.raises(
        SnapshotLost, match=r"a\.parquet has changed since planning: .* was rewritten"
    ):
        read(store.url(), planned)
    store.remove("a.parquet")
    store.write("b.parquet", numbers(0, 1))
    with pytest.raises(SnapshotLost, match=r"a\.parquet .* no longer exists"):
        read(store.url(), planned)


def test_a_file_rewritten_while_it_is_read(store: Store) -> None:
    store.write("a.parquet", numbers(0, 100_000), row_group_size=10_000)
    reading = reader(store.url(), [ColumnPair("id", "id")])
    batches = reading.read(Partition("p", all_files(store)), waiter())
    next(batches)
    store.write("a.parquet", numbers(7, 100_000), row_group_size=10_000)
    with pytest.raises(SnapshotLost, match=r"a\.parquet"):
        list(batches)


def test_conditions_read_the_files_of_the_snapshot(store: Store) -> None:
    from penstock.backends.parquet.files.snapshot import FilesSnapshot  # noqa: PLC0415

    store.write("a.parquet", numbers(0, 10))
    files_snapshot = FilesSnapshot(store.url())
    assert files_snapshot.is_alive()
    extent = HashBucket(Key("id"), 1, 0)
    token = files_snapshot.snapshot.token
    assert read(store.url(), extent, snapshot=token).num_rows == 10
    with closing(store.source()) as source:
        source.adopt(files_snapshot.snapshot)
        before = source.state(HERE)
        store.write("b.parquet", numbers(10, 10))
        after = source.state(HERE)
        assert before.identity == after.identity
        assert before.layout != after.layout
        assert before.writes != after.writes
        with pytest.raises(SnapshotLost, match="have changed since planning"):
            source.adopt(files_snapshot.snapshot)
        source.adopt(FilesSnapshot(store.url()).snapshot)
        assert source.statistics(HERE, None).rows == 20
    with pytest.raises(SnapshotLost, match="have changed since planning"):
        read(store.url(), extent, snapshot=token)
    # Without a snapshot, the current files are read.
    assert read(store.url(), extent).num_rows == 20


# Verification


def test_checksums_and_digests(store: Store) -> None:
    store.write("a.parquet", numbers(0, 1000), row_group_size=300)
    store.write("b.parquet", numbers(1000, 10))
    pairs = [ColumnPair("id", "id", canonical="integer"), ColumnPair("text", "x", canonical="text")]
    with closing(store.source()) as source:
        first, second = parts(source)
        halves = [
            Files((FilePart(first.path, first.size, first.version, 0, 2),)),
            Files((FilePart(first.path, first.size, first.version, 2, None), second)),
        ]
        whole = source.checksum(HERE, None, Whole(), pairs)
        found = [source.checksum(HERE, None, half, pairs) for half in halves]
        counted = [source.checksum(HERE, None, half, []) for half in halves]
        assert whole.rows == 1010
        assert [each.rows for each in found] == [each.rows for each in counted] == [600, 410]
        assert sum(int(each.digest) for each in found) == int(whole.digest)
        digests = list(source.row_digests(HERE, "id < 20", halves[0], pairs, ["id"]))
        assert [key for key, _ in digests] == sorted(str(n) for n in range(20))
        # Other queries may run before the rows are fetched.
        rows = source.row_digests(HERE, None, halves[1], pairs, ["id"], ["1000", "1"])
        assert source.checksum(HERE, "id = 1", halves[0], []).rows == 1
        assert [key for key, _ in rows] == ["1000"]


def test_keys_are_sampled(store: Store) -> None:
    for number in range(5):
        store.write(f"{number}.parquet", numbers(number * 10_000, 10_000), row_group_size=2000)
    with closing(store.source()) as source:
        found = source.key_statistics(HERE, Key("id"), None)
        assert "25 row groups" in found.origin
        texts = [int(weighted.bound.text) for weighted in found.bounds]
        assert texts == sorted(texts)
        assert texts[0] < 2000
        assert texts[-1] > 45_000
        tiles = source.ntile(HERE, Key("id"), None, 4)
        assert len(tiles.bounds) >= 4
        values = source.distinct_values(HERE, Key("id % 3", expression=True), None, None, 10)
        assert [value.text for value in values] == ["0", "1", "2"]
