"""Record batches into a server: every type, every refusal with its row, in bounded memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest

from penstock import PermanentError
from penstock.backends.api.execution.control import NewRun
from penstock.backends.api.worker import LoadResult
from penstock.backends.postgresql.arrow.encoder import Encoder
from penstock.backends.postgresql.session.statements import BINARY, TEXT
from penstock.backends.postgresql.target import PostgresTarget
from penstock.backends.postgresql.writer import postgres_writer
from penstock.model.plans import LoadPlan, PartitionPlan
from penstock.model.snapshots import SourceState
from penstock.workers.stream import Meter, Waiter

from .test_arrow_reader import WHOLE, T, worker_spec

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

pytestmark = pytest.mark.usefixtures("both_paths")

STATE = SourceState("", "", "", "")


def prepared(pair: Pair) -> None:
    """Create the control tables and the run that `worker_spec` refers to."""
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        target.control.create()
        if target.control.runs.find("r1") is None:
            plan = PartitionPlan("whole", (), (WHOLE,), (), (), "arrow", LoadPlan(T))
            target.control.runs.create([NewRun("r1", {}, plan, STATE, None)])
    finally:
        target.close()
    pair.target.run("TRUNCATE penstock.commit_record")


def load(pair: Pair, batches: Sequence[pa.RecordBatch], **changes: Any) -> LoadResult:
    """Write batches into the target's table, and commit."""
    prepared(pair)
    spec = worker_spec(pair, batches[0].schema.names, **changes)
    writer, waiter = postgres_writer(spec), Waiter(Meter(), 60)
    try:
        assert writer.begin(WHOLE, 1, waiter)
        for batch in batches:
            writer.write(batch, waiter)
        loaded = writer.end(waiter)
        writer.commit(loaded, 1, waiter)
        assert not writer.begin(WHOLE, 2, waiter)
    finally:
        writer.abandon()
    return loaded


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def form(pair: Pair, batch: pa.RecordBatch) -> str:
    """Return the COPY format that a batch is sent in."""
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        columns = target.columns(T)
    finally:
        target.close()
    all_send = all(c.traits["all_send"] for c in columns)
    by_name = {c.name: c for c in columns}
    chosen = [by_name[name] for name in batch.schema.names]
    return Encoder(batch.schema, chosen, "t", all_send=all_send).format


def put(pair: Pair, type_: str, array: pa.Array) -> tuple[str, list[Any]]:
    """Return the format an array is sent in, and the target's values as text."""
    pair.target.connection.prepare_threshold = None
    pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (n int, a {type_})")
    source_batch = batch(n=pa.array(range(len(array)), pa.int32()), a=array)
    assert load(pair, [source_batch]) == LoadResult(len(array))
    found = [text for (text,) in pair.target.rows("SELECT a::text FROM t ORDER BY n")]
    return form(pair, source_batch), found


D = Decimal
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 600000)  # noqa: DTZ001 - without a time zone
ID = UUID("00000000-0000-0000-0000-0000000000ff")


def days(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32()).view(pa.date32())


def micros(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp("us"))


def months(*values: tuple[int, int, int]) -> pa.Array:
    return pa.array(values, pa.month_day_nano_interval())


def uuids(*values: bytes | None) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))


