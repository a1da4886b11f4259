"""The kind of a user's statement, for messages, without names or values."""

from __future__ import annotations

import re

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_PAIRS = "ALTER|CREATE|DROP|LOCK|OPTIMIZE|REFRESH|REINDEX|RENAME"


def statement_kind(query: str, pair: str = "") -> str:
    """Return ``ALTER TABLE``, ``SELECT`` and the like.

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
