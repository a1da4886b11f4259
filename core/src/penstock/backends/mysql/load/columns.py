"""What a load has to know of the columns that it fills."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pymysql

from penstock.backends.mysql.types import MyType
from penstock.backends.sql.relations import TYPE
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import Column

_MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.S)
_ESCAPED = re.compile(r"''|\\(.)", re.S)
_MEANING = {"0": "\0", "n": "\n", "r": "\r"}
_ROUNDS = re.compile(r"(?:float|double)\(\d+,\d+\)")


@dataclass(frozen=True, slots=True)
class TargetColumn:
    name: str
    type: MyType
    definition: str
    """The type as the server writes it, with all that is in parentheses."""
    charset: str
    """Empty for what is no text."""
    nullable: bool

    @property
    def quoted(self) -> str:
        return f"`{self.name.replace('`', '``')}`"

    @property
    def kind(self) -> str:
        """How values are written in a statement: as `text`, `digits`, `bytes` or `geometry`."""
        if self.type.name == "bit":
            return "digits"
        if self.type.name == "geometry":
            return "geometry"
        return "bytes" if self.type.binary else "text"

    @property
    def members(self) -> tuple[str, ...]:
        """The values of an enum, or those of which the values of a set consist."""
        return tuple(
            _ESCAPED.sub(lambda found: _MEANING.get(found[1] or "'", found[1] or "'"), member)
            for member in _MEMBER.findall(self.definition)
        )


def target_columns(
    connection: pymysql.Connection, table: str, columns: Sequence[Column]
) -> list[TargetColumn]:
    """
    Raises:
        PermanentError: the server would not take values of a column as they are.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM {table}")
        known = {name: (type_, collation or "") for name, type_, collation, *_ in cursor}
    found = []
    for column in columns:
        definition, collation = known[column.name]
        if column.generated or _ROUNDS.match(definition):
            expected = "one that is not computed" if column.generated else "float or double"
            raise PermanentError(
                f"target: {table}: column {column.name!r}: expected {expected}, which keeps "
                f"values as they are; found {definition}",
                Diagnosis(side="target"),
            )
        charset = collation.partition("_")[0]
        mine = column.traits[TYPE]
        found.append(TargetColumn(column.name, mine, definition, charset, column.nullable))
    return found
