"""A query that the source rejects: several statements are the caller's mistake."""

from __future__ import annotations

import pytest

from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Query
from penstock.planning.statement_errors import expecting_one_statement


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "SELECT ';' ;\nDROP TABLE a;"])
def test_several_statements_are_a_usage_error(query: str) -> None:
    with (
        pytest.raises(UsageError, match="expected one statement, found several"),
        expecting_one_statement(Query(query)),
    ):
        raise PlanningError("source: --query: syntax error")


@pytest.mark.parametrize(
    "query",
    [
        "SELEC 1;",
        "SELECT ';' FROM [a;b] WHERE \"c;d\" = `e;f`",
        "SELECT 1 -- ; SELECT 2",
        "SELECT $x$ ; $x$ /* ; */",
        r"SELECT '\'; SELECT'",
    ],
)
def test_a_single_statement_is_left_to_the_source(query: str) -> None:
    with (
        pytest.raises(PlanningError, match="syntax error"),
        expecting_one_statement(Query(query)),
    ):
        raise PlanningError("source: --query: syntax error")
