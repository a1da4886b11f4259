"""The .sql files of this folder, and quoting by the driver's own tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.backends.api.worker import LINES
from penstock.backends.postgresql.session.query_text import without_end
from penstock.model.tables import ColumnPair, Located, Query, Relation, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.connection import Connection

DIALECT = "postgresql"
"""The dialect of table definitions."""
BINARY = "postgresql-binary"
TEXT = "postgresql-text"
FORMATS = (BINARY, TEXT)
"""The formats between PostgreSQL servers."""
CSV = "csv"
"""The format that record batches are decoded from."""
_COPY_FORMATS = {BINARY: "binary", TEXT: "text", LINES: "text", CSV: "csv"}

OWN_XMIN = sql.SQL(
    "(pg_catalog.txid_current() OPERATOR(pg_catalog.%) 4294967296)::pg_catalog.text::pg_catalog.xid"
)
"""The value of xmin in rows written by this transaction, as part of an SQL expression: a query with
parameters would need its % doubled.
"""


def copy_format(name: str) -> sql.SQL:
    """Return the COPY option for a stream format."""
    return sql.SQL(_COPY_FORMATS[name])


@cache
def statement(name: str) -> sql.SQL:
    """Return a .sql file as a template, whose ``{names}`` are filled by `sql.SQL.format`."""
    text = (
        files("penstock.backends.postgresql")
        .joinpath("sql", f"{name}.sql")
        .read_text(encoding="utf-8")
    )
    return sql.SQL(text)


# Names in .sql files that older servers lack: the first version that has each, its spelling there,
# and its replacement before.
_SINCE: Mapping[str, tuple[int, str, str]] = {
    "inherited": (140000, "NOT i.inhdetachpending", "true"),
    "progress": (
        140000,
        "(SELECT p.bytes_processed FROM pg_catalog.pg_stat_progress_copy AS p WHERE p.pid = a.pid)",
        "NULL::bigint",
    ),
    "multirange": (140000, "r.rngmultitypid", "NULL::oid"),
    "compression": (140000, "nullif(a.attcompression::text, '')", "NULL"),
    "statistics_target": (130000, "nullif(e.stxstattarget, -1)", "NULL"),
    "publication_columns": (
        150000,
        "(SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute AS a"
        " WHERE a.attrelid = m.prrelid AND a.attnum = ANY (m.prattrs))",
        "NULL",
    ),
    "publication_condition": (150000, "pg_catalog.pg_get_expr(m.prqual, m.prrelid)", "NULL"),
    "published_schema": (
        150000,
        "EXISTS (SELECT FROM pg_catalog.pg_publication_namespace AS s"
        " WHERE s.pnpubid = b.oid AND s.pnnspid = c.relnamespace)",
        "false",
    ),
    "published_schemas": (
        150000,
        "(SELECT ' FOR TABLES IN SCHEMA '"
        " || pg_catalog.string_agg(pg_catalog.quote_ident(n.nspname), ', ')"
        " FROM pg_catalog.pg_publication_namespace AS s"
        " JOIN pg_catalog.pg_namespace AS n ON n.oid = s.pnnspid WHERE s.pnpubid = p.oid)",
        "''",
    ),
    "published_via_root": (
        130000,
        "CASE WHEN p.pubviaroot THEN ', publish_via_partition_root = true' ELSE '' END",
        "''",
    ),
    "waitstart": (140000, "l.waitstart", "NULL::timestamptz"),
    "nulls_equal": (150000, "x.indnullsnotdistinct", "false"),
}


# TimescaleDB keeps the rows of a hypertable in chunks, which inherit from it; every statement about
# the hypertable is about all of them.
CHUNKS = "_timescaledb_internal"
"""The schema of chunks."""
_HYPERTABLE = sql.SQL(
    "(EXISTS (SELECT FROM pg_catalog.pg_trigger AS blocker"
    " WHERE blocker.tgrelid = c.oid AND blocker.tgname = 'ts_insert_blocker')"
    " OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS chunk"
    " JOIN pg_catalog.pg_class AS piece ON piece.oid = chunk.inhrelid"
    f" WHERE chunk.inhparent = c.oid AND piece.relnamespace::regnamespace::text = '{CHUNKS}'))"
)
"""Whether the relation `c` is a hypertable."""


def for_server(connection: Connection, name: str, **parts: sql.Composable) -> sql.Composed:
    """Return a .sql file in the form for the server's version.

    Args:
        connection: a session of the server.
        name: the name of the file, without its suffix.
        parts: other names to fill in.
    """
    version = connection.info.server_version
    spellings = {
        key: sql.SQL(new if version >= since else old) for key, (since, new, old) in _SINCE.items()
    }
    return statement(name).format(hypertable=_HYPERTABLE, **spellings, **parts)


# Cached, because the statements about a table repeat its names.
@lru_cache(maxsize=1024)
def ident(*names: str) -> str:
    """Return a quoted name; with several parts, a qualified one."""
    return sql.Identifier(*names).as_string(None)


@lru_cache(maxsize=1024)
def literal(text: str) -> str:
    """Return a text as a quoted literal."""
    return sql.Literal(text).as_string(None).strip()


def name(ref: TableRef) -> str:
    """Return a table's name, quoted, with its schema."""
    return ident(ref.schema, ref.name)


