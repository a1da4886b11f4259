"""The text of a query, made safe to put in parentheses."""

from __future__ import annotations

import re
from functools import cache

# Strings, quoted names, comments and dollar quotes may contain a semicolon that does not end the
# query: https://www.postgresql.org/docs/current/sql-syntax-lexical.html
_LEXEME = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<end>;)
    | [eE]'(?:[^'\\]|\\.|'')*'
    | '[^']*'
    | "[^"]*"
    | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    | \w[\w$]*
    | .""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@cache
def without_end(text: str) -> str:
    """Return a query without its final semicolon and the comments after it."""
    position = end = 0
    while position < len(text):
        lexeme = _LEXEME.match(text, position)
        assert lexeme is not None
        position = _after_comment(text, position) if lexeme["comment"] else lexeme.end()
        if not (lexeme["blank"] or lexeme["comment"] or lexeme["end"]):
            end = position
    return text[:end]


def _after_comment(text: str, position: int) -> int:
    """Return the position after a comment; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, position):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
