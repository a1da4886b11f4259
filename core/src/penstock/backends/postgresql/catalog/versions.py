"""Row versions: rows that may have changed since a snapshot, by the transactions that wrote them.

If a snapshot sees a row that an earlier one did not, the row was written by a transaction that had
not ended when the earlier one was taken. The transaction's id is at least the earlier snapshot's
`xmin`, because all transactions with lower ids had ended by then. A subtransaction's id is greater
than its top-level one's. Freezing keeps the id in the row (since PostgreSQL 9.4), and so do VACUUM
FULL and CLUSTER.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import built_in, for_server, statement
from penstock.errors import PlanningError
from penstock.model.nights import Horizon, SourceVersions
from penstock.model.tables import TableRef

# Transaction ages are signed 32-bit numbers: anything older than this would appear to be in the
# future. The margin allows for transactions that begin while rows are read.
FURTHEST = 2**31 - 2**24
# The first id of an ordinary transaction.
FIRST_NORMAL = 3
# Seconds after which an open transaction is reported as holding the horizon back.
LONG = 60.0


def versions_of(
    connection: Connection, oids: Sequence[int], *, children: bool
) -> dict[int, tuple[SourceVersions, str]]:
    """Return, by object id, the versions of tables and the storage of their rows if it is not heap.

    Args:
        connection: a session on the source.
        oids: the object ids of the tables.
        children: whether the rows of child tables are read too.
    """
    query = for_server(connection, "versions")
    rows = connection.execute(query, {"oids": list(oids), "all": children}).fetchall()
    return {
        oid: (
            SourceVersions(
                system, int(line), database, oid, dict(leaves or {}), shape or "", standby
            ),
            storage or "",
        )
        for oid, system, line, database, leaves, shape, standby, storage in rows
    }


def horizon_holder(connection: Connection) -> str:
    """Return who holds the horizon back; empty if nothing has done so for long."""
    oldest = connection.execute(statement("oldest")).fetchone()
    return f"{oldest[0]}, for {oldest[1]:,.0f} s" if oldest and oldest[1] > LONG else ""


def check_versioned(ref: TableRef, storage: str) -> None:
    """Check that a table's rows have comparable versions.

    Args:
        ref: the table, for error messages.
        storage: see `versions_of`.

    Raises:
        PlanningError: the rows have no versions that could be compared.
    """
    if storage:
        raise PlanningError(
            f"--incremental xmin: expected {ref} to be a table, or a partitioned table, that "
            f"stores its rows in heaps, found {_kinds(storage)}"
        )


def _kinds(storage: str) -> str:
    names = {"v": "a view", "f": "a foreign table"}
    kinds = []
    for each in storage.split(", "):
        kind, _, method = each.partition(" ")
        kinds.append(names.get(kind, f"rows stored by access method {method!r}"))
    return " and ".join(dict.fromkeys(kinds))


_LITERAL = re.compile(r"'((?:[^']|'')*)'")
_CALL = re.compile(r'([a-z_][a-z0-9_$]*|"[^"]+")\s*\(')
_WORD = re.compile(r'"[^"]*"|[a-z_][a-z0-9_$]*')
# Expressions that depend on the time, the session or other rows, but are not function calls in the
# syntax.
_WORDS = {
    *("select", "current_date", "current_time", "current_timestamp", "localtime"),
    *("localtimestamp", "current_user", "session_user", "current_role", "user"),
    *("current_schema", "current_catalog"),
}
_MOMENTS = {"now", "today", "tomorrow", "yesterday"}


def check_fixed(connection: Connection, where: str) -> None:
    """Check that a condition depends on nothing but the row.

    Raises:
        PlanningError: the condition may become true for a row that has no new version, because it
            depends, for example, on the time or on other tables.
    """
    literals = {culprits.lower().strip() for culprits in _LITERAL.findall(where)}
    text = _LITERAL.sub("''", where).lower()
    culprits = {f"'{each}'" for each in literals & _MOMENTS} | (set(_WORD.findall(text)) & _WORDS)
    names = [each.strip('"') for each in _CALL.findall(text)]
    with planning("source", "functions of the condition"):
        query = statement("moving_functions")
        culprits |= {f"{name}()" for (name,) in connection.execute(query, {"names": names})}
    if culprits:
        raise PlanningError(
            "--where with --incremental xmin: expected a condition that depends on the row alone, "
            f"found {', '.join(sorted(culprits))}: a row can come to match it without a new "
            "version, and would be missed; load without --incremental"
        )


def changed_rows_condition(since: Horizon, new_tables: Sequence[int]) -> str:
    """Return a condition for the rows that a snapshot with this horizon may not have seen.

    Both ages are relative to one transaction id, which is constant throughout a transaction. For
    rows whose transaction is older by 2^31 or more, the age is negative, or greater than the other.

    Args:
        since: the horizon of the earlier snapshot.
        new_tables: the object ids of tables of which all rows are read.
    """
    oldest = max(since.xmin % 2**32, FIRST_NORMAL)
    age, oldest_age = "pg_catalog.age(xmin)", f"pg_catalog.age('{oldest}'::pg_catalog.xid)"
    changed = f"{age} {built_in('>=')} 0 AND {age} {built_in('<=')} {oldest_age}"
    return or_in_tables(changed, new_tables)


def or_in_tables(condition: str, tables: Sequence[int]) -> str:
    """Return a condition for the rows that meet another one, or are in some tables.

    Args:
        condition: the other condition.
        tables: the object ids of tables of which all rows are read.
    """
    if not tables:
        return f"({condition})"
    listed = ", ".join(map(str, sorted(tables)))
    return f"({condition} OR tableoid {built_in('=')} ANY (ARRAY[{listed}]::pg_catalog.oid[]))"
