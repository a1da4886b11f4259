"""A table as SHOW CREATE TABLE has it: its parts, each in the server's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.backends.mysql.session import MySqlSession
from penstock.model.tables import TableRef

_NAME = r"`((?:[^`]|``)+)`"
_COLUMN = re.compile(rf"{_NAME} (.+)")
_KEY = re.compile(rf"(?:(PRIMARY|UNIQUE|FULLTEXT|SPATIAL) )?KEY (?:{_NAME} )?(\(.*)")
_CONSTRAINT = re.compile(rf"CONSTRAINT {_NAME} (FOREIGN KEY|CHECK) (\(.*)")
# Whole columns, from the first one on: not their beginnings, and no expressions.
_WHOLE = re.compile(rf"[(,]{_NAME}(?: DESC)?(?=[,)])")
REFERENCES = re.compile(rf"\((.+?)\) REFERENCES {_NAME}(?:\.{_NAME})? \((.+?)\)")
_GENERATED = re.compile(r" GENERATED ALWAYS AS (.+)")
# A comment may say anything.
_COMMENT = re.compile(r" COMMENT '(?:[^'\\]|''|\\.)*'")


def unquoted(name: str) -> str:
    return name.replace("``", "`")


@dataclass(frozen=True, slots=True)
class Written:
    """A key or constraint."""

    name: str
    kind: str
    """`PRIMARY`, `UNIQUE`, `FULLTEXT`, `SPATIAL`, `FOREIGN KEY`, `CHECK`; empty for an index."""
    text: str
    """As it stands in a statement that makes the table."""
    body: str
    """From its columns on."""

    @property
    def alone(self) -> str:
        """Without a constraint's name."""
        return f"{self.kind} {self.body}" if self.kind in ("CHECK", "FOREIGN KEY") else self.text

    @property
    def named(self) -> frozenset[str]:
        """The columns that it speaks of."""
        body = self.body.partition(" REFERENCES ")[0] if self.kind == "FOREIGN KEY" else self.body
        return frozenset(map(unquoted, re.findall(_NAME, _COMMENT.sub("", body))))

    @property
    def leading(self) -> tuple[str, ...]:
        """The columns by which an index finds rows; none where it is no ordered one."""
        if self.kind not in ("", "PRIMARY", "UNIQUE"):
            return ()
        columns, place = [], 0
        while found := _WHOLE.match(self.body, place):
            columns.append(unquoted(found[1]))
            place = found.end()
        return tuple(columns)

    @property
    def referring(self) -> tuple[str, ...]:
        """The columns of a foreign key."""
        found = REFERENCES.match(self.body)
        return tuple(map(unquoted, re.findall(_NAME, found[1]))) if found else ()


@dataclass(slots=True)
class WrittenTable:
    columns: dict[str, str] = field(default_factory=dict)
    """What follows each one's name."""
    keys: list[Written] = field(default_factory=list)
    constraints: list[Written] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What is none of these: periods of time."""
    options: str = ""
    """What follows the columns."""

    @property
    def indexes(self) -> dict[str, Written]:
        """Those that keep no row out, of the kinds that are known."""
        return {key.name: key for key in self.keys if key.kind not in ("PRIMARY", "UNIQUE")}

    @property
    def generated(self) -> dict[str, str]:
        """From what the columns that the server computes are made, by their names."""
        texts = {name: _COMMENT.sub("", text) for name, text in self.columns.items()}
        found = {name: _GENERATED.search(text) for name, text in texts.items()}
        return {name: text[1] for name, text in found.items() if text}

    @property
    def automatic(self) -> str | None:
        """The column that numbers its rows."""
        found = (name for name, text in self.columns.items() if " AUTO_INCREMENT" in text)
        return next(found, None)


def read_written(session: MySqlSession, table: TableRef) -> WrittenTable:
    """
    Raises:
        PlanningError: no such table.
    """
    return parse(read_statement(session, table))


def read_statement(session: MySqlSession, table: TableRef) -> str:
    """The statement that makes the table.

    Raises:
        PlanningError: no such table.
    """
    known, found = session.known_of(table), None
    if known is not None:
        found = known.of_each(
            "statements",
            table,
            lambda: known.tables,
            lambda tables: read_statements(session, tables),
        )
    if found is None:
        ((_, found, *_),) = session.fetch(_asked(session, table), str(table))
    return str(found)


def _asked(session: MySqlSession, table: TableRef) -> str:
    return f"SHOW CREATE TABLE {session.table(table)}"


def read_statements(session: MySqlSession, tables: Sequence[TableRef]) -> dict[TableRef, str]:
    """Those that the server gives, as of now: together, since each is a statement of its own."""
    found: dict[TableRef, str] = {}
    with session.hurried():
        answers = session.fetch_each([_asked(session, table) for table in tables])
    for table, answer in zip(tables, answers, strict=True):
        for _, statement, *_ in answer or ():
            found[table] = statement
    return found


def parse(statement: str) -> WrittenTable:
    found = WrittenTable()
    lines = statement.splitlines()
    for place, line in enumerate(lines[1:], 1):
        if not line.startswith("  "):
            found.options = "\n".join(lines[place:]).removeprefix(")").strip()
            break
        text = line.strip().removesuffix(",")
        if column := _COLUMN.fullmatch(text):
            found.columns[unquoted(column[1])] = column[2]
        elif key := _KEY.fullmatch(text):
            name = unquoted(key[2]) if key[2] else "PRIMARY"
            found.keys.append(Written(name, key[1] or "", text, key[3]))
        elif constraint := _CONSTRAINT.fullmatch(text):
            name, kind, body = constraint.groups()
            found.constraints.append(Written(unquoted(name), kind, text, body))
        else:
            found.others.append(text)
    return found
