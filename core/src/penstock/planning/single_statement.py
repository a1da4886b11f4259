"""The error for a query of several statements, as opposed to one with a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Query, Relation

# Loose, for any SQL dialect: it only looks at queries that a database has rejected.
_NO_END = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "[^"]*" | `[^`]*` | \[[^]]*\] | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    re.VERBOSE | re.DOTALL,
)


@contextmanager
def expecting_one_statement(relation: Relation) -> Iterator[None]:
    """Wrap the description of a relation.

    Raises:
        UsageError: the source rejected a query that consists of several statements.
    """
    try:
        yield
    except PlanningError as error:
        if isinstance(relation, Query) and _is_several(relation.text):
            raise UsageError("--query: expected one statement, found several") from error
        raise


def _is_several(text: str) -> bool:
    return ";" in _NO_END.sub(" ", text).strip().rstrip(";")
