"""`dataclass` of the standard library, at a tenth of what it costs to define one.

The library writes and compiles six functions for each class: 0.4 ms. A copy has ninety of them, and
most have no instance. Here `__init__` is compiled at the first one, and the others are shared.
Classes that are put in order are the library's.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, frozen=False, slots=False, kw_only=False, eq=True, order=False
    ) -> Callable[[type], type]:
        """See `dataclasses.dataclass`. A subclass of such a class needs this one, too."""
        if order:
            return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, order=True)
        shared = {
            "__repr__": _repr,
            **(_FROZEN if frozen else {}),
            **({"__eq__": _eq, "__hash__": _hash if frozen else None} if eq else {}),
        }

        def define(cls: type) -> type:
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # the library would put the signature here: slow
            own = {name for name, value in vars(cls).items() if value is not None}
            cls = dataclasses.dataclass(
                init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
            )(cls)
            for name, function in {**shared, "__init__": _Init(cls)}.items():
                if name not in own:
                    setattr(cls, name, function)
            return cls

        return define


class _Init:
    """`__init__` of a class, made when somebody looks for it, to call it for instance."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: Any, owner: Any) -> Any:
        init = _compile_init(self._cls)
        self._cls.__init__ = init
        return init.__get__(instance, owner)


def _compile_init(cls: Any) -> Any:
    values: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    positional: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for item in fields(cls):
        name = value = parameter = item.name
        if item.default is not MISSING:
            values[f"_of_{name}"] = item.default
            parameter = f"{name}=_of_{name}"
        elif item.default_factory is not MISSING:
            values[f"_of_{name}"] = item.default_factory
            parameter = f"{name}=_missing"
            value = f"_of_{name}() if {name} is _missing else {name}"
        (by_name if item.kw_only else positional).append(parameter)
        body.append(f"  _set(self, {name!r}, {value})")
    if by_name:
        by_name.insert(0, "*")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    text = [
        f"def make({', '.join(values)}):",
        f" def __init__({', '.join(['self', *positional, *by_name])}):",
        *(body or ["  pass"]),
        " return __init__",
    ]
    made: dict[str, Any] = {}
    exec("\n".join(text), vars(sys.modules[cls.__module__]), made)
    init = made["make"](**values)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {item.name: item.type for item in fields(cls)} | {"return": None}
    return init


@cache
def _values(cls: Any) -> Callable[[Any], Any]:
    """What `==` and `hash` look at."""
    names = [item.name for item in fields(cls) if item.compare]
    return attrgetter(*names) if names else lambda _: ()


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = _values(self.__class__)
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(_values(self.__class__)(self))


def _repr(self: Any) -> str:
    shown = (f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)


_FROZEN = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
