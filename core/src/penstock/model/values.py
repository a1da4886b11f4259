"""Values of rows in human-readable texts: shown, or hidden from logs and stored texts.

Errors say which value did not fit, and partitions are named by the bounds of their keys. Both end
up in logs, events, reports and control tables, whose readers may not be allowed to see the rows.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Literal, get_args

ShowValues = Literal["never", "errors"]
SHOW_VALUES: tuple[ShowValues, ...] = get_args(ShowValues)
NEVER, ERRORS = SHOW_VALUES
VARIABLE = "PENSTOCK_SHOW_VALUES"
"""The environment variable that applies if the options of an execution do not decide."""
HIDDEN = "***"

_in_context: ContextVar[str | None] = ContextVar("show_values", default=None)
_of_process: dict[str, str | None] = {}

# A name follows one of these words; any other quoted text may be a value.
_NAMED = (
    "column|columns|table|constraint|index|object|relation|key|database|schema|type|enum|encoding"
    "|function|domain|field|view|sequence|procedure"
)
_NAME = r"""(?:"[\w.$@#-]+"|'[\w.$@#-]+'|`[\w$@#-]+`(?:\.`[\w$@#-]+`)*|\[[\w$@#-]+\])"""
_TOKEN = re.compile(
    rf"(?P<kept>\b(?:{_NAMED}):? {_NAME}|(?<=\w)\(\d+(?:, ?\d+)?\)"
    r"|\b(?:row|line) \d[\d,]*)"
    r"|(?P<number>(?<![\w.])[-+]?\d[\d.,:]*(?:e[-+]?\d+)?\b)"
    r"|[\"'`(\[{«]",
    re.IGNORECASE,
)
# What may follow a value at the end of a server's message.
_END = re.compile(
    rf" (?:(?:for|in) (?:key|column) (?:{_NAME}|[\w.$]+)(?: at row \d+)?|is not recognized"
    r"|is out of range for type \w+|(?:to|as)(?: a scalar of)?(?: data)?(?: type)? \w+)$",
    re.IGNORECASE,
)


def choose(choice: str | None) -> None:
    """Set the choice for this context from now on; None changes nothing."""
    if choice is not None:
        _in_context.set(choice)


def choose_for_process(choice: str | None) -> None:
    """Set the choice for all threads of this process; None leaves it to the environment."""
    _of_process["choice"] = choice


def chosen() -> str | None:
    """Return the explicit choice; None without one."""
    return _in_context.get() or _of_process.get("choice") or os.environ.get(VARIABLE) or None


def are_shown() -> bool:
    """Whether errors may contain values of rows."""
    return chosen() == ERRORS


def value(text: str) -> str:
    """Return a text that is or contains a value, or its placeholder if values are hidden."""
    return text if are_shown() else HIDDEN


def server_message(text: str) -> str:
    """Return the message of a server or library, with values hidden if they must be.

    Numbers are hidden, and everything from the first quotation that is not the name of a column
    or similar: a value may contain quotation marks itself, so its end cannot be found.
    """
    if are_shown():
        return text
    safe, position = "", 0
    for token in _TOKEN.finditer(text):
        safe += text[position : token.start()]
        if token["kept"]:
            safe += token[0]
        elif token["number"]:
            safe += HIDDEN
        else:
            end = _END.search(text, token.end())
            return safe + HIDDEN + (end[0] if end else "")
        position = token.end()
    return safe + text[position:]


_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_PAIRS = "ALTER|CREATE|DROP|LOCK|OPTIMIZE|REFRESH|REINDEX|RENAME"


def statement_kind(query: str, pair: str = "") -> str:
    """Return the kind of a statement, such as ``ALTER TABLE``, without names or values.

    Args:
        query: the text of the statement.
        pair: a pattern for word pairs that belong together in this database, in addition to the
            usual ones.
    """
    also = pair.replace(" ", rf"{_SPACE}+") + "|" if pair else ""
    kinds = rf"{also}(?:{_PAIRS}){_SPACE}+[A-Z]+|[A-Z]+"
    match = re.match(rf"{_SPACE}*({kinds})\b", query, re.IGNORECASE | re.DOTALL)
    if match is None:
        return "a statement that this user may not see"
    return " ".join(re.sub(_SPACE, " ", match[1], flags=re.DOTALL).upper().split())
