"""JSON that other parsers reject or change: deep nesting, half characters, numbers as written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from penstock.backends.parquet.errors import Broken

_SPACE = re.compile(r"[ \t\r\n]*")
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_HALF = re.compile("[\ud800-\udfff]")
_CONSTANTS = {"true": True, "false": False, "null": None}


class Raw(str):
    """JSON as a text, which is not parsed."""

    __slots__ = ()


class Number(str):
    """The digits of a number."""

    __slots__ = ()


def _constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}; expected a text, in quotes")


def _same_float(text: str) -> float:
    """Return a number that Python writes as it was written.

    Raises:
        ValueError: Python writes the number differently.
    """
    number = float(text)
    if repr(number) != text:
        raise ValueError(text)
    return number


_parse = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_constant).decode
_parse_same = json.JSONDecoder(parse_float=_same_float, parse_constant=_constant).decode


def object_of(text: str, place: str) -> dict[str, bytes]:
    """Return the object of a line: by key, its values as JSON.

    Args:
        text: the line.
        place: the line's number, for messages.

    Raises:
        Broken: the line is another value, or a key or text has half of a surrogate pair.
        ValueError: the text is not JSON.
    """
    try:
        row = _parse(text)
    except RecursionError:
        row = deep_object(text, Number)
    if type(row) is not dict:
        raise Broken(
            f"{place}: expected a JSON object, {{...}}; found another value (if the file is one "
            "array, convert it with jq -c '.[]')"
        )
    _check_texts(row, place)
    return {name: json_text(value).encode() for name, value in row.items()}


def _check_texts(row: Mapping[str, Any], place: str) -> None:
    """Check the keys and texts of an object.

    Raises:
        Broken: one of them cannot be encoded; names the key.
    """
    for name, value in row.items():
        for text in (name, value):
            if isinstance(text, str) and (half := half_character(text)):
                raise Broken(
                    f"{place}, key {escaped(name)!r}: expected characters, found {half}, half of "
                    "a surrogate pair, which no text in UTF-8 can hold; correct the file"
                )


def normal_json(text: str) -> str:
    """Return JSON without unnecessary blanks, escapes and keys, and with numbers as written.

    A value that is nested too deeply for Python's parser is returned as it is.
    """
    try:
        if "-0" not in text:  # of which the sign would be lost
            return escaped(json.dumps(_parse_same(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        pass
    try:
        return json_text(_parse(text))
    except RecursionError:
        return text.replace("\r", " ")  # which only stands between tokens


def json_text(value: Any) -> str:
    """Return a value as JSON, with numbers as they were written.

    This does not recurse: values may be nested deeper than Python's calls.
    """
    parts: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        of = type(item)
        if of is Number or of is Raw:
            parts.append(str(item))
        elif of is dict:
            todo.append(Raw("}"))
            for place, (name, inner) in reversed(list(enumerate(item.items()))):
                todo += [inner, Raw(f"{', ' if place else ''}{_quoted(name)}: ")]
            parts.append("{")
        elif of is list:
            todo.append(Raw("]"))
            for place, inner in reversed(list(enumerate(item))):
                todo += [inner, Raw(", ")] if place else [inner]
            parts.append("[")
        else:
            parts.append(_quoted(item))
    return "".join(parts)


def _quoted(value: Any) -> str:
    # Half a surrogate pair stays an escape.
    return escaped(json.dumps(value, ensure_ascii=False))


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