def keeps_xmin(ref: TableRef) -> sql.Composed:
    """Return a query: do rows record their transactions, and what is the next transaction id."""
    return statement("keeps_xmin").format(table=sql.Literal(name(ref)))


def raw(text: str) -> sql.SQL:
    """Return a user's SQL on separate lines, so that a comment ends with it."""
    return sql.SQL(f"(\n{text}\n)")


def quoted(ref: TableRef) -> sql.Identifier:
    """Return a table's name, for `sql.SQL.format`."""
    return sql.Identifier(ref.schema, ref.name)


def relation(read: Relation) -> sql.Composable:
    """Return a table, or a query in parentheses with an alias."""
    assert not isinstance(read, Located)
    if isinstance(read, Query):
        return sql.SQL("{} AS query").format(raw(without_end(read.text)))
    return rows_of(read)


def rows_of(ref: TableRef) -> sql.Composable:
    """Return a table as an item of FROM, to read or delete rows."""
    return sql.SQL("ONLY {}").format(quoted(ref)) if ref.only else quoted(ref)


def column_list(names: Iterable[str]) -> sql.Composed:
    """Return quoted column names, separated by commas."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def named_columns(pairs: Iterable[ColumnPair]) -> sql.Composed:
    """Return a select list in which the columns of all pairs have their names."""
    return sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(raw(pair.expression), sql.Identifier(pair.source))
        if pair.expression
        else sql.Identifier(pair.source)
        for pair in pairs
    )


def select_list(pairs: Iterable[ColumnPair]) -> sql.Composed:
    """Return the select list of a stream: the source's columns, cast where the target differs."""
    return sql.SQL(", ").join(map(column_expression, pairs))


def column_expression(pair: ColumnPair) -> sql.Composable:
    """Return the expression that selects a column, cast if the target differs."""
    column = sql.Identifier(pair.source)
    # The type's name is in the server's own spelling.
    return sql.SQL("{}::{}").format(column, sql.SQL(pair.cast)) if pair.cast else column


def built_in(operator: str) -> str:
    """Return one of the server's own operators, whatever the search path.

    Spelled like this, each one binds more tightly than the usual comparisons, and less tightly than
    the usual arithmetic.
    """
    return f"OPERATOR(pg_catalog.{operator})"


def tag_of(schema: str, name: str, equals: str | None) -> str:
    """Return a type's tag: ``int8`` is built in, ``schema.name`` is not.

    Args:
        schema: the type's schema.
        name: the type's name.
        equals: the operator by which the type compares values for equality, as ``schema.name``;
            None for one that is built in.
    """
    if schema == "pg_catalog":
        return name
    return f"{schema}.{name}" + (f"{_EQUALS}{equals}" if equals else "")


_EQUALS = " by "


def type_name(tag: str) -> sql.Composable:
    """Return a type from its tag."""
    schema, dot, name = tag.partition(_EQUALS)[0].partition(".")
    return sql.Identifier(schema, name) if dot else sql.Identifier("pg_catalog", tag)


def name_of_type(tag: str) -> str:
    """Return what messages call a type, given its tag."""
    return tag.partition(_EQUALS)[0]


def equality(tag: str) -> str:
    """Return the operator by which a type, given its tag, compares values for equality."""
    operator = tag.partition(_EQUALS)[2]
    return f"OPERATOR({operator})" if operator else built_in("=")
