"""Calls that ask one server, made together, so that their next questions share a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import psycopg

from penstock.errors import Interrupted, PenstockError

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext

Question = tuple[Any, ...]
"""The arguments of `execute`."""
_Key = tuple[bytes, str, bool]


class NotAnswered(psycopg.OperationalError):
    """A question of a call has not been sent yet."""


class _Unanswered:
    """A placeholder for an answer, until it is used."""

    def __getattr__(self, name: str) -> Any:
        raise NotAnswered("asked together with others")

    def __iter__(self) -> Any:
        raise NotAnswered("asked together with others")


class SharedRoundTrips:
    """A runner that repeats calls, each time with more answers, until all have finished.

    A call's first question is noted, and the call is abandoned where it uses the answer. Once all
    calls have been abandoned, their questions are sent together, and each call starts over: it now
    finds that answer, and reaches its next question. The number of round trips is thus the number
    of dependent questions of the longest call.
    """

    def __init__(self, context: AdaptContext) -> None:
        self._context = context
        self._questions: dict[_Key, Question] = {}
        self._answers: dict[_Key, psycopg.Cursor[Any]] = {}
        self._waits = False
        self.users_path = False
        """Whether what is asked now is asked under the user's search path."""

    def answer(self, question: Question) -> psycopg.Cursor[Any]:
        """Return the answer, or a placeholder that raises `NotAnswered` when it is used."""
        key = self._key(*question)
        if key not in self._answers:
            self._questions[key] = question
            self._waits = True
            return cast("psycopg.Cursor[Any]", _Unanswered())
        cursor = self._answers[key]
        if cursor.rownumber:  # another call, or an earlier run of this one, has read it
            cursor.scroll(0, "absolute")
        return cursor

    def take(self, question: Question) -> psycopg.Cursor[Any] | None:
        """Return an answer once, if there is one."""
        return self._answers.pop(self._key(*question), None)

    def first_questions(self, calls: Iterable[Callable[[], object]]) -> list[Question]:
        """Return the questions that calls ask before they have any answer."""
        self._questions = {}
        for call in calls:
            self._waits_after(call)
        return list(self._questions.values())

    def note(self, answers: Iterable[psycopg.Cursor[Any]]) -> None:
        """Store the answers to `first_questions`."""
        self._answers |= zip(self._questions, answers, strict=True)

    def make(self, calls: Iterable[Callable[[], object]], send: Callable[..., Any]) -> None:
        """Make the calls.

        Args:
            calls: the calls, each of which may be repeated.
            send: sends questions together, some of them under the user's path; returns all cursors.
        """
        unfinished: Sequence[Callable[[], object]] = list(calls)
        while unfinished:
            self._questions = {}
            unfinished = [call for call in unfinished if self._waits_after(call)]
            if unfinished:
                plain = {key: question for key, question in self._questions.items() if not key[2]}
                users = {key: question for key, question in self._questions.items() if key[2]}
                cursors = send(list(plain.values()), list(users.values()))
                self._answers |= zip((*plain, *users), cursors, strict=True)

    def _waits_after(self, call: Callable[[], object]) -> bool:
        """Whether a call is unfinished.

        Any other failure is raised when the call is made alone.
        """
        self._waits = False
        try:
            call()
        except Interrupted:
            raise
        except (psycopg.Error, PenstockError):
            pass
        return self._waits

    def _key(self, query: Any, values: Any = None) -> _Key:
        if isinstance(query, psycopg.sql.Composable):
            text = query.as_bytes(self._context)
        else:
            text = query if isinstance(query, bytes) else query.encode()
        return text, repr(values), self.users_path
