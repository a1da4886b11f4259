"""How planning asks: it looks an answer up, and is abandoned where one is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, dataclass_transform, overload

from penstock.errors import PenstockError

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
class Question(Generic[T]):
    """A question to one of the catalogs, or to both; its answer is a `T`.

    Plain data: a kind has annotated attributes, and a question equals another of its kind with the
    same arguments. It is used like a dataclass, of which each would compile six methods at the
    start of every copy.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        names = type(self).__annotations__
        values = dict(zip(names, given, strict=False)) | named
        if len(given) + len(named) != len(names) or values.keys() != names.keys():
            raise TypeError(f"{type(self).__name__}: expected {', '.join(names)}")
        vars(self).update(values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        # Arguments may contain mappings. A table has few questions of one kind.
        return hash(type(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


Answers = Mapping[Question[Any], object]
"""The catalogs' answers, by question; a `PenstockError` if they raised one."""


class KnownAnswers:
    """The answers that planning has."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def __getitem__(self, asked: Question[T]) -> T:
        """Return an answer.

        Raises:
            AnswersNeeded: the answer is not known yet.
            PenstockError: as the catalogs raised it.
        """
        if asked not in self._answers:
            raise AnswersNeeded([asked])
        answer = self._answers[asked]
        if isinstance(answer, PenstockError):
            raise answer
        return answer  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Questions:
    """All questions that planning needs answered before it can continue."""

    questions: tuple[Question[Any], ...]


class AnswersNeeded(Exception):
    """Planning cannot continue without an answer."""

    def __init__(self, questions: Sequence[Question[Any]]) -> None:
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
    questions: list[Question[Any]] = []
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
