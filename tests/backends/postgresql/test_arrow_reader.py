"""A server's rows as record batches: every type, every refusal, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

from penstock import PermanentError
from penstock.backends.api.worker import ARROW
from penstock.backends.postgresql.reader import PostgresReader
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.shared.values.arrow import arrow_type
from penstock.model.extents import Bound, Key, KeyRange, Whole
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Query, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter

from .type_values import BY_NAME, CONTRIB, NEWER, OWN, OWN_TYPES, SYSTEM

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

pytestmark = pytest.mark.usefixtures("both_paths")

WHOLE = Partition("p1", Whole())
T = TableRef("public", "t")


def worker_spec(
    pair: Pair, columns: list[str], relation: Relation = T, **changes: Any
) -> WorkerSpec:
    spec = WorkerSpec(
        run_id="r1",
        generation=1,
        source=pair.source.url,
        target=pair.target.url,
        source_backend="",
        target_backend="",
        relation=relation,
        target_table=T,
        pairs=tuple(ColumnPair(name, name) for name in columns),
        format=ARROW,
        where=None,
        mode="append",
        conflict_columns=(),
        volatile=False,
        series="",
        snapshot=None,
        stall_timeout=60,
        grace=10,
        control_schema="penstock",
        schema="",
        writing={},
    )
    return replace(spec, **changes)


def batches(spec: WorkerSpec, partition: Partition = WHOLE) -> Iterator[pa.RecordBatch]:
    """Read a partition, checking the reader's own row count."""
    reader = PostgresReader(spec)
    found = 0
    try:
        for batch, rows, size in reader.read(partition, Waiter(Meter(), 60)):
            assert (batch.num_rows, batch.nbytes) == (rows, size)
            found += rows
            yield batch
            del batch
        assert reader.rows == found
    finally:
        reader.abandon()


def table(spec: WorkerSpec, partition: Partition = WHOLE) -> pa.Table:
    found = pa.Table.from_batches(list(batches(spec, partition)))
    found.validate(full=True)
    return found


@dataclass(frozen=True)
class Found:
    type: pa.DataType
    array: pa.ChunkedArray

    @property
    def values(self) -> list[Any]:
        found: list[Any] = self.array.to_pylist()
        return found


def column(pair: Pair, type_: str, *values: str | None, flat: bool = True) -> Found:
    """Return what values become in a column of their own."""
    pair.source.connection.prepare_threshold = None  # same statement, another table each time
    pair.source.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (n int, a {type_})")
    for place, value in enumerate(values):
        text = "NULL" if value is None else "'" + value.replace("'", "''") + "'"
        pair.source.run(f"INSERT INTO t VALUES ({place}, {text}::{type_})")
    source = PostgresSource(pair.source.url)
    try:
        _, planned = source.in_arrow(T, source.columns(T))
    finally:
        source.close()
    if flat and "[][]" not in type_:  # a query does not report dimensions
        found = table(worker_spec(pair, ["a"], Query("SELECT a FROM t ORDER BY n")))
        assert found.schema.field("a").type == arrow_type(planned)
    found = table(worker_spec(pair, ["a", "n"])).sort_by("n")
    assert found.schema.field("a").type == arrow_type(planned)
    return Found(arrow_type(planned), found["a"])


def type_and_values(result: Found) -> tuple[pa.DataType, list[Any]]:
    return result.type, result.values


