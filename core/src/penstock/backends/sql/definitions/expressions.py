"""Defaults, checks and computed columns as trees, parsed from text in one database's dialect.

Supported are columns, literals, sums, differences and products, concatenation, the length and case
of texts, COALESCE, comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR and NOT, the current time and
date, and a new UUID, in the forms in which databases store them. The tree is plain data, stored
with the table's definition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.sql.dialect import (
    CHARACTERS,
    LOWER,
    NEW_UUID,
    NOW,
    OCTETS,
    TODAY,
    UPPER,
    UTC_NOW,
)

NUMBER, BOOLEAN, TEXT, BYTES, DATE, TIMESTAMP, MOMENT, UUID = (
    "number", "boolean", "text", "bytes", "date", "timestamp", "moment", "uuid",
)  # fmt: skip
"""The kinds of literals, and of what columns hold, as in `ColumnPair.canonical`, except that
timestamps with a zone are moments.
"""

Node = Sequence[Any]
"""`value`, with a kind and a text (hexadecimal digits for bytes); `column`, with a name; `call`,
with a function; `like`, with a node and a pattern; or an operator or text function, with nodes.
"""


class Untranslatable(Exception):
    """The expression is not supported, or has no equivalent in other databases."""


_TOKEN = r"""\s*(?:
      (?P<hex>[xX]'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)
    | (?P<bits>[bB]'[01]+')
    | (?P<text>(?:N|n|E|_\w+\s?)?'(?:%s|'')*')
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<array>ARRAY\[)
    | (?P<cast>::)
    | (?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`|\[[^\]\d][^\]]*\])
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>!~~|~~|\|\||<=|>=|<>|!=|-(?!-)|[+*=<>(),.\[\]])
    )"""
_PLAIN = re.compile(_TOKEN % r"[^']", re.VERBOSE)
_ESCAPED = re.compile(_TOKEN % r"[^'\\]|\\.", re.VERBOSE | re.DOTALL)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}
_QUOTES = {'"': '"', "`": "`", "[": "]"}
# Casts to these types change no literal; a text column keeps its text.
_WHOLE_CASTS = ("smallint", "integer", "int", "bigint", "tinyint")
_NUMBER_CASTS = (*_WHOLE_CASTS, "numeric", "decimal", "real", "double precision", "float", "money")
_TEXT_CASTS = ("text", "character varying", "varchar", "nvarchar", "character", "bpchar", "char")
_CALLS = {
    "now": NOW,
    "current_timestamp": NOW,
    "localtimestamp": NOW,
    "getdate": NOW,
    "sysdatetime": NOW,
    "sysdatetimeoffset": NOW,
    "transaction_timestamp": NOW,
    "statement_timestamp": NOW,
    "clock_timestamp": NOW,
    "getutcdate": UTC_NOW,
    "sysutcdatetime": UTC_NOW,
    "utc_timestamp": UTC_NOW,
    "curdate": TODAY,
    "current_date": TODAY,
    "gen_random_uuid": NEW_UUID,
    "uuid_generate_v4": NEW_UUID,
    "newid": NEW_UUID,
    "uuid": NEW_UUID,
}
_BARE = ("current_timestamp", "localtimestamp", "current_date")
"""Functions without parentheses."""
_COMPARED = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LIKES = {"~~": False, "!~~": True}


@dataclass(frozen=True, slots=True)
class Style:
    """Syntax that has different meanings in different databases."""

    escapes: bool = False
    """Whether a backslash in a text begins an escape."""
    plus_joins: bool = False
    """Whether + concatenates texts."""
    functions: Mapping[str, str] = field(
        default_factory=lambda: {
            "length": CHARACTERS,
            "char_length": CHARACTERS,
            "character_length": CHARACTERS,
            "octet_length": OCTETS,
            "lower": LOWER,
            "upper": UPPER,
            "coalesce": "coalesce",
        }
    )
    """Text functions, and `coalesce` and `concat`, which returns NULL if any of its texts is NULL.
    """


STANDARD = Style()


def read(text: str, columns: Collection[str] = (), style: Style = STANDARD) -> Node | None:
    """Return the tree of a text; None if it is not supported.

    Args:
        text: the text of the expression, as the catalog returns it.
        columns: the names of the columns that it may contain.
        style: the notation of the source's dialect.
    """
    try:
        return _Reader(text, columns, style).whole()
    except Untranslatable:
        return None


class _Reader:
    def __init__(self, text: str, columns: Collection[str], style: Style) -> None:
        self._style = style
        self._tokens: list[tuple[str, str]] = []
        self._columns = {name.lower(): name for name in columns}
        position = 0
        text = text.strip()
        while position < len(text):
            match = (_ESCAPED if style.escapes else _PLAIN).match(text, position)
            if match is None:
                raise Untranslatable
            position = match.end()
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
        self._tokens.append(("end", ""))
        self._at = 0

    def whole(self) -> Node:
        node = self._either()
        self._expect("")
        return node

    # Tokens

    def _accept_words(self, *words: str) -> bool:
        """Consume the next tokens if they match; return whether they do."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [text.lower() if kind != "name" else None for kind, text in ahead] != list(words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._accept_words(word):
            raise Untranslatable

    # Expressions, lowest precedence first

    def _either(self) -> Node:
        nodes = [self._both()]
        while self._accept_words("or"):
            nodes.append(self._both())
        return nodes[0] if len(nodes) == 1 else ["or", *nodes]

    def _both(self) -> Node:
        nodes = [self._negated()]
        while self._accept_words("and"):
            nodes.append(self._negated())
        return nodes[0] if len(nodes) == 1 else ["and", *nodes]

    def _negated(self) -> Node:
        return ["not", self._negated()] if self._accept_words("not") else self._test()

    def _test(self) -> Node:
        value = self._sum()
        if self._accept_words("is", "not", "null"):
            return ["not", ["null", value]]
        if self._accept_words("is", "null"):
            return ["null", value]
        negated = self._accept_words("not")
        node: Node | None = None
        if self._accept_words("in", "("):
            node = ["in", value, *self._list(")")]
        elif self._accept_words("between"):
            lowest = self._sum()
            self._expect("and")
            node = ["and", [">=", value, lowest], ["<=", value, self._sum()]]
        elif self._accept_words("like"):
            node = self._like(value)
        if node is not None:
            return ["not", node] if negated else node
        kind, sign = self._tokens[self._at]
        if negated:
            raise Untranslatable
        if kind != "sign" or sign not in (*_COMPARED, *_LIKES):
            return value
        self._at += 1
        if sign in _LIKES:
            node = self._like(value)
            return ["not", node] if _LIKES[sign] else node
        if self._accept_words("any", "("):
            if sign != "=":
                raise Untranslatable
            return ["in", value, *self._array()]
        if self._accept_words("all", "("):
            if sign != "<>":
                raise Untranslatable
            return ["not", ["in", value, *self._array()]]
        return [_COMPARED[sign], value, self._sum()]

    def _like(self, value: Node) -> Node:
        """Parse a LIKE whose wildcards mean the same everywhere."""
        pattern = self._value()
        if pattern[:2] != ["value", TEXT] or set(pattern[2]) & set("\\["):
            raise Untranslatable
        return ["like", value, pattern[2]]

    def _array(self) -> list[Node]:
        """Parse = ANY (ARRAY[...]), after its parenthesis."""
        wrapped = self._accept_words("(")
        self._expect("array[")
        items = self._list("]")
        if wrapped:
            self._expect(")")
        self._cast(["value", TEXT, "0"])
        self._expect(")")
        return items

    def _list(self, end: str) -> list[Node]:
        items = [self._sum()]
        while self._accept_words(","):
            items.append(self._sum())
        self._expect(end)
        return items

    def _sum(self) -> Node:
        """Parse sums and concatenations, of which the latter have lower precedence."""
        nodes = [self._terms()]
        while self._accept_words("||"):
            nodes.append(self._terms())
        return nodes[0] if len(nodes) == 1 else ["concat", *nodes]

    def _terms(self) -> Node:
        node = self._product()
        while (sign := self._tokens[self._at][1]) in ("+", "-"):
            self._at += 1
            joins = sign == "+" and self._style.plus_joins
            node = ["plus" if joins else sign, node, self._product()]
        return node

    def _product(self) -> Node:
        node = self._value()
        while self._accept_words("*"):
            node = ["*", node, self._value()]
        return node

    def _value(self) -> Node:
        node = self._plain()
        while self._tokens[self._at][0] == "cast":
            node = self._cast(node)
        return node

    def _cast(self, node: Node) -> Node:
        if self._tokens[self._at][0] != "cast":
            return node
        self._at += 1
        return self._as_type(node)

    def _as_type(self, node: Node) -> Node:
        words = []
        while self._tokens[self._at][0] in ("word", "name") and self._tokens[self._at][
            1
        ].lower() not in ("and", "or", "is", "not", "in", "between", "like", "as"):
            words.append(self._tokens[self._at][1].strip("[]").lower())
            self._at += 1
            if self._accept_words("."):
                words.append(".")
        limits = self._list(")") if self._accept_words("(") else []
        while self._accept_words("without", "time", "zone") or self._accept_words(
            "with", "time", "zone"
        ):
            pass
        self._accept_words("[", "]")
        return _cast(node, " ".join(words), limits)

    def _plain(self) -> Node:
        kind, text = self._tokens[self._at]
        self._at += 1
        if text == "(" and kind == "sign":
            node = self._either()
            self._expect(")")
            return node
        if text == "-" and kind == "sign":
            return _negative(self._value())
        if kind == "number":
            return ["value", NUMBER, text]
        if kind == "text":
            return ["value", TEXT, self._text(text)]
        if kind == "bits":
            return ["value", NUMBER, str(int(text[2:-1], 2))]
        if kind == "hex":
            return ["value", BYTES, text[2:].rstrip("'").lower()]
        if kind == "name":
            closing = _QUOTES[text[0]]
            return self._column(text[1:-1].replace(closing * 2, closing))
        if kind == "word":
            return self._word(text)
        raise Untranslatable

    def _text(self, literal: str) -> str:
        if literal[0] == "E":
            raise Untranslatable
        inner = literal[literal.index("'") + 1 : -1]
        if not self._style.escapes:
            return inner.replace("''", "'")
        return re.sub(
            r"''|\\(.)",
            lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else "'",
            inner,
            flags=re.DOTALL,
        )

    def _word(self, word: str) -> Node:
        name = word.lower()
        if name in ("true", "false"):
            return ["value", BOOLEAN, name]
        if name == "null":
            return ["value", "null", ""]
        called = self._accept_words("(")
        if called and name == "cast":
            node = self._sum()
            self._expect("as")
            node = self._as_type(node)
            self._expect(")")
            return node
        if not called and name not in _BARE:
            return self._column(word)
        if called and name not in _CALLS:
            return self._called(name)
        if called:
            if self._tokens[self._at][0] == "number":
                self._at += 1  # digits of a second
            self._expect(")")
        return ["call", _CALLS[name]]

    def _called(self, name: str) -> Node:
        """Parse a function call, after its parenthesis."""
        if name == "convert" and self._style.plus_joins:
            # The type comes first.
            place = self._at
            self._as_type(["value", TEXT, "0"])
            self._expect(",")
            node, end = self._sum(), self._at
            self._at = place
            node = self._as_type(node)
            self._at = end
            self._expect(")")
            return node
        parts = self._list(")")
        in_utc = (["value", TEXT, "utc"], ["value", TEXT, "UTC"])
        if name == "timezone" and parts[0] in in_utc and parts[1:] == [["call", NOW]]:
            return ["call", UTC_NOW]
        function = self._style.functions.get(name)
        if function is None or (function not in ("coalesce", "concat") and len(parts) != 1):
            raise Untranslatable
        return [function, *parts]

    def _column(self, name: str) -> Node:
        if name.lower() not in self._columns:
            raise Untranslatable
        return ["column", self._columns[name.lower()]]


def _negative(node: Node) -> Node:
    if node[:2] == ["value", NUMBER]:
        if node[2].startswith("-"):
            raise Untranslatable
        return ["value", NUMBER, f"-{node[2]}"]
    return ["-", ["value", NUMBER, "0"], node]


def _cast(node: Node, type_: str, limits: Sequence[Node]) -> Node:
    """Accept a cast that changes nothing, or a known one.

    Args:
        node: the expression.
        type_: the type to cast to.
        limits: the length or digits in the cast.
    """
    name = type_.rpartition(" . ")[2]
    if node in (["call", NOW], ["value", TEXT, "now"]):
        functions = {"date": TODAY, "timestamp without time zone": NOW, "timestamp": NOW}
        if name in functions and not limits:
            return ["call", functions[name]]
        if node[0] == "call":
            raise Untranslatable
    if node[0] == "value":
        digits = str(node[2]).lstrip("-").isdigit()
        # The value may be rounded or truncated.
        fits = not limits or (name in _TEXT_CASTS and len(node[2]) <= _number(limits))
        if not fits or (name in _WHOLE_CASTS and not digits):
            raise Untranslatable
        if node[1] == NUMBER and name not in (*_NUMBER_CASTS, "bit", "boolean"):
            raise Untranslatable
        if name == "regclass":
            raise Untranslatable
        return node
    if limits:
        raise Untranslatable
    if name in _TEXT_CASTS[:3]:
        return ["as text", node]
    if name in _WHOLE_CASTS:
        return ["integer", node]
    if name in ("numeric", "decimal"):
        return ["number", node]
    raise Untranslatable


def _number(nodes: Sequence[Node]) -> int:
    """Return the number that the nodes consist of; 0 if they are something else."""
    return int(nodes[0][2]) if len(nodes) == 1 and str(nodes[0][-1]).isdigit() else 0
