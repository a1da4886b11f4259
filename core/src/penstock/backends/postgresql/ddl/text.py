"""Names, expressions and comments in statements."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import IndexPart, TablePart

LONGEST_NAME = 63


def check_lengths(table: TableRef, columns: Sequence[Column]) -> None:
    """Check the names of a table that is created, which the server would cut.

    Raises:
        PlanningError: a name is too long.
    """
    names = {"table": [table.name], "column": [column.name for column in columns]}
    for kind, of_kind in names.items():
        for name_ in of_kind:
            length = len(name_.encode())
            if length > LONGEST_NAME:
                advice = "--target-table" if kind == "table" else "an alias in a --query"
                raise PlanningError(
                    f"target: {kind} {name_!r}: expected a name of at most {LONGEST_NAME} bytes, "
                    f"the most that the server keeps, found {length}; shorten it by {advice}"
                )


def temporary_name(run_id: str, original: str) -> str:
    """Return a name for what is built next to an object with a given name."""
    digest = hashlib.sha256(f"{run_id}:{original}".encode()).hexdigest()[:8]
    return shorten(original, f"__penstock_{digest}")


def shorten(text: str, suffix: str) -> str:
    """Return a name with a suffix, within the maximum length."""
    room = LONGEST_NAME - len(suffix.encode())
    return text.encode()[:room].decode(errors="ignore") + suffix


@dataclass(frozen=True)
class Names:
    """The new names of a definition's objects: tables by object id, the others by name."""

    tables: Mapping[int, TableRef]
    indexes: Mapping[int, str] = field(default_factory=dict)
    """By object id; in the schema of their table."""
    sequences: Mapping[tuple[str, str], TableRef] = field(default_factory=dict)
    """Sequences that are created or renamed; others are used as they are."""
    statistics: Mapping[tuple[str, str], TableRef] = field(default_factory=dict)
    becomes: Mapping[int, TableRef] = field(default_factory=dict)
    """The names that tables with temporary names get in the end."""

    def without_sequence(self, sequence: tuple[str, str]) -> Names:
        """Return the same names, except that of one sequence."""
        sequences = {key: ref for key, ref in self.sequences.items() if key != sequence}
        return replace(self, sequences=sequences)

    def table(self, table: TablePart) -> TableRef:
        return self.tables[table["oid"]]

    def index(self, table: TablePart, index: IndexPart) -> TableRef:
        return TableRef(self.table(table).schema, self.indexes[index["oid"]])


_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d][\w$]*|.""", re.DOTALL)


def replace_table_name(text: str, table: TablePart, ref: TableRef) -> str:
    """Rewrite a table's expression for another table name.

    It may refer to the whole row, ``name.*``, or to the table, ``'schema.name'::regclass``.

    Args:
        text: the expression, as the server writes it.
        table: the table's definition.
        ref: the other name.
    """
    parts = []
    tokens = _TOKEN.findall(text)
    for place, token in enumerate(tokens):
        after = tokens[place + 1 : place + 4]
        before = tokens[place - 1] if place else ""
        if token == table["written"] and after[:2] == [".", "*"] and before != ".":
            parts.append(ident(ref.name))
        elif token == table["regclass"] and after == [":", ":", "regclass"]:
            parts.append(literal(name(ref)))
        else:
            parts.append(token)
    return "".join(parts)


def replace_value(text: str, column: str) -> str:
    """Rewrite a domain's expression, which refers to VALUE, to refer to a column."""
    return "".join(ident(column) if each == "VALUE" else each for each in _TOKEN.findall(text))


def comment(kind: str, of: str, text: str | None) -> list[str]:
    """Return a COMMENT statement in a list; an empty list without a comment.

    Args:
        kind: the kind of the object, as in COMMENT ON.
        of: the object's quoted name.
        text: the comment; None without one.
    """
    return [] if text is None else [f"COMMENT ON {kind} {of} IS {literal(text)}"]


def constraint_comment(ref: TableRef, constraint: str, text: str | None) -> list[str]:
    """Return a COMMENT statement for a constraint, as `comment` does.

    Args:
        ref: the table.
        constraint: the constraint's name.
        text: the comment; None without one.
    """
    return comment("CONSTRAINT", f"{ident(constraint)} ON {name(ref)}", text)
