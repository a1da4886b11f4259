"""A query, checked and prepared to stand in parentheses."""

from __future__ import annotations

from functools import cache

import duckdb

from penstock.backends.duckdb.connection import instance
from penstock.backends.duckdb.errors import planning
from penstock.backends.sql.dialect import raw
from penstock.errors import UsageError

ONE = "--query: expected one SELECT that only reads, found"


def subselect(text: str) -> str:
    """Return a query as an item of FROM.

    Raises:
        UsageError: the query is several statements, not a SELECT, or has parameters.
    """
    return f"{raw(_checked(text))} AS query"


@cache
def _checked(text: str) -> str:
    # Parsing needs no database, and touches no file.
    with instance() as parser, planning("source", "--query"):
        statements = parser.extract_statements(text)
    if len(statements) != 1:
        raise UsageError(f"{ONE} {len(statements) or 'no'} statements")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise UsageError(f"{ONE} {statement.type.name}")
    if statement.named_parameters:
        listed = ", ".join(f"${name}" for name in sorted(statement.named_parameters))
        raise UsageError(
            f"--query: expected no parameters, found {listed}; write their values in the query"
        )
    return _without_end(text)


def _without_end(text: str) -> str:
    """Return a query without its final semicolon and the text after it.

    A single statement has a semicolon only at its end; one in a string or comment is not a token.
    """
    encoded = text.encode()
    for offset, _ in duckdb.tokenize(text):
        if encoded[offset : offset + 1] == b";":
            return encoded[:offset].decode()
    return text
