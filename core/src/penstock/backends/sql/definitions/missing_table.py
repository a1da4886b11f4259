"""A missing table, created like the source's by a mode that loads existing tables.

Several runs may find the table missing at the same time, such as those of two days. One of them
creates it completely, and the others check that it has what they were planned for. Nothing is
dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.backends.api.facts import LoadRequest
from penstock.backends.sql.catalog.relations import TYPE, read_relations
from penstock.backends.sql.session import Session
from penstock.errors import Diagnosis, PlanningError, TargetChanged
from penstock.model.plans import Step
from penstock.model.tables import Column, TableRef

MAKE = "make"
"""The id of the step that creates a missing table."""


def check_no_changes(request: LoadRequest) -> None:
    """Reject options that change an existing table.

    Raises:
        PlanningError: such an option is given.
    """
    for flag, is_set in (
        ("--unlogged", request.unlogged),
        ("--indexes defer", request.indexes == "defer"),
    ):
        if is_set:
            raise PlanningError(
                f"{flag}: {request.target} does not exist, and --mode {request.mode} creates it "
                f"with its indexes, since other runs may load it too; use --mode recreate {flag}, "
                f"or leave out {flag.split()[0]}"
            )


def make_step(table: TableRef, statements: Sequence[str], columns: Sequence[Column]) -> Step:
    """Return the step that creates a table.

    Args:
        table: the table.
        statements: create and complete the table.
        columns: as planned.
    """
    planned = {column.name: str(column.traits[TYPE]) for column in columns}
    name = f"create {table} if it does not exist"
    return Step(MAKE, name, ";\n".join(statements), done=json.dumps(planned))


def make(session: Session, step: Step, table: TableRef) -> None:
    """Do such a step.

    Either no other run does one at the same time, or the server creates only one table of a name.

    Args:
        session: the session with the database.
        step: the step.
        table: the table.

    Raises:
        TargetChanged: the table was created by others since the run was planned, with other
            columns.
    """
    if table not in read_relations(session):
        session.run(step.statement)
    planned: dict[str, str] = json.loads(step.done)
    listed = ", ".join(map(session.dialect.ident, planned))
    changed = f"target: {table} was created with other columns after the run was planned: "
    try:
        described = session.describe(f"SELECT {listed} FROM {session.table(table)}", f"{table}")
    except PlanningError as error:
        raise TargetChanged(f"{changed}{error.message}", error.diagnosis) from error
    differing = [
        f"{name} {planned[name]}, found {type_}"
        for name, (_, type_) in zip(planned, described, strict=True)
        if str(type_) != planned[name]
    ]
    if differing:
        raise TargetChanged(
            f"{changed}expected {'; '.join(differing)}; start a new run", Diagnosis(side="target")
        )
