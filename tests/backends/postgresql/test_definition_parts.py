"""The catalog returns the parts of a definition with just the keys and types that are declared."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from tests.backends.postgresql.test_recreate import PAST, ROWS, TYPES, everything
from tests.backends.postgresql.test_swap import ATTACHED, PUBLISHED_PART, roles

from penstock.backends.postgresql.connection import connect
from penstock.backends.postgresql.ddl.definition import definitions_of
from penstock.backends.postgresql.ddl.parts import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.backends.conftest import Pair

__all__ = ["roles"]

MORE = """
    CREATE RULE spoken AS ON INSERT TO app."T a" DO ALSO NOTIFY app;
    CREATE STATISTICS app.together ON id, number FROM app."T a";
    CREATE SEQUENCE app.shared;
    ALTER TABLE app."T a" ALTER COLUMN small SET DEFAULT nextval('app.shared');
"""
PARTITIONED = """
    CREATE TABLE app.parent (id int PRIMARY KEY, f app.mood CHECK (f <> 'sad'))
        PARTITION BY RANGE (id);
    CREATE TABLE app.child PARTITION OF app.parent FOR VALUES FROM (0) TO (9);
"""


def faults(declared: Any, value: object, path: str) -> Iterator[str]:
    """Yield what is not as declared."""
    if get_origin(declared) in (Union, types.UnionType):
        if value is None and type(None) in get_args(declared):
            return
        (declared,) = [each for each in get_args(declared) if each is not type(None)]
    if is_typeddict(declared):
        assert isinstance(value, dict), path
        hints = get_type_hints(declared)
        for key in value.keys() ^ hints.keys():
            yield f"{path}.{key}: {'not declared' if key in value else 'missing'}"
        for key in value.keys() & hints.keys():
            yield from faults(hints[key], value[key], f"{path}.{key}")
    elif get_origin(declared) in (list, tuple):
        if not isinstance(value, list | tuple):
            yield f"{path}: {value!r}"
            return
        arguments = get_args(declared)
        for number, each in enumerate(value):
            argument = arguments[number] if get_origin(declared) is tuple else arguments[0]
            yield from faults(argument, each, f"{path}[{number}]")
    elif type(value) is not declared and declared is not object:
        yield f"{path}: expected {declared}, found {value!r}"


@pytest.mark.usefixtures("roles")
def test_each_part_is_as_declared(pair: Pair) -> None:
    attached = ATTACHED if pair.version >= 15 else ATTACHED.replace(PUBLISHED_PART, "")
    pair.source.run(TYPES, everything(pair.version), ROWS, PAST, attached, MORE, PARTITIONED)
    pair.source.run("CREATE VIEW app.seen AS SELECT id FROM app.other")
    connection = connect(pair.source.url, "source", "penstock:test")
    oids = [
        int(pair.source.value(f"SELECT '{name}'::regclass::oid"))
        for name in ('app."T a"', "app.parent", "app.seen")
    ]
    for partitioning in (False, True):
        defined = definitions_of(connection, oids, partitioning=partitioning)
        assert defined.keys() == set(oids)
        for definition in defined.values():
            content: Content = definition.native
            assert list(faults(Content, content, "")) == []
    table, parent = (defined[oid].native["tables"] for oid in oids[:2])
    for part in ("constraints", "indexes", "sequences", "used_sequences", "statistics"):
        assert table[0][part], part
    for part in ("triggers", "rules", "policies", "grants", "publications"):
        assert table[0]["attached"][part], part
    assert [each["name"] for each in parent] == ["parent", "child"]
    assert defined[oids[0]].native["types"]
    connection.close()
