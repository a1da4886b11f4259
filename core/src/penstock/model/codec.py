"""Conversion of dataclasses to JSON values and back, by their type hints.

`to_json` returns what `json.dumps` takes, `from_json` takes what `json.loads` returns. A dataclass
is an object with its fields; its `json_form`, if it has one, and the metadata of its fields define
the exceptions. Hints are resolved once per class, when its first value is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from penstock.errors import PenstockError, Unreadable, UsageError

T = TypeVar("T")
Reader = Callable[[Any], Any]

NOT_STORED = {"json": "never"}
"""Metadata of a field that is not stored, and has its default when read."""
OMITTED = {"json": "omitted"}
"""Metadata of a field that is omitted if it has its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The differences between a dataclass's JSON and an object with exactly its fields."""

    kind: str = ""
    """The value of `kind` in the JSON: distinguishes the classes of a union."""
    array: bool = False
    """Whether the JSON is a list of the fields' values; `OMITTED` fields come last."""
    computed: tuple[str, ...] = ()
    """Properties written for other readers, and ignored by this one."""
    proof: str = ""
    """A property that is written, and must have the same value after reading."""
    exact: bool = False
    """Whether to reject unknown fields, which would be lost when the value is written back."""
    defaults: bool = False
    """Whether fields with a default may be missing."""


_USUAL = JsonForm()
_SCALARS: Mapping[type, str] = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}
_NAMES: Mapping[type, str] = {**_SCALARS, list: "a list", dict: "an object"}


class _Mismatch(Exception):
    """A value that does not match its type; collects its path on the way up."""

    def __init__(self, reason: str, error: type[PenstockError] = Unreadable) -> None:
        super().__init__(reason)
        self.error = error
        self.path = ""


def to_json(value: Any) -> Any:
    """Return the JSON value of an object.

    Raises:
        TypeError: the object contains a type without a JSON form.
    """
    kind: Any = type(value)
    return _writer(kind)(value)


@overload
def from_json(kind: type[T], raw: Any) -> T: ...
@overload
def from_json(kind: UnionType, raw: Any) -> Any: ...
def from_json(kind: Any, raw: Any) -> Any:
    """Return the object of a JSON value.

    Args:
        kind: a dataclass, a union of dataclasses, or `tuple[X, ...]` of either.
        raw: the JSON value.

    Raises:
        Unreadable: the value does not come from `to_json`; the message says where, what was
            expected and what was found, without values, which might be secret.
        UsageError: a union's `kind` is unknown; a newer Penstock may have written it.
    """
    try:
        return _reader(kind)(raw)
    except _Mismatch as error:
        place = (kind.__name__ if isinstance(kind, type) else "") + error.path
        raise error.error(f"{place}: {error}" if place else str(error)) from None


@cache
def _writer(kind: type[Any]) -> Callable[[Any], Any]:
    if kind is NoneType or issubclass(kind, str | int | float):
        return lambda value: value
    if issubclass(kind, tuple | list):
        return lambda value: [to_json(item) for item in value]
    if issubclass(kind, Mapping):
        return lambda value: {name: to_json(item) for name, item in value.items()}
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__qualname__} has no JSON form")
    form, stored = _form(kind), _stored(kind)
    omitted = {item.name: item.default for item in stored if item.metadata.get("json")}
    names = [item.name for item in stored]

    def write(value: Any) -> Any:
        encoded = {"kind": form.kind} if form.kind else {}
        for name in names:
            content = getattr(value, name)
            if name not in omitted or content != omitted[name]:
                encoded[name] = content if type(content) in _SCALARS else to_json(content)
        for name in (*form.computed, form.proof):
            if name:
                encoded[name] = getattr(value, name)
        return list(encoded.values()) if form.array else encoded

    return write


