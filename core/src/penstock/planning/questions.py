"""The questions that planning still has, as plain data, and how several are asked together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one of the catalogs, or to both."""

    name: str
    """The method of `Known` that looks up its answer, and of `Catalogs` that finds it."""
    arguments: tuple[object, ...]
    named: tuple[tuple[str, object], ...] = ()
    """Arguments by name."""

    def __hash__(self) -> int:
        # Arguments may hold mappings. A table has few questions of one name.
        return hash(self.name)


T = TypeVar("T")

Answers = Mapping[Question, object]
"""What the catalogs said, by question; a `PenstockError` where that is what they raised."""


@dataclass(frozen=True, slots=True)
class Questions:
    """All that planning has to know before it can go on."""

    questions: tuple[Question, ...]


class Wanted(Exception):
    """Planning cannot go on without an answer."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(questions)
        self.questions = tuple(questions)


class Outdated(Exception):
    """What was read of a table does not hold any more."""


class part(Generic[T]):  # noqa: N801 - used as `property` is
    """A property that is worked out once, even where that only shows which answers are missing."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._missing = name, f"{name}, which is wanted"

    def __get__(self, holder: object, owner: type | None = None) -> T:
        known = holder.__dict__
        if (questions := known.get(self._missing)) is not None:
            raise Wanted(questions)
        try:
            found: T = self._work_out(holder)
        except Wanted as wanted:
            known[self._missing] = wanted.questions
            raise
        # From now on the instance's own attribute is found first.
        known[self._name] = found
        return found


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
def together(first: Callable[[], A], second: Callable[[], B], /) -> tuple[A, B]: ...
@overload
def together(
    first: Callable[[], A], second: Callable[[], B], third: Callable[[], C], /
) -> tuple[A, B, C]: ...
@overload
def together(*parts: Callable[[], A]) -> tuple[A, ...]: ...
def together(*parts: Callable[[], object]) -> tuple[object, ...]:
    """The results of parts that do not need each other, in the order in which they would be worked
    out one by one: the error of an earlier part is the one that counts.

    Raises:
        Wanted: some parts lack answers: their questions, up to the first part that fails.
    """
    found: list[object] = []
    wanted: list[Question] = []
    for part in parts:
        try:
            found.append(part())
        except Wanted as more:
            wanted += more.questions
        except (PenstockError, Outdated):
            if not wanted:
                raise
            break
    if wanted:
        raise Wanted(tuple(dict.fromkeys(wanted)))
    return tuple(found)
