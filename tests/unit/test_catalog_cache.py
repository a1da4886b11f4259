"""A cache of a catalog's answers: each question is asked once, and one bad table fails alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.backends.sql.catalog.catalog_facts import AT_ONCE, CatalogFacts, TableQuery
from penstock.errors import PlanningError, TransientError
from penstock.model.tables import Query, TableRef

TABLES = [TableRef("s", f"t{number}") for number in range(10)]


def test_a_question_is_asked_once_for_all_tables() -> None:
    calls: list[Sequence[TableRef]] = []

    def ask(tables: Sequence[TableRef]) -> dict[TableRef, str]:
        calls.append(tables)
        return {table: table.name for table in tables}

    known = CatalogFacts([Query("SELECT 1"), *TABLES, TABLES[0]])
    assert [known.about("name", table, ask) for table in TABLES] == [t.name for t in TABLES]
    assert calls == [TABLES]
    other = TableRef("s", "other")
    assert known.about("name", other, ask) == "other"
    assert calls[1:] == [[other]]
    known.forget()
    assert known.about("name", TABLES[3], ask) == "t3"
    assert sorted(map(str, calls[-1])) == sorted(map(str, TABLES))


def test_one_bad_table_fails_alone() -> None:
    calls = []

    def ask(tables: Sequence[TableRef]) -> dict[TableRef, str]:
        calls.append(len(tables))
        if TABLES[7] in tables:
            raise PlanningError("source: t7: no")
        return {table: table.name for table in tables}

    known = CatalogFacts(TABLES)
    for table in TABLES:
        if table != TABLES[7]:
            assert known.about("name", table, ask) == table.name
    with pytest.raises(PlanningError, match="t7"):
        known.about("name", TABLES[7], ask)
    assert len(calls) < 10
    assert calls[0] == len(TABLES)


def test_an_error_that_concerns_no_table_is_raised_at_once() -> None:
    calls = []

    def ask(tables: Sequence[TableRef]) -> dict[TableRef, str]:
        calls.append(tables)
        raise TransientError("source: gone")

    with pytest.raises(TransientError):
        CatalogFacts(TABLES).about("name", TABLES[0], ask)
    assert len(calls) == 1


def test_no_statement_has_more_tables_than_allowed() -> None:
    many = [TableRef("s", f"t{number}") for number in range(2 * AT_ONCE + 1)]
    calls = []

    def ask(tables: Sequence[TableRef]) -> dict[TableRef, str]:
        calls.append(len(tables))
        return {table: table.name for table in tables}

    CatalogFacts(many).about("name", many[0], ask)
    assert calls == [AT_ONCE, AT_ONCE, 1]


def test_a_query_may_concern_tables_of_two_schemas() -> None:
    query = TableQuery("a, b", "x", "s", "n", "c = {catalog}", "a")
    tables = [TableRef("one", "t"), TableRef("two", "u"), TableRef("one", "v")]
    statement, values = query.statement(lambda number: f"${number}", "db", tables)
    assert statement == (
        "SELECT s, n, a, b FROM x WHERE c = $1 AND ((s = $2 AND n IN ($3, $4))"
        " OR (s = $5 AND n = $6)) ORDER BY a"
    )
    assert values == ["db", "one", "t", "v", "two", "u"]