@pytest.mark.parametrize("all_text", [False, True], ids=["as it is", "text"])
def test_values_of_each_type_arrive(pair: Pair, all_text: bool) -> None:
    """In binary where the type has a binary form; as text if another column has none."""
    text = ["", '"\\N\t\r\n,é\\', None]
    if all_text:
        pair.target.run("CREATE TYPE pair AS (a int, b text)")
    lines: list[tuple[str, pa.Array, list[Any]]] = [
        ("bool", pa.array([True, False, None]), ["true", "false", None]),
        ("int2", pa.array([-5, None], pa.int64()), ["-5", None]),
        ("int4", pa.array([4294967295 >> 1], pa.uint32()), ["2147483647"]),
        ("int8", pa.array([1], pa.uint8()), ["1"]),
        ("int4", pa.array([1.0, -2.0]), ["1", "-2"]),
        ("int4", pa.array([D("3.00")]), ["3"]),
        ("numeric", pa.array([D("1.50"), D("-0.01"), None]), ["1.50", "-0.01", None]),
        ("numeric(5,1)", pa.array([D("1.50")]), ["1.5"]),
        ("numeric", pa.array([(1 << 64) - 1], pa.uint64()), [str((1 << 64) - 1)]),
        ("numeric", pa.array([-(1 << 63)], pa.int64()), [str(-(1 << 63))]),
        ("numeric", pa.array([D("1.5")], pa.decimal32(5, 2)), ["1.50"]),
        ("float4", pa.array([0.1, float("inf"), float("nan")]), ["0.1", "Infinity", "NaN"]),
        ("float8", pa.array([5e-324, -0.0, float("-inf")]), ["5e-324", "-0", "-Infinity"]),
        ("float8", pa.array([1.5], pa.float16()), ["1.5"]),
        ("float8", pa.array([7], pa.int32()), ["7"]),
        ("text", pa.array(text), text),
        ("text", pa.array(text, pa.large_string()), text),
        ("text", pa.array(text, pa.string_view()), text),
        ("text", pa.array(text).dictionary_encode(), text),
        ("varchar(3)", pa.array(["äöü"]), ["äöü"]),
        ("char(3)", pa.array(["a"]), ["a"]),
        ("text", pa.array([1.5, 1e300, 0.1]), ["1.5", "1e+300", "0.1"]),
        ("text", pa.array([D("0.0000001")]), ["0.0000001"]),
        ("text", pa.array([True]), ["true"]),
        ("text", pa.array([AT]), ["2026-01-02 03:04:05.600000"]),
        ("text", pa.array([AT], pa.timestamp("us", "UTC")), ["2026-01-02 03:04:05.600000+00"]),
        ("text", uuids(ID.bytes), [str(ID)]),
        ("text", pa.array([b"a"]), ["a"]),
        ("text", pa.array([{"a": [1, None]}]), ['{"a": [1, null]}']),
        ("bytea", pa.array([b"", b"\x00\xff\\", None]), ["\\x", "\\x00ff5c", None]),
        ("bytea", pa.array([b"ab"], pa.binary(2)), ["\\x6162"]),
        ("bytea", pa.array([b"ab"], pa.binary_view()), ["\\x6162"]),
        ("date", days(-719162, 2932896), ["0001-01-01", "9999-12-31"]),
        ("date", days(-719163, 2932897), ["0001-12-31 BC", "10000-01-01"]),
        ("date", pa.array([86400000], pa.int64()).view(pa.date64()), ["1970-01-02"]),
        ("time", pa.array([AT.time()]), ["03:04:05.6"]),
        ("time", pa.array([3], pa.time32("s")), ["00:00:03"]),
        ("time", pa.array([86400], pa.int32()).view(pa.time32("s")), ["24:00:00"]),
        ("time", pa.array([3000], pa.time64("ns")), ["00:00:00.000003"]),
        ("timestamp", pa.array([AT]), ["2026-01-02 03:04:05.6"]),
        ("timestamp", pa.array([AT], pa.timestamp("ns")), ["2026-01-02 03:04:05.6"]),
        ("timestamp", micros(-62135596800000001), ["0001-12-31 23:59:59.999999 BC"]),
        ("timestamp", pa.array([dt.date(2026, 1, 2)]), ["2026-01-02 00:00:00"]),
        ("timestamptz", pa.array([0], pa.timestamp("s", "Asia/Tokyo")), ["1970-01-01 00:00:00+00"]),
        ("timestamptz", pa.array([AT]), ["2026-01-02 03:04:05.6+00"]),
        ("interval", pa.array([1500], pa.duration("ms")), ["00:00:01.5"]),
        ("uuid", uuids(ID.bytes, None), [str(ID), None]),
        ("uuid", pa.array([ID.bytes]), [str(ID)]),
        ("json", pa.array([' {"a": 1}']), [' {"a": 1}']),
        ("jsonb", pa.array(['{"a":1}', None]), ['{"a": 1}', None]),
        ("jsonb", pa.array([{"a": D("1.50"), "b": None}]), ['{"a": 1.50, "b": null}']),
        ("jsonb", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), ['{"k": 1}']),
        ("jsonb", pa.array([[]], pa.map_(pa.string(), pa.int8())), ["{}"]),
        ("jsonb", pa.array([["a", None]]), ['["a", null]']),
        ("int4[]", pa.array([[1, None], [], None], pa.list_(pa.int64())), ["{1,NULL}", "{}", None]),
        ("text[]", pa.array([["", 'a"\\,', None, "NULL"]]), ['{"","a\\"\\\\,",NULL,"NULL"}']),
        ("bool[]", pa.array([[True]], pa.list_(pa.bool_(), 1)), ["{t}"]),
        ("int2[]", pa.array([[1], None, [2, 3]], pa.list_view(pa.int8())), ["{1}", None, "{2,3}"]),
        ("float8[]", pa.array([[0.5]], pa.large_list(pa.float32())), ["{0.5}"]),
        ("bytea[]", pa.array([[b"\x00"]]), ['{"\\\\x00"}']),
        ("date[]", pa.array([[dt.date(2026, 1, 2)]]), ["{2026-01-02}"]),
        ("timestamp[]", pa.array([[AT]]), ['{"2026-01-02 03:04:05.6"}']),
        ("text", pa.nulls(1), [None]),
        ("int4", pa.nulls(1), [None]),
    ]  # fmt: skip
    for target, array, expected in lines:
        if all_text:
            pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (n int, a {target}, p pair)")
            rows = [{"a": 1, "b": "x"}, None][:1] * len(array)
            source_batch = batch(n=pa.array(range(len(array))), a=array, p=pa.array(rows))
            assert form(pair, source_batch) == TEXT
            load(pair, [source_batch])
            found = pair.target.rows("SELECT a::text, p::text FROM t ORDER BY n")
            assert found == [(value, "(1,x)") for value in expected], (target, array.type)
        else:
            assert put(pair, target, array) == (BINARY, expected), (target, array.type)