@cache
def _reader(hint: Any) -> Reader:
    if hint is Any:
        return lambda raw: raw
    if hint in _SCALARS:
        return _scalar(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is tuple and arguments[1:] == (...,):
        return _list(_reader(arguments[0]))
    if origin is not None and issubclass(dict, origin):
        return _mapping(_reader(arguments[1]))
    raise TypeError(f"{hint!r} cannot be read from JSON")


def _scalar(kind: type[Any]) -> Reader:
    # JSON does not distinguish 1.0 from 1, and in Python a bool is an int.
    allowed = (float, int) if kind is float else (kind,)

    def read(raw: Any) -> Any:
        return raw if type(raw) in allowed else _refuse(_SCALARS[kind], raw)

    return read


def _enum(kind: type[StrEnum]) -> Reader:
    members = {member.value: member for member in kind}

    def read(raw: Any) -> Any:
        if isinstance(raw, str) and raw in members:
            return members[raw]
        return _refuse(f"one of {', '.join(members)}", raw)

    return read


def _list(read_item: Reader) -> Reader:
    def read(raw: Any) -> Any:
        if not isinstance(raw, list):
            _refuse("a list", raw)
        items: list[Any] = []
        try:
            for item in raw:
                items.append(read_item(item))
        except _Mismatch as error:
            error.path = f"[{len(items)}]{error.path}"
            raise
        return tuple(items)

    return read


def _mapping(read_item: Reader) -> Reader:
    def read(raw: Any) -> Any:
        if not isinstance(raw, dict):
            _refuse("an object", raw)
        return {name: _at(name, read_item, item) for name, item in raw.items()}

    return read


def _union(options: tuple[Any, ...]) -> Reader:
    """Return a reader that chooses by the type of the JSON value, and for objects by `kind`."""
    kinds = {_form(option).kind: option for option in options if _form(option).kind}
    readers: dict[type, Reader] = {dict: _tagged(kinds)} if kinds else {}
    for option in options:
        if option in _SCALARS:
            readers[option] = _reader(option)
        elif not _form(option).kind:
            is_list = _form(option).array or get_origin(option) is tuple
            readers[list if is_list else dict] = _reader(option)
    if float in readers:
        readers.setdefault(int, readers[float])
    expected = " or ".join(_NAMES[kind] for kind in readers)

    def read(raw: Any) -> Any:
        reader = readers.get(type(raw))
        return _refuse(expected, raw) if reader is None else reader(raw)

    return read


def _tagged(kinds: Mapping[str, Any]) -> Reader:
    def read(raw: dict[str, Any]) -> Any:
        kind = _at("kind", _reader(str), raw.get("kind"))
        if kind not in kinds:
            raise _Mismatch(f"unknown kind {kind[:50]!r}; written by a newer Penstock?", UsageError)
        return _reader(kinds[kind])(raw)

    return read


def _dataclass(kind: type[Any]) -> Reader:
    form, hints = _form(kind), get_type_hints(kind)
    stored = _stored(kind)
    readers = {item.name: _reader(hints[item.name]) for item in stored}
    needed = {item.name for item in stored if not _may_be_missing(item, form)}
    names = {"kind", form.proof, *form.computed, *readers}

    def read(raw: Any) -> Any:
        if form.array:
            if not isinstance(raw, list) or len(raw) > len(readers):
                _refuse(f"a list of {', '.join(readers)}", raw)
            raw = dict(zip(readers, raw, strict=False))
        if not isinstance(raw, dict):
            _refuse("an object", raw)
        if not raw.keys() >= needed:
            missing = [name for name in readers if name in needed and name not in raw]
            raise _Mismatch(f"expected {', '.join(missing)}, found none")
        if form.exact and (unknown := raw.keys() - names):
            raise _Mismatch(f"unknown {', '.join(sorted(unknown))}; written by a newer Penstock?")
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, reader in readers.items():
                if name in raw:
                    values[name] = reader(raw[name])
        except _Mismatch as error:
            error.path = f".{name}{error.path}"
            raise
        value = kind(**values)
        if form.proof and raw.get(form.proof) != (proof := getattr(value, form.proof)):
            raise _Mismatch(f"expected the {form.proof} of its content, {proof!r}, found another")
        return value

    return read


def _at(name: str, read: Reader, raw: Any) -> Any:
    try:
        return read(raw)
    except _Mismatch as error:
        error.path = f".{name}{error.path}"
        raise


def _refuse(expected: str, raw: Any) -> Any:
    raise _Mismatch(f"expected {expected}, found {_NAMES.get(type(raw), type(raw).__name__)}")


def _form(kind: Any) -> JsonForm:
    form: JsonForm = getattr(kind, "json_form", _USUAL)
    return form


def _stored(kind: type[Any]) -> list[Field[Any]]:
    return [item for item in fields(kind) if item.metadata.get("json") != "never"]


def _may_be_missing(item: Field[Any], form: JsonForm) -> bool:
    has_default = item.default is not MISSING or item.default_factory is not MISSING
    return item.metadata.get("json") == "omitted" or (form.defaults and has_default)