def test_values_of_each_type_arrive(pair: Pair) -> None:
    for type_, expected_type, values in [
        ("bool", pa.bool_(), {"true": True, "false": False}),
        ("int2", pa.int16(), {"-32768": -32768}),
        ("int4", pa.int32(), {"2147483647": 2147483647}),
        ("int8", pa.int64(), {"-9223372036854775808": -(1 << 63)}),
        ("oid", pa.uint32(), {"4294967295": 4294967295}),
        ("xid", pa.uint32(), {"4294967295": 4294967295}),
        ("cid", pa.uint32(), {"7": 7}),
        ("float4", pa.float32(), {"0.5": 0.5, "Infinity": float("inf")}),
        ("float8", pa.float64(), {"5e-324": 5e-324, "-Infinity": float("-inf"), "0.1": 0.1}),
        ("numeric(5,2)", pa.decimal128(5, 2), {"-1.50": Decimal("-1.50")}),
        (
            "numeric(38,10)",
            pa.decimal128(38, 10),
            {f"{'9' * 28}.{'9' * 10}": Decimal(f"{'9' * 28}.{'9' * 10}")},
        ),
        ("numeric(60,2)", pa.decimal256(60, 2), {"1.50": Decimal("1.50")}),
        ("numeric(100,2)", pa.string(), {"1.50": "1.50"}),
        ("numeric", pa.string(), {"1.500": "1.500", "NaN": "NaN", "1e30": "1" + "0" * 30}),
        ("money", pa.string(), {"-1.50": "-$1.50"}),
        ("text", pa.string(), {"": "", '"\n\t\\N,\r\n🐘': '"\n\t\\N,\r\n🐘', "\\.": "\\."}),
        ("varchar(3)", pa.string(), {"äöü": "äöü", "a  ": "a  "}),
        ("char(5)", pa.string(), {"é": "é", "": ""}),
        ("name", pa.string(), {"x": "x"}),
        ('"char"', pa.string(), {"x": "x"}),
        ("bytea", pa.binary(), {"\\x": b"", "\\x00ff5c27": b"\x00\xff\\'"}),
        ("date", pa.date32(), {"1970-01-01": None, "2026-02-28": None}),
        ("time", pa.time64("us"), {"23:59:59.999999": None}),
        ("timestamp", pa.timestamp("us"), {"2026-01-01 00:00:00.5": None}),
        ("timestamptz", pa.timestamp("us", "UTC"), {"2026-01-01 00:00:00.5+02": None}),
        ("uuid", pa.uuid(), {"00000000-0000-0000-0000-0000000000ff": None}),
        ("json", pa.string(), {' {"a": 1} ': ' {"a": 1} '}),
        ("jsonb", pa.string(), {'{"a":1}': '{"a": 1}'}),
        ("interval", pa.string(), {"1 day": "1 day"}),
        ("int4range", pa.string(), {"[1,5)": "[1,5)"}),
        ("timetz", pa.string(), {"10:00:00+01": "10:00:00+01"}),
        ("int4[]", pa.list_(pa.int32()), {"{1,NULL}": [1, None], "{}": [], "[5:5]={2}": [2]}),
        ("int4[][]", pa.list_(pa.list_(pa.int32())), {"{{1},{2}}": [[1], [2]], "{}": []}),
        ("text[]", pa.list_(pa.string()), {'{"","NULL",NULL,"\\"é,"}': ["", "NULL", None, '"é,']}),
        ("char(3)[]", pa.list_(pa.string()), {"{a}": ["a"]}),
        ("bool[]", pa.list_(pa.bool_()), {"{t,f,NULL}": [True, False, None]}),
        ("float8[]", pa.list_(pa.float64()), {"{Infinity,0.1}": [float("inf"), 0.1]}),
        ("numeric(5,1)[]", pa.list_(pa.decimal128(5, 1)), {"{1.5}": [Decimal("1.5")]}),
        ("numeric[]", pa.list_(pa.string()), {"{NaN,1.50}": ["NaN", "1.50"]}),
        ("bytea[]", pa.list_(pa.binary()), {'{"\\\\x00ff",NULL}': [b"\x00\xff", None]}),
        ("date[]", pa.list_(pa.date32()), {"{2026-02-28}": None}),
        ("time[]", pa.list_(pa.time64("us")), {"{23:59:59}": None}),
        ("timestamptz[]", pa.list_(pa.timestamp("us", "UTC")), {'{"2026-01-01 00:00+00"}': None}),
        ("uuid[]", pa.list_(pa.uuid()), {"{00000000-0000-0000-0000-0000000000ff,NULL}": None}),
        ("jsonb[]", pa.list_(pa.string()), {'{"{\\"a\\": 1}"}': ['{"a": 1}']}),
        ("box[]", pa.list_(pa.string()), {"{(1,1),(0,0)}": ["(1,1),(0,0)"]}),
    ]:  # fmt: skip
        assert isinstance(values, dict)
        found = column(pair, type_, *values, None)
        assert found.type == expected_type, type_
        assert found.values[-1] is None, type_
        for value, expected in zip(found.values, values.values(), strict=False):
            if expected is not None:
                assert value == expected, type_
    # Compared by Python's text of them, which equals the server's.
    for type_, value in [
        ("date", "2026-02-28"),
        ("date", "0001-01-01"),
        ("time", "23:59:59.999999"),
        ("timestamp", "2026-01-01 00:00:00.500000"),
        ("timestamptz", "2026-01-01 00:00:00.500000+00:00"),
        ("uuid", "00000000-0000-0000-0000-0000000000ff"),
    ]:
        assert [str(found) for found in column(pair, type_, value).values] == [value]
        assert [str(x) for x in column(pair, f"{type_}[]", f'{{"{value}"}}').values[0]] == [value]


