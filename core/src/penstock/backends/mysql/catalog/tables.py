"""Tables as described by the server's catalog."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.backends.mysql.catalog.statements import read_statement
from penstock.backends.mysql.catalog.table_model import read_table
from penstock.backends.mysql.dialect import MYSQL, MySqlDialect, order_name
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.types import MyType
from penstock.backends.shared.bisection import halved
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.relations import TYPE, missing_table_error, read_relations
from penstock.backends.sql.definitions.definition import definition_of
from penstock.backends.sql.session import Row
from penstock.errors import PlanningError, TransientError
from penstock.model.extents import Key
from penstock.model.table_model import TableDefinition, TriggerModel
from penstock.model.tables import Column, NotCopied, TableRef

DIALECT = "mysql"
# Transactional engines. https://mariadb.com/kb/en/storage-engines/
TRANSACTIONAL = ("innodb", "rocksdb", "tokudb")
# MariaDB writes a display width of numbers; tinyint(1) indicates truth values.
_WIDTH = re.compile(r"^((?:small|medium|big)?int|year|tinyint(?!\(1\)))\(\d+\)")
# The type comes first.
_NOT_NULL = re.compile(r"^(.+?) NOT NULL\b")
# A sequence is not copied with the table.
_NEXT = re.compile(r" DEFAULT nextval\([^)]*\)")
TRIGGERS = "triggers"
CHARSET, COLLATION = "character set", "collation"
"""Traits of a column with texts."""
SRID = "srid"
"""The trait of a spatial column with the number of the only reference system that it accepts."""
# Only MySQL has such columns. Each server executes only its own comment.
_SRID = "/*!80003 srs_id */ /*M!100000 NULL */"
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4", "ascii")
_NAME_COLUMNS = ("table_schema", "table_name")
_TABLE = TableQuery(
    "table_type, engine, CONVERT(create_time USING utf8mb4), table_rows, data_length",
    "information_schema.tables",
    *_NAME_COLUMNS,
)
TRIGGERS_OF = TableQuery(
    "trigger_name, concat(action_timing, ' ', event_manipulation), action_statement",
    "information_schema.triggers",
    "event_object_schema",
    "event_object_table",
    order="trigger_name",
)
# Seconds. While a table is being reopened, the server reports no time for it.
_PAUSES = (0.01, 0.03, 0.1)
CREATION_TIME = TableQuery(
    "CONVERT(create_time USING utf8mb4)", "information_schema.tables", *_NAME_COLUMNS
)
# The server describes a table that it cannot open by its error alone.
_COMMENT = TableQuery(
    "CASE WHEN create_time IS NULL THEN table_comment END",
    "information_schema.tables",
    *_NAME_COLUMNS,
)
COLUMNS = TableQuery(
    "column_name, column_type, is_nullable, column_default, extra,"
    f" {MYSQL.computed}, character_set_name, collation_name, generation_expression, {_SRID}",
    "information_schema.columns",
    *_NAME_COLUMNS,
    order="ordinal_position",
)
_INDEXES = TableQuery(
    "index_name, column_name, sub_part, non_unique, seq_in_index",
    "information_schema.statistics",
    *_NAME_COLUMNS,
    order="index_name <> 'PRIMARY', index_name, seq_in_index",
)
# A server joins at most 61 tables, and returns at most 4,096 columns.
_JOINED, _MOST_COLUMNS = 60, 4000


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary key or unique index. Its text is what messages call it."""

    name: str
    names: tuple[str, ...]
    obstacle: str = ""

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"

    def __str__(self) -> str:
        return f"{'primary key' if self.primary else 'unique key'} ({', '.join(self.names)})"


def table_columns(session: MySqlSession, table: TableRef) -> tuple[Column, ...]:
    """Return all columns, including those that `SELECT *` does not show.

    Raises:
        PlanningError: the table or view does not exist.
    """
    return session.cached(("columns", table), lambda: _read_columns(session, table))


