"""Our `dataclass` does what the library's does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, get_type_hints

import pytest

from penstock.model import dataclass as ours

KINDS = {"ours": ours.dataclass, "library": dataclasses.dataclass}


@ours.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)
    more: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryPoint:
    x: int
    y: int = 0
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)
    more: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)


@ours.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at: str
    pid: int = 1


@ours.dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    code: int
    data: Mapping[str, Any] = field(default_factory=dict)


BOTH = pytest.mark.parametrize("kind", [Point, LibraryPoint])


@BOTH
def test_values_and_defaults(kind: Any) -> None:
    made = kind(1, note="n", secret="s")
    assert (made.x, made.y, made.note, made.secret, made.more) == (1, 0, "n", "s", [])
    assert kind(1).more is not kind(1).more
    assert repr(made) == f"{kind.__name__}(x=1, y=0, note='n', more=[])"
    assert kind.__match_args__ == ("x", "y", "note", "secret", "more")
    assert not hasattr(made, "__dict__")
    assert [item.name for item in fields(kind)] == list(kind.__match_args__)


@BOTH
@pytest.mark.parametrize("arguments", [{}, {"x": 1, "z": 2}, {"x": -1}])
def test_wrong_arguments(kind: Any, arguments: dict[str, int]) -> None:
    with pytest.raises((TypeError, ValueError)):
        kind(**arguments)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        kind(1, x=1)


@BOTH
def test_comparisons(kind: Any) -> None:
    assert kind(1, note="a") == kind(1, note="b")
    assert kind(1) != kind(2)
    assert kind(1) != kind(1, secret="s")
    assert kind(1) != (1, 0, "", [])
    with pytest.raises(TypeError, match="unhashable"):  # a list is one of its values
        hash(kind(1))
    assert hash(Event(at="now")) == hash(Event(at="now"))
    assert Event(at="now") != Ended(at="now", code=0)


@BOTH
def test_is_frozen(kind: Any) -> None:
    made = kind(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        made.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x


@BOTH
def test_copies(kind: Any) -> None:
    made = kind(1, 2, more=[3])
    assert replace(made, y=5) == kind(1, 5, more=[3])
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == copy.copy(made) == made
    with pytest.raises(ValueError, match="-1"):
        replace(made, x=-1)


@BOTH
def test_tools_see_its_arguments(kind: Any) -> None:
    assert list(inspect.signature(kind).parameters) == ["x", "y", "note", "secret", "more"]
    assert get_type_hints(kind.__init__)["y"] is int


def test_inherits_fields_that_have_names_only() -> None:
    made = Ended(at="now", code=3)
    assert repr(made) == "Ended(at='now', pid=1, code=3, data={})"
    assert isinstance(made, Event)
    with pytest.raises(TypeError, match="positional"):
        Ended("now", 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'code'"):
        Ended(at="now")  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_keeps_what_a_class_defines_itself(kind: Any) -> None:
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

    made: Any = kind(frozen=True, slots=True)(Own)
    assert repr(made(1)) == "own"
    assert hash(made(1)) == 7
    assert made(1) == made(1)
    by_identity: Any = kind(frozen=True, eq=False)(type("Same", (), {"__annotations__": {}}))
    assert by_identity() != by_identity()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("slots", [True, False])
def test_what_is_not_frozen(kind: Any, slots: bool) -> None:
    class Open:
        x: int
        y: list[int] = field(default_factory=list)

    made: Any = kind(slots=slots)(Open)
    one = made(1)
    one.x = 2
    assert one == made(2)
    assert made.__hash__ is None
    assert copy.deepcopy(one) == one
    assert copy.copy(one).y is one.y


def test_init_is_compiled_when_it_is_needed() -> None:
    class Late:
        x: int

    made: Any = ours.dataclass(frozen=True)(Late)
    assert not inspect.isfunction(vars(made)["__init__"])
    assert made(1).x == 1
    assert inspect.isfunction(vars(made)["__init__"])