def test_user_defined_types_arrive(pair: Pair) -> None:
    pair.source.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN feeling AS mood",
        "CREATE DOMAIN positive AS numeric(8, 2) CHECK (VALUE > 0)",
        "CREATE DOMAIN few AS int[] NOT NULL",
        "CREATE DOMAIN grid AS int[][]",
        "CREATE TYPE pair AS (a int, b text)",
    )
    mood = pa.dictionary(pa.int32(), pa.string())
    assert type_and_values(column(pair, "mood", "glad", None)) == (mood, ["glad", None])
    assert type_and_values(column(pair, "feeling", "sad")) == (mood, ["sad"])
    assert type_and_values(column(pair, "mood[]", "{sad,NULL}")) == (
        pa.list_(pa.string()),
        [["sad", None]],
    )
    assert type_and_values(column(pair, "positive", "1.5")) == (
        pa.decimal128(8, 2),
        [Decimal("1.5")],
    )
    assert type_and_values(column(pair, "few", "{1}")) == (pa.list_(pa.int32()), [[1]])
    assert type_and_values(column(pair, "grid", "{{1}}", flat=False)) == (
        pa.list_(pa.list_(pa.int32())),
        [[[1]]],
    )
    assert type_and_values(column(pair, "pair", "(1,a)")) == (pa.string(), ["(1,a)"])
    assert type_and_values(column(pair, "pair[]", '{"(1,a)"}')) == (
        pa.list_(pa.string()),
        [["(1,a)"]],
    )


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_days_outside_pythons_calendar_arrive(pair: Pair, type_: str) -> None:
    """Years before 1 and after 9999, which Arrow's own reader does not support."""
    days = ["4713-01-01 BC", "0001-12-31 BC", "0004-02-29", "10000-02-29", "294246-12-31"]
    days += ["0005-02-28 BC", "0005-02-29 BC", "0401-02-29 BC", "2000-02-29", "1900-03-01"]
    cast = pa.int32() if type_ == "date" else pa.int64()
    pair.source.run(f"CREATE TABLE t (a {type_})")
    pair.source.run(*(f"INSERT INTO t VALUES ('{day}')" for day in days))
    unit = 1 if type_ == "date" else 86_400_000_000
    found = table(worker_spec(pair, ["a"]))["a"].combine_chunks().view(cast).to_pylist()
    expected = pair.source.rows("SELECT a::timestamp::date - date '1970-01-01' FROM t")
    assert found == [day * unit for (day,) in expected]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("numeric(5,2)", "NaN", "decimal128(5, 2)"),
        ("numeric(60,2)", "NaN", "decimal256(60, 2)"),
        ("date", "infinity", "date32[day]"),
        ("timestamp", "-infinity", "timestamp[us]"),
        ("timestamptz", "infinity", "timestamp[us, tz=UTC]"),
        ("timestamp", "294276-12-31 23:59:59.999999", "timestamp[us]"),
        ("time", "24:00:00", "time64[us]"),
        ("int4[]", "{{1}}", "list<item: int32>"),
        ("int4[][]", "{1}", "list<item: list<item: int32>>"),
        ("date[]", "{infinity}", "list<item: date32[day]>"),
    ],
)
def test_a_value_that_arrow_cannot_hold_is_refused(
    pair: Pair, type_: str, value: str, expected: str
) -> None:
    pair.source.run(f"CREATE TABLE t (n int, a {type_})")
    pair.source.run("INSERT INTO t SELECT n, NULL FROM generate_series(1, 70000) AS n")
    pair.source.run(f"INSERT INTO t VALUES (70001, '{value}')")
    pair.source.run("INSERT INTO t VALUES (70002, NULL)")
    with pytest.raises(PermanentError) as caught:
        table(worker_spec(pair, ["n", "a"]))
    message = caught.value.message
    assert "source: public.t, partition p1: column 'a', row 70,001: expected a " in message
    assert f"fits into Arrow's {expected}, found '" in message
    assert caught.value.diagnosis.side == "source"