def _read_columns(session: MySqlSession, table: TableRef) -> tuple[Column, ...]:
    rows = session.about(COLUMNS, table)
    if not rows:
        raise missing_table_error(table, read_relations(session), session.side)
    return columns_of(rows, _types(session, table))


def columns_of(rows: Sequence[Row], types: Sequence[MyType]) -> tuple[Column, ...]:
    """Return the columns of a table.

    Args:
        rows: the table's rows in the information schema, from the query `COLUMNS`.
        types: the types in a result set.
    """
    return tuple(
        Column(
            name,
            _WIDTH.sub(r"\1", str(type_text)),
            nullable=nullable == "YES",
            generated=computed == 1,
            has_default=default is not None or "auto_increment" in extra,
            traits={
                TYPE: type_,
                CHARSET: charset or "",
                COLLATION: collation or "",
                **({} if srid is None else {SRID: int(srid)}),
            },
            place=place,
            collation=collation or "",
            formula=str(formula or ""),
        )
        for place, (row, type_) in enumerate(zip(rows, types, strict=True), start=1)
        for (
            name,
            type_text,
            nullable,
            default,
            extra,
            computed,
            charset,
            collation,
            formula,
            srid,
        ) in (row,)
    )


def _types(session: MySqlSession, table: TableRef) -> Sequence[MyType]:
    """Return the types of a table's columns in a result set."""
    types = session.batched_fact(
        "types",
        table,
        lambda tables: [each for each in tables if is_table(session, each)],
        lambda tables: _describe(session, tables),
    )
    return types if types is not None else _describe_at_once(session, [table])[table]


def _describe(
    session: MySqlSession, tables: Sequence[TableRef]
) -> dict[TableRef, Sequence[MyType]]:
    """Return the types of many tables, without those that the server cannot describe."""
    if len(tables) < 2:
        return {}
    widths = {table: len(session.about(COLUMNS, table)) for table in tables}
    types: dict[TableRef, Sequence[MyType]] = {}
    with session.limited_lock_waits():
        for group in pieces(tables, widths, _JOINED, _MOST_COLUMNS):
            described, _ = halved(
                group,
                partial(_describe_at_once, session),
                (PlanningError, TransientError),
                lambda _: session.connection.is_alive(),
            )
            types |= described
    return types


def _describe_at_once(
    session: MySqlSession, tables: Sequence[TableRef]
) -> dict[TableRef, Sequence[MyType]]:
    """Describe tables in one statement."""
    queries, widths = [], []
    for table in tables:
        names = [MYSQL.ident(name) for name, *_ in session.about(COLUMNS, table)]
        queries.append(f"SELECT {', '.join(names)} FROM {session.table(table)}")
        widths.append(len(names))
    subject = f"table {tables[0]}" if len(tables) == 1 else "tables"
    types = [type_ for _, type_ in session.columns_of_queries(queries, subject)]
    types_by_table: dict[TableRef, Sequence[MyType]] = {}
    for table, width in zip(tables, widths, strict=True):
        types_by_table[table], types = types[:width], types[width:]
    return types_by_table


def pieces(
    tables: Sequence[TableRef], widths: Mapping[TableRef, int], most: int, widest: int
) -> Iterator[list[TableRef]]:
    """Divide tables into groups with a maximum number of tables and columns.

    Args:
        tables: the tables, in the order of the groups.
        widths: the number of columns of each table.
        most: the maximum number of tables in a group.
        widest: the maximum number of columns in a group of several tables.
    """
    group: list[TableRef] = []
    for table in tables:
        if group and (len(group) == most or sum(widths[t] for t in (*group, table)) > widest):
            yield group
            group = []
        group.append(table)
    yield group


def is_table(session: MySqlSession, table: TableRef) -> bool:
    """Whether a base table of the name exists."""
    rows = session.about(_TABLE, table)
    return bool(rows) and rows[0][0] != "VIEW"


