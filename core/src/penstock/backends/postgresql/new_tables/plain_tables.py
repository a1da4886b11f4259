"""Tables that every server accepts, because their types, defaults and indexes exist everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import ColumnPart, IndexPart, TablePart


# Every supported server has these types, and can sort them.
_SORTED = (
    r"smallint|integer|bigint|real|double precision|numeric(\(\d+,\d\))?|boolean|text|uuid|bytea"
    r"|oid|character( varying)?(\(\d+\))?|date|time(stamp)?(\(\d\))? with(out)? time zone|interval"
    r"|inet|name"
)
_INDEXED_TYPE = re.compile(_SORTED)
_TYPE = re.compile(rf"(?:{_SORTED}|jsonb?)(\[\])?")
# A constant, a sequence created with the table, or the current time.
_DEFAULT = re.compile(
    r"-?\d+(\.\d+)?|true|false|now\(\)|CURRENT_(DATE|TIMESTAMP)|nextval\('(?:[^']|'')+'::regclass\)"
    r"|'[^']*'::(text|character varying|jsonb?)|'\{\}'::\w+\[\]|gen_random_uuid\(\)"
)
_KEY = r'("(?:[^"]|"")+"|\w+)(?: DESC)?(?: NULLS (?:FIRST|LAST))?'
_KEYS = re.compile(_KEY)
_INDEX = re.compile(rf"USING btree \(({_KEY}(?:, {_KEY})*)\)")
# Built into the server since PostgreSQL 13.
_NEW_UUID, _NEW_UUID_VERSION = "gen_random_uuid()", 130000
# https://www.postgresql.org/docs/current/limits.html
_MOST_KEYS = 32


def is_plain(table: TablePart, version: int) -> bool:
    """Whether a server that accepts one such table accepts all statements that create this one.

    Args:
        table: the table's definition.
        version: the server's version.
    """
    return (
        table["partition_key"] is None
        and table["parent"] is None
        and table["method"] in (None, "heap")
        and not (table["options"] or table["toast_options"] or table["needs"])
        and not (table["statistics"] or table["used_sequences"])
        and all(_is_plain_column(column, version) for column in table["columns"])
        and all(constraint["kind"] in "nf" for constraint in table["constraints"])
        and _has_plain_indexes(table)
    )


def _is_plain_column(column: ColumnPart, version: int) -> bool:
    default = column["default"]
    return (
        _TYPE.fullmatch(column["type"]) is not None
        and not (column["collation"] or column["generated"] or column["options"])
        and not column["compression"]
        and (
            default is None
            or (
                _DEFAULT.fullmatch(default) is not None
                and (default != _NEW_UUID or version >= _NEW_UUID_VERSION)
            )
        )
    )


def _has_plain_indexes(table: TablePart) -> bool:
    types = {column["name"]: column["type"] for column in table["columns"]}
    return all(_is_plain_index(index, types) for index in table["indexes"] if index["valid"])


def _is_plain_index(index: IndexPart, types: Mapping[str, str]) -> bool:
    constraint = index["constraint"]
    if index["statistics"] or not (match := _INDEX.fullmatch(index["tail"])):
        return False
    if constraint is not None and (not constraint["by_index"] or constraint["kind"] not in "pu"):
        return False
    keys = [_unquoted(key[1]) for key in _KEYS.finditer(match[1])]
    return can_be_key(keys, types)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def can_be_key(names: Sequence[str], types: Mapping[str, str]) -> bool:
    """Whether an index on these columns is certain to be possible.

    Args:
        names: the columns of the index.
        types: the types of all columns, by name.
    """
    return len(names) <= _MOST_KEYS and all(
        name in types and _INDEXED_TYPE.fullmatch(types[name]) is not None for name in names
    )
