"""Any schema, any rows, any options: the target equals the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

MOODS = ("sad", 'so, "so"', "", "glad{}", "NULL")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


def literal(value: object, type_: str) -> str:
    return "'" + str(value).replace("'", "''") + f"'::{type_}"


@dataclass(frozen=True)
class Kind:
    """A type, and SQL literals of its values."""

    type: str
    values: st.SearchStrategy[str]
    wider: str = ""
    """A type that holds all its values, for the target's column."""


def leaf(type_: str, values: st.SearchStrategy[Any], wider: str = "") -> Kind:
    return Kind(type_, values.map(lambda value: literal(value, type_)), wider)


LEAVES = [
    leaf("int2", st.integers(-(2**15), 2**15 - 1), "int8"),
    leaf("int4", st.integers(-(2**31), 2**31 - 1), "numeric"),
    leaf("numeric", st.one_of(st.decimals(-(10**30), 10**30), st.just("NaN")), "text"),
    leaf("float8", st.floats(), "text"),
    leaf("text", TEXT, "varchar(9)"),
    leaf("varchar(8)", TEXT, "text"),
    leaf("bool", st.booleans()),
    leaf("bytea", st.binary(max_size=9).map(lambda value: "\\x" + value.hex()), "text"),
    leaf("date", st.dates(), "timestamp"),
    leaf("timestamptz", st.datetimes().map(lambda value: f"{value.isoformat()} UTC")),
    leaf(
        "interval",
        st.timedeltas(timedelta(-(10**6)), timedelta(10**6)).map(
            # PostgreSQL 14 has a limit of 2³¹ seconds.
            lambda value: f"{value.days} d {value.seconds}.{value.microseconds:06} s"
        ),
    ),
    leaf("uuid", st.uuids(), "text"),
    leaf("jsonb", st.sampled_from(['{"a": [1, null]}', '"é"', "1e9"]), "json"),
    leaf("regtype", st.sampled_from(["int4", "text[]"])),
    leaf("int4range", st.sampled_from(["empty", "[1,5)", "(,)"]), "text"),
    leaf("mood", st.sampled_from(MOODS), "text"),
]


def array(item: Kind) -> Kind:
    values = st.lists(st.one_of(st.just("NULL"), item.values), max_size=3)
    flat = values.map(lambda literals: f"ARRAY[{', '.join(literals)}]::{item.type}[]")
    filled = item.values.map(
        lambda value: f"array_fill({value}, ARRAY[2, 1], ARRAY[-1, 5])::{item.type}[]"
    )
    return Kind(f"{item.type}[]", st.one_of(flat, filled))


@st.composite
def kinds(draw: st.DrawFn, declare: Callable[[str, str], str]) -> Kind:
    """Draw a type, and declare what must be created for it."""
    shape = draw(st.sampled_from(["leaf"] * 3 + ["array", "domain", "composite", "list", "range"]))
    base = draw(st.sampled_from(LEAVES))
    if shape == "leaf":
        return base
    if shape == "array":
        return array(base)
    if shape == "range":
        name = declare("TYPE", "AS RANGE (subtype = mood)")
        ends = draw(st.sampled_from(["['sad', 'so, \"so\"']", "()"]))
        bounds = "NULL, NULL" if ends == "()" else "'sad', 'glad{}'"
        return Kind(name, st.just(f"{name}({bounds})"))
    if shape == "composite":
        parts = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3))
        named = ", ".join(f"f{number} {part.type}" for number, part in enumerate(parts))
        name = declare("TYPE", f"AS ({named})")
        fields = st.tuples(*(st.one_of(st.just("NULL"), part.values) for part in parts))
        item = Kind(name, fields.map(lambda literals: f"ROW({', '.join(literals)})::{name}"))
        return draw(st.sampled_from([item, array(item)]))
    below = base if shape == "domain" else array(base)
    name = declare("DOMAIN", f"AS {below.type}")
    item = Kind(name, below.values.map(lambda value: f"({value})::{name}"))
    return draw(st.sampled_from([item, array(item)]))


@dataclass(frozen=True)
class Case:
    types: list[str]
    """Statements that create the types."""
    mine: list[str]
    """Declarations of the source's and the target's columns."""
    theirs: list[str]
    rows: list[list[str]]
    options: dict[str, Any]
    read: str
    """A query for the source's rows in the target's columns and types."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    types: list[str] = []

    def declare(what: str, how: str) -> str:
        name = f"own_{len(types)}"
        types.append(f"CREATE {what} {name} {how}")
        return name

    found = draw(st.lists(kinds(declare), min_size=1, max_size=6))
    targets = [kind.wider if kind.wider and draw(st.booleans()) else kind.type for kind in found]
    rows = draw(
        st.lists(
            st.tuples(*(st.one_of(st.just("NULL"), kind.values) for kind in found)), max_size=9
        )
    )
    by_position = draw(st.booleans())
    mine = [f"c{number} {kind.type}" for number, kind in enumerate(found)]
    prefix = "other" if by_position else "c"
    theirs = [f'"{prefix}{number}" {type_}' for number, type_ in enumerate(targets)]
    order = list(range(len(found)))
    if not by_position:
        order = draw(st.permutations(order))
    options: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"strategy": "whole"},
                {"strategy": "ctid", "partitions": 2},
                {"strategy": "range", "key": "id", "partitions": 3},
                {"strategy": "hash", "key": "id", "partitions": 3},
                {"strategy": "values", "key": "id"},
                {"strategy": "auto"},
            ]
        )
    )
    options |= {"map": "position" if by_position else "name"}
    modes = ["append", "truncate"]
    if options["strategy"] in ("range", "values") and not by_position:
        modes.append("replace")
    options |= {"mode": draw(st.sampled_from(modes)), "degree": draw(st.integers(1, 2))}
    read = ", ".join(f"c{number}::{targets[number]}" for number in order)
    return Case(
        types, mine, [theirs[number] for number in order], [list(row) for row in rows], options,
        f"SELECT row(id, {read})::text FROM t",
    )  # fmt: skip


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases())
def test_both_sides_are_equal(pair: Pair, case: Case) -> None:
    labels = ", ".join("'" + label + "'" for label in MOODS)
    for side in (pair.source, pair.target):
        side.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "SET TIME ZONE UTC")
    # Object ids differ, and enum labels are in another order.
    pair.target.run("CREATE TYPE burnt AS ENUM ()")
    pair.both(f"CREATE TYPE mood AS ENUM ({labels})", *case.types)
    pair.source.run(f"CREATE TABLE t (id int, {', '.join(case.mine)})")
    pair.target.run(f"CREATE TABLE t (id int, {', '.join(case.theirs)})")
    for number, row in enumerate(case.rows):
        pair.source.run(f"INSERT INTO t VALUES ({number}, {', '.join(row)})")
    assert pair.copy(**case.options).rows == len(case.rows)
    expected = sorted(pair.source.rows(case.read))
    assert sorted(pair.target.rows("SELECT row(t.*)::text FROM t")) == expected
