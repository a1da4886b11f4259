"""`plan_all`: the plans of many tables, one window after another."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from penstock.engine.batch_tables import BatchTables, check_many, siblings_of
from penstock.engine.connections import connect
from penstock.engine.current_plans import current_plans
from penstock.engine.state import new_run_id
from penstock.engine.value_display import isolate_generator_display
from penstock.engine.windows import windows
from penstock.errors import PenstockError
from penstock.model import values
from penstock.model.plans import PartitionPlan
from penstock.model.tables import NotCopied
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan of a table of a batch, or the reason why it cannot be copied."""

    table: str
    target_table: str
    mode: str
    plan: PartitionPlan | None
    error: Mapping[str, Any] | None
    """The error, as in the event `Failed`; None if the table can be copied."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The end of a batch's plans."""

    tables: int
    failed: int
    """The number of tables that cannot be copied."""
    seconds: float
    not_copied: tuple[NotCopied, ...]
    """Objects that the batch leaves out, other than tables: views, for instance."""


@isolate_generator_display
def plan_all(batch: BatchSpec) -> Generator[TablePlan | BatchPlan, None, None]:
    """Plan the tables of a batch: a dry run that changes nothing.

    Yields each table's plan as soon as it is ready, and keeps none; `BatchPlan` comes last.

    Raises:
        UsageError: the request is invalid.
        TransientError: a server cannot be reached.
    """
    values.choose(batch.show_values)
    started = time.monotonic()
    ends = connect(batch.source, batch.target)
    check_many(ends)
    batch_id = batch.run_id or new_run_id()
    with (
        closing(ends.open_source()) as source,
        closing(ends.open_target(batch.control_schema)) as target,
    ):
        requests, not_copied = BatchTables(batch, ends, source, target).requests(batch_id)
        siblings = siblings_of([request.spec for request in requests])
        failed = 0
        for window in windows(requests):
            results = current_plans(window, ends, source, target, siblings)
            for request, result in zip(window, results, strict=True):
                planned = _table_plan(request.spec, result)
                failed += planned.error is not None
                yield planned
        if batch.max_lag is not None:
            ends.lag_gauge().close()
    yield BatchPlan(len(requests), failed, round(time.monotonic() - started, 3), not_copied)


def _table_plan(spec: CopySpec, result: PartitionPlan | PenstockError) -> TablePlan:
    plan = error = None
    if isinstance(result, PartitionPlan):
        plan = result
    elif result.transient:
        raise result
    else:
        error = result.as_json()
    return TablePlan(spec.source_name, str(spec.target_ref), spec.mode, plan, error)
