"""A table's definition with other columns: some left out, others computed by the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.ddl.definition import PLAIN_COLUMN, definition_with
from penstock.backends.postgresql.ddl.types import read_types, types_of
from penstock.backends.postgresql.errors import planning
from penstock.model.table_model import (
    CHECKS,
    DEFAULTS,
    FOREIGN_KEYS,
    IDENTITIES,
    INDEXES,
    TableDefinition,
)
from penstock.model.tables import DISTINCT, EXPRESSION, Column
from penstock.spec.masks import mentions

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        ColumnPart,
        ConstraintPart,
        Content,
        IndexPart,
        TablePart,
    )

_STATISTICS = "extended statistics"
# Index methods that order whole texts, and so accept a digest in place of the original.
_ORDERED = ("btree", "hash")


def with_columns(
    connection: Connection, definition: TableDefinition, columns: Sequence[Column]
) -> TableDefinition:
    """Return a table's definition with other columns; see `DefinesComputed.with_columns`.

    Args:
        connection: a session on the source.
        definition: the definition of the source's table.
        columns: all columns of the result; computed ones have the traits `EXPRESSION` and
            `DISTINCT`.
    """
    content: Content = definition.native
    (table,) = content["tables"]
    by_name = {column.name: column for column in columns}
    dropped = {each["name"] for each in table["columns"]} - by_name.keys()
    computed = {column.name for column in columns if EXPRESSION in column.traits}
    omitted: list[tuple[str, str]] = []
    root = table.copy()
    root["columns"] = list(_columns(table, by_name, dropped | computed, omitted))
    changed = dropped | computed
    distinct = {name for name in computed if by_name[name].traits[DISTINCT]}
    root["indexes"] = [
        index for index in table["indexes"] if _keeps_index(index, changed, distinct, omitted)
    ]
    root["constraints"] = [
        each for each in table["constraints"] if _keeps_constraint(each, changed, omitted)
    ]
    root["sequences"] = [each for each in table["sequences"] if each["column"] not in changed]
    root["used_sequences"] = [
        each for each in table["used_sequences"] if each["column"] not in changed
    ]
    root["statistics"] = [
        each for each in table["statistics"] if not mentions(each["body"], changed)
    ]
    omitted += [
        (_STATISTICS, each["name"])
        for each in table["statistics"]
        if each not in root["statistics"]
    ]
    with planning("source", "types of columns"), full_names(connection):
        types = types_of([root], read_types(connection, [root]))
    of_children = [*content["of_partitions"], *omitted]
    partition_key = definition.model.partitioning.removeprefix("PARTITION BY ")
    defined = definition_with(
        root, types, "" if mentions(partition_key, changed) else partition_key, of_children
    )
    defined.native["warnings"] = list(content["warnings"])
    return defined


def _columns(
    table: TablePart, by_name: dict[str, Column], changed: set[str], omitted: list[tuple[str, str]]
) -> Iterator[ColumnPart]:
    by_old_name = {each["name"]: each for each in table["columns"]}
    for name, column in by_name.items():
        original = by_old_name.get(name)
        if original is not None and name not in changed:
            if original["generated"] and mentions(original["default"] or "", changed):
                original = {**original, "generated": "", "default": None}
            yield original
            continue
        if original is not None and (original["default"] or original["identity"]):
            kind = IDENTITIES if original["identity"] else DEFAULTS
            omitted.append((kind, name))
        yield {
            **PLAIN_COLUMN,
            "name": name,
            "type": column.type,
            "type_oid": data_type(column).oid,
            "collation": None,
            "comment": original["comment"] if original else None,
            "not_null": not column.nullable,
        }


def _keeps_index(
    index: IndexPart, changed: set[str], digested: set[str], omitted: list[tuple[str, str]]
) -> bool:
    """Whether an index can be created: one on digests serves as well as one on the originals."""
    spoken = {name for name in changed if mentions(index["tail"], [name])}
    plain = index["constraint"] is not None or index["tail"].split()[1] in _ORDERED
    # An operator class or condition would have the old type.
    plain = plain and " WHERE " not in index["tail"] and "_ops" not in index["tail"]
    if not spoken or (spoken <= digested and plain and "(" not in _inside(index["tail"])):
        return True
    omitted.append((INDEXES, index["name"]))
    return False


def _inside(tail: str) -> str:
    """Return the text inside the parentheses of an index's definition."""
    return tail.partition("(")[2]


def _keeps_constraint(
    constraint: ConstraintPart, changed: set[str], omitted: list[tuple[str, str]]
) -> bool:
    if changed.isdisjoint(constraint["from"]):
        return True
    if constraint["kind"] != "n":  # the column records whether it allows NULL
        kind = FOREIGN_KEYS if constraint["kind"] == "f" else CHECKS
        omitted.append((kind, constraint["name"]))
    return False
