"""Which tables a batch's patterns match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.backends.postgresql.location import resolve
from penstock.backends.postgresql.source import PostgresSource

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@pytest.fixture
def source(pair: Pair) -> Iterator[PostgresSource]:
    pair.source.run(
        "CREATE SCHEMA shop",
        'CREATE SCHEMA "Sales.EU"',
        "CREATE TABLE shop.orders (id int)",
        "CREATE TABLE shop.lines (id int) PARTITION BY LIST (id)",
        "CREATE TABLE shop.lines_0 PARTITION OF shop.lines DEFAULT",
        "CREATE TABLE shop.base (id int)",
        "CREATE TABLE shop.heir () INHERITS (shop.base)",
        "CREATE UNLOGGED TABLE shop.cache (id int)",
        "CREATE TEMP TABLE orders_of_mine (id int)",
        'CREATE TABLE "Sales.EU"."Order [new]" (id int)',
        "CREATE TABLE public.run (id int)",
        "CREATE VIEW shop.seen AS TABLE shop.orders",
        "CREATE MATERIALIZED VIEW shop.kept AS TABLE shop.orders",
        "CREATE SEQUENCE shop.numbers",
        "CREATE SCHEMA others",
        "CREATE EXTENSION pg_stat_statements SCHEMA others",
        "CREATE TABLE others.own (id int)",
        "CREATE SCHEMA control",
        "CREATE TABLE control.run (id int)",
        "CREATE TABLE control.commit_record (id int)",
    )
    with closing(PostgresSource(resolve(pair.source.url, {}, "--source"))) as new_source:
        yield new_source


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["shop.*"], [], ["shop.base", "shop.cache", "shop.heir", "shop.lines", "shop.orders"]),
        (["shop.*"], ["*.c*", "shop.base", "*.heir"], ["shop.lines", "shop.orders"]),
        (["shop.orders", "shop.seen", "shop.kept"], [], ["shop.kept", "shop.orders", "shop.seen"]),
        (["shop.[ol]*"], [], ["shop.lines", "shop.orders"]),
        (["Sales.EU.*"], [], ['"Sales.EU".Order [new]']),
        (['"Sales.EU".Order [new]'], [], ['"Sales.EU".Order [new]']),
        (["SHOP.*"], [], []),
        (["shop.lines_0"], [], ["shop.lines_0"]),
        (["shop.lines_?"], [], []),
        (["pg_catalog.*", "information_schema.*"], [], []),
        (["pg_catalog.pg_am"], [], ["pg_catalog.pg_am"]),
        (
            ["*"],
            [],
            [
                '"Sales.EU".Order [new]',
                "others.own",
                "public.run",
                "shop.base",
                "shop.cache",
                "shop.heir",
                "shop.lines",
                "shop.orders",
            ],
        ),
    ],
)
def test_patterns_select_tables(
    source: PostgresSource, include: list[str], exclude: list[str], expected: list[str]
) -> None:
    assert [str(table) for table in source.tables(include, exclude)] == expected
