"""The column types that a server creates for Arrow types."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.shared.values.arrow import arrow_type, is_bytes, is_list, is_text
from penstock.errors import PlanningError, UsageError
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column


@dataclass(frozen=True, slots=True)
class CreatedTypes:
    """A database's names of types.

    Whole numbers and floats are keyed by their bits, times by their units.
    """

    database: str
    boolean: str
    signed: Mapping[int, str]
    unsigned: Mapping[int, str]
    floats: Mapping[int, str]
    digits: tuple[int, int]
    """The maximum precision and scale of a decimal; one that exceeds them becomes a text."""
    text: str
    bytes: str
    uuid: str
    json: str
    time: Mapping[str, str]
    timestamp: Mapping[str, str]
    zoned: Mapping[str, str]

    def of_all(
        self, columns: Sequence[Column], definition: TableDefinition, excluded: Collection[str] = ()
    ) -> dict[str, str]:
        """Return, by name, the types of columns created like another system's.

        Args:
            columns: with the trait `arrow`.
            definition: the definition of the source's table.
            excluded: columns whose types the user specified, which are left out.

        Raises:
            PlanningError: the database has no type for a column.
        """
        remaining = [column for column in columns if column.name not in excluded]
        arrays = [column.name for column in remaining if is_list(arrow_type(column))]
        if arrays and definition.arrays != "json":
            raise PlanningError(
                f"target: {self.database} has no arrays, but the source has in "
                f"{', '.join(arrays)}; use --arrays json to write them as JSON, or --columns "
                "without them"
            )
        return {
            column.name: self.json
            if column.name in arrays
            else self.of(arrow_type(column), column.name)
            for column in remaining
        }

    def of(self, kind: pa.DataType, name: str) -> str:
        """Return the type for an Arrow type.

        Args:
            kind: the Arrow type.
            name: the column's name, for error messages.

        Raises:
            PlanningError: the database has no such type.
        """
        if isinstance(kind, pa.UuidType):
            return self.uuid
        if isinstance(kind, pa.JsonType):
            return self.json
        if isinstance(kind, pa.BaseExtensionType):
            return self.of(kind.storage_type, name)
        if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
            return self.of(kind.value_type, name)
        if pt.is_integer(kind):
            return (self.signed if pt.is_signed_integer(kind) else self.unsigned)[kind.bit_width]
        if pt.is_decimal(kind):
            most, behind = self.digits
            fits = 0 <= kind.scale <= min(behind, kind.precision) and kind.precision <= most
            return f"decimal({kind.precision},{kind.scale})" if fits else self.text
        if pt.is_floating(kind):
            return self.floats[max(32, kind.bit_width)]
        if pt.is_time(kind):
            return self.time[kind.unit]
        if pt.is_timestamp(kind):
            return (self.timestamp if kind.tz is None else self.zoned)[kind.unit]
        plain = (
            (pt.is_boolean, self.boolean),
            (is_text, self.text),
            (pt.is_null, self.text),
            (is_bytes, self.bytes),
            (pt.is_date, "date"),
        )
        for test, type_text in plain:
            if test(kind):
                return type_text
        raise PlanningError(
            f"target: column {name}: {self.database} has no type for {kind}; leave the column out "
            "with --columns, or have the source write it as text"
        )


def with_units(name: str, fractions: Mapping[str, str]) -> dict[str, str]:
    """Return types of times, by unit.

    Args:
        name: the name of the type, with `{}` for its digits.
        fractions: the suffix of the name for each unit's number of decimals.
    """
    return {unit: name + fraction for unit, fraction in fractions.items()}


def check_type(pattern: re.Pattern[str], name: str, text: str) -> None:
    """Check a type that the user specified.

    Args:
        pattern: the pattern of the database's types, since the type becomes part of our statement.
        name: the name of the column.
        text: the type that the user wrote.

    Raises:
        UsageError: the text is not a type.
    """
    if not pattern.fullmatch(text):
        raise UsageError(f"--types: column {name}: expected a type, found {text!r}")
