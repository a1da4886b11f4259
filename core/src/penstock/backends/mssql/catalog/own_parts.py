"""What a table has that its model has no place for, so that another one of SQL Server's can be made
exactly like it; and what hangs on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.backends.mssql.catalog.tables import of_table
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.session import MssqlSession
from penstock.errors import PlanningError
from penstock.model.tables import NotCopied, TableRef

OWN = "mssql"
"""What a definition's content has besides."""
DISABLED = "disabled"
GRANTS, COMMENTS = "grants", "comments"
_ROWSTORE = {1: "CLUSTERED", 2: "NONCLUSTERED"}
# What hangs on a table besides what it is made with: kind, table's id, name, and where from.
_ATTACHED = (
    ("foreign keys", "parent_object_id", "name", "sys.foreign_keys"),
    ("triggers", "parent_id", "name", "sys.triggers"),
    ("column masks", "object_id", "name", "sys.columns WHERE is_masked = 1"),
    ("full-text indexes", "object_id", "OBJECT_NAME(object_id)", "sys.fulltext_indexes"),
    ("change tracking", "object_id", "OBJECT_NAME(object_id)", "sys.change_tracking_tables"),
    ("table options", "object_id", "'SYSTEM_VERSIONING'", "sys.tables WHERE temporal_type = 2"),
    (
        "table options", "object_id", "'MEMORY_OPTIMIZED'",
        "sys.tables WHERE is_memory_optimized = 1",
    ),
    ("table options", "object_id", "'REPLICATION'", "sys.tables WHERE is_replicated = 1"),
    (
        "table options", "object_id", "'CHANGE DATA CAPTURE'",
        "sys.tables WHERE is_tracked_by_cdc = 1",
    ),
    (
        "partitioning", "i.object_id", "p.name",
        "sys.indexes AS i JOIN sys.partition_schemes AS p"
        " ON p.data_space_id = i.data_space_id AND i.index_id IN (0, 1)",
    ),
    (
        GRANTS, "major_id",
        "state_desc + ' ' + permission_name + ' TO ' + USER_NAME(grantee_principal_id)",
        "sys.database_permissions WHERE class = 1",
    ),
    (COMMENTS, "major_id", "name", "sys.extended_properties WHERE class = 1"),
    ("comments of indexes", "major_id", "name", "sys.extended_properties WHERE class = 7"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnIndex:
    name: str
    constraint: str
    """The kind of a key's; else empty."""
    called: bool
    """Somebody has given the constraint its name."""
    unique: bool
    kind: str
    """CLUSTERED or NONCLUSTERED."""
    keys: tuple[str, ...]
    descending: tuple[str, ...]
    """Those of the keys."""
    included: tuple[str, ...]
    options: str
    """What comes after the columns."""
    obstacle: str
    """Why it is not made elsewhere."""

    @property
    def columns(self) -> str:
        keys = (MSSQL.ident(key) + " DESC" * (key in self.descending) for key in self.keys)
        listed = f"({', '.join(keys)})"
        if self.included:
            listed += f" INCLUDE ({', '.join(map(MSSQL.ident, self.included))})"
        return listed + self.options


@dataclass(frozen=True, slots=True)
class OwnParts:
    defaults: Mapping[str, str]
    """By column: the names of defaults, where somebody has given them one."""
    distrusted: tuple[str, ...]
    """The texts of checks that not all rows meet."""
    indexes: tuple[OwnIndex, ...]
    """All of them, keys too."""


def read_indexes(session: MssqlSession, table: TableRef) -> tuple[OwnIndex, ...]:
    more = (
        "JOIN sys.indexes AS i ON i.object_id = o.object_id"
        " JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id"
        " JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id"
        " LEFT JOIN sys.key_constraints AS k"
        " ON k.parent_object_id = i.object_id AND k.unique_index_id = i.index_id"
    )
    known: dict[str, tuple[Sequence[Any], list[str], list[str], list[str]]] = {}
    for name, *said, column, descends, included, ordinal in session.facts(
        "SELECT i.name, i.type, i.type_desc, i.is_unique, i.is_primary_key, i.is_unique_constraint,"
        " i.ignore_dup_key, i.is_disabled, i.filter_definition, k.is_system_named,"
        " c.name, x.is_descending_key, x.is_included_column, x.key_ordinal"
        f" {of_table(more)} AND i.type > 0 AND i.is_hypothetical = 0"
        " ORDER BY i.index_id, x.key_ordinal, x.index_column_id",
        table,
    ):
        _, keys, descending, others = known.setdefault(name, (said, [], [], []))
        if included:
            others.append(column)
        elif ordinal:  # else it is what a partition goes by
            keys.append(column)
            descending += [column] * bool(descends)
    return tuple(_index(name, *found) for name, found in known.items())


def _index(
    name: str,
    said: Sequence[Any],
    keys: Sequence[str],
    descending: Sequence[str],
    included: Sequence[str],
) -> OwnIndex:
    kind, described, unique, primary, constraint, ignores, disabled, condition, unnamed = said
    options = f" WHERE {condition}" if condition else ""
    options += " WITH (IGNORE_DUP_KEY = ON)" if ignores else ""
    rowstore = _ROWSTORE.get(kind, "")
    return OwnIndex(
        name,
        "PRIMARY KEY" if primary else "UNIQUE" if constraint else "",
        not unnamed,
        bool(unique),
        rowstore,
        tuple(keys),
        tuple(descending),
        tuple(included),
        options,
        described.lower() if not rowstore else DISABLED if disabled else "",
    )


def attached(session: MssqlSession, table: TableRef) -> tuple[NotCopied, ...]:
    """What hangs on a table, and is not made for another one."""
    listed = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, {of} AS id, CAST({name} AS nvarchar(300)) AS name FROM {where}"
        for kind, of, name, where in _ATTACHED
    )
    rows = session.facts(
        f"SELECT a.kind, a.name {of_table(f'JOIN ({listed}) AS a ON a.id = o.object_id')}"
        " ORDER BY a.kind, a.name",
        table,
    )
    policies = of_table(
        "JOIN sys.security_predicates AS p ON p.target_object_id = o.object_id"
        " JOIN sys.objects AS a ON a.object_id = p.object_id"
    )
    with suppress(PlanningError):  # Babelfish has no such view
        rows += session.facts(f"SELECT DISTINCT 'security policies', a.name {policies}", table)
    return tuple(NotCopied(kind, name) for kind, name in rows)
