"""Tells a query that a database does not understand from several statements in a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Query, Relation

# Loosely, for any dialect of SQL: it is asked only about queries that a database has refused.
_NO_END = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "[^"]*" | `[^`]*` | \[[^]]*\] | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    re.VERBOSE | re.DOTALL,
)


@contextmanager
def expecting_one_statement(relation: Relation) -> Iterator[None]:
    """Around the description of a relation.

    Raises:
        UsageError: the source has refused a query that is several statements.
    """
    try:
        yield
    except PlanningError as error:
        if isinstance(relation, Query) and _is_several(relation.text):
            raise UsageError("--query: expected one statement, found several") from error
        raise


def _is_several(text: str) -> bool:
    return ";" in _NO_END.sub(" ", text).strip().rstrip(";")
