"""Mode `recreate` within one server: a table like the source's, and a list of omitted objects."""

from __future__ import annotations

from typing import Any

from penstock.events import Planned

from .mssql_tables import Copy, execute, rows

TABLE = """
    CREATE TABLE t (
        id bigint IDENTITY(5, 5) NOT NULL, state varchar(10) COLLATE Latin1_General_BIN2 NOT NULL
            CONSTRAINT df_state DEFAULT 'new',
        amount decimal(9, 2) DEFAULT ((0)), note nvarchar(20), parent bigint,
        twice AS (amount * 2) PERSISTED, made datetime2(3) DEFAULT GETDATE(),
        CONSTRAINT pk_t PRIMARY KEY (id), CONSTRAINT once UNIQUE (note, id),
        CONSTRAINT positive CHECK (amount >= 0 AND state <> 'it''s'),
        CONSTRAINT above FOREIGN KEY (parent) REFERENCES t (id)
    )
"""
FILLED = (
    "CREATE INDEX by_amount ON t (amount DESC, state) INCLUDE (note)",
    "CREATE UNIQUE INDEX by_state ON t (state, id)",
    "INSERT INTO t (state, amount, note) VALUES ('paid', 1.5, N'one'), ('new', 2, N'two'),"
    " ('new', 3, NULL)",
    "DELETE FROM t WHERE id = 15",
)


def dressed(url: str, table: str = "t") -> dict[str, Any]:
    """Return the catalog's entries for a table's columns and indexes."""
    columns = rows(
        url,
        "SELECT c.name, c.collation_name, c.is_nullable, c.is_identity, c.is_computed,"
        f" c.max_length FROM sys.columns AS c WHERE c.object_id = OBJECT_ID('{table}')",
    )
    indexes = rows(
        url,
        "SELECT i.is_primary_key, i.is_unique, i.is_unique_constraint, c.name, x.key_ordinal,"
        " x.is_descending_key, x.is_included_column FROM sys.indexes AS i JOIN sys.index_columns"
        " AS x ON x.object_id = i.object_id AND x.index_id = i.index_id JOIN sys.columns AS c"
        " ON c.object_id = x.object_id AND c.column_id = x.column_id"
        f" WHERE i.object_id = OBJECT_ID('{table}')",
    )
    checks = rows(
        url,
        "SELECT definition FROM sys.check_constraints"
        f" WHERE parent_object_id = OBJECT_ID('{table}')",
    )
    return {
        "columns": sorted(map(repr, columns)),
        "indexes": sorted(map(repr, indexes)),
        "checks": sorted(map(repr, checks)),
    }


def planned(copied: Copy) -> Planned:
    (event,) = (event for event in copied.events if isinstance(event, Planned))
    return event


def test_a_table_is_recreated_with_all_its_parts(mssql_url: str) -> None:
    """The second of two runs drops the table with everything in it."""
    execute(mssql_url, TABLE, *FILLED)
    for _ in range(2):
        copied = Copy(mssql_url, mssql_url, target_table="dbo.u", mode="recreate")
        copied.done()
    assert dressed(mssql_url, "u") == dressed(mssql_url)
    assert rows(mssql_url, "SELECT id, state, twice FROM u ORDER BY id") == rows(
        mssql_url, "SELECT id, state, twice FROM t ORDER BY id"
    )
    execute(mssql_url, "INSERT INTO u (note) VALUES (N'next')")
    ((number, state, amount),) = rows(
        mssql_url, "SELECT id, state, amount FROM u WHERE note = N'next'"
    )
    assert (number, state, amount) == (20, "new", 0)
    assert [(part.kind, part.name) for part in planned(copied).not_copied] == [
        ("foreign keys", "above")
    ]
