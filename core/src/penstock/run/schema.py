"""`schema`: the statements that make tables in a target, without making them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.model.plans import Step
from penstock.model.tables import NotCopied
from penstock.run.batch_plan import BatchPlan, TablePlan, plan_all
from penstock.run.connections import connect
from penstock.spec.batch_spec import BatchSpec

_DROP = "DROP TABLE IF EXISTS "


@dataclass(frozen=True, slots=True)
class TableSchema:
    """How a table would be made."""

    table: str
    target_table: str
    statements: tuple[str, ...]
    """Each a script that is one transaction, if the target undoes statements that make tables."""
    links: tuple[str, ...]
    """The same, for when all tables are made: foreign keys."""
    warnings: tuple[str, ...]
    not_copied: tuple[NotCopied, ...]
    error: str = ""
    """Why it cannot be made."""


@dataclass(frozen=True, slots=True)
class SchemaEnd:
    """The end of a batch's tables."""

    tables: int
    failed: int
    not_copied: tuple[NotCopied, ...]
    """What is no table: views, for instance."""


def schema(batch: BatchSpec) -> Generator[TableSchema | SchemaEnd, None, None]:
    """The statements that make the tables of a batch, as mode recreate would. Changes nothing.

    Yields each table, and last `SchemaEnd`.

    Raises:
        UsageError: the request is wrong.
        TransientError: a server cannot be reached.
    """
    ends = connect(batch.source, batch.target)
    wrapped = ends.capabilities.target.steps_with_records
    defaults = {**batch.defaults, "mode": "recreate", "schema_only": True}
    for found in plan_all(replace(batch, defaults=defaults)):
        if isinstance(found, BatchPlan):
            yield SchemaEnd(found.tables, found.failed, found.not_copied)
        else:
            yield _table(found, wrapped=wrapped)


def _table(found: TablePlan, *, wrapped: bool) -> TableSchema:
    if found.plan is None:
        assert found.error is not None
        why = str(found.error["message"])
        return TableSchema(found.table, found.target_table, (), (), (), (), why)
    load = found.plan.load
    ordered = sorted(load.steps, key=lambda step: (step.after, step.rank))
    return TableSchema(
        found.table,
        found.target_table,
        tuple(_scripts(ordered, wrapped=wrapped)),
        tuple(_scripts(load.links, wrapped=wrapped)),
        found.plan.warnings,
        load.not_copied,
    )


def _scripts(steps: Sequence[Step], *, wrapped: bool) -> Iterator[str]:
    for step in steps:
        text = _without_drop(step.statement)
        if not text:
            continue
        text = f"{text.rstrip().removesuffix(';')};"
        yield f"BEGIN;\n{text}\nCOMMIT;" if wrapped else text


def _without_drop(statement: str) -> str:
    """A script without the statement that drops a table of the name, after settings."""
    first, _, rest = statement.partition(";\n")
    if first.startswith(_DROP):
        return rest
    if rest.startswith(_DROP):
        return ";\n".join(filter(None, (rest.partition(";\n")[2],)))
    return statement
