"""The model of a table, from the statement that makes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.backends.mysql.catalog.written import REFERENCES, Written, WrittenTable, unquoted
from penstock.backends.mysql.types import MyType
from penstock.backends.sql.dialect import CHARACTERS, LOWER, OCTETS, UPPER
from penstock.backends.sql.expressions import Style, read
from penstock.backends.sql.relations import TYPE
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

_TEXT = r"'(?:[^'\\]|''|\\.)*'"
_COMMENT = re.compile(rf" COMMENT ({_TEXT})")
_TABLE_COMMENT = re.compile(rf"(?:^| )COMMENT=({_TEXT})")
_DEFAULT = re.compile(rf" DEFAULT ((?:b|_\w+)?{_TEXT}|\(|[^\s(]+(?:\(\d*\))?)")
_ON_UPDATE = re.compile(r" ON UPDATE (\w+(?:\(\d*\))?)")
_GENERATED = re.compile(r" GENERATED ALWAYS AS (?=\()")
_CHECK = re.compile(r" CHECK (?=\()")
_NUMBER = re.compile(r"AUTO_INCREMENT=(\d+)")
_LABEL = re.compile(_TEXT)
_ACTION = re.compile(r" ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)")
_PART = re.compile(r"[(,]`((?:[^`]|``)+)`(?:\((\d+)\))?( DESC)?")
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "b": "\b"}
_KINDS = {
    "decimal": table_model.DECIMAL,
    "float": table_model.FLOAT,
    "double": table_model.FLOAT,
    "date": table_model.DATE,
    "time": table_model.TIME,
    "datetime": table_model.TIMESTAMP,
    "timestamp": table_model.MOMENT,
    "json": table_model.JSON,
    "uuid": table_model.UUID,
    "enum": table_model.ENUM,
    "set": table_model.SET,
}
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
Reads = Callable[[str], Expression]


def unescaped(text: str) -> str:
    """A literal's value."""
    return re.sub(
        r"''|\\(.)",
        lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else "'",
        text[1:-1],
        flags=re.DOTALL,
    )


def next_number(written: WrittenTable) -> int:
    """The number that the next row gets."""
    found = _NUMBER.search(written.options)
    return int(found[1]) if found else 1


def model_of(
    written: WrittenTable,
    columns: Sequence[Column],
    uniques: Collection[str],
    table: TableRef,
    *,
    utf8: bool,
) -> tuple[TableModel, list[NotCopied]]:
    """The model, and what has no form in it.

    Parameters:
        columns: with the trait `TYPE`.
        uniques: names of the keys that tell rows apart.
        table: whose it is.
        utf8: all its texts are.
    """
    names = [column.name for column in columns]

    def reads(text: str) -> Expression:
        return _expression(text, names, _OF_UTF8 if utf8 else _STYLE)

    checks = [check for each in written.constraints for check in _check(each, reads)]
    found = []
    for column in columns:
        text = written.columns.get(column.name, "")
        modelled, own = _column(column, text, reads)
        found.append(modelled)
        checks += own
    keys, indexes = [], []
    for key in written.keys:
        if key.name in uniques:
            primary = key.kind == "PRIMARY"
            keys.append(KeyModel("" if primary else key.name, key.leading, primary, text=key.body))
        else:
            indexes.append(_index(key))
    comment = _TABLE_COMMENT.search(written.options)
    _, _, partitions = written.options.partition("\n")
    model = TableModel(
        tuple(found),
        tuple(sorted(keys, key=lambda key: not key.primary)),
        tuple(checks),
        tuple(indexes),
        tuple(_foreign_keys(written.constraints, table)),
        unescaped(comment[1]) if comment else "",
        partitions.strip(),
    )
    return model, [NotCopied("table options", text) for text in written.others]


def _column(column: Column, text: str, reads: Reads) -> tuple[ColumnModel, Iterator[CheckModel]]:
    comment = _COMMENT.search(text)
    bare = _COMMENT.sub("", text)
    type_ = _type(column.traits[TYPE], column.type, text)
    tests = [_balanced(bare, found.end()) for found in _CHECK.finditer(bare)]
    if "json_valid" in "".join(tests):
        type_ = ColumnType(table_model.JSON)
        tests = [test for test in tests if "json_valid" not in test]
    found = ColumnModel(
        column.name,
        type_,
        column.type,
        column.nullable,
        comment=unescaped(comment[1]) if comment else "",
    )
    if generated := _GENERATED.search(bare):
        test = _balanced(bare, generated.end())
        stored = " VIRTUAL" not in bare[generated.end() + len(test) :]
        return replace(found, generated=Generated(reads(test), stored)), iter(())
    if " AUTO_INCREMENT" in bare:
        found = replace(found, identity=Identity())
    elif (default := _DEFAULT.search(bare)) and default[1].upper() != "NULL":
        start = default.start(1)
        whole = _balanced(bare, start) if default[1] == "(" else default[1]
        found = replace(found, default=_default(whole))
    if changed := _ON_UPDATE.search(bare):
        found = replace(found, on_update=_expression(changed[1]))
    return found, (CheckModel("", reads(test)) for test in tests)


