"""Types of texts, inferred from all values: later rows could contradict a sample.

A type is inferred only if every value has that type's spelling, so that nothing is lost. ``00123``
is a text, as are ``+1`` and ``01/02/2024``, which other readers take for another day.

Most values are written as Arrow writes them, which two casts find out. Regular expressions, which
take several times as long, see the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.text.files.json_rows import BOOLEAN, NESTED, NUMBER, STRING
from penstock.backends.text.files.values import JSON, typed

# Up to this many digits a double certainly distinguishes numbers; longer ones are checked
# individually.
SURE_DIGITS = 15
SHORT, LONG = 18, 38
"""Digits of the decimals that columns become, so that later files rarely need another type."""


class _Candidate:
    """A type that all values of a column may still have."""

    form = ""
    kinds = frozenset({NUMBER, STRING})
    """The kinds of its values in JSON."""

    def look(self, texts: pa.Array) -> bool:
        """Whether the type accepts some values, which are not NULL."""
        return pc.all(pc.match_substring_regex(texts, self.form)).as_py() is not False

    def look_at_integers(self, least: int, most: int) -> bool | None:
        """Whether the type accepts some integers, in their usual notation.

        Args:
            least: the least of them.
            most: the greatest.

        Returns:
            None if that depends on the values in between.
        """
        return False

    def type(self) -> pa.DataType:
        raise NotImplementedError


class _Cast(_Candidate):
    """A type for which Arrow's cast rejects invalid values: February 30, for instance."""

    kind: pa.DataType
    is_written = True
    """Whether Arrow writes values of the type in this form."""

    def look(self, texts: pa.Array) -> bool:
        if self.is_written and _usual(texts, self.kind) is not None:
            return True
        if not super().look(texts):
            return False
        try:
            typed(texts, self.kind)
        except (pa.ArrowException, ValueError):
            return False
        return True

    def type(self) -> pa.DataType:
        return self.kind


class _Boolean(_Candidate):
    form = r"^(true|false)$|^(TRUE|FALSE)$|^(True|False)$"
    kinds = frozenset({BOOLEAN})

    def look(self, texts: pa.Array) -> bool:
        return super().look(texts[:1]) and super().look(pc.unique(texts))

    def type(self) -> pa.DataType:
        return pa.bool_()


class _Integer(_Cast):
    form = r"^(0|-?[1-9][0-9]{0,18})$"
    kinds = frozenset({NUMBER})
    kind = pa.int64()

    def look_at_integers(self, least: int, most: int) -> bool | None:
        return True


class _Decimal(_Candidate):
    """A decimal with the same number of decimals in every value.

    Its text is then the same as in the file.
    """

    form = r"^-?(0|[1-9][0-9]{0,37})(\.[0-9]{1,37})?$"
    kinds = frozenset({NUMBER})

    def __init__(self) -> None:
        self._scale: int | None = None
        self._digits = 0

    def look_at_integers(self, least: int, most: int) -> bool | None:
        if self._scale not in (None, 0):
            return False
        self._scale = 0
        self._digits = max(self._digits, _digits(least, most))
        return True  # at most 19

    def look(self, texts: pa.Array) -> bool:
        if self._scale is None:
            self._scale = len(texts[0].as_py().partition(".")[2])
        kind = pa.decimal128(LONG, min(self._scale, LONG))
        if (numbers := _usual(texts, kind)) is not None:
            ends = pc.min_max(numbers).as_py()
            whole = _digits(int(ends["min"]), int(ends["max"]))
            self._digits = max(self._digits, whole)
            return bool(self._digits + self._scale <= LONG)
        if not super().look(texts):
            return False
        lengths = pc.binary_length(pc.replace_substring_regex(texts, r"^-?[0-9]*\.?", ""))
        least, most = (pc.min_max(lengths)[end].as_py() for end in ("min", "max"))
        if least is None:
            return True
        if least != most or self._scale != least:
            return False
        integers = pc.binary_length(pc.replace_substring_regex(texts, r"^-|\..*$", ""))
        self._digits = max(self._digits, pc.max(integers).as_py())
        return bool(self._digits + least <= LONG)

    def type(self) -> pa.DataType:
        scale = self._scale or 0
        return pa.decimal128(SHORT if self._digits + scale <= SHORT else LONG, scale)


