"""Columns numbered by a sequence.

The sequence is created and made the column's default after the load, because DuckDB's sequences
cannot be set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.duckdb.catalog.table_model import numbering_of
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.model.plans import Step
from penstock.model.table_model import IDENTITIES, Identity
from penstock.model.tables import NotCopied, TableRef

NUMBER, ADVANCE = "number", "advance"
"""The kinds of steps."""
MOST = 100_000_000
"""The maximum of numbers drawn from a sequence to advance it, which takes some seconds. Beyond it
the sequence is recreated.
"""


def numbering_steps(
    dialect: CatalogDialect, request: LoadRequest, sequences: Mapping[str, Identity]
) -> Iterator[Step]:
    """Yield the steps that create sequences.

    Args:
        dialect: the target's dialect.
        request: the load.
        sequences: the columns of the target's table, and how each is numbered.
    """
    table = request.target
    sources = {pair.target: pair.source for pair in request.pairs}
    for column, identity in sequences.items():
        statement = dialect.identity_statements(table, column, "", identity)
        source = sources.get(column, "")
        yield Step(
            f"{NUMBER} {column}",
            f"number {column} of {table} by a sequence",
            statement,
            after=True,
            # Before the indexes: a table with indexes cannot be altered.
            rank=-1,
            sequence_of=source if source in (request.sequence_positions or ()) else "",
            instead=NotCopied(IDENTITIES, column, f"{statement};", str(table)),
            done=json.dumps([column, identity.first, identity.step]),
            kind=NUMBER,
        )


def advance_steps(session: Session, request: LoadRequest) -> Iterator[Step]:
    """Yield the steps that advance the sequences of an existing table."""
    table = request.target
    sources = {pair.target: pair.source for pair in request.pairs}
    for column in numbering_of(session, table):
        if request.sequence_positions is None or column not in sources:
            continue
        source = sources[column]
        yield Step(
            f"{ADVANCE} {column}",
            f"advance the sequence of {column} of {table}",
            "",
            after=True,
            # The table has its final name by then, in every mode.
            rank=2,
            sequence_of=source if source in request.sequence_positions else "",
            instead=NotCopied(IDENTITIES, f"{column}: the next number", "", str(table)),
            done=json.dumps(column),
            kind=ADVANCE,
        )


def advancing(session: Session, step: Step, table: TableRef) -> Step:
    """Return an advancing step with its statement, for the current rows.

    A sequence cannot be set, so the numbers to be skipped are drawn from it.

    Args:
        session: a session with the target.
        step: a step of `advance_steps`.
        table: the table that is numbered.
    """
    column = json.loads(step.done)
    current = numbering_of(session, table).get(column)
    if current is None:
        return replace(step, statement="SELECT 1")  # the default was changed in the meantime
    by = current.step
    due = current.first if current.last is None else current.last + by
    start = _start(session, step, table, column, due, by)
    ahead = -(-(start - due) // by)
    if ahead <= 0:
        return replace(step, statement="SELECT 1")
    dialect = DUCKDB
    sequence = dialect.table(current.ref)
    if ahead <= MOST:
        drawn = f"SELECT max(nextval({dialect.literal(sequence)})) FROM range({ahead})"
        return replace(step, statement=drawn)
    dropped = f"ALTER TABLE {dialect.table(table)} ALTER {dialect.ident(column)} DROP DEFAULT"
    identity = Identity(start, by)
    statement = dialect.sequence_statement(current.ref, table, column, identity)
    return replace(step, statement=f"{dropped};\n{statement}")


def numbering(session: Session, step: Step, table: TableRef) -> Step:
    """Return a numbering step with its statement, for the current rows.

    The sequence continues the source's, and gives no number that a row has.

    Args:
        session: a session with the target.
        step: a step of `numbering_steps`.
        table: the table to number.
    """
    column, first, by = json.loads(step.done)
    start = _start(session, step, table, column, first, by)
    statement = session.dialect.identity_statements(table, column, "", Identity(start, by))
    return replace(step, statement=statement)


def _start(session: Session, step: Step, table: TableRef, column: str, first: int, by: int) -> int:
    """Return the next number of a column.

    Args:
        session: a session with the target.
        step: the step, with the source's position if it is known.
        table: the table.
        column: the column that is numbered.
        first: the number without a sequence in the source, and without rows.
        by: the step between two numbers, which may be negative.
    """
    dialect = session.dialect
    last = "max" if by > 0 else "min"
    ((used,),) = session.fetch(
        f"SELECT {last}({dialect.ident(column)}) FROM {session.table(table)}", f"table {table}"
    )
    start = first
    if step.position is not None:
        start = step.position.last + by * step.position.called
    if used is not None and (start - int(used)) * by <= 0:
        start = int(used) + by
    return start
