"""A table's model, built from its definition in the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.attachments import omitted_objects
from penstock.backends.postgresql.ddl.foreign_keys import FOREIGN_KEYS, referenced_table
from penstock.backends.postgresql.ddl.links import INHERITANCE
from penstock.backends.postgresql.ddl.text import replace_value
from penstock.backends.sql.definitions.expressions import read
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
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import ColumnPart, IndexPart, TablePart, TypePart

_LENGTH = re.compile(r"(?:character varying|character)\((\d+)\)")
_CHECK = re.compile(r"CHECK \((.*?)\)(?: NO INHERIT)?(?: NOT VALID)?(?: NOT ENFORCED)?", re.DOTALL)
_PART = r'("(?:[^"]|"")+"|[a-z_][a-z0-9_]*)( DESC)?(?: NULLS (?:FIRST|LAST))?'
_LISTED = rf"(?:{_PART}(?:, |(?=\))))+"
_INDEX = re.compile(
    rf"USING btree \(({_LISTED})\)(?: INCLUDE \(({_LISTED})\))?(?: NULLS NOT DISTINCT)?"
    r"(?: WITH \([^)]*\))?(?: WHERE \((.*)\))?",
    re.DOTALL,
)
_ACTIONS = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT", "r": "RESTRICT"}
_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_KINDS = {
    "boolean": table_model.BOOLEAN,
    "real": table_model.FLOAT,
    "double precision": table_model.FLOAT,
    "bytea": table_model.BYTES,
    "date": table_model.DATE,
    "uuid": table_model.UUID,
    "json": table_model.JSON,
    "jsonb": table_model.JSON,
    "text": table_model.TEXT,
    "numeric": table_model.DECIMAL,
    "character varying": table_model.TEXT,
    "character": table_model.TEXT,
}
_MOMENTS = re.compile(r"(time|timestamp)(?:\(\d\))? (with|without) time zone")


def model_of(table: TablePart, types: Sequence[TypePart]) -> TableModel:
    """Return the model of a table.

    Args:
        table: the table's definition.
        types: the column types that are not built in.
    """
    names = [column["name"] for column in table["columns"]]
    custom = {type_["oid"]: type_ for type_ in types}
    keys, indexes = [], []
    for index in table["indexes"]:
        if (key := _key(index)) is not None:
            keys.append(key)
        else:
            indexes.append(_index(index, names))
    return TableModel(
        tuple(_columns(table, custom)),
        tuple(sorted(keys, key=lambda key: not key.primary)),
        (*_checks(table, names), *_domain_checks(table, custom)),
        tuple(indexes),
        tuple(_foreign_keys(table)),
        table["comment"] or "",
    )


def other_objects(table: TablePart) -> tuple[NotCopied, ...]:
    """Return the objects attached to the table.

    They come without statements, which another system could not read.
    """
    parents = [TableRef(parent[0], parent[1]) for parent in table["inherits"]]
    objects = []
    if parents:
        objects.append(NotCopied(INHERITANCE, ", ".join(map(str, parents))))
    objects += omitted_objects(
        [table], lambda item: TableRef(item["schema"], item["name"]), excluded_kind=FOREIGN_KEYS
    )
    for statistics in table["statistics"]:
        objects.append(NotCopied("extended statistics", statistics["name"]))
    return tuple(replace(item, table="", remedy="") for item in objects)


def _columns(table: TablePart, types: Mapping[int, TypePart]) -> Iterator[ColumnModel]:
    owned = {sequence["column"]: sequence for sequence in table["sequences"]}
    # Sequences used by no column, or by another table's: other systems number each column by
    # itself.
    used = {
        (each["column"], f"nextval({each['written']})"): each for each in table["used_sequences"]
    }
    for column in table["columns"]:
        name, default = column["name"], column["default"]
        domains = _domains(column, types)
        if default is None and not column["identity"]:
            default = next((d["default"] for d in domains if d["default"] is not None), None)
        plain = ColumnModel(
            name,
            _type(column, domains, types),
            column["type"],
            not (column["not_null"] or any(domain["not_null"] for domain in domains)),
            comment=column["comment"] or "",
        )
        if column["generated"]:
            stored = column["generated"] == "s"
            names = [each["name"] for each in table["columns"]]
            expression = Expression(f"({default})", read(default or "", names))
            yield replace(plain, generated=Generated(expression, stored))
        elif name in owned and (column["identity"] or (default or "").startswith("nextval(")):
            sequence, always = owned[name], column["identity"] == "a"
            numbers = Identity(sequence["start"], sequence["increment"], always, default or "")
            yield replace(plain, identity=numbers)
        elif default is not None and (drawn := used.get((name, default))):
            numbers = Identity(drawn["start"], drawn["increment"], text=default)
            yield replace(plain, identity=numbers)
        elif default is not None:
            yield replace(plain, default=Expression(default, read(default)))
        else:
            yield plain


def _domains(column: ColumnPart, types: Mapping[int, TypePart]) -> list[TypePart]:
    """Return a column's domain, and the domains it is based on."""
    domains: list[TypePart] = []
    oid = column["type_oid"]
    while (type_ := types.get(oid or 0)) is not None and type_["kind"] == "d":
        domains.append(type_)
        oid = type_["base_oid"]
    return domains