def test_every_type_of_the_server_is_read_or_refused_by_name(pair: Pair) -> None:
    """Each type has a counterpart in Arrow; its values arrive, or are refused by name."""
    extensions = {row[0] for row in pair.source.rows("SELECT name FROM pg_available_extensions")}
    contrib = {name: types for name, types in CONTRIB.items() if name in extensions}
    for name in contrib:
        pair.source.run(f"CREATE EXTENSION {name} CASCADE")
    pair.source.run(*OWN_TYPES, "SET search_path = public")
    version = pair.source.connection.info.server_version
    everything = {
        **SYSTEM,
        **BY_NAME,
        **OWN,
        **{t: v for types in contrib.values() for t, v in types.items()},
    }
    try:
        pair.source.run("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:  # built without libxml
        del everything["xml"]
    refused = []
    for type_, values in everything.items():
        for value in values:
            if NEWER.get((type_, value), 0) > version:
                continue
            try:
                found = column(pair, type_, value, None)
            except PermanentError as error:
                if "column 'a', row 1: expected a " not in error.message:
                    raise
                refused.append((type_, value))
            else:
                assert found.array.is_null().to_pylist() == [False, True], type_
                if found.type == pa.string() and "char" not in type_:
                    server_text = pair.source.value("SELECT a::text FROM t WHERE n = 0")
                    assert found.values[0] == server_text, type_
    assert refused == [
        ("date", "-infinity"),
        ("date", "infinity"),
        ("time", "24:00:00"),
        ("timestamp", "-infinity"),
        ("timestamp", "infinity"),
        ("timestamp", "294276-12-31 23:59:59.999999"),
        ("timestamptz", "-infinity"),
        ("timestamptz", "infinity"),
        ("timestamptz", "294276-12-31 23:59:59.999999 UTC"),
        ("int4[]", "{{1,NULL},{3,4}}"),
        ("timestamptz[]", "{infinity,NULL}"),
    ]


def test_empty_results_and_single_columns(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (a int, b text NOT NULL)")
    found = list(batches(worker_spec(pair, ["b", "a"])))
    assert [batch.num_rows for batch in found] == [0]
    assert found[0].schema == pa.schema([pa.field("b", pa.string(), False), ("a", pa.int32())])
    # An empty line is a row whose only column is NULL.
    pair.source.run("INSERT INTO t SELECT NULL, '' FROM generate_series(1, 3)")
    assert table(worker_spec(pair, ["a"]))["a"].to_pylist() == [None] * 3
    assert table(worker_spec(pair, ["b"]))["b"].to_pylist() == [""] * 3


def test_quoted_names_and_partitions(pair: Pair) -> None:
    pair.source.run('CREATE TABLE t ("a b" int, "c""d" int)')
    pair.source.run("INSERT INTO t SELECT n, n FROM generate_series(1, 200000) AS n")
    spec = worker_spec(pair, [], pairs=(ColumnPair('c"d', "x"), ColumnPair("a b", "y")))
    key = Key("a b")
    part = Partition("p2", KeyRange(key, Bound("int4", "1000"), Bound("int4", "150000")))
    found = list(batches(replace(spec, where='"c""d" % 2 = 0'), part))
    assert found[0].schema.names == ["x", "y"]
    assert sum(batch.num_rows for batch in found) == 74500
    assert max(batch.num_rows for batch in found) <= 65536
    assert len(found) > 1


def test_large_values_are_not_accumulated(pair: Pair) -> None:
    """With values of 50 MB, memory stays within a few times one row."""
    size = 50 << 20
    pair.source.run(
        "CREATE TABLE t (a bytea, b text)",
        "ALTER TABLE t ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT decode(repeat('5a', {size}), 'hex') FROM generate_series(1, 4)",
        f"INSERT INTO t SELECT NULL, repeat('z', {size}) FROM generate_series(1, 4)",
    )
    tracemalloc.start()
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in batches(worker_spec(pair, ["a", "b"])):
        most = max(most, pa.total_allocated_bytes() - before)
        rows += batch.num_rows
        assert batch.nbytes < 1.1 * size * 1
        del batch
    _, python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows == 8
    assert most + python < 6 * size