def _default(text: str) -> Expression:
    if text.startswith("b'"):
        return Expression(text, ["value", "number", str(int(text[2:-1] or "0", 2))])
    if text.startswith("'"):
        return Expression(text, ["value", "text", unescaped(text)])
    return _expression(text)


def _expression(text: str, names: Collection[str] = (), style: Style = _STYLE) -> Expression:
    return Expression(text, read(text, names, style))


def _type(type_: MyType, written: str, text: str) -> ColumnType:
    if type_.is_tinyint1:
        return ColumnType(table_model.INTEGER, length=1, bits=8)
    if type_.name in _BITS:
        return ColumnType(table_model.INTEGER, unsigned=type_.unsigned, bits=_BITS[type_.name])
    if type_.name == "bit":
        return ColumnType(table_model.INTEGER, unsigned=True, bits=type_.length)
    if type_.name == "year":
        return ColumnType(table_model.INTEGER, bits=16)
    if type_.name in ("enum", "set"):
        head = text[: text.index(")") + 1] if ")" in text else written
        labels = tuple(map(unescaped, _LABEL.findall(head)))
        return ColumnType(_KINDS[type_.name], labels=labels)
    if type_.name in _KINDS:
        return ColumnType(_KINDS[type_.name], unsigned=type_.unsigned)
    limited = type_.name in ("char", "varchar", "binary", "varbinary")
    kind = table_model.BYTES if type_.binary else table_model.TEXT
    return ColumnType(kind, type_.length if limited else None)


def _check(each: Written, reads: Reads) -> Iterator[CheckModel]:
    if each.kind == "CHECK":
        test = _balanced(each.body, 0)
        # MySQL writes NOT ENFORCED in a comment that it reads.
        enforced = "NOT ENFORCED" not in each.body[len(test) :]
        yield CheckModel(each.name, reads(test), enforced)


def _index(key: Written) -> IndexModel:
    method = key.kind.lower() if key.kind in ("FULLTEXT", "SPATIAL") else ""
    if " USING HASH" in key.body:
        method = "hash"
    parts = _PART.findall(key.body)
    columns = tuple(unquoted(name) for name, _, _ in parts)
    # Of an expression's parts nothing is known; a prefix of a column is found by all of it.
    whole = key.body.startswith("(`") and not re.search(r"[(,]\(", key.body)
    unique = key.kind == "UNIQUE"
    if not whole or (unique and any(length for _, length, _ in parts)):
        columns = ()
    descending = tuple(unquoted(name) for name, _, down in parts if down)
    return IndexModel(
        key.name,
        columns,
        descending if columns else (),
        unique=unique,
        method=method,
        text=key.body,
    )


def _foreign_keys(constraints: Sequence[Written], table: TableRef) -> Iterator[ForeignKeyModel]:
    for each in constraints:
        found = REFERENCES.match(each.body) if each.kind == "FOREIGN KEY" else None
        if found is None:
            continue
        schema, name = (found[2], found[3]) if found[3] else (table.schema, found[2])
        actions: Mapping[str, str] = dict(_ACTION.findall(each.body))
        yield ForeignKeyModel(
            each.name,
            each.referring,
            TableRef(unquoted(schema), unquoted(name)),
            tuple(map(unquoted, re.findall(r"`((?:[^`]|``)+)`", found[4]))),
            actions.get("DELETE", "").replace("NO ACTION", ""),
            actions.get("UPDATE", "").replace("NO ACTION", ""),
        )


def _balanced(text: str, start: int) -> str:
    """The parenthesized text that starts at an index, with its parentheses."""
    depth, quote = 0, ""
    place = start
    while place < len(text):
        character = text[place]
        if quote:
            if character == "\\" and quote == "'":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "'`\"":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return text[start : place + 1]
        place += 1
    return text[start:]