def size_of(session: MySqlSession, table: TableRef) -> tuple[int | None, int] | None:
    """Return the server's estimate of rows and bytes; None if the table does not exist."""
    for _, _, _, rows, size in session.about(_TABLE, table):
        return (None if rows is None else int(rows)), int(size or 0)
    return None


def unique_keys(session: MySqlSession, table: TableRef) -> tuple[UniqueKey, ...]:
    """Return the keys that identify rows, the primary key first."""
    parts: dict[str, list[tuple[str | None, int | None]]] = {}
    for name, column, part, repeats, _ in session.about(_INDEXES, table):
        if not int(repeats):
            parts.setdefault(name, []).append((column, part))
    return tuple(
        UniqueKey(name, tuple(column or "" for column, _ in columns))
        for name, columns in parts.items()
        # Of whole columns, not of expressions or prefixes.
        if all(column and part is None for column, part in columns)
    )


def numbered_column(session: MySqlSession, table: TableRef) -> str:
    """Return the AUTO_INCREMENT column; empty if the table has none."""
    rows = session.about(COLUMNS, table)
    return next((str(name) for name, _, _, _, extra, *_ in rows if "auto_increment" in extra), "")


def is_indexed(session: MySqlSession, table: TableRef, name: str) -> bool:
    """Whether a column is the first column of an index.

    Args:
        session: the session whose kept facts answer.
        table: the table.
        name: the column, in any case.
    """
    return any(
        (column or "").lower() == name.lower()
        for _, column, part, _, place in session.about(_INDEXES, table)
        if int(place) == 1 and part is None
    )


def dialect_for_key(session: MySqlSession, table: TableRef, key: Sequence[str]) -> MySqlDialect:
    """Return a dialect that finds a table's rows by the index of a unique key.

    Args:
        session: the session whose kept facts name the index.
        table: the table.
        key: the columns of the unique key, in any order.
    """
    keys = unique_keys(session, table)
    index = next((each.name for each in keys if set(each.names) == set(key)), "")
    return MySqlDialect(by_bytes=True, index=index)


def first_key(session: MySqlSession, table: TableRef) -> str | None:
    """Return the first column of the key by which InnoDB stores the rows.

    It is the primary key, or else a unique key whose columns are never NULL.
    """
    nullable = {column.name for column in table_columns(session, table) if column.nullable}
    for key in unique_keys(session, table):
        if not nullable.intersection(key.names):
            return key.names[0]
    return None


def creation_time(session: MySqlSession, table: TableRef) -> str | None:
    """Return when a table was created, or emptied by TRUNCATE; None if it does not exist."""
    return creation_times(session, [table])[table]


def obstacle(session: MySqlSession, table: TableRef) -> str:
    """Return the server's reason for not opening a table; empty if it opens it."""
    rows = session.about_all(_COMMENT, [table])[table]
    return (rows[0][0] or "") if rows else ""


def creation_times(session: MySqlSession, tables: Sequence[TableRef]) -> dict[TableRef, str | None]:
    """Return the creation times of many tables, as `creation_time` does.

    Empty if the server does not say: for a view, or for a table that is constantly renamed or
    altered.
    """
    rows_of = session.about_all(CREATION_TIME, tables)
    for pause in _PAUSES:
        unanswered = [table for table, rows in rows_of.items() if rows and not rows[0][0]]
        if not unanswered:
            break
        time.sleep(pause)
        rows_of |= session.about_all(CREATION_TIME, unanswered)
    return {table: (rows[0][0] or "") if rows else None for table, rows in rows_of.items()}


def known_creation_time(session: MySqlSession, table: TableRef) -> str:
    """Return the creation time that was read with the table's other facts.

    Empty if the table does not exist.
    """
    rows = session.about(_TABLE, table)
    return (rows[0][2] or "") if rows else ""


def engine_of(session: MySqlSession, table: TableRef) -> str:
    """Return a table's engine; empty for a view."""
    rows = session.about(_TABLE, table)
    return rows[0][1] or "" if rows else ""