def test_types_without_a_binary_form_arrive(pair: Pair) -> None:
    pair.target.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TYPE patient AS (name text, how mood, n int[])",
    )
    moments = pa.list_(pa.timestamp("us", "UTC"))
    nested = pa.array([[[1, 2], [None, 4]], [], None], pa.list_(pa.list_(pa.int32())))
    patient = pa.array(
        [{"name": 'a"(,', "how": "sad", "n": [1]}, {"name": None, "how": None, "n": None}, None]
    )
    lines: list[tuple[str, pa.Array, list[Any]]] = [
        ("numeric", pa.array(["1e-5", "NaN", None]), ["0.00001", "NaN", None]),
        ("numeric", pa.array([0.1, float("nan")]), ["0.1", "NaN"]),
        ("numeric", pa.array([D("9" * 50)], pa.decimal256(76, 2)), ["9" * 50 + ".00"]),
        ("int4", pa.array(["17"]), ["17"]),
        ("name", pa.array(["x" * 70, None]), ["x" * 63, None]),
        ("bool", pa.array(["yes"]), ["true"]),
        ("date", pa.array(["2026-01-02"]), ["2026-01-02"]),
        ("uuid", pa.array([str(ID)]), [str(ID)]),
        ("inet", pa.array(["::1"]), ["::1/128"]),
        ("interval", pa.array(["1 year -00:01"]), ["1 year -00:01:00"]),
        ("interval", months((14, 3, -1000)), ["1 year 2 mons 3 days -00:00:00.000001"]),
        ("int4range", pa.array(["[1,5)", "empty"]), ["[1,5)", "empty"]),
        ("oid", pa.array([4294967295], pa.uint32()), ["4294967295"]),
        ("money", pa.array([D("-1.50")]), ["-$1.50"]),
        ('"char"', pa.array(["x"]), ["x"]),
        ("int4[]", nested, ["{{1,2},{NULL,4}}", "{}", None]),
        ("int4[]", pa.array(["[2:2]={7}"]), ["[2:2]={7}"]),
        ("uuid[]", pa.array([[ID.bytes]], pa.list_(pa.binary(16))), ["{" + str(ID) + "}"]),
        ("box[]", pa.array([["(1,1),(0,0)"] * 2]), ["{(1,1),(0,0);(1,1),(0,0)}"]),
        ("varchar(2)[]", pa.array([["ab"]]), ["{ab}"]),
        ("timestamptz[]", pa.array([[AT]], moments), ['{"2026-01-02 03:04:05.6+00"}']),
        ("patient", patient, ['("a""(,",sad,{1})', "(,,)", None]),
        ("mood[]", pa.array([["sad", None]]), ["{sad,NULL}"]),
        ("tsvector", pa.array(["'a':1A"]), ["'a':1A"]),
    ]  # fmt: skip
    for target, array, expected in lines:
        assert put(pair, target, array) == (TEXT, expected), (target, array.type)
    assert put(pair, "mood", pa.array(["sad", None]).dictionary_encode()) == (BINARY, ["sad", None])


def strange(content: bytes) -> pa.Array:
    """Return a text column with one value that is not validated."""
    offsets = pa.array([0, len(content)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(content)])