class _Double(_Candidate):
    """A double, if it distinguishes every value from all others."""

    form = (
        r"^-?(0|[1-9][0-9]*)(\.([0-9]*[1-9]|0))?([eE][+-]?[0-9]{1,3})?$"
        r"|^(NaN|nan|-?Infinity|-?inf)$"
    )
    kinds = frozenset({NUMBER})

    def look_at_integers(self, least: int, most: int) -> bool | None:
        return True if _digits(least, most) <= SURE_DIGITS else None

    def look(self, texts: pa.Array) -> bool:
        with suppress(pa.ArrowException):
            # What Arrow writes in the same way is the shortest form of a double.
            written = texts.cast(pa.float64()).cast(pa.string())
            texts = texts.filter(pc.not_equal(written, texts))
        if not len(texts):
            return True
        if not super().look(texts):
            return False
        digits = pc.replace_substring_regex(texts, r"[eE].*$|^-?0\.0*|[-.]", "")
        long = texts.filter(pc.greater(pc.binary_length(digits), SURE_DIGITS))
        try:
            typed(texts, pa.float64())
        except pa.ArrowException:
            return False
        return all(Decimal(repr(float(text))) == Decimal(text) for text in long.to_pylist())

    def type(self) -> pa.DataType:
        return pa.float64()


class _Date(_Cast):
    form = r"^[0-9]{4,7}-[0-9]{2}-[0-9]{2}( BC)?$"
    kinds = frozenset({STRING})
    kind = pa.date32()


_MOMENT = r"^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"


class _Timestamp(_Cast):
    form = _MOMENT + "( BC)?$"
    kinds = frozenset({STRING})
    kind = pa.timestamp("us")

    def look(self, texts: pa.Array) -> bool:
        return _usual(texts, pa.timestamp("s")) is not None or super().look(texts)


class _Zoned(_Cast):
    form = _MOMENT + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)( BC)?$"
    kinds = frozenset({STRING})
    kind = pa.timestamp("us", "UTC")


class _Time(_Cast):
    form = r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
    kinds = frozenset({STRING})
    kind = pa.time64("us")
    is_written = False


class _Bytes(_Cast):
    """Binary values in PostgreSQL's notation."""

    form = r"^\\x([0-9a-f]{2})*$"
    kinds = frozenset({STRING})
    kind = pa.binary()
    is_written = False


class _Uuid(_Cast):
    form = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
    kinds = frozenset({STRING})
    kind = pa.uuid()
    is_written = False


# The first type that is possible in the end is chosen.
_ORDER: tuple[Callable[[], _Candidate], ...] = (
    _Boolean, _Integer, _Decimal, _Double, _Date, _Timestamp, _Zoned, _Time, _Uuid, _Bytes,
)  # fmt: skip


def _usual(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the values of texts that are written as Arrow writes them; None if one is not.

    Args:
        texts: the values.
        kind: the type.
    """
    found = None
    for some in (texts[:1], texts):  # mostly the first shows that they are not
        try:
            found = some.cast(kind)
        except (pa.ArrowException, ValueError):
            return None
        if not found.cast(pa.string()).equals(some):
            return None
    return found


def _digits(least: int, most: int) -> int:
    """Return the number of digits of the longest of some integers."""
    return max(len(str(abs(least))), len(str(abs(most))))


class ColumnType:
    """The possible types of a column, by its values so far."""

    def __init__(self) -> None:
        self._candidates = [candidate() for candidate in _ORDER]
        self._has_values = False
        self._kinds: set[str] = set()

    def look(self, texts: pa.Array) -> None:
        """Consider some values.

        Args:
            texts: the values as in the file; NULL if a value is missing.
        """
        texts = texts.drop_null()
        if not len(texts):
            return
        self._has_values = True
        whole = _usual(texts, pa.int64())
        ends = {} if whole is None else pc.min_max(whole).as_py()
        self._candidates = [
            each
            for each in self._candidates
            if (
                found
                if whole is not None
                and (found := each.look_at_integers(*ends.values())) is not None
                else each.look(texts)
            )
        ]

    def note(self, kinds: set[str]) -> None:
        """Consider the kinds of values in JSON."""
        self._kinds |= kinds
        self._candidates = [each for each in self._candidates if self._kinds <= each.kinds]

    @property
    def is_certainly_text(self) -> bool:
        """Whether it is a text, whatever values follow."""
        return self._has_values and not self._candidates

    @property
    def is_nested(self) -> bool:
        return NESTED in self._kinds

    def field(self, name: str) -> pa.Field:
        if self.is_nested:
            return pa.field(name, pa.string(), metadata=JSON)
        if self._has_values and self._candidates:
            return pa.field(name, self._candidates[0].type())
        return pa.field(name, pa.string())
