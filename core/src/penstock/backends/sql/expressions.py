"""Defaults and checks that mean the same in every database: read from one's text, written as
another's.

Read are plain columns, literals, comparisons, IN, BETWEEN, IS NULL, AND, OR and NOT, the time now
and a new UUID, in the forms in which databases keep them. What is read is plain data, stored with
the table's definition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.backends.sql.dialect import NEW_UUID, NOW, UTC_NOW, Dialect

NUMBER, BOOLEAN, TEXT, DATE, TIMESTAMP, MOMENT, UUID = (
    "number", "boolean", "text", "date", "timestamp", "moment", "uuid",
)  # fmt: skip
"""Of a literal; and what a column holds, as `ColumnPair.canonical` has it, but for timestamps with
a zone, which are moments."""
_NUMBERS = ("integer", "decimal", "float")

Node = Sequence[Any]
"""`value`, a kind and a text; `column` and a name; `call` and a function; an operator and nodes."""


class Untranslatable(Exception):
    """It is more than this reads, or no other database has it."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>(?:N|_\w+)?'(?:[^'\\]|'')*')
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<array>ARRAY\[)
    | (?P<cast>::)
    | (?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`|\[[^\]\d][^\]]*\])
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><=|>=|<>|!=|[-=<>(),.\[\]])
    )""",
    re.VERBOSE,
)
_QUOTES = {'"': '"', "`": "`", "[": "]"}
# Casts to these change no literal; and a text column is the same text.
_CASTS = re.compile(
    r"(?:text|character varying|varchar|character|bpchar|numeric|decimal|smallint|integer|int"
    r"|bigint|real|double precision|date|boolean|uuid|timestamp without time zone)(?:\[\])?",
    re.IGNORECASE,
)
_TEXT_CASTS = ("text", "character varying", "varchar")
_CALLS = {
    "now": NOW,
    "current_timestamp": NOW,
    "localtimestamp": NOW,
    "getdate": NOW,
    "sysdatetime": NOW,
    "sysdatetimeoffset": NOW,
    "transaction_timestamp": NOW,
    "getutcdate": UTC_NOW,
    "sysutcdatetime": UTC_NOW,
    "utc_timestamp": UTC_NOW,
    "gen_random_uuid": NEW_UUID,
    "uuid_generate_v4": NEW_UUID,
    "newid": NEW_UUID,
    "uuid": NEW_UUID,
}
_COMPARED = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read(text: str, columns: Collection[str] = ()) -> Node | None:
    """What a text means; None where it is more than this reads.

    Parameters:
        columns: names of those that may be in it.
    """
    try:
        return _Reader(text, columns).whole()
    except Untranslatable:
        return None


class _Reader:
    def __init__(self, text: str, columns: Collection[str]) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._columns = {name.lower(): name for name in columns}
        position = 0
        text = text.strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise Untranslatable
            position = found.end()
            assert found.lastgroup is not None
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
        self._tokens.append(("end", ""))
        self._at = 0

    def whole(self) -> Node:
        node = self._either()
        self._expect("")
        return node

    # Tokens

    def _takes(self, *words: str) -> bool:
        """Whether these come next; they are passed."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [text.lower() if kind != "name" else None for kind, text in ahead] != list(words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise Untranslatable

    # Expressions, the weakest binding first

    def _either(self) -> Node:
        nodes = [self._both()]
        while self._takes("or"):
            nodes.append(self._both())
        return nodes[0] if len(nodes) == 1 else ["or", *nodes]

    def _both(self) -> Node:
        nodes = [self._negated()]
        while self._takes("and"):
            nodes.append(self._negated())
        return nodes[0] if len(nodes) == 1 else ["and", *nodes]

    def _negated(self) -> Node:
        return ["not", self._negated()] if self._takes("not") else self._test()

    def _test(self) -> Node:
        value = self._value()
        if self._takes("is", "not", "null"):
            return ["not", ["null", value]]
        if self._takes("is", "null"):
            return ["null", value]
        negated = self._takes("not")
        node: Node | None = None
        if self._takes("in", "("):
            node = ["in", value, *self._list(")")]
        elif self._takes("between"):
            lowest = self._value()
            self._expect("and")
            node = ["and", [">=", value, lowest], ["<=", value, self._value()]]
        if node is not None:
            return ["not", node] if negated else node
        kind, sign = self._tokens[self._at]
        if negated or kind != "sign" or sign not in _COMPARED:
            if negated:
                raise Untranslatable
            return value
        self._at += 1
        if self._takes("any", "("):
            if sign != "=":
                raise Untranslatable
            return ["in", value, *self._array()]
        if self._takes("all", "("):
            if sign != "<>":
                raise Untranslatable
            return ["not", ["in", value, *self._array()]]
        return [_COMPARED[sign], value, self._value()]

    def _array(self) -> list[Node]:
        """Of = ANY (ARRAY[...]), behind its parenthesis."""
        wrapped = self._takes("(")
        self._expect("array[")
        found = self._list("]")
        if wrapped:
            self._expect(")")
        self._cast(["value", TEXT, "0"])
        self._expect(")")
        return found

    def _list(self, end: str) -> list[Node]:
        found = [self._value()]
        while self._takes(","):
            found.append(self._value())
        self._expect(end)
        return found

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
        while self._tokens[self._at][0] == "word" and self._tokens[self._at][1].lower() not in (
            "and", "or", "is", "not", "in", "between",
        ):  # fmt: skip
            words.append(self._tokens[self._at][1].lower())
            self._at += 1
        type_ = " ".join(words)
        self._takes("[", "]")
        if "int" in type_ and node[0] == "value" and not node[2].lstrip("-").isdigit():
            raise Untranslatable  # it is rounded
        casts_text = node[0] == "column" and type_ in _TEXT_CASTS
        if not (casts_text or (node[0] == "value" and _CASTS.fullmatch(type_))):
            raise Untranslatable
        return node

    def _plain(self) -> Node:
        kind, text = self._tokens[self._at]
        self._at += 1
        if text == "(" and kind == "sign":
            node = self._either()
            self._expect(")")
            return node
        if text == "-" and kind == "sign":
            node = self._value()
            if node[:2] != ["value", NUMBER] or node[2].startswith("-"):
                raise Untranslatable
            return ["value", NUMBER, f"-{node[2]}"]
        if kind == "number":
            return ["value", NUMBER, text]
        if kind == "text":
            return ["value", TEXT, text[text.index("'") + 1 : -1].replace("''", "'")]
        if kind == "name":
            closing = _QUOTES[text[0]]
            return self._column(text[1:-1].replace(closing * 2, closing))
        if kind == "word":
            return self._word(text)
        raise Untranslatable

    def _word(self, word: str) -> Node:
        if word.lower() in ("true", "false"):
            return ["value", BOOLEAN, word.lower()]
        if word.lower() == "null":
            return ["value", "null", ""]
        called = self._takes("(")
        if called and word.lower() == "cast":
            node = self._value()
            self._expect("as")
            node = self._as_type(node)
            self._expect(")")
            return node
        if called:
            if self._tokens[self._at][0] == "number":
                self._at += 1  # digits of a second
            self._expect(")")
        function = _CALLS.get(word.lower())
        if function and (called or word.lower() in ("current_timestamp", "localtimestamp")):
            return ["call", function]
        if called:
            raise Untranslatable
        return self._column(word)

    def _column(self, name: str) -> Node:
        if name.lower() not in self._columns:
            raise Untranslatable
        return ["column", self._columns[name.lower()]]


# Writing

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
_DIGITS = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def written_default(node: Node, kind: str, dialect: Dialect) -> str | None:
    """A default of a column, in parentheses if the database wants them; None where the column
    cannot have it."""
    try:
        if node[0] == "call":
            if kind not in ((UUID,) if node[1] == NEW_UUID else (DATE, TIMESTAMP, MOMENT)):
                return None
            # A moment is the same one in every zone.
            name = NOW if (node[1], kind) == (UTC_NOW, MOMENT) else node[1]
            return dialect.functions.get(name)
        return _literal(node, kind, dialect) if node[0] == "value" else None
    except Untranslatable:
        return None


def written_check(node: Node, kinds: Mapping[str, str], dialect: Dialect) -> str | None:
    """A test of a row; None where it would mean something else.

    Parameters:
        kinds: what the table's columns hold; those that are not there cannot be tested.
    """
    try:
        return _test(node, kinds, dialect)
    except Untranslatable:
        return None


def _test(node: Node, kinds: Mapping[str, str], dialect: Dialect) -> str:
    name, *parts = node
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(_test(part, kinds, dialect) for part in parts) + ")"
    if name == "not":
        return f"NOT ({_test(parts[0], kinds, dialect)})"
    if name == "null" and parts[0][0] == "column" and parts[0][1] in kinds:
        return f"{dialect.ident(parts[0][1])} IS NULL"
    if name in _COMPARED or name == "in":
        if parts[0][0] != "column":
            if name == "in" or parts[1][0] != "column":
                raise Untranslatable
            turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return _test([turned.get(name, name), parts[1], parts[0]], kinds, dialect)
        return _comparison(name, parts[0][1], parts[1:], kinds, dialect)
    raise Untranslatable


def _comparison(
    sign: str, column: str, others: Sequence[Node], kinds: Mapping[str, str], dialect: Dialect
) -> str:
    kind = kinds.get(column, "")
    if kind == TEXT and sign not in ("=", "<>", "in"):
        # Every collation has its own order.
        raise Untranslatable
    value = dialect.ident(column)
    if kind == TEXT:
        value = dialect.exactly(value)
    if sign != "in" and others[0][0] == "column":
        other = kinds.get(others[0][1], "")
        if not (kind == other or {kind, other} <= set(_NUMBERS)) or kind == "":
            raise Untranslatable
        return f"{value} {sign} {dialect.ident(others[0][1])}"
    literals = [_literal(other, kind, dialect) for other in others]
    return (
        f"{value} IN ({', '.join(literals)})" if sign == "in" else f"{value} {sign} {literals[0]}"
    )


def _literal(node: Node, kind: str, dialect: Dialect) -> str:
    if node[0] != "value":
        raise Untranslatable
    _, of, text = node
    if kind in _NUMBERS and of in (NUMBER, TEXT) and _DIGITS.fullmatch(text):
        return str(text)
    if kind == BOOLEAN and text.lower() in ("0", "1", "true", "false"):
        return dialect.truth[text.lower() in ("1", "true")]
    if of == TEXT and (
        kind == TEXT
        or (kind == DATE and _DAY.fullmatch(text))
        or (kind == TIMESTAMP and _CLOCK.fullmatch(text))
    ):
        return dialect.literal(text)
    raise Untranslatable
