"""Columns that are numbered as they are in another system: by a sequence, made after the load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.backends.api.facts import LoadRequest
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.sql.session import Session
from penstock.model.plans import Step
from penstock.model.table_model import left_of_column
from penstock.model.tables import SequencePosition, TableRef

NUMBERS = "number "
"""Begins the ids of such steps; the column's name ends them."""
# The last one, whatever names are before it.
_START = re.compile(r"(?s)(.*) INCREMENT (-?\d+) START 1;")


def numbering_steps(request: LoadRequest, names: Sequence[str]) -> Iterator[Step]:
    """
    Parameters:
        request: with the definition of another system's table.
        names: of the columns.
    """
    assert request.definition is not None
    ref, sources = request.target, {pair.target: pair.source for pair in request.pairs}
    table = DUCKDB.table(ref)
    for name in names:
        column = request.definition.model.column(name)
        (left, *_) = left_of_column(column).values()
        assert column.identity is not None
        sequence = DUCKDB.table(TableRef(ref.schema, f"{ref.name}_{name}_seq"))
        alter = f"ALTER TABLE {table} ALTER {DUCKDB.ident(name)}"
        statement = (
            f"{alter} DROP DEFAULT;\n"
            f"CREATE OR REPLACE SEQUENCE {sequence} INCREMENT {column.identity.step} START 1;\n"
            f"{alter} SET DEFAULT nextval({DUCKDB.literal(sequence)})"
        )
        yield Step(
            f"{NUMBERS}{name}",
            f"set the next {name} of {ref}",
            statement,
            after=True,
            rank=-1,
            sequence_of=sources[name] if sources.get(name) in (request.counted or ()) else "",
            instead=left,
        )


def number(
    session: Session, step: Step, table: TableRef, position: SequencePosition | None
) -> None:
    """Have the next row of a table numbered as that of the source would be; never with a number
    that a row of the table has."""
    found = _START.match(step.statement)
    assert found is not None
    by, name = int(found[2]), DUCKDB.ident(step.id.removeprefix(NUMBERS))
    outermost = f"{'max' if by > 0 else 'min'}({name})"
    ((last,),) = session.fetch(f"SELECT {outermost} FROM {session.table(table)}", f"table {table}")
    known = [] if position is None else [position.following(by)]
    known += [] if last is None else [int(last) + by]
    following = (max if by > 0 else min)(known, default=1)
    end = step.statement[found.end() :]
    session.run(f"{found[1]} INCREMENT {by} START {following};{end}")
