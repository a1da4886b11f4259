"""Parts of JSON that Python's own parser does not support: deep nesting, and half characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_HALF = re.compile("[\ud800-\udfff]")
_CONSTANTS = {"true": True, "false": False, "null": None}


class Raw(str):
    """JSON as a text, which is not parsed."""

    __slots__ = ()


def half_character(text: str) -> str:
    """Return the escape of the first half of a surrogate pair in a text; empty without one."""
    match = None if text.isascii() else _HALF.search(text)
    return "" if match is None else _escape(match)


def escaped(text: str) -> str:
    """Return a text in which halves of surrogate pairs are escapes, as in JSON."""
    return text if text.isascii() else _HALF.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def deep_object(text: str, number: Callable[[str], Any]) -> dict[str, Any] | None:
    """Parse an object, whose nested values stay as they are written, however deep they are.

    Args:
        text: the JSON.
        number: converts the digits of numbers.

    Returns:
        The object; None if the text is another value.

    Raises:
        ValueError: the text is not JSON.
    """
    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        _check_end(text, _end_of_value(text, at))
        return None
    values: dict[str, Any] = {}
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "}":
        _check_end(text, at + 1)
        return values
    while True:
        name, at = _key(text, at)
        begin = at
        at = _end_of_value(text, begin)
        values[name] = _value(text, begin, at, number)
        at = _after_space(text, at)
        mark = text[at : at + 1]
        if mark == "}":
            _check_end(text, at + 1)
            return values
        if mark != ",":
            raise _expected("',' or '}'", at)
        at = _after_space(text, at + 1)


def _value(text: str, begin: int, end: int, number: Callable[[str], Any]) -> Any:
    first = text[begin]
    if first in "{[":
        return Raw(text[begin:end])
    if first == '"':
        return scanstring(text, begin + 1)[0]
    word = text[begin:end]
    return _CONSTANTS[word] if word in _CONSTANTS else number(word)


def _end_of_value(text: str, at: int) -> int:
    """Return the position after the value that begins at a position."""
    closing: list[str] = []
    while True:
        first = text[at : at + 1]
        inside = _after_space(text, at + 1)
        if first == "{" and text[inside : inside + 1] != "}":
            closing.append("}")
            at = _key(text, inside)[1]
            continue
        if first == "[" and text[inside : inside + 1] != "]":
            closing.append("]")
            at = inside
            continue
        if first in ("{", "["):
            at = inside + 1
        elif first == '"':
            at = scanstring(text, at + 1)[1]
        elif match := _ATOM.match(text, at):
            at = match.end()
        else:
            raise _expected("a value", at)
        while closing:
            at = _after_space(text, at)
            mark = text[at : at + 1]
            if mark == closing[-1]:
                closing.pop()
                at += 1
                continue
            if mark != ",":
                raise _expected(f"',' or {closing[-1]!r}", at)
            at = _after_space(text, at + 1)
            if closing[-1] == "}":
                at = _key(text, at)[1]
            break
        else:
            return at


def _key(text: str, at: int) -> tuple[str, int]:
    """Return the key at a position, and the position of its value."""
    if text[at : at + 1] != '"':
        raise _expected("a key in quotes", at)
    name, at = scanstring(text, at + 1)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise _expected("':'", at)
    return name, _after_space(text, at + 1)


def _check_end(text: str, at: int) -> None:
    if _after_space(text, at) < len(text):
        raise _expected("the end of the line", at)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None  # it also matches nothing
    return match.end()


def _expected(what: str, at: int) -> ValueError:
    return ValueError(f"expected {what} at character {at + 1:,}")
