"""Answers of a server about many things: the first that is wanted is asked for with all others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import psycopg

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Answers(Generic[K, V]):
    """One question about many things, such as tables, and what was answered about each.

    Where the server refuses to answer it for all of them, it is asked for halves of them, so that
    one that cannot be answered is alone with its error, which is raised where its answer is wanted.

    Parameters:
        keys: the things that it will be asked about, as far as they are known.
        ask: answers it for some of them at once.
        most: how many that may be.
    """

    def __init__(
        self, keys: Iterable[K], ask: Callable[[Sequence[K]], Mapping[K, V]], most: int = 1000
    ) -> None:
        self._wanted = dict.fromkeys(keys)
        self._ask = ask
        self._most = most
        self._found: dict[K, V] = {}
        self._errors: dict[K, psycopg.Error] = {}

    def expect(self, keys: Iterable[K]) -> None:
        """Ask about these too, when the next question is put."""
        self._wanted |= {key: None for key in keys if not self._is_known(key)}

    def __getitem__(self, key: K) -> V:
        """
        Raises:
            psycopg.Error: what the server has said about this one.
        """
        if not self._is_known(key):
            keys = [key, *(other for other in self._wanted if other != key)]
            self._wanted = {}
            for start in range(0, len(keys), self._most):
                self._find(keys[start : start + self._most])
        if key in self._errors:
            raise self._errors[key]
        return self._found[key]

    def fails(self, key: K) -> bool:
        """Whether there is no answer about this one."""
        try:
            self[key]
        except psycopg.OperationalError:
            raise
        except psycopg.Error:
            return True
        return False

    def found(self) -> Iterable[V]:
        """All answers so far."""
        return self._found.values()

    def forget(self, key: K) -> None:
        """Ask about it again, when its answer is wanted."""
        self._found.pop(key, None)
        self._errors.pop(key, None)

    def _is_known(self, key: K) -> bool:
        return key in self._found or key in self._errors

    def _find(self, keys: Sequence[K]) -> None:
        try:
            self._found |= self._ask(keys)
        except psycopg.OperationalError:
            # Of the session, or for the moment: nothing that one of them is to blame for.
            self.expect(keys)
            raise
        except psycopg.Error as error:
            if len(keys) == 1:
                self._errors[keys[0]] = error
                return
            half = len(keys) // 2
            self._find(keys[:half])
            self._find(keys[half:])
