"""Other people's functions and operators in `public`, which count how often they are called.

Each has the name of a built-in one that Penstock's statements use, with argument types that the
server prefers to the built-in ones, and the same result. The server counts calls in its statistics,
even in transactions that only read or that fail later.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import penstock.backends.postgresql
import penstock.backends.sql
from penstock_testkit.statistics import settle_statistics

if TYPE_CHECKING:
    from tests.backends.conftest import Side

SCALARS = (
    "text", "varchar", "bpchar", "name", '"char"', "oid", "regclass", "regproc", "regtype", "xid",
    "int2", "int4", "int8", "numeric", "float4", "float8", "bool", "uuid", "date", "timestamp",
    "timestamptz", "interval", "jsonb", "citext", "code", "mood", "pairing",
)  # fmt: skip
ARRAYS = tuple(f"{name}[]" for name in ("text", "varchar", "name", "oid", "int2", "int4", "int8"))
# What the server prefers to an argument of a built-in type.
PREFERRED = {
    "text": ("varchar", "bpchar", "name", "citext", "code"),
    "oid": ("regclass", "regproc", "regtype"),
    "int8": ("int4", "int2", "oid"),
    "int4": ("int2",),
    "numeric": ("int8", "int4"),
    "float8": ("float4", "int8", "int4"),
    "regclass": ("oid",),
    "anyarray": ARRAYS,
    "anycompatiblearray": ARRAYS,
    "anyelement": SCALARS,
    "anycompatible": SCALARS,
    "anynonarray": SCALARS,
    "anycompatiblenonarray": SCALARS,
    "any": SCALARS,
    "anyenum": ("mood",),
    "record": ("pairing",),
    "varchar": ("text", "code"),
    "bpchar": ("code",),
}
OPERATORS = re.split(
    " +", "= <> < <= > >= || ~ ~~ !~~ + - * / % & | # << >> -> ->> @> <@ && *<> *="
)
MOST = 150
_SAME = re.compile(r"any(compatible)?(element|nonarray|array)?$")


def _choices(types: list[str]) -> list[tuple[str, ...]]:
    """Return argument types that the server prefers to those of a built-in function."""
    options = [(each, *PREFERRED.get(each, ())) for each in types]
    found = []
    for choice in product(*options):
        concrete = all(not each.startswith("any") and each != "record" for each in choice)
        if concrete and list(choice) != types and _agree(types, choice):
            found.append(choice)
    return found[:MOST]


def _agree(types: list[str], choice: tuple[str, ...]) -> bool:
    """Whether arguments of one polymorphic kind have one type."""
    elements = {
        had.removesuffix("[]") if "array" in was and "non" not in was else had
        for was, had in zip(types, choice, strict=True)
        if was.startswith("any") and was != "any"
    }
    return len(elements) <= 1


def _result(types: list[str], choice: tuple[str, ...], result: str) -> str:
    if not result.startswith("any"):
        return result
    element = next(
        had.removesuffix("[]") if "array" in was and "non" not in was else had
        for was, had in zip(types, choice, strict=True)
        if was.startswith("any")
    )
    return f"{element}[]" if result.endswith("array") else element


def _called_names() -> set[str]:
    """Return all words that precede a bracket in the texts of the backend."""
    names: set[str] = set()
    for package in (penstock.backends.postgresql, penstock.backends.sql):
        for path in Path(str(package.__path__[0])).rglob("*"):
            if path.suffix in (".py", ".sql"):
                names.update(re.findall(r"\b([a-z_0-9]+)\(", path.read_text(encoding="utf-8")))
    return names


def plant(side: Side) -> None:
    """Create the traps, after the types that tables of the test use."""
    functions = side.connection.execute(
        "SELECT DISTINCT p.proname, p.prokind, p.proretset,"
        " ARRAY(SELECT t::regtype::text FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)"
        " ORDER BY n), p.prorettype::regtype::text"
        " FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace"
        " AND p.proname = ANY (%s) AND p.prokind IN ('f', 'a') AND p.pronargs BETWEEN 1 AND 3"
        " AND p.provariadic = 0",
        [sorted(_called_names())],
    ).fetchall()
    operators = side.connection.execute(
        "SELECT o.oprname, o.oprleft::regtype::text, o.oprright::regtype::text,"
        " o.oprresult::regtype::text FROM pg_operator AS o"
        " WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = ANY (%s)"
        " AND o.oprleft <> 0 AND o.oprright <> 0",
        [OPERATORS],
    ).fetchall()
    # The server does not count the steps of aggregates, but what they call.
    counted = "CREATE FUNCTION public.an_aggregate() RETURNS int LANGUAGE plpgsql"
    statements = {f"{counted} AS $$BEGIN RETURN 1; END$$": None}
    taken = {(name, *map(_short, types)) for name, _, _, types, _ in functions}
    taken |= {(name, _short(left), _short(right)) for name, left, right, _ in operators}
    for name, kind, is_set, types, result in functions:
        short = [_short(each) for each in types]
        for choice in _choices(short):
            if (name, *choice) in taken:
                continue
            taken.add((name, *choice))
            returned = _result(short, choice, _short(result))
            values = ", ".join(
                f"${n}" if was.startswith("any") else f"${n}::pg_catalog.{was}"
                for n, was in enumerate(short, 1)
            )
            if kind == "a":
                if len(choice) == 1 and not returned.startswith(("any", "internal")):
                    step = f"public.step_of_{name}"
                    statements[
                        f"CREATE OR REPLACE FUNCTION {step}({returned}, {choice[0]}) RETURNS"
                        f" {returned} LANGUAGE plpgsql AS $$BEGIN PERFORM public.an_aggregate();"
                        " RETURN $1; END$$"
                    ] = None
                    statements[
                        f"CREATE AGGREGATE public.{name}({choice[0]})"
                        f" (SFUNC = {step}, STYPE = {returned})"
                    ] = None
                continue
            body = f"RETURN {'QUERY SELECT ' if is_set else ''}pg_catalog.{name}({values});"
            statements[
                f"CREATE FUNCTION public.{name}({', '.join(choice)}) RETURNS"
                f" {'SETOF ' if is_set else ''}{returned} LANGUAGE plpgsql"
                f" AS $$BEGIN {body} END$$"
            ] = None
    for number, (name, left, right, result) in enumerate(operators):
        short = [_short(left), _short(right)]
        for place, choice in enumerate(_choices(short)):
            if (name, *choice) in taken:
                continue
            taken.add((name, *choice))
            returned = _result(short, choice, _short(result))
            function = f"public.operator_{number}_{place}"
            one, two = (
                f"${n}" if was.startswith(("any", "record")) else f"${n}::pg_catalog.{was}"
                for n, was in enumerate(short, 1)
            )
            statements[
                f"CREATE FUNCTION {function}({', '.join(choice)}) RETURNS {returned}"
                f" LANGUAGE plpgsql AS $$BEGIN RETURN {one} OPERATOR(pg_catalog.{name}) {two};"
                " END$$"
            ] = None
            statements[
                f"CREATE OPERATOR public.{name} (LEFTARG = {choice[0]}, RIGHTARG = {choice[1]},"
                f" FUNCTION = {function})"
            ] = None
    planted = 0
    for statement in statements:
        try:
            side.connection.execute(statement.encode())
            planted += 1
        except Exception as error:  # a combination that does not exist
            state = getattr(error, "sqlstate", None)
            if state is None:
                raise
    assert planted > len(statements) * 0.9, (planted, len(statements))


_SHORT = {
    "character varying": "varchar", "character": "bpchar", "smallint": "int2", "integer": "int4",
    "bigint": "int8", "boolean": "bool", "real": "float4", "double precision": "float8",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz",
}  # fmt: skip


def _short(name: str) -> str:
    base = name.removesuffix("[]")
    return _SHORT.get(base, base) + name[len(base) :]


def sprung(side: Side) -> dict[str, int]:
    """Return the traps that were called, and how often."""
    settle_statistics(side.connection)
    return dict(
        side.connection.execute(
            "SELECT f.funcid::regprocedure::text, f.calls FROM pg_stat_user_functions AS f"
            " JOIN pg_proc AS p ON p.oid = f.funcid JOIN pg_language AS l ON l.oid = p.prolang"
            " WHERE f.schemaname = 'public' AND l.lanname = 'plpgsql'"
        ).fetchall()
    )