def _domain_checks(table: TablePart, types: Mapping[int, TypePart]) -> Iterator[CheckModel]:
    """Yield the checks of domains as checks of the columns that use them."""
    names = [column["name"] for column in table["columns"]]
    for column in table["columns"]:
        for domain in _domains(column, types):
            for check in domain["checks"] or ():
                match = _CHECK.fullmatch(check["definition"])
                text = replace_value(match[1] if match else check["definition"], column["name"])
                enforced = "NOT VALID" not in check["definition"]
                name = f"{column['name']}_{check['name']}"
                yield CheckModel(name, Expression(text, read(text, names)), enforced)


def _type(
    column: ColumnPart, domains: Sequence[TypePart], types: Mapping[int, TypePart]
) -> ColumnType:
    oid, type_text = column["type_oid"], column["type"]
    if domains:
        oid, type_text = domains[-1]["base_oid"], domains[-1]["base"] or ""
    if (type_ := types.get(oid or 0)) is not None and type_["kind"] == "e":
        return ColumnType(table_model.ENUM, labels=tuple(type_["labels"] or ()))
    if type_text.endswith("[]"):
        return ColumnType(table_model.ARRAY)
    if type_text in _BITS:
        return ColumnType(table_model.INTEGER, bits=_BITS[type_text])
    if match := _MOMENTS.fullmatch(type_text):
        zoned = table_model.MOMENT if match[2] == "with" else table_model.TIMESTAMP
        return ColumnType(zoned if match[1] == "timestamp" else table_model.TIME)
    length = _LENGTH.fullmatch(type_text)
    kind = _KINDS.get(type_text.partition("(")[0], table_model.OTHER)
    return ColumnType(kind, int(length[1]) if length else None)


def _key(index: IndexPart) -> KeyModel | None:
    """Return a key; None if other systems have no such key."""
    constraint = index["constraint"]
    if not index["valid"] or not index["unique"] or "NULLS NOT DISTINCT" in index["tail"]:
        return None
    if constraint is None:
        match = _INDEX.fullmatch(index["tail"])
        if match is None or match[4] or match[7]:
            return None
        return KeyModel(index["name"], tuple(_listed(match[1])), primary=False, index=True)
    definition = constraint["definition"]
    if constraint["deferrable"] or " WITHOUT OVERLAPS" in definition:
        return None
    if not definition.startswith(("PRIMARY KEY (", "UNIQUE (")):
        return None
    primary = constraint["kind"] == "p"
    return KeyModel(index["name"], tuple(constraint["columns"]), primary, text=definition)


def _index(index: IndexPart, names: Sequence[str]) -> IndexModel:
    constraint, tail = index["constraint"], index["tail"]
    if constraint is not None:  # a kind that other systems do not have
        return IndexModel(
            index["name"], unique=True, method="constraint", text=constraint["definition"]
        )
    match = _INDEX.fullmatch(tail)
    method = tail.split()[1]
    if match is None or not index["valid"] or "NULLS NOT DISTINCT" in tail:
        method = "" if method == "btree" else method
        return IndexModel(index["name"], unique=index["unique"], method=method, text=tail)
    keys, test = _listed(match[1]), match[7]
    return IndexModel(
        index["name"],
        tuple(keys),
        tuple(name for name, descends in keys.items() if descends),
        tuple(_listed(match[4] or "")),
        index["unique"],
        Expression(f"({test})", read(test, names)) if test else None,
        text=tail,
    )


def _listed(text: str) -> dict[str, str]:
    """Return index columns, and whether they are descending."""
    return {
        name[1:-1].replace('""', '"') if name.startswith('"') else name: descends
        for name, descends in re.findall(_PART, text)
    }


def _checks(table: TablePart, names: Sequence[str]) -> Iterator[CheckModel]:
    for constraint in table["constraints"]:
        if constraint["kind"] != "c":
            continue
        match = _CHECK.fullmatch(constraint["definition"])
        text = match[1] if match else constraint["definition"]
        enforced = constraint["validated"] and "NOT ENFORCED" not in constraint["definition"]
        yield CheckModel(constraint["name"], Expression(text, read(text, names)), enforced)


def _foreign_keys(table: TablePart) -> Iterator[ForeignKeyModel]:
    for constraint in table["constraints"]:
        if constraint["kind"] == "f" and not constraint["inherited"]:
            definition = constraint["definition"]
            yield ForeignKeyModel(
                constraint["name"],
                tuple(constraint["from"]),
                referenced_table(constraint),
                tuple(constraint["to"] or ()),
                _ACTIONS.get(constraint["on_delete"], ""),
                _ACTIONS.get(constraint["on_update"], ""),
                " DEFERRABLE" in definition and " NOT DEFERRABLE" not in definition,
                " INITIALLY DEFERRED" in definition,
                constraint["validated"] and "NOT ENFORCED" not in definition,
            )
