"""Steps that advance sequences past the loaded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog.sequences import ColumnSequence
from penstock.backends.postgresql.ddl.steps import CHECK
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, literal, name, statement
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import NotCopied, TableRef

# The prefix of ids of steps that advance a sequence.
ADVANCE = "advance"
# The last number of any sequence.
MOST = (1 << 63) - 1


def advance_existing(
    facts: TargetFacts, request: LoadRequest, replacement: TableRef | None = None
) -> tuple[list[Step], list[str]]:
    """Return steps that advance the sequences of an existing table.

    Also returns warnings for those that this user may not set.

    Args:
        facts: the facts about the target.
        request: the request.
        replacement: the table being loaded, if it is to replace the other.
    """
    if request.sequence_positions is None:
        return [], []
    sequences = facts.column_sequences(request.target)
    if not sequences:
        return [], []
    loaded = {pair.target for pair in request.pairs}
    refused = [
        name(item.ref)
        for item in sequences
        if item.column in loaded and not (item.readable and item.writable)
    ]
    warnings = []
    if refused:
        user = facts.connection.info.user
        warnings.append(
            f"sequences that {user!r} may not set stay as they are, so the next row may get a "
            f"number that is already taken; run GRANT SELECT, UPDATE ON SEQUENCE "
            f"{', '.join(refused)} TO {ident(user)}"
        )
    usable = [item for item in sequences if item.readable and item.writable]
    steps = advance_steps(
        request,
        replacement or request.target,
        usable,
        facts.numbers(request.target),
        only=facts.tree(request.target)[0].kind != "p",
    )
    return steps, warnings


def advance_steps(
    request: LoadRequest,
    table: TableRef,
    sequences: Sequence[ColumnSequence],
    comparable: set[str],
    *,
    only: bool,
) -> list[Step]:
    """Return steps that advance sequences.

    Args:
        request: the request.
        table: the table's name after all steps.
        sequences: the sequences of its columns.
        comparable: readable columns that hold whole numbers.
        only: whether the table itself holds its rows.
    """
    if request.sequence_positions is None:
        return []
    sources = {pair.target: pair.source for pair in request.pairs}
    steps = []
    for item in sequences:
        if item.column not in sources:
            continue
        is_counted = sources[item.column] in request.sequence_positions
        if not is_counted and item.column not in comparable:
            continue
        text = _statement(
            item, table, is_counted=is_counted, comparable=item.column in comparable, only=only
        )
        steps.append(
            Step(
                f"{ADVANCE} {item.ref} {item.column}",
                f"set sequence {item.ref}",
                text,
                True,
                CHECK,
                sequence_of=sources[item.column] if is_counted else "",
                kind=ADVANCE,
            )
        )
    return steps


def with_used_up(load: LoadPlan, request: LoadRequest) -> LoadPlan:
    """Return the load, with the columns listed whose next number no sequence can return."""
    positions = request.sequence_positions or {}
    items = [
        NotCopied(
            "next numbers",
            f"{step.sequence_of}: the source's next one is {position.last:,}, beyond a bigint, so "
            "new rows need a number of their own",
            table=str(request.target),
        )
        for step in load.steps
        if (position := positions.get(step.sequence_of)) is not None and position.last > MOST
    ]
    return replace(load, not_copied=(*load.not_copied, *items)) if items else load


def _statement(
    item: ColumnSequence, table: TableRef, *, is_counted: bool, comparable: bool, only: bool
) -> str:
    def escape(text: str) -> sql.SQL:
        # With parameters, a % in a name is doubled.
        return sql.SQL(text.replace("%", "%%") if is_counted else text)

    most = "max" if item.increment > 0 else "min"
    rows = f"{'ONLY ' if only else ''}{name(table)}"
    outermost = f"(SELECT pg_catalog.{most}({ident(item.column)}) FROM {rows})::numeric"
    return (
        statement("advance_sequence")
        .format(
            name=escape(literal(name(item.ref))),
            sequence=escape(name(item.ref)),
            last=sql.SQL("%(last)s" if is_counted else "NULL"),
            called=sql.SQL("%(called)s" if is_counted else "NULL"),
            outermost=escape(outermost) if comparable else sql.SQL("NULL::numeric"),
            limit=sql.SQL("seqmax" if item.increment > 0 else "seqmin"),
            beyond=sql.SQL(">" if item.increment > 0 else "<"),
        )
        .as_string(None)
    )
