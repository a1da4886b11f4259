"""A query in the place of a table: its columns, and a check that it only reads."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import sql

from penstock.backends.postgresql.catalog.columns import Attribute, describe_columns
from penstock.backends.postgresql.connection import TAKE_USERS_PATH, Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.query_text import without_end
from penstock.backends.postgresql.session.statements import named_columns, relation
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Column, ColumnPair, Query, Relation

# Long enough to reach most writes, short enough if the query runs for hours.
TRIAL_MS = 2000
# The server's name for a column without a name.
UNNAMED = "?column?"


def query_columns(connection: Connection, query: Query) -> tuple[Column, ...]:
    """Check a query, and describe its columns.

    Raises:
        UsageError: the query has parameters, is several statements, or is not a SELECT.
        PlanningError: the query writes, or its column names are not unique.
    """
    # In one transaction that is rolled back, so that no setting of the query remains.
    with planning("source", "--query"), connection.transaction(force_rollback=True):
        with connection.together():
            connection.execute("SET LOCAL transaction_read_only = on")
            connection.execute(TAKE_USERS_PATH)
        _check_single(connection, query)
        columns = described_query(connection, query)
    _check_names(columns)
    _try(connection, query)
    return columns


def _check_single(connection: Connection, query: Query) -> None:
    """Have the server parse the query by the protocol that accepts only one statement."""
    pgconn = connection.pgconn
    text = query.text.encode()
    try:
        _raise_error(pgconn.prepare(b"", text, None))
    except psycopg.errors.IndeterminateDatatype as error:
        raise UsageError(
            f"--query: expected no parameters, found one: {error.diag.message_primary}"
        ) from error
    except psycopg.errors.SyntaxError as error:
        if "multiple commands" in str(error):
            raise UsageError("--query: expected one statement, found several") from error
        raise
    described = pgconn.describe_prepared(b"")
    _raise_error(described)
    if described.nparams:
        raise UsageError(
            f"--query: expected no parameters ($1), found {described.nparams}; write out the values"
        )


def _raise_error(result: psycopg.pq.abc.PGresult) -> None:
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result)


def described_query(connection: Connection, query: Query) -> tuple[Column, ...]:
    """Describe the columns of a query.

    Raises:
        UsageError: the text is not a query.
        PlanningError: the query writes.
    """
    try:
        with connection.users_path():
            cursor = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(relation(query)))
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise _writes(error) from error
    except psycopg.errors.SyntaxError as error:
        # It was valid by itself.
        word = (without_end(query.text).split() or ["nothing"])[0]
        raise UsageError(
            f"--query: expected a SELECT, VALUES or TABLE that only reads, found {word}: "
            f"{error.diag.message_primary}"
        ) from error
    except psycopg.errors.FeatureNotSupported as error:
        raise _writes(error) from error
    result = cursor.pgresult
    assert result is not None
    return result_columns(connection, result)


def described_columns(
    connection: Connection, read: Relation, pairs: Iterable[ColumnPair]
) -> tuple[Column, ...]:
    """Return the columns of pairs, including computed ones.

    The latter are never known to be NOT NULL.

    Args:
        connection: a session on the source.
        read: the relation that the expressions refer to.
        pairs: the pairs.
    """
    query = sql.SQL("SELECT {} FROM {} LIMIT 0").format(named_columns(pairs), relation(read))
    with connection.users_path():
        result = connection.execute(query).pgresult
    assert result is not None
    return result_columns(connection, result)


def result_columns(connection: Connection, result: psycopg.pq.abc.PGresult) -> tuple[Column, ...]:
    """Return the columns of a result; those that are columns of a table have its ids."""
    attributes = [
        Attribute(
            (result.fname(place) or b"").decode(),
            result.ftype(place),
            result.fmod(place),
            number=result.ftablecol(place),
            table=result.ftable(place),
        )
        for place in range(result.nfields)
    ]
    return describe_columns(connection, attributes)


def _check_names(columns: tuple[Column, ...]) -> None:
    names = [column.name for column in columns]
    unnamed = names.count(UNNAMED)
    twice = sorted({name for name in names if names.count(name) > 1 and name != UNNAMED})
    if unnamed:
        raise PlanningError(
            f"--query: expected a name for each column, found {unnamed} unnamed; add AS name"
        )
    if twice:
        raise PlanningError(
            f"--query: expected each column name once, found {', '.join(map(repr, twice))} more "
            "than once; use AS to rename them"
        )


def _try(connection: Connection, query: Query) -> None:
    """Read one row: a function that writes is detected only when it runs."""
    with planning("source", "--query"), connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL transaction_read_only = on")
        connection.execute(f"SET LOCAL statement_timeout = {TRIAL_MS}")
        try:
            with connection.users_path():
                connection.execute(sql.SQL("SELECT * FROM {} LIMIT 1").format(relation(query)))
        except psycopg.errors.QueryCanceled:
            return
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise _writes(error) from error


def _writes(error: psycopg.Error) -> PlanningError:
    return PlanningError(
        "--query: expected a query that only reads, found one that writes or locks: "
        f"{error.diag.message_primary}"
    )
