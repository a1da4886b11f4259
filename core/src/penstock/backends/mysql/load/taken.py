"""Whether the server has taken every row as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from penstock.backends.api.worker import Wait
from penstock.errors import Diagnosis, PermanentError

_ROW = re.compile(r"(?<= at row )\d+$")
_MOST_SHOWN = 3


def check_warnings(
    connection: pymysql.Connection, table: str, count: int, before: int, wait: Wait
) -> None:
    """
    Parameters:
        count: of the warnings, by the last statement's answer.
        before: rows of the stream before those of the statement.

    Raises:
        PermanentError: there are any.
    """
    if not count:
        return
    with wait.answering("target"):
        warnings = connection.show_warnings()
    said = list(dict.fromkeys(_in_stream(text, before) for _, _, text in warnings))[:_MOST_SHOWN]
    more = f"; {count:,} warnings in all" if count > len(said) else ""
    raise PermanentError(
        f"target: {table}: expected every row to be taken as it is, found: {'; '.join(said)}{more}",
        Diagnosis(side="target", code=str(warnings[0][1]) if warnings else ""),
    )


def check_all_taken(table: str, sent: int, taken: int) -> None:
    """
    Raises:
        PermanentError: rows were left out, without a warning.
    """
    if sent != taken:
        raise PermanentError(
            f"target: {table}: expected all {sent:,} rows to be taken, found {taken:,}",
            Diagnosis(side="target"),
        )


@contextmanager
def counted_from(before: int) -> Iterator[None]:
    """The server counts the rows of a statement: its errors get the rows of the stream."""
    try:
        yield
    except pymysql.MySQLError as error:
        if len(error.args) > 1:
            error.args = (error.args[0], _in_stream(str(error.args[1]), before))
        raise


def _in_stream(text: str, before: int) -> str:
    return _ROW.sub(lambda found: f"{int(found[0]) + before:,}", text)
