"""Answers from a server about many things: the first question is asked for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import psycopg

from penstock.backends.shared.bisection import halved

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Answers(Generic[K, V]):
    """The answers to one question about many things, such as tables.

    If the server refuses to answer for all things, each half is asked separately, so that an error
    is isolated to the thing that causes it, and raised only when that answer is needed.

    Args:
        keys: the things it will be asked about, as far as they are known.
        ask: answers the question for some things at once.
        most: the maximum number of things per call.
    """

    def __init__(
        self, keys: Iterable[K], ask: Callable[[Sequence[K]], Mapping[K, V]], most: int = 1000
    ) -> None:
        self._expected = dict.fromkeys(keys)
        self._ask = ask
        self._most = most
        self._answers: dict[K, V] = {}
        self._errors: dict[K, psycopg.Error] = {}

    def expect(self, keys: Iterable[K]) -> None:
        """Include more things in the next question."""
        self._expected |= {key: None for key in keys if not self._is_known(key)}

    def __getitem__(self, key: K) -> V:
        """Return an answer.

        Raises:
            psycopg.Error: the server's error for this thing.
        """
        if not self._is_known(key):
            keys = [key, *(other for other in self._expected if other != key)]
            self._expected = {}
            for start in range(0, len(keys), self._most):
                self._find(keys[start : start + self._most])
        if key in self._errors:
            raise self._errors[key]
        return self._answers[key]

    def fails(self, key: K) -> bool:
        """Whether there is no answer about a thing."""
        try:
            self[key]
        except psycopg.OperationalError:
            raise
        except psycopg.Error:
            return True
        return False

    def values(self) -> Iterable[V]:
        """Return all answers so far."""
        return self._answers.values()

    def forget(self, key: K) -> None:
        """Forget an answer, so that it is asked for again when needed."""
        self._answers.pop(key, None)
        self._errors.pop(key, None)

    def _is_known(self, key: K) -> bool:
        return key in self._answers or key in self._errors

    def _find(self, keys: Sequence[K]) -> None:
        try:
            answers, errors = halved(keys, self._ask, psycopg.Error, _is_of_one)
        except psycopg.OperationalError:
            self.expect(keys)
            raise
        self._answers |= answers
        self._errors |= errors


def _is_of_one(error: psycopg.Error) -> bool:
    """Whether a single thing may cause an error: none causes those of a session."""
    return not isinstance(error, psycopg.OperationalError)
