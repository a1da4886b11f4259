"""`schema`: the statements that create tables in a target, without executing them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.engine.batch_plan import BatchPlan, TablePlan, plan_all
from penstock.engine.connections import connect
from penstock.model.plans import Step
from penstock.model.tables import NotCopied
from penstock.spec.batch_spec import BatchSpec

_DROP = "DROP TABLE IF EXISTS "


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The statements that create a table."""

    table: str
    target_table: str
    statements: tuple[str, ...]
    """Scripts; each is one transaction, if the target can roll back CREATE TABLE."""
    links: tuple[str, ...]
    """Scripts to run once all tables exist: foreign keys."""
    warnings: tuple[str, ...]
    not_copied: tuple[NotCopied, ...]
    error: str = ""
    """Why the table cannot be created; empty if it can."""


@dataclass(frozen=True, slots=True)
class SchemaEnd:
    """The end of a batch's tables."""

    tables: int
    failed: int
    not_copied: tuple[NotCopied, ...]
    """Objects other than tables: views, for instance."""


def schema(batch: BatchSpec) -> Generator[TableSchema | SchemaEnd, None, None]:
    """Yield the statements that create each table of a batch, and `SchemaEnd` last.

    The statements are those of mode recreate; nothing is changed.

    Raises:
        UsageError: the request is invalid.
        TransientError: a server cannot be reached.
    """
    ends = connect(batch.source, batch.target)
    wrapped = ends.capabilities.target.steps_with_records
    defaults = {**batch.defaults, "mode": "recreate", "schema_only": True}
    for item in plan_all(replace(batch, defaults=defaults)):
        if isinstance(item, BatchPlan):
            yield SchemaEnd(item.tables, item.failed, item.not_copied)
        else:
            yield _table(item, wrapped=wrapped)


def _table(table_plan: TablePlan, *, wrapped: bool) -> TableSchema:
    if table_plan.plan is None:
        assert table_plan.error is not None
        why = str(table_plan.error["message"])
        return TableSchema(table_plan.table, table_plan.target_table, (), (), (), (), why)
    load = table_plan.plan.load
    ordered = sorted(load.steps, key=lambda step: (step.after, step.rank))
    return TableSchema(
        table_plan.table,
        table_plan.target_table,
        tuple(_scripts(ordered, wrapped=wrapped)),
        tuple(_scripts(load.links, wrapped=wrapped)),
        table_plan.plan.warnings,
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
    """Return a script without the statement that drops a table of the name, after settings."""
    first, _, creation = statement.partition(";\n")
    if first.startswith(_DROP):
        return creation
    if creation.startswith(_DROP):
        return ";\n".join(filter(None, (creation.partition(";\n")[2],)))
    return statement
