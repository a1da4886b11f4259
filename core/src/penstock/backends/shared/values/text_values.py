"""Values that a server writes as texts, converted to Arrow, and the error if one does not fit."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.backends.shared.values.arrow import first_failing
from penstock.errors import Diagnosis, PermanentError
from penstock.model import values
from penstock.model.tables import Column

_ADVICE = "leave such rows out with --where, or cast the column to text in a --query, or in a view"


class Refused(Exception):
    """Arrow cannot hold a value.

    Args:
        index: the index of the value in its array.
        text: the value, as the server writes it.
    """

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        self.text = text

    def error(
        self,
        subject: str,
        column: Column,
        arrow_type: pa.DataType,
        rows_before: int,
        advice: str = "",
    ) -> PermanentError:
        """Return the error for this value.

        Args:
            subject: the table or query being read.
            column: the column.
            arrow_type: the Arrow type that the value does not fit into.
            rows_before: the number of rows before the array.
            advice: further advice, which precedes the general one.
        """
        shown = self.text if len(self.text) <= 100 else self.text[:100] + "..."
        value = values.value(repr(shown))
        return PermanentError(
            f"{subject}: column {column.name!r}, row {rows_before + self.index + 1:,}: expected a "
            f"{column.type} that fits into Arrow's {arrow_type}, found {value}; {advice}{_ADVICE}",
            Diagnosis(side="source"),
        )


def checked(texts: pa.Array, read: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Convert texts, and find the value that fails.

    Args:
        texts: of type binary.
        read: converts them. Raises a ValueError or a `pyarrow.ArrowException`.

    Raises:
        Refused: a text cannot be converted; names the first.
    """
    try:
        return read(texts)
    except (ValueError, pa.ArrowException):
        index = first_failing(texts, read)
        raise Refused(index, texts[index].as_py().decode(errors="backslashreplace")) from None
