"""Masks as a database's expressions: a value has the same mask in every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.backends.sql.rows.bounds import TEXTS, TIMES, WHOLE_NUMBERS
from penstock.errors import PlanningError
from penstock.model.tables import MaskingKey
from penstock.spec.masking_keys import inner, outer
from penstock.spec.masks import LAST4, NULL, YEAR, Mask

_BYTES = "bytea"
_TEXTUAL = (*TEXTS, *WHOLE_NUMBERS)
# All databases write these types with the same text.
_HASHED = (*_TEXTUAL, "uuid", "date", _BYTES)


class Masking(ABC):
    """The functions with which a database computes masks."""

    never = "1 = 0"
    """A condition that is never true."""
    has_keys = True
    """Whether a session can hold a key that no statement shows."""

    def expression(
        self, mask: Mask, column: str, value: str, type_: Any, tag: str, key: MaskingKey | None
    ) -> str:
        """Return the expression of a mask.

        Args:
            mask: the mask.
            column: its name, for error messages.
            value: the SQL of the value.
            type_: the type, as the session describes it.
            tag: the tag of its type, see `Bound`.
            key: the key of an HMAC.

        Raises:
            PlanningError: the mask does not support the type, or this database does not support the
                mask.
        """
        if mask.kind == NULL:
            return f"CASE WHEN {self.never} THEN {value} END"
        supported = TIMES if mask.kind == YEAR else _TEXTUAL if mask.kind == LAST4 else _HASHED
        if tag not in supported:
            expected = {
                YEAR: "a date or a timestamp",
                LAST4: "a text or a whole number",
            }.get(mask.kind, "a text, a whole number, a date, a UUID or bytes")
            raise PlanningError(
                f"--mask {column}={mask}: expected {expected}, found a column of type {type_}; "
                "compute it with --set, or leave it out with --exclude-columns"
            )
        if mask.kind == YEAR:
            return self.year(value, type_, tag)
        if mask.kind == LAST4:
            return self.last4(self.text(value))
        data = value if tag == _BYTES else self.encoded(self.text(value))
        if key is None:
            return self.digest(data)
        if not self.has_keys:
            raise PlanningError(
                f"--mask {column}={mask}: this source cannot keep a key out of its statements; "
                "expected hash, null, last4 or year"
            )
        first = self.digested(self.joined(self.stored_bytes(inner(key)), data))
        return self.digest(self.joined(self.stored_bytes(outer(key)), first))

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a value as text."""

    def encoded(self, text: str) -> str:
        """Return a text's bytes in UTF-8, unless `digest` accepts the text itself."""
        return text

    @abstractmethod
    def digest(self, data: str) -> str:
        """Return the SHA-256 of bytes as lower-case hexadecimal digits."""

    @abstractmethod
    def digested(self, data: str) -> str:
        """Return the SHA-256 of bytes as bytes."""

    @abstractmethod
    def joined(self, first: str, second: str) -> str:
        """Concatenate bytes."""

    @abstractmethod
    def stored_bytes(self, name: str) -> str:
        """Return the bytes whose hexadecimal digits the session stores under a name."""

    @abstractmethod
    def year(self, value: str, type_: Any, tag: str) -> str:
        """Return the first of January of a date or timestamp, in the same type.

        Args:
            value: the value, as an expression.
            type_: the type, as the session describes it.
            tag: the type of the value, as in `Bound`.
        """

    def last4(self, text: str) -> str:
        # A text no longer than the visible part is hidden completely.
        count = self.length(text)
        hidden = self.linked(self.stars(count, 4), self.ending(text))
        return f"CASE WHEN {self.exceeds(count, 4)} THEN {hidden} ELSE {self.stars(count, 0)} END"

    def stars(self, count: str, but: int) -> str:
        """Return as many stars as a number says, or some less."""
        return f"repeat('*', {count} - {but})" if but else f"repeat('*', {count})"

    def exceeds(self, count: str, limit: int) -> str:
        """Return the test whether a number is greater than a limit."""
        return f"{count} > {limit}"

    def length(self, text: str) -> str:
        """Return the length of a text in characters."""
        return f"char_length({text})"

    def ending(self, text: str) -> str:
        """Return the last four characters of a text."""
        return f"right({text}, 4)"

    def linked(self, first: str, second: str) -> str:
        """Concatenate texts."""
        return f"{first} || {second}"
