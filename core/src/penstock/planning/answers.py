"""The questions of planning, as plain data, and how several are asked together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one of the catalogs, or to both."""

    name: str
    """The method of `KnownAnswers` that looks up the answer, and of `Catalogs` that finds it."""
    arguments: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...] = ()
    """Keyword arguments."""

    def __hash__(self) -> int:
        # Arguments may contain mappings. A table has few questions of one name.
        return hash(self.name)


T = TypeVar("T")

Answers = Mapping[Question, object]
"""The catalogs' answers, by question; a `PenstockError` if they raised one."""


@dataclass(frozen=True, slots=True)
class Questions:
    """All questions that planning needs answered before it can continue."""

    questions: tuple[Question, ...]


class AnswersNeeded(Exception):
    """Planning cannot continue without an answer."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(questions)
        self.questions = tuple(questions)


class Outdated(Exception):
    """A fact read about a table no longer holds."""


class part(Generic[T]):  # noqa: N801 - used as `property` is
    """A property that is computed once, even if that only shows which answers are missing."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._missing = name, f"{name}, which lacks answers"

    def __get__(self, holder: object, owner: type | None = None) -> T:
        computed = holder.__dict__
        if (questions := computed.get(self._missing)) is not None:
            raise AnswersNeeded(questions)
        try:
            value: T = self._work_out(holder)
        except AnswersNeeded as missing:
            computed[self._missing] = missing.questions
            raise
        # From now on Python finds the instance's own attribute first.
        computed[self._name] = value
        return value


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
def evaluate_together(first: Callable[[], A], second: Callable[[], B], /) -> tuple[A, B]: ...
@overload
def evaluate_together(
    first: Callable[[], A], second: Callable[[], B], third: Callable[[], C], /
) -> tuple[A, B, C]: ...
@overload
def evaluate_together(*parts: Callable[[], A]) -> tuple[A, ...]: ...
def evaluate_together(*parts: Callable[[], object]) -> tuple[object, ...]:
    """Return the results of independent parts, in the order of the arguments.

    The error of an earlier part takes precedence, as if they were computed one by one.

    Args:
        parts: functions without arguments, each of which computes a part.

    Raises:
        AnswersNeeded: some parts lack answers: their questions, up to the first part that fails.
    """
    results: list[object] = []
    questions: list[Question] = []
    for part in parts:
        try:
            results.append(part())
        except AnswersNeeded as missing:
            questions += missing.questions
        except (PenstockError, Outdated):
            if not questions:
                raise
            break
    if questions:
        raise AnswersNeeded(tuple(dict.fromkeys(questions)))
    return tuple(results)
