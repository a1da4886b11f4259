"""Types of texts, inferred from all values: later rows could contradict a sample.

A type is inferred only if every value has that type's spelling, so that nothing is lost. ``00123``
is a text, as are ``+1`` and ``01/02/2024``, which other readers take for another day.
"""

from __future__ import annotations

from collections.abc import Callable
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

    def __init__(self) -> None:
        self.is_possible = True

    def look(self, texts: pa.Array) -> bool:
        """Whether the type accepts some values, which are not NULL."""
        return pc.all(pc.match_substring_regex(texts, self.form)).as_py() is not False

    def type(self) -> pa.DataType:
        raise NotImplementedError


class _Cast(_Candidate):
    """A type for which Arrow's cast rejects invalid values: February 30, for instance."""

    kind: pa.DataType

    def look(self, texts: pa.Array) -> bool:
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

    def type(self) -> pa.DataType:
        return pa.bool_()


class _Integer(_Cast):
    form = r"^(0|-?[1-9][0-9]{0,18})$"
    kinds = frozenset({NUMBER})
    kind = pa.int64()


class _Decimal(_Candidate):
    """A decimal with the same number of decimals in every value.

    Its text is then the same as in the file.
    """

    form = r"^-?(0|[1-9][0-9]{0,37})(\.[0-9]{1,37})?$"
    kinds = frozenset({NUMBER})

    def __init__(self) -> None:
        super().__init__()
        self._scale: int | None = None
        self._digits = 0

    def look(self, texts: pa.Array) -> bool:
        if not super().look(texts):
            return False
        lengths = pc.binary_length(pc.replace_substring_regex(texts, r"^-?[0-9]*\.?", ""))
        least, most = (pc.min_max(lengths)[end].as_py() for end in ("min", "max"))
        if least is None:
            return True
        if least != most or self._scale not in (None, least):
            return False
        self._scale = least
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

    def look(self, texts: pa.Array) -> bool:
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


class _Zoned(_Cast):
    form = _MOMENT + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)( BC)?$"
    kinds = frozenset({STRING})
    kind = pa.timestamp("us", "UTC")


class _Time(_Cast):
    form = r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
    kinds = frozenset({STRING})
    kind = pa.time64("us")


class _Bytes(_Cast):
    """Binary values in PostgreSQL's notation."""

    form = r"^\\x([0-9a-f]{2})*$"
    kinds = frozenset({STRING})
    kind = pa.binary()


class _Uuid(_Cast):
    form = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
    kinds = frozenset({STRING})
    kind = pa.uuid()


# The first type that is possible in the end is chosen.
_ORDER: tuple[Callable[[], _Candidate], ...] = (
    _Boolean, _Integer, _Decimal, _Double, _Date, _Timestamp, _Zoned, _Time, _Uuid, _Bytes,
)  # fmt: skip


class ColumnType:
    """The possible types of a column, by its values so far."""

    def __init__(self) -> None:
        self._candidates = [candidate() for candidate in _ORDER]
        self._has_values = False
        self._kinds: set[str] = set()
        self.is_nullable = False

    def look(self, texts: pa.Array) -> None:
        """Consider some values.

        Args:
            texts: the values as in the file; NULL if a value is missing.
        """
        if texts.null_count:
            self.is_nullable = True
            texts = texts.drop_null()
        if len(texts):
            self._has_values = True
            self._candidates = [each for each in self._candidates if each.look(texts)]

    def note(self, kinds: set[str], not_finite: bool) -> None:
        """Consider values from JSON.

        Args:
            kinds: the kinds of the values in JSON.
            not_finite: whether all of its texts are numbers that JSON cannot represent.
        """
        self._kinds |= (kinds - {STRING} | {NUMBER}) if not_finite else kinds

    @property
    def is_nested(self) -> bool:
        return NESTED in self._kinds

    def field(self, name: str) -> pa.Field:
        if self.is_nested:
            return pa.field(name, pa.string(), metadata=JSON)
        for each in self._candidates if self._has_values else ():
            if self._kinds <= each.kinds:
                return pa.field(name, each.type())
        return pa.field(name, pa.string())
