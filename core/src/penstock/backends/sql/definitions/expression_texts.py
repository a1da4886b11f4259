"""Trees of `expressions` as a database's text, limited to what has the same meaning there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.backends.sql.definitions.expressions import (
    BOOLEAN,
    BYTES,
    DATE,
    MOMENT,
    NUMBER,
    TEXT,
    TIMESTAMP,
    UUID,
    Node,
    Untranslatable,
)
from penstock.backends.sql.dialect import (
    CHARACTERS,
    LOWER,
    NEW_UUID,
    NOW,
    OCTETS,
    TODAY,
    UPPER,
    UTC_NOW,
    Dialect,
)

INTEGER, DECIMAL = "integer", "decimal"
_NUMBERS = (INTEGER, DECIMAL, "float")
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = (*_NUMBERS, DATE, TIMESTAMP, MOMENT)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGITS = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def default_text(node: Node, kind: str, dialect: Dialect) -> str | None:
    """Return a column's default, in parentheses if required; None if the column cannot have it.

    Args:
        node: the expression.
        kind: what the column holds.
        dialect: the dialect of the statement.
    """
    try:
        if node[0] == "call":
            return _moment(node[1], kind, dialect)
        if node[0] == "value":
            return dialect.default(_literal(node, kind, dialect), kind)
        text, text_kind = _Writer({}, dialect).value(node)
        if text_kind != kind and not {text_kind, kind} <= {INTEGER, DECIMAL}:
            return None
        return text if text.startswith("(") else f"({text})"
    except Untranslatable:
        return None


def _moment(function: str, kind: str, dialect: Dialect) -> str | None:
    if kind not in ((UUID,) if function == NEW_UUID else (DATE, TIMESTAMP, MOMENT)):
        return None
    if function == TODAY and kind != DATE:
        return None
    # A moment is the same in every time zone.
    if (function, kind) == (UTC_NOW, MOMENT):
        function = NOW
    if (function, kind) == (NOW, DATE) and TODAY in dialect.functions:
        function = TODAY
    return dialect.functions.get(function)


def check_text(node: Node, kinds: Mapping[str, str], dialect: Dialect) -> str | None:
    """Return a check of a row; None if its meaning would differ.

    Args:
        node: the expression.
        kinds: what the table's columns hold; columns not listed cannot be checked.
        dialect: the dialect of the statement.
    """
    try:
        return _Writer(kinds, dialect).test(node)
    except Untranslatable:
        return None


def value_text(node: Node, kind: str, kinds: Mapping[str, str], dialect: Dialect) -> str | None:
    """Return the expression that computes a column; None if its values could differ.

    Args:
        node: the expression.
        kind: what the column holds.
        kinds: what the columns it is computed from hold.
        dialect: the dialect of the statement.
    """
    try:
        text, text_kind = _Writer(kinds, dialect, exact=True).value(node)
    except Untranslatable:
        return None
    is_compatible = text_kind == kind or {text_kind, kind} <= {INTEGER, DECIMAL}
    return text if is_compatible else None


@dataclass(frozen=True, slots=True)
class _Writer:
    """A writer of one expression.

    Args:
        exact: exclude everything that depends on a collation, such as the case of texts.
    """

    kinds: Mapping[str, str]
    dialect: Dialect
    exact: bool = False

    # Tests

    def test(self, node: Node) -> str:
        name, *parts = node
        if name in ("and", "or"):
            return "(" + f" {name.upper()} ".join(map(self.test, parts)) + ")"
        if name == "not":
            return f"NOT ({self.test(parts[0])})"
        if name == "null":
            return f"{self.value(parts[0])[0]} IS NULL"
        if name == "like":
            value, kind = self.value(parts[0])
            if kind != TEXT or parts[0][0] == "value":
                raise Untranslatable
            return self.dialect.like_condition(value, self.dialect.literal(parts[1]))
        if name == "column":
            return self._truth(*self.value(node))
        if name in _COMPARED or name == "in":
            if parts[0][0] == "value":
                if name == "in" or parts[1][0] == "value":
                    raise Untranslatable
                return self._comparison(_TURNED.get(str(name), str(name)), parts[1], parts[:1])
            return self._comparison(name, parts[0], parts[1:])
        raise Untranslatable

    def _truth(self, value: str, kind: str) -> str:
        if kind == BOOLEAN:
            return f"{value} = {self.dialect.truth[1]}"
        if kind == INTEGER:
            return f"{value} <> 0"
        raise Untranslatable

    def _comparison(self, sign: str, operand: Node, right: Sequence[Node]) -> str:
        value, kind = self.value(operand)
        # Every collation has an order of its own, and databases order UUIDs differently.
        if kind not in _ORDERED and sign not in ("=", "<>", "in"):
            raise Untranslatable
        if kind == TEXT:
            if self.exact:
                raise Untranslatable
            value = self.dialect.exactly(value)
        if sign == "in":
            listed = ", ".join(_literal(other, kind, self.dialect) for other in right)
            return f"{value} IN ({listed})"
        if right[0][0] == "value":
            return f"{value} {sign} {_literal(right[0], kind, self.dialect)}"
        other, other_kind = self.value(right[0])
        if kind != other_kind and not {kind, other_kind} <= set(_NUMBERS):
            raise Untranslatable
        return f"{value} {sign} {other}"

    # Values

    def value(self, node: Node) -> tuple[str, str]:
        """Return a value's text and kind."""
        name, *parts = node
        if name == "value":
            kind = self._kind(parts[0], parts[1])
            return _literal(node, kind, self.dialect), kind
        if name == "column":
            if not self.kinds.get(parts[0]):
                raise Untranslatable
            return self.dialect.ident(parts[0]), self.kinds[parts[0]]
        if name == "plus":
            kinds = {self.value(part)[1] for part in parts}
            return self.value(["concat" if TEXT in kinds else "+", *parts])
        if name in ("+", "-", "*"):
            return self._computed(name, parts)
        if name in ("integer", "number", "as text"):
            allowed = {"integer": (INTEGER,), "number": (INTEGER, DECIMAL), "as text": (TEXT,)}[
                name
            ]
            value, kind = self.value(parts[0])
            if kind not in allowed:
                raise Untranslatable
            return value, DECIMAL if name == "number" else kind
        if name == "concat":
            texts = [self.value(part) for part in parts]
            if any(kind != TEXT for _, kind in texts):
                raise Untranslatable
            return f"({self.dialect.joined([text for text, _ in texts])})", TEXT
        if name == "coalesce":
            return self._first(parts)
        if name in (CHARACTERS, OCTETS, LOWER, UPPER):
            return self._of_text(name, parts[0])
        # A condition or the current time, which a table's rows cannot be checked against.
        raise Untranslatable

    @staticmethod
    def _kind(of: str, text: str) -> str:
        if of == NUMBER:
            return INTEGER if text.lstrip("-").isdigit() else DECIMAL
        if of == TEXT:
            return TEXT
        raise Untranslatable

    def _computed(self, sign: str, parts: Sequence[Node]) -> tuple[str, str]:
        (one, first), (other, second) = (self.value(part) for part in parts)
        if not {first, second} <= {INTEGER, DECIMAL}:
            raise Untranslatable
        if first == second == INTEGER:
            if any(part[0] != "value" for part in parts):
                # Some databases would compute in four bytes or two.
                one = self.dialect.wide(one)
            return f"({one} {sign} {other})", INTEGER
        return f"({one} {sign} {other})", DECIMAL

    def _first(self, parts: Sequence[Node]) -> tuple[str, str]:
        kinds = [self.value(part)[1] for part in parts if part[0] != "value"]
        if not kinds or any(kind != kinds[0] for kind in kinds):
            raise Untranslatable
        values = [
            _literal(part, kinds[0], self.dialect) if part[0] == "value" else self.value(part)[0]
            for part in parts
        ]
        return f"coalesce({', '.join(values)})", kinds[0]

    def _of_text(self, function: str, node: Node) -> tuple[str, str]:
        function_name = self.dialect.calls.get(function)
        value, kind = self.value(node)
        if function_name is None or kind != TEXT or (self.exact and function in (LOWER, UPPER)):
            raise Untranslatable
        return f"{function_name}({value})", TEXT if function in (LOWER, UPPER) else INTEGER


def _literal(node: Node, kind: str, dialect: Dialect) -> str:
    if node[0] != "value":
        raise Untranslatable
    _, of, text = node
    if kind in _NUMBERS and of in (NUMBER, TEXT) and _DIGITS.fullmatch(text):
        return str(text)
    if kind == INTEGER and of == BOOLEAN:
        return str(int(text == "true"))
    if kind == BOOLEAN and text.lower() in ("0", "1", "true", "false"):
        return dialect.truth[text.lower() in ("1", "true")]
    if kind == BYTES and of == BYTES:
        return dialect.binary(text)
    if of == TEXT and (
        kind == TEXT
        or (kind == UUID and _UUID.fullmatch(text))
        or (kind == DATE and _DAY.fullmatch(text) and _is_there(text))
        or (kind == TIMESTAMP and _CLOCK.fullmatch(text) and _is_there(text))
    ):
        return dialect.literal(text)
    raise Untranslatable


def _is_there(moment: str) -> bool:
    """Whether every database supports a moment. Some also allow zero for a year, month or day."""
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return False
    return True
