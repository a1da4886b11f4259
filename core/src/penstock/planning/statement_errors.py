"""A database's errors about the user's own SQL: a condition, or a query of several statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Query, Relation

_NEAR = re.compile(r"""near (?P<quote>["'])(?P<text>.*)""", re.DOTALL)
# Loose, for any SQL dialect: it only looks at queries that a database has rejected.
_NO_END = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "[^"]*" | `[^`]*` | \[[^]]*\] | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    re.VERBOSE | re.DOTALL,
)


@contextmanager
def wrap_condition_errors(where: str | None) -> Iterator[None]:
    """Wrap the statements that contain the condition, whose errors also show Penstock's own SQL.

    Raises:
        PlanningError: as raised within; the message says where in the condition the error is.
    """
    try:
        yield
    except PlanningError as error:
        if where is None or "--where" not in error.message:
            raise
        raise PlanningError(_in_their_text(error.message, where), error.diagnosis) from error


def _in_their_text(message: str, where: str) -> str:
    match = _NEAR.search(message)
    if match is None:
        return message
    quote, text = match["quote"], match["text"]
    before = message[: match.start()].removesuffix("at or ")
    remainder = next((where[at:] for at in range(len(where)) if text.startswith(where[at:])), "")
    if remainder:  # from here to the end of the condition, and on into Penstock's own text
        return (
            f"{before}near {quote}{remainder}{quote}, {_place(where, len(where) - len(remainder))}"
        )
    token = text.partition(quote)[0] or quote
    if where.count(token) == 1:
        return f"{before}near {quote}{token}{quote}, {_place(where, where.index(token))}"
    if token not in where:
        return f"{before}at the end of the condition"
    return message


def _place(where: str, at: int) -> str:
    return f"character {at + 1:,} of the condition"


@contextmanager
def expecting_one_statement(relation: Relation) -> Iterator[None]:
    """Wrap the description of a relation, which rejects several statements as a syntax error.

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
