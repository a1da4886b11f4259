"""Server to record batches to server: every type is fitted, loaded and compared."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock import PermanentError, PlanningError
from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.api.worker import ARROW
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.planning.asking.catalogs import match_columns
from penstock.planning.column_pairs import ColumnMapping
from penstock.spec.modes import RECREATE

from .test_arrow_reader import T, batches, worker_spec
from .test_arrow_writer import load
from .type_values import BY_NAME, CONTRIB, NEWER, OWN, OWN_TYPES, SYSTEM

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


def matched(pair: Pair) -> ColumnMapping:
    """Return the columns of `t` on both sides, matched for record batches."""
    source, target = PostgresSource(pair.source.url), PostgresTarget(pair.target.url, "penstock")
    try:
        mine = source.in_arrow(T, source.columns(T))
        return match_columns(pair.spec(), mine, target.columns(T), source, target, (ARROW,))
    finally:
        source.close()
        target.close()


def digests(pair: Pair, pairs: tuple[ColumnPair, ...]) -> tuple[Any, Any]:
    """Return the checksums of both sides."""
    source, target = PostgresSource(pair.source.url), PostgresTarget(pair.target.url, "penstock")
    try:
        return (
            source.checksum(T, None, Whole(), pairs),
            target.checksum(T, None, Whole(), pairs),
        )
    finally:
        source.close()
        target.close()


def copied(pair: Pair) -> ColumnMapping:
    found = matched(pair)
    spec = worker_spec(pair, [], pairs=found.pairs)
    load(pair, list(batches(spec)))
    return found


# These change on the way: arrays lose their lower bounds.
CHANGED = {("here.pairs", "[5:5]={NULL}")}


def _changed(pair: Pair, type_: str, values: list[str | None]) -> set[tuple[str, str | None]]:
    """Return the values that change on the way."""
    for place, value in enumerate(values):
        literal = "NULL" if value is None else "'" + value.replace("'", "''") + "'"
        pair.source.run(f"INSERT INTO t VALUES ({place}, {literal}::{type_})")
    found = copied(pair)
    mine, theirs = digests(pair, tuple(p for p in found.pairs if p.canonical))
    text = "SELECT a::text FROM t ORDER BY n"
    rows = zip(values, pair.source.rows(text), pair.target.rows(text), strict=True)
    changed = {
        (type_, value) for value, source_text, target_text in rows if source_text != target_text
    }
    assert (mine == theirs) or changed, type_
    return changed


def test_every_type_arrives(pair: Pair) -> None:
    for side in (pair.source, pair.target):
        side.connection.prepare_threshold = None
    extensions = {row[0] for row in pair.source.rows("SELECT name FROM pg_available_extensions")}
    contrib = {name: types for name, types in CONTRIB.items() if name in extensions}
    pair.both(*(f"CREATE EXTENSION {name} CASCADE" for name in contrib), *OWN_TYPES)
    everything = {**SYSTEM, **BY_NAME, **OWN}
    for types in contrib.values():
        everything.update(types)
    try:
        pair.source.run("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:  # built without libxml
        del everything["xml"]
    version = pair.source.connection.info.server_version
    changed, refused = set(), set()
    for type_, values in everything.items():
        known = [value for value in values if NEWER.get((type_, value), 0) <= version]
        if not known:
            continue
        pair.both("DROP TABLE IF EXISTS t", f"CREATE TABLE t (n int, a {type_})")
        try:
            changed |= _changed(pair, type_, [*known, None])
        except PermanentError as error:
            if "column 'a', row" not in error.message:
                raise
            refused.add(type_)
    assert changed == CHANGED
    assert refused == {
        "date", "time", "timestamp", "timestamptz", "int4[]", "timestamptz[]",
    }  # fmt: skip


# The text that both systems hash: written a second time, from the page that specifies it.


def text_of(value: Any, kind: str) -> str | None:
    if value is None:
        return None
    if kind.startswith("list:"):
        return "{" + ",".join(frame(text_of(v, kind.removeprefix("list:"))) for v in value) + "}"
    match kind:
        case "integer" | "text":
            return str(value)
        case "decimal":
            text = format(value, "f") if value.is_finite() else str(value)
            return text.rstrip("0").rstrip(".") if "." in text else text
        case "float":
            (bits,) = struct.unpack(">Q", struct.pack(">d", value))
            return "NaN" if math.isnan(value) else f"{bits:064b}"
        case "boolean":
            return "true" if value else "false"
        case "bytes":
            return bytes(value).hex()
        case "date":
            return str((value - date(1970, 1, 1)).days)
        case "time":
            return str((datetime.combine(date(1, 1, 1), value) - datetime(1, 1, 1)) // MICRO)  # noqa: DTZ001
        case "timestamp":
            return str((value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // MICRO)
        case "uuid":
            return str(value)
    raise AssertionError(kind)


MICRO = timedelta(microseconds=1)


def frame(text: str | None) -> str:
    return "-" if text is None else f"{len(text.encode())}:{text}"


def digest_of(row: list[Any], kinds: list[str]) -> int:
    line = ";".join(frame(text_of(v, kind)) for v, kind in zip(row, kinds, strict=True))
    return int(hashlib.sha256(line.encode()).hexdigest()[:15], 16)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
FINITE = {"allow_nan": False, "allow_infinity": False}
NUMBERS = st.decimals(places=4, min_value=-(10**9), max_value=10**9, **FINITE)
SMALL = st.decimals(places=4, min_value=-999, max_value=999, **FINITE)
GRIDS = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=3)
KINDS: Mapping[str, tuple[str, st.SearchStrategy[Any]]] = {
    "bool": ("boolean", st.booleans()),
    "int2": ("integer", st.integers(-(1 << 15), (1 << 15) - 1)),
    "int4": ("integer", st.integers(-(1 << 31), (1 << 31) - 1)),
    "int8": ("integer", st.integers(-(1 << 63), (1 << 63) - 1)),
    "float4": ("float", st.floats(width=32)),
    "float8": ("float", st.floats()),
    "numeric(16,4)": ("decimal", NUMBERS),
    "numeric(60,4)": ("decimal", NUMBERS),
    "text": ("text", TEXTS),
    "varchar": ("text", TEXTS),
    "bytea": ("bytes", st.binary(max_size=20)),
    "date": ("date", st.dates()),
    "time": ("time", st.times()),
    "timestamp": ("timestamp", st.datetimes()),
    "timestamptz": ("timestamp", st.datetimes(timezones=st.just(UTC))),
    "uuid": ("uuid", st.uuids()),
    "int4[]": ("list:integer", st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "text[]": ("list:text", st.lists(st.none() | TEXTS, max_size=3)),
    "numeric(9,4)[]": ("list:decimal", st.lists(st.none() | SMALL, max_size=3)),
    "int4[][]": ("list:list:integer", GRIDS),
}  # fmt: skip


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example takes a third of a second
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(
        st.tuples(*(st.none() | values for _, values in KINDS.values())), min_size=1, max_size=12
    )
)
def test_values_arrive_and_digests_agree(pair: Pair, rows: list[tuple[Any, ...]]) -> None:
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(KINDS))
    pair.both("DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})")
    for side in (pair.source, pair.target):
        side.connection.prepare_threshold = None
    placed = ", ".join(["%s"] * len(KINDS))
    kinds = [kind for kind, _ in KINDS.values()]
    for row in rows:
        pair.source.connection.execute(f"INSERT INTO t VALUES ({placed})".encode(), row)
    found = copied(pair)
    pair.assert_same()
    assert [each.canonical for each in found.pairs] == kinds
    mine, theirs = digests(pair, found.pairs)
    assert mine == theirs
    # The text of a float4 is shorter than its exact digits.
    wide = ", ".join(f"c{n}{'::float8' * (t == 'float4')}" for n, t in enumerate(KINDS))
    stored = pair.source.rows(f"SELECT {wide} FROM t")
    assert mine.digest == str(sum(digest_of(list(row), kinds) for row in stored))


def test_rows_are_identified_by_keys_as_text(pair: Pair) -> None:
    """Row keys are texts that any system can produce."""
    pair.source.run("CREATE TYPE two AS (a int, b text)")
    for side, composites in ((pair.source, "two[]"), (pair.target, "text[]")):
        side.run(f"CREATE TABLE t (k numeric(5,2), l char(5), v float8[], c {composites})")
    pair.source.run(
        "INSERT INTO t VALUES (1.50, 'a', '{0.5}', '{\"(1,x)\",NULL}'), (2, NULL, NULL, NULL),"
        " (NULL, 'b', '{}', '{}')"
    )
    found = copied(pair)
    assert [each.canonical for each in found.pairs] == [
        "decimal",
        "text",
        "list:float",
        "list:text",
    ]
    source, target = PostgresSource(pair.source.url), PostgresTarget(pair.target.url, "penstock")
    try:
        one = list(source.row_digests(T, None, Whole(), found.pairs, ["k"]))
        assert [key for key, _ in one] == ["1.5", "2", "NULL"]
        assert one == list(target.row_digests(T, None, Whole(), found.pairs, ["k"]))
        both = list(source.row_digests(T, None, Whole(), found.pairs, ["l", "k"]))
        assert [key for key, _ in both] == ["(NULL,2)", "(a,1.5)", "(b,NULL)"]
        only = list(target.row_digests(T, None, Whole(), found.pairs, ["l", "k"], ["(a,1.5)"]))
        assert only == [pair_ for pair_ in both if pair_[0] == "(a,1.5)"]
    finally:
        source.close()
        target.close()


# Fitting columns


def arrow_column(type_: pa.DataType, *, nullable: bool = True, name: str = "a") -> Column:
    return Column(name, str(type_), nullable, traits={"arrow": type_})


def fit(pair: Pair, type_: pa.DataType, target_type: str) -> Fit:
    pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {target_type})")
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        (found,) = target.fit([arrow_column(type_)], target.columns(T))
    finally:
        target.close()
    return found


def test_generated_and_unloadable_columns(pair: Pair) -> None:
    found = fit(pair, pa.int32(), "int GENERATED ALWAYS AS (1) STORED")
    assert found == Fit(reason="the target computes this column")
    assert "its input function rejects every value" in fit(pair, pa.string(), "pg_node_tree").reason


def create_table(
    pair: Pair, columns: list[Column], types: dict[str, str], ref: TableRef = T, **options: Any
) -> tuple[LoadPlan, tuple[Column, ...]]:
    target = PostgresTarget(pair.target.url, "penstock")
    definition = TableDefinition("arrow")
    try:
        assert target.creates_table(ref, RECREATE)
        theirs = target.defined_columns(ref, definition, columns, types)
        fits = target.fit(columns, theirs)
        assert not [found for found in fits if found.reason]
        pairs = tuple(ColumnPair(c.name, c.name) for c in columns)
        request = LoadRequest(
            "r1", T, ref, RECREATE, pairs, None, "keep", False, definition, new_columns=theirs
        )
        return target.plan_load(replace(request, **options)), theirs
    finally:
        target.close()


def shape(pair: Pair, table: str = "t") -> list[tuple[Any, ...]]:
    return pair.target.rows(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attndims FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum"
    )


def test_a_table_is_created(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (old int)", "CREATE TYPE mood AS ENUM ('sad')")
    columns = [
        arrow_column(pa.int64(), nullable=False, name='k"1'),
        arrow_column(pa.decimal128(15, 2), name="n"),
        arrow_column(pa.string(), name="mood"),
        arrow_column(pa.string(), name="v"),
        arrow_column(pa.list_(pa.int32()), name="l"),
        arrow_column(pa.list_(pa.list_(pa.int32())), name="g"),
    ]
    types = {"mood": "mood", "v": "varchar(9)", "g": "int[][]"}
    plan, theirs = create_table(pair, columns, types)
    assert [c.type for c in theirs][2:4] == ["public.mood", "character varying(9)"]
    assert shape(pair) == [("old", "integer", False, 0)]  # planning changes nothing
    for step in plan.steps:
        pair.target.run("BEGIN", step.statement, "COMMIT")
    assert shape(pair) == [
        ('k"1', "bigint", True, 0),
        ("n", "numeric(15,2)", False, 0),
        ("mood", "mood", False, 0),
        ("v", "character varying(9)", False, 0),
        ("l", "integer[]", False, 1),
        ("g", "integer[]", False, 2),
    ]
    for text in ("nonsense", "int; DROP TABLE t", "int, b int", ""):
        with pytest.raises(PlanningError, match="--types v="):
            create_table(pair, columns, {"v": text})


def test_a_table_is_created_unlogged_in_a_new_schema(pair: Pair) -> None:
    ref = TableRef("new one", "t")
    plan, _ = create_table(pair, [arrow_column(pa.int32())], {}, ref, unlogged=True)
    assert plan.volatile
    for step in plan.before:
        pair.target.run("BEGIN", step.statement, "COMMIT")
    persistence = "SELECT relpersistence::text FROM pg_class WHERE relname = 't'"
    assert pair.target.value(persistence) == "u"
    for step in plan.after:
        pair.target.run("BEGIN", step.statement, "COMMIT")
    assert pair.target.value(persistence) == "p"


def test_dependents_of_the_table(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (a int)", "CREATE VIEW v AS SELECT a FROM t")
    with pytest.raises(PlanningError, match="other objects depend on it"):
        create_table(pair, [arrow_column(pa.int32())], {})
