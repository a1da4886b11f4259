"""Steps that move sequences on, past the rows that are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.sequences import ColumnSequence
from penstock.backends.postgresql.ddl.steps import CHECK
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, literal, name, statement
from penstock.model.plans import Step
from penstock.model.tables import TableRef

# What the ids of steps begin with that move a sequence on.
ADVANCE = "advance "


def advance_existing(
    facts: TargetFacts, request: LoadRequest, beside: TableRef | None = None
) -> tuple[list[Step], list[str]]:
    """Steps that move on the sequences of a table that is there, and warnings of those that this
    user may not move.

    Parameters:
        beside: the table that is loaded, where it is to take the other's place.
    """
    if request.counted is None:
        return [], []
    found = facts.column_sequences(request.target)
    if not found:
        return [], []
    loaded = {pair.target for pair in request.pairs}
    refused = [
        name(item.ref)
        for item in found
        if item.column in loaded and not (item.readable and item.writable)
    ]
    warnings = []
    if refused:
        user = facts.connection.info.user
        warnings.append(
            f"sequences that {user!r} may not set stay as they are, so the next row may get a "
            "number that is taken already; expected GRANT SELECT, UPDATE ON SEQUENCE "
            f"{', '.join(refused)} TO {ident(user)}"
        )
    usable = [item for item in found if item.readable and item.writable]
    steps = advance_steps(
        request,
        beside or request.target,
        usable,
        facts.numbers(request.target),
        only=facts.tree(request.target)[0].kind != "p",
    )
    return steps, warnings


def advance_steps(
    request: LoadRequest,
    table: TableRef,
    found: Sequence[ColumnSequence],
    comparable: set[str],
    *,
    only: bool,
) -> list[Step]:
    """
    Parameters:
        table: as it is called when the steps are done.
        found: sequences of its columns.
        comparable: columns that hold whole numbers, and may be read.
        only: the table has its rows itself.
    """
    if request.counted is None:
        return []
    sources = {pair.target: pair.source for pair in request.pairs}
    steps = []
    for item in found:
        if item.column not in sources:
            continue
        known = sources[item.column] in request.counted
        if not known and item.column not in comparable:
            continue
        text = _statement(item, table, known=known, comparable=item.column in comparable, only=only)
        steps.append(
            Step(
                f"{ADVANCE}{item.ref} {item.column}",
                f"set sequence {item.ref}",
                text,
                True,
                CHECK,
                sequence_of=sources[item.column] if known else "",
            )
        )
    return steps


def _statement(
    item: ColumnSequence, table: TableRef, *, known: bool, comparable: bool, only: bool
) -> str:
    def written(text: str) -> sql.SQL:
        # Where there are parameters, a % of a name stands twice.
        return sql.SQL(text.replace("%", "%%") if known else text)

    most = "max" if item.increment > 0 else "min"
    rows = f"{'ONLY ' if only else ''}{name(table)}"
    outermost = f"(SELECT pg_catalog.{most}({ident(item.column)}) FROM {rows})::bigint"
    return (
        statement("advance_sequence")
        .format(
            name=written(literal(name(item.ref))),
            sequence=written(name(item.ref)),
            last=sql.SQL("%(last)s" if known else "NULL"),
            called=sql.SQL("%(called)s" if known else "NULL"),
            outermost=written(outermost) if comparable else sql.SQL("NULL::bigint"),
            beyond=sql.SQL(">" if item.increment > 0 else "<"),
        )
        .as_string(None)
    )
