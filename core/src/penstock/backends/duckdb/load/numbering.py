"""Columns that a sequence numbers: it is made, and taken for the column's default, once the table
is loaded, since DuckDB's sequences cannot be set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.model.plans import Step
from penstock.model.table_model import IDENTITIES, Identity
from penstock.model.tables import NotCopied, TableRef

NUMBER = "number "
"""Prefix of step ids."""


def numbering_steps(
    dialect: CatalogDialect, request: LoadRequest, sequences: Mapping[str, Identity]
) -> Iterator[Step]:
    """
    Parameters:
        sequences: the columns of the target's table, and how each is numbered.
    """
    table = request.target
    sources = {pair.target: pair.source for pair in request.pairs}
    for column, identity in sequences.items():
        statement = dialect.identity_made(table, column, "", identity)
        source = sources.get(column, "")
        yield Step(
            f"{NUMBER}{column}",
            f"number {column} of {table} by a sequence",
            statement,
            after=True,
            # Before the indexes: a table that has some cannot be altered.
            rank=-1,
            sequence_of=source if source in (request.counted or ()) else "",
            instead=NotCopied(IDENTITIES, column, f"{statement};", str(table)),
            done=json.dumps([column, identity.first, identity.step]),
        )


def numbering(session: Session, step: Step, table: TableRef) -> Step:
    """Such a step, as it is done now: the sequence goes on where the source's is, and gives no
    number that a row has."""
    column, first, by = json.loads(step.done)
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
    made = dialect.identity_made(table, column, "", Identity(start, by))
    return replace(step, statement=made)
