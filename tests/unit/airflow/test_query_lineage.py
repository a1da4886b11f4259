"""The columns that a query reads, for lineage."""

from __future__ import annotations

import pytest

from penstock import Place
from penstock_airflow.lineage.query import QueryColumns, read_query

SHOP = Place("postgres", "h", 5432, "shop")
OF_MYSQL = Place("mysql", "h", 3306, "shop", schemas_are_databases=True)


def test_each_column_has_its_sources() -> None:
    found = read_query(
        "SELECT o.id, upper(c.name) AS who FROM public.orders o JOIN crm.people c ON c.id = o.who",
        SHOP,
    )
    assert found == QueryColumns(
        ("shop.crm.people", "shop.public.orders"),
        {
            "id": (("shop.public.orders", "id"),),
            "who": (("shop.crm.people", "name"),),
        },
    )


@pytest.mark.parametrize(
    ("query", "place", "tables"),
    [
        # Only the server knows the table's schema.
        ("SELECT id FROM orders", SHOP, ()),
        ("SELECT id FROM orders", OF_MYSQL, ("shop.orders",)),
        ("SELECT `id` FROM `crm`.`my people`", OF_MYSQL, ("crm.my people",)),
        ('WITH o AS (SELECT * FROM dw."My orders") SELECT a FROM o', SHOP, ("shop.dw.My orders",)),
        ("SELECT id FROM s.t", Place("clickhouse", "h", 8123, "d"), ("d.s.t",)),
        ("SELECT FROM )", SHOP, ()),
        ("", SHOP, ()),
        (None, SHOP, ()),
    ],
)
def test_the_tables_of_a_query_are_found(
    query: str | None, place: Place, tables: tuple[str, ...]
) -> None:
    assert read_query(query, place).tables == tables
