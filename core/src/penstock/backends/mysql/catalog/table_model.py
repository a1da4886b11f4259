"""The model of a table, from the statement that creates it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.backends.mysql.catalog.statements import read_statement
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.types import TYPES, MyType
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.definitions.expressions import Style, read
from penstock.backends.sql.definitions.parentheses import enclosed
from penstock.backends.sql.dialect import CHARACTERS, LOWER, OCTETS, UPPER
from penstock.model import table_model
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    ForeignKeyModel,
    Generated,
    Identity,
    IndexModel,
    KeyModel,
    TableModel,
)
from penstock.model.tables import Column, NotCopied, TableRef

COLLATIONS, COLUMN_OPTIONS, INDEX_OPTIONS, TABLE_OPTIONS = (
    "collations", "column options", "index options", "table options",
)  # fmt: skip
"""What messages call the kinds of parts without a form in the model."""
UNVERSIONED = "WITHOUT SYSTEM VERSIONING"
_NAME = r"`((?:[^`]|``)+)`"
_TEXT = r"'(?:[^'\\]|''|\\.)*'"
# The lines of the statement.
_COLUMN = re.compile(rf"{_NAME} (.+)")
_KEY = re.compile(rf"(?:(PRIMARY|UNIQUE|FULLTEXT|SPATIAL) )?KEY (?:{_NAME} )?(\(.*)")
_CONSTRAINT = re.compile(rf"CONSTRAINT {_NAME} (FOREIGN KEY|CHECK) (\(.*)")
_REFERENCES = re.compile(rf"\((.+?)\) REFERENCES {_NAME}(?:\.{_NAME})? \((.+?)\)")
_ACTION = re.compile(r" ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)")
_OPTION = re.compile(rf"((?:DEFAULT )?\S+?)=({_TEXT}|\S+)\s*")
# A part of an index: a column or its prefix, and its order.
_PART = re.compile(rf"{_NAME}(?:\((\d+)\))?( DESC)?(?:,|$)")
_LABEL = re.compile(_TEXT)
_TYPE = re.compile(rf"\w+(?:\((?:{_TEXT}|[^')])*\))?(?: unsigned)?")
# What follows a column's type.
_CLAUSE = re.compile(
    rf"""\ *(?:
      (?P<opening>GENERATED\ ALWAYS\ AS|DEFAULT|CHECK)\ \(
    | DEFAULT\ (?P<default>(?:b|_\w+\ ?)?{_TEXT}|[^\s(]+(?P<called>\()?)
    | ON\ UPDATE\ (?P<on_update>\w+(?:\(\d*\))?)
    | COMMENT\ (?P<comment>{_TEXT})
    | CHARACTER\ SET\ \w+ | COLLATE\ (?P<collation>\w+)
    | (?:NOT\ )?NULL | (?P<automatic>AUTO_INCREMENT) | (?P<kind>VIRTUAL|STORED|PERSISTENT)
    | /\*!?M?!?\d* | \*/
    | (?P<other>{UNVERSIONED.replace(" ", r"[ ]")}|{_TEXT}|(?:(?!\*/)\S)+)
    )""",
    re.VERBOSE | re.DOTALL,
)
# Of an index: how it is stored is up to the server.
_STORED = re.compile(r" USING (?:BTREE|HASH)|/\*!\d*|\*/")
_COPIED_OPTIONS = ("DEFAULT CHARSET", "COLLATE")
_MODELLED = ("ENGINE", "AUTO_INCREMENT", "COMMENT", *_COPIED_OPTIONS)
"""Options of a table that are in its model, or do not matter to a similar table."""
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

_FUNCTIONS = {
    "char_length": CHARACTERS,
    "character_length": CHARACTERS,
    "lcase": LOWER,
    "lower": LOWER,
    "ucase": UPPER,
    "upper": UPPER,
    "coalesce": "coalesce",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "concat": "concat",
}
_STYLE = Style(escapes=True, functions=_FUNCTIONS)
_OF_UTF8 = Style(escapes=True, functions={**_FUNCTIONS, "length": OCTETS, "octet_length": OCTETS})
"""The style of a table whose texts are all in UTF-8."""
Parse = Callable[[str], Expression]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as described by the statement that creates it."""

    model: TableModel
    options: Mapping[str, str]
    """The table's options by name, as the server writes them."""
    omitted: tuple[NotCopied, ...] = ()
    """Parts without a neutral form."""


def model_of(session: MySqlSession, table: TableRef) -> TableModel:
    """Return the parts of a table's model that do not depend on column types.

    Raises:
        PlanningError: the table does not exist.
    """
    return read_table(read_statement(session, table), table).model


def read_table(
    statement: str, table: TableRef, columns: Sequence[Column] = (), *, utf8: bool = False
) -> ReadTable:
    """Parse the statement that creates a table.

    Args:
        statement: the output of SHOW CREATE TABLE.
        table: the table that the statement creates.
        columns: with the trait `TYPE`; of other columns, types and nullability are unknown.
        utf8: whether all texts of the table are in UTF-8.
    """
    lines = statement.splitlines()[1:]
    end = next(place for place, line in enumerate(lines) if not line.startswith("  "))
    clauses = [line.strip().removesuffix(",") for line in lines[:end]]
    texts = {_unquoted(each[1]): each[2] for each in map(_COLUMN.fullmatch, clauses) if each}
    style = _OF_UTF8 if utf8 else _STYLE

    def parse(text: str) -> Expression:
        return Expression(text, read(text, list(texts), style))

    checks: list[CheckModel] = []
    keys: list[KeyModel | IndexModel] = []
    links: list[ForeignKeyModel] = []
    omitted: list[NotCopied] = []
    alter_clauses: list[str] = []
    for text in clauses[len(texts) :]:
        if key := _KEY.fullmatch(text):
            keys.append(_key(key[1] or "", _unquoted(key[2] or ""), key[3], omitted))
        elif (constraint := _CONSTRAINT.fullmatch(text)) and constraint[2] == "CHECK":
            test = enclosed(constraint[3], 0)
            # MySQL writes NOT ENFORCED in an executable comment.
            enforced = "NOT ENFORCED" not in constraint[3][len(test) :]
            checks.append(CheckModel(_unquoted(constraint[1]), parse(test), enforced))
        elif constraint and (refers := _REFERENCES.match(constraint[3])):
            links.append(_foreign_key(_unquoted(constraint[1]), refers, table))
        else:
            alter_clauses.append(f"ADD {text}")
            omitted.append(NotCopied(TABLE_OPTIONS, text))
    by_name = {column.name: column for column in columns}
    by_name |= {name: Column(name, "") for name in texts if name not in by_name}
    modelled = [
        _column(column, texts.get(name, ""), parse, checks, omitted)
        for name, column in by_name.items()
    ]
    head, partitions = lines[end].removeprefix(")"), "\n".join(lines[end + 1 :]).strip()
    options = dict(_OPTION.findall(head))
    unmodelled = [f"{name}={value}" for name, value in options.items() if name not in _MODELLED]
    remainder = _OPTION.sub("", head).strip()
    alter_clauses += [*unmodelled, *filter(None, [remainder.replace("WITH ", "ADD ", 1)])]
    omitted += [NotCopied(TABLE_OPTIONS, text) for text in (*unmodelled, remainder) if text]
    comment = options.get("COMMENT")
    model = TableModel(
        tuple(modelled),
        tuple(key for key in keys if isinstance(key, KeyModel)),
        tuple(checks),
        tuple(key for key in keys if isinstance(key, IndexModel)),
        tuple(links),
        unescaped(comment) if comment else "",
        partitions,
        options=" ".join(f"{name}={options[name]}" for name in _COPIED_OPTIONS if name in options),
        completions=tuple(alter_clauses),
    )
    return ReadTable(model, options, tuple(omitted))


def _unquoted(name: str) -> str:
    return name.replace("``", "`")


def unescaped(text: str) -> str:
    """Return the value of a literal."""
    return re.sub(
        r"''|\\(.)",
        lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else "'",
        text[1:-1],
        flags=re.DOTALL,
    )


def next_number(statement: str, table: TableRef) -> int:
    """Return the number of the table's next row."""
    return int(read_table(statement, table).options.get("AUTO_INCREMENT", 1))


# Columns


def _column(
    column: Column, text: str, parse: Parse, checks: list[CheckModel], omitted: list[NotCopied]
) -> ColumnModel:
    """Parse the line of a column.

    Args:
        column: the column; an empty type leaves the model's type unknown.
        text: the definition after the column's name.
        parse: parses an expression over the table's columns.
        checks: receives the column's check.
        omitted: receives what has no form in the model.
    """
    head = _TYPE.match(text)
    place = head.end() if head else 0
    tests, unmodelled, words = [], [], dict.fromkeys(_CLAUSE.groupindex, "")
    while clause := _CLAUSE.match(text, place):
        place = clause.end()
        words |= {name: word for name, word in clause.groupdict().items() if word}
        opening = clause["opening"] or clause["called"]
        if opening:
            inner = enclosed(text, place - 1)
            place += len(inner) + 1
            if opening == "CHECK":
                tests.append(inner)
            elif opening == "(":
                words["default"] += f"{inner})"
            else:
                words["default" if opening == "DEFAULT" else "generated"] = f"({inner})"
        if clause["other"]:
            unmodelled.append(clause["other"])
    type_ = ColumnType()
    if column.type:
        type_ = _type(column.traits[TYPE], head[0] if head and "(" in head[0] else column.type)
    if "json_valid" in "".join(tests):
        type_ = ColumnType(table_model.JSON)
        tests = [test for test in tests if "json_valid" not in test]
    checks += (CheckModel("", parse(test)) for test in tests)
    if unmodelled:
        omitted.append(NotCopied(COLUMN_OPTIONS, f"{column.name}: {' '.join(unmodelled)}"))
    if words["collation"] and type_.kind != table_model.JSON:
        omitted.append(NotCopied(COLLATIONS, f"{column.name}: {words['collation']}"))
    generated, default, changed = words.get("generated"), words["default"], words["on_update"]
    has_default = not generated and not words["automatic"] and default.upper() not in ("", "NULL")
    return ColumnModel(
        column.name,
        type_,
        column.type,
        column.nullable,
        default=_default(default) if has_default else None,
        on_update=Expression(changed, read(changed)) if changed else None,
        identity=Identity() if words["automatic"] else None,
        generated=Generated(parse(generated), words["kind"] != "VIRTUAL") if generated else None,
        comment=unescaped(words["comment"]) if words["comment"] else "",
        definition=text,
    )


def _default(text: str) -> Expression:
    if text.startswith("b'"):
        return Expression(text, ["value", "number", str(int(text[2:-1] or "0", 2))])
    if text.startswith("'"):
        return Expression(text, ["value", "text", unescaped(text)])
    return Expression(text, read(text, (), _STYLE))


def _type(type_: MyType, definition: str) -> ColumnType:
    if type_.is_tinyint1:
        return ColumnType(table_model.INTEGER, length=1, bits=8)
    if type_.name in _BITS:
        return ColumnType(table_model.INTEGER, unsigned=type_.unsigned, bits=_BITS[type_.name])
    if type_.name == "bit":
        return ColumnType(table_model.INTEGER, unsigned=True, bits=type_.length)
    if type_.name == "year":
        return ColumnType(table_model.INTEGER, bits=16)
    kind = TYPES.line(type_).kind
    if kind in (table_model.ENUM, table_model.SET):
        return ColumnType(kind, labels=tuple(map(unescaped, _LABEL.findall(definition))))
    if kind not in (table_model.TEXT, table_model.BYTES, table_model.OTHER):
        return ColumnType(kind, unsigned=type_.unsigned)
    limited = type_.name in ("char", "varchar", "binary", "varbinary")
    kind = table_model.BYTES if type_.binary else table_model.TEXT
    return ColumnType(kind, type_.length if limited else None)


# Keys and constraints


def _key(kind: str, name: str, body: str, omitted: list[NotCopied]) -> KeyModel | IndexModel:
    """Parse the line of a key or index.

    Args:
        kind: PRIMARY, UNIQUE, FULLTEXT, SPATIAL or empty.
        name: the name; empty for the primary key.
        body: the definition from the first parenthesis on.
        omitted: receives what has no form in the model.
    """
    listed = enclosed(body, 0)
    parts, place = [], 0
    while part := _PART.match(listed, place):
        parts.append(part.groups())
        place = part.end()
    columns = tuple(_unquoted(column) for column, _, _ in parts)
    exact = place == len(listed) and not any(length for _, length, _ in parts)
    suffix = body[len(listed) + 2 :]
    if more := _STORED.sub("", suffix).strip():
        omitted.append(NotCopied(INDEX_OPTIONS, f"{name or kind}: {more}"))
    if exact and kind in ("PRIMARY", "UNIQUE"):
        return KeyModel(name, columns, kind == "PRIMARY", text=body)
    method = kind.lower() if kind in ("FULLTEXT", "SPATIAL") else ""
    # A whole column also serves lookups by its prefix; nothing is known about expressions.
    is_whole = place == len(listed) and (exact or kind != "UNIQUE")
    return IndexModel(
        name,
        columns if is_whole else (),
        tuple(_unquoted(each) for each, _, down in parts if down and is_whole),
        unique=kind == "UNIQUE",
        method="hash" if " USING HASH" in suffix else method,
        text=body,
    )


def clause_of(part: KeyModel | IndexModel) -> str:
    """Return one of MySQL's own keys or indexes as a clause of CREATE TABLE."""
    if isinstance(part, KeyModel):
        kind = "PRIMARY" if part.primary else "UNIQUE"
    else:
        kind = "UNIQUE" if part.unique else part.method.upper().replace("HASH", "")
    label = "" if kind == "PRIMARY" else f"{MYSQL.ident(part.name)} "
    return f"{kind} KEY {label}{part.text}".lstrip()


def keys_of(model: TableModel) -> list[KeyModel | IndexModel]:
    """Return all keys and indexes."""
    return [*model.keys, *model.indexes]


def indexes_of(model: TableModel) -> dict[str, str]:
    """Return, by name, the clauses of indexes that reject no rows."""
    return {index.name: clause_of(index) for index in model.indexes if not index.unique}


def leading(part: KeyModel | IndexModel) -> tuple[str, ...]:
    """Return the columns by which an index finds rows; none if it is not ordered."""
    if isinstance(part, IndexModel) and part.method in ("fulltext", "spatial"):
        return ()
    listed, columns, place = enclosed(part.text, 0), [], 0
    while (each := _PART.match(listed, place)) and not each[2]:
        columns.append(_unquoted(each[1]))
        place = each.end()
    return tuple(columns)


def _foreign_key(name: str, match: re.Match[str], table: TableRef) -> ForeignKeyModel:
    schema, referenced = (match[2], match[3]) if match[3] else (table.schema, match[2])
    actions: Mapping[str, str] = dict(_ACTION.findall(match.string))
    return ForeignKeyModel(
        name,
        _names(match[1]),
        TableRef(_unquoted(schema), _unquoted(referenced)),
        _names(match[4]),
        actions.get("DELETE", "").replace("NO ACTION", ""),
        actions.get("UPDATE", "").replace("NO ACTION", ""),
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(map(_unquoted, re.findall(_NAME, listed)))