def read_definition(
    session: MySqlSession, table: TableRef, columns: Sequence[Column], emptied: Collection[str]
) -> TableDefinition:
    """Return the definition of a table.

    Args:
        session: a session on the source.
        table: the source's table.
        columns: its columns, with their traits.
        emptied: columns that may be NULL in a table made from the definition, whatever this table
            says.
    """
    utf8 = all(column.traits[CHARSET] in _UTF8 for column in columns)
    statement = read_table(read_statement(session, table), table, columns, utf8=utf8)
    texts = {each.name: _NEXT.sub("", each.definition) for each in statement.model.columns}
    if unread := [column.name for column in columns if not texts.get(column.name)]:
        # Otherwise keys and NOT NULL would be lost.
        described = ", ".join(repr(name) for name, text in texts.items() if text)
        raise PlanningError(
            f"source: {table}: expected SHOW CREATE TABLE to describe column {unread[0]!r} as the "
            f"information schema does, found {described or 'no columns'}; if the table was "
            " altered a moment ago, try again"
        )
    for name in texts.keys() & set(emptied):
        texts[name] = _NOT_NULL.sub(r"\1 NULL", texts[name])
    triggers = tuple(TriggerModel(*map(str, row)) for row in session.about(TRIGGERS_OF, table))
    unmodelled = [*statement.omitted, *(NotCopied(TRIGGERS, each.name) for each in triggers)]
    model = replace(
        statement.model,
        columns=tuple(
            replace(each, definition=texts[each.name]) for each in statement.model.columns
        ),
        triggers=triggers,
    )
    definition = definition_of(DIALECT, model, (), unmodelled)
    return replace(definition, flavour=flavour_of(session))


def native_columns(
    definition: TableDefinition, specified: Collection[str] = ()
) -> tuple[Column, ...]:
    """Return the columns of a table of the same flavor.

    The type of each is the text after its name.

    Args:
        definition: a definition from `read_definition`.
        specified: columns whose types the user specified, which are left out.
    """
    return tuple(
        Column(each.name, each.native)
        if each.generated is not None and each.generated.copied
        else Column(each.name, each.definition, generated=each.generated is not None)
        for each in definition.model.columns
        if each.native and each.name not in specified
    )


def flavour_of(session: MySqlSession) -> str:
    """Return the flavor whose types, collations and functions a column's definition uses."""
    return "MariaDB" if session.connection.is_mariadb else "MySQL"


def order_of(session: MySqlSession, rows: str, key: Key) -> str:
    """Return the name for `Key.collation` of the collation that compares a key.

    Empty if the key is not a text.

    Args:
        session: a session on the side whose collation matters.
        rows: an item of FROM.
        key: the key to compare; need not be a column.
    """
    value = MYSQL.key(key)
    ((collation,),) = session.fetch(
        f"SELECT collation((SELECT {value} FROM {rows} LIMIT 0))", f"--key {key.text}"
    )
    return "" if collation == "binary" else order_name(flavour_of(session), collation)


def explained_rows(session: MySqlSession, rows: str, tested: str) -> int | None:
    """Return the number of rows that the server's planner expects, without a scan.

    Args:
        session: a session on the source.
        rows: an item of FROM.
        tested: the condition.

    Returns:
        The estimate; None if the planner gives none.
    """
    return rows_of_each(session, rows, [tested])[0]


def rows_of_each(session: MySqlSession, rows: str, tests: Sequence[str]) -> list[int | None]:
    """Return the estimates of `explained_rows` for many conditions at once.

    Args:
        session: a session on the source.
        rows: an item of FROM.
        tests: the conditions.
    """
    queries = [f"SELECT 1 FROM {rows} WHERE {tested}" for tested in tests]
    try:
        plan = session.explain(" UNION ALL ".join(queries))
    except PlanningError:
        return [None] * len(tests)
    estimates: dict[int, int] = {}
    for step in plan:
        if step["id"] is not None and step["rows"] is not None:
            estimates.setdefault(step["id"], int(step["rows"]))
    return [estimates.get(place) for place in range(1, len(tests) + 1)]