REFUSED = [
    ("int4", pa.array([1 << 40]), "1099511627776"),
    ("int4", pa.array([1.5]), "1.5"),
    ("int4", pa.array([float("nan")]), "nan"),
    ("int8", pa.array([D("1.5")]), "found 1.5"),
    ("float8", pa.array([(1 << 53) + 1]), "9007199254740993"),
    ("float4", pa.array([1e39]), "1e+39"),
    ("timestamp", pa.array([1], pa.timestamp("ns")), ""),
    ("time", pa.array([1], pa.time64("ns")), ""),
    ("timestamp", micros(-(1 << 63)), ""),
    ("uuid", pa.array([b"short"]), "b'short'"),
    ("text", pa.array([b"\xff"]), "b'\\xff'"),
    ("text", strange(b"a\xffb"), ""),
    ("int4[]", pa.array([[1 << 40]]), "[1099511627776]"),
]
BY_SERVER = [
    ("numeric(3,1)", pa.array([D("123.4")]), "numeric field overflow"),
    ("varchar(2)", pa.array(["abc"]), "value too long"),
    ("text", pa.array(["a\0b"]), ""),
    ("jsonb", pa.array(["{"]), "invalid input syntax for type json"),
    ("mood", pa.array(["angry"]), "invalid input value for enum mood"),
    ("date", days(2147483647 - 10957), "out of range"),
    ("time", pa.array([-1], pa.int64()).view(pa.time64("us")), "out of range|found -1 us"),
    ("positive", pa.array([-1]), "violates check constraint"),
    ("int4 NOT NULL", pa.array([None], pa.int32()), "null value in column"),
]


@pytest.mark.parametrize("all_text", [False, True], ids=["as it is", "text"])
@pytest.mark.parametrize(
    ("type_", "array", "problem"), [*REFUSED, *BY_SERVER], ids=lambda value: str(value)[:20]
)
def test_a_refused_value_is_reported_with_its_column_and_row(
    pair: Pair, type_: str, array: pa.Array, problem: str, all_text: bool
) -> None:
    """Whether the server refuses it or Penstock does."""
    pair.target.run(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE t (a {type_}, s text, i inet)",
    )
    filler = pa.array(["sad"]) if type_ == "mood" else pa.nulls(1, array.type)
    if "NOT NULL" in type_:
        filler = pa.array([1], array.type)

    def rows(*arrays: pa.Array) -> pa.RecordBatch:
        """Return a batch with the arrays, beside a column whose texts contain line feeds."""
        together = pa.concat_arrays(arrays)
        more = {"i": pa.nulls(len(together))} if all_text else {}
        return batch(a=together, s=pa.array(["two\nlines"] * len(together)), **more)

    batches = [rows(*[filler] * 3000), rows(filler, array, filler), rows(filler)]
    with pytest.raises(PermanentError) as caught:
        load(pair, batches)
    message = caught.value.message
    assert message.startswith("target: ")
    if "positive" in type_:  # for a domain's constraint the server reports the row alone
        assert "row 3,002" in message, message
    else:
        assert "column 'a', row 3,002: " in message, message
    assert any(part in message for part in problem.split("|"))  # the server's message, or ours
    assert caught.value.diagnosis.side == "target"
    assert pair.target.count() == 0


def test_an_empty_stream_loads_nothing(pair: Pair) -> None:
    for type_ in ("int4", "inet"):
        pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {type_})")
        empty = batch(a=pa.array([], pa.string() if type_ == "inet" else pa.int64()))
        assert load(pair, [empty]) == LoadResult(0)
        assert load(pair, [empty, empty, empty]) == LoadResult(0)


def test_a_column_that_is_not_loaded_may_lack_a_binary_form(pair: Pair) -> None:
    """Binary COPY refuses the whole table, even if that column is not loaded."""
    pair.target.run("CREATE TABLE t (a int, acl aclitem)")
    source_batch = batch(a=pa.array([1, 2]))
    assert form(pair, source_batch) == TEXT
    assert load(pair, [source_batch]) == LoadResult(2)


def test_upsert_and_replace_load_record_batches(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (k int PRIMARY KEY, v numeric)", "INSERT INTO t VALUES (1, 1)")
    source_batch = batch(k=pa.array([1, 2]), v=pa.array([D("1.5"), D("2.5")]))
    loaded = load(pair, [source_batch], mode="upsert", conflict_columns=("k",))
    assert (loaded.inserted, loaded.updated) == (1, 1)
    assert load(pair, [source_batch], mode="replace") == LoadResult(2)
    assert pair.target.rows("SELECT * FROM t ORDER BY 1") == [(1, D("1.5")), (2, D("2.5"))]


def test_large_values_arrive(pair: Pair) -> None:
    size = 50 << 20
    for type_, array in [
        ("bytea", pa.array([b"z" * size])),
        ("text", pa.array(["z" * size])),
    ]:
        for extra in ("", ", i inet"):
            pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {type_}{extra})")
            before = pa.total_allocated_bytes()
            batches = [batch(a=array, i=pa.nulls(1)) if extra else batch(a=array)] * 3
            assert load(pair, batches) == LoadResult(3)
            assert pa.total_allocated_bytes() - before < size
            assert pair.target.value("SELECT sum(octet_length(a)) FROM t") == 3 * size
