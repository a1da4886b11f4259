"""The rows of a copy's only partition, read in this process instead of copied."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from penstock.backends.api.worker import Block
from penstock.engine.connections import Connections, connect
from penstock.engine.current_plans import current_plan
from penstock.engine.state import new_run_id
from penstock.engine.table_requests import TableRequest
from penstock.engine.value_display import isolate_display, isolate_generator_display
from penstock.model import values
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.masking_keys import session_values
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """Rows that have been planned, but not read."""

    spec: CopySpec
    plan: PartitionPlan
    ends: Connections

    @property
    def schema(self) -> str:
        """The types of the columns, as the target of the plan would have them."""
        return self.plan.load.schema

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in the plan's format; ends the session when it is closed, or at the end.

        Raises:
            PermanentError, TransientError: the rows cannot be read.
        """
        return _blocks(self)


@isolate_display
def plan_rows(spec: CopySpec) -> PlannedRows:
    """Plan to read the rows that a copy would copy.

    Args:
        spec: the copy, with the strategy that makes one partition.

    Raises:
        UsageError, PlanningError: they cannot be copied.
        TransientError: the source cannot be reached.
    """
    values.choose(spec.show_values)
    ends = connect(spec.source, spec.target)
    ends.check_table_names(spec)
    ends.check_supported(spec)
    located: list[CopySpec] = []
    with (
        closing(ends.open_source()) as source,
        closing(ends.open_target(spec.control_schema)) as target,
    ):
        request = TableRequest(spec=replace(spec, run_id=new_run_id()))
        plan = current_plan(request, ends, source, target, note=located.append)
    return PlannedRows(located[0], plan, ends)


@isolate_generator_display
def _blocks(rows: PlannedRows) -> Generator[Block, None, None]:
    values.choose(rows.spec.show_values)
    spec = _worker_spec(rows)
    reader = rows.ends.source_backend.reader(spec)
    (partition,) = rows.plan.partitions
    reader.label(f"penstock:{spec.run_id}")
    try:
        for block, _, _ in reader.read(partition, _Wait(Meter(), spec.stall_timeout)):
            yield block
            del block
    finally:
        reader.abandon()


def _worker_spec(rows: PlannedRows) -> WorkerSpec:
    spec, plan = rows.spec, rows.plan
    return WorkerSpec(
        run_id=spec.run_id or "",
        generation=1,
        source=rows.ends.source_url,
        target="",
        source_backend=rows.ends.source_reference,
        target_backend="",
        relation=spec.relation,
        target_table=plan.load.table,
        pairs=plan.pairs,
        format=plan.format,
        where=plan.where(spec.where),
        mode=spec.load_mode.of_partitions.name,
        conflict_columns=(),
        volatile=False,
        series="",
        snapshot=None,
        stall_timeout=spec.stall_timeout,
        grace=spec.grace,
        control_schema=spec.control_schema,
        schema=plan.load.schema,
        writing={},
        show_values=values.chosen() or values.NEVER,
        session_values=session_values(plan.pairs),
    )


class _Wait(Waiter):
    """Waits in a process with signals of its own, on any of its threads."""

    @contextmanager
    def answering(self, side: str) -> Iterator[None]:
        yield
