"""Well-known sample databases, copied as a whole, work afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.backends.postgresql.definitions import carry, definitions

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished, Event

if TYPE_CHECKING:
    from penstock.model.tables import NotCopied

    from ..conftest import Pair, Side

SAMPLES = Path(__file__).parent / "samples"
SCHEMAS = {
    "pagila": ("public",),
    "northwind": ("public",),
    "chinook": ("public",),
    "adventureworks": ("person", "humanresources", "production", "purchasing", "sales"),
}
KEYS = """
    SELECT conrelid::regclass::text, conname, contype, convalidated, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE contype IN ('p', 'u', 'f', 'c')
        AND connamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'penstock')
        AND contypid = 0
    ORDER BY 1, 2
"""
TABLES = """
    SELECT c.oid::regclass::text FROM pg_class AS c
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relnamespace::regnamespace::text = ANY (ARRAY[{}])
    ORDER BY 1
"""
# Per sequence, a column filled from it: identity columns, and those with a default.
NUMBERED = """
    SELECT c.oid::regclass::text, quote_ident(a.attname),
        coalesce(
            pg_get_serial_sequence(c.oid::regclass::text, a.attname),
            substring(pg_get_expr(d.adbin, d.adrelid) FROM $$nextval\\('([^']*)'$$)
        )
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval%')
        AND c.relnamespace::regnamespace::text NOT IN ('penstock', 'pg_catalog')
    ORDER BY 1, 2
"""


def filled(side: Side, name: str) -> None:
    side.run((SAMPLES / f"{name}.sql").read_text(encoding="utf-8"))


def batch(pair: Pair, name: str, **options: Any) -> BatchSpec:
    arguments = {
        "source": pair.source.url,
        "target": pair.target.url,
        "tables": [f"{schema}.*" for schema in SCHEMAS[name]],
        "mode": "recreate",
        "verify": "checksums",
        "degree": 2,
        **options,
    }
    return BatchSpec.from_mapping(arguments, "test")


def copy_all_tables(spec: BatchSpec) -> BatchFinished:
    seen: list[Event] = []
    try:
        for event in copy_all(spec):
            seen.append(event)
    except RunFailed as error:
        for event in seen:
            error.add_note(getattr(event, "message", ""))
        raise
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    return end


def not_copied(end: BatchFinished) -> list[NotCopied]:
    return [*(item for table in end.tables for item in table.not_copied), *end.not_copied]


def assert_works(pair: Pair, name: str) -> None:
    """Check that rows, keys and sequences are the source's, and that the next row gets a new
    number."""
    schemas = ", ".join(f"'{schema}'" for schema in SCHEMAS[name])
    tables = [table for (table,) in pair.source.rows(TABLES.format(schemas))]
    assert len(tables) > 10
    for table in tables:
        pair.assert_same(table, columns="t::text")
    numbered = pair.target.rows(NUMBERED)
    assert numbered == pair.source.rows(NUMBERED)
    for table, column, sequence in numbered:
        last_value = pair.target.value(f"SELECT max({column}) FROM {table}")
        assert pair.target.value(f"SELECT nextval('{sequence}')") == last_value + 1, table


@pytest.mark.parametrize("name", ["northwind", "chinook"])
def test_a_sample_database_is_copied_unchanged(pair: Pair, name: str) -> None:
    filled(pair.source, name)
    for _ in range(2):
        end = copy_all_tables(batch(pair, name))
        assert not_copied(end) == []
        assert pair.target.rows(KEYS) == pair.source.rows(KEYS)
        assert definitions(pair.target.url) == definitions(pair.source.url)
    assert_works(pair, name)


def test_a_foreign_key_is_enforced_afterwards(pair: Pair) -> None:
    filled(pair.source, "northwind")
    copy_all_tables(batch(pair, "northwind"))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        pair.target.run("INSERT INTO order_details VALUES (1, 1, 1, 1, 1)")


def test_pagila_works_afterwards(pair: Pair) -> None:
    filled(pair.source, "pagila")
    for _ in range(2):
        end = copy_all_tables(batch(pair, "pagila", partitioning=True))
        assert pair.target.rows(KEYS) == pair.source.rows(KEYS)
    assert_works(pair, "pagila")
    kinds = {(item.kind, item.name) for item in not_copied(end)}
    assert {kind for kind, _ in kinds} == {
        "triggers", "functions", "views", "materialized views",
    }  # fmt: skip
    assert ("triggers", "film_fulltext_trigger") in kinds
    assert ("views", "public.actor_info") in kinds
    # The listed statements can be executed.
    order = sorted(not_copied(end), key=lambda item: item.kind != "functions")
    pair.target.run(*(item.remedy for item in order if item.remedy))
    pair.target.run("UPDATE film SET title = 'shiny' WHERE film_id = 1")
    assert pair.target.count("film", "fulltext @@ 'shini'::tsquery") == 1
    query = "SELECT row(v)::text FROM {} AS v ORDER BY 1"
    for view in ("actor_info", "staff_list", "rental_by_category"):
        assert pair.target.rows(query.format(view)) == pair.source.rows(query.format(view))


def test_adventureworks_works_afterwards(pair: Pair) -> None:
    filled(pair.source, "adventureworks")
    seen: list[Event] = []
    with pytest.raises(RunFailed):
        seen.extend(copy_all(batch(pair, "adventureworks")))
    # Their default calls a function, which is not copied.
    function = "function public.new_guid()"
    warnings = [event for event in seen if function in getattr(event, "message", "")]
    assert len(warnings) == 4
    pair.target.run(
        "CREATE FUNCTION new_guid() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'"
    )
    for _ in range(2):
        end = copy_all_tables(batch(pair, "adventureworks"))
        assert pair.target.rows(KEYS) == pair.source.rows(KEYS)
    assert_works(pair, "adventureworks")
    assert {(item.kind, item.name) for item in not_copied(end)} == {
        ("materialized views", "person.vstates")
    }
    pair.target.run(*(item.remedy for item in not_copied(end)))
    assert pair.target.count("person.vstates") == 40


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_are_copied_between_the_two_halves_of_a_dump(pair: Pair, name: str) -> None:
    """The steps that move a whole database: definitions, rows, then indexes and keys."""
    filled(pair.source, name)
    carry("pre-data", pair.source.url, pair.target.url)
    end = copy_all_tables(batch(pair, name, mode="append"))
    assert not_copied(end) == []
    carry("post-data", pair.source.url, pair.target.url)
    assert definitions(pair.target.url) == definitions(pair.source.url)
    assert_works(pair, name)
