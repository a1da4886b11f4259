"""The report of an execution, from its last event."""

from __future__ import annotations

from penstock.events import BatchFinished, BatchTable, Finished, PartitionTiming
from penstock.figures.run_report import ExecutionEnd, PartitionFigures, RunReport, TimeSpent


def end_of(finished: Finished | BatchFinished, before: int = 0) -> RunReport:
    """Return the report of an execution of a run or a batch.

    Args:
        finished: the last event of the execution.
        before: the number of partitions that earlier executions of the run committed.
    """
    if isinstance(finished, BatchFinished):
        return _end_of_batch(finished)
    changes = None
    if finished.inserted is not None and finished.updated is not None:
        changes = finished.inserted, finished.updated, finished.deleted or 0
    return RunReport(
        run_id=finished.run_id,
        status=finished.status,
        partitions=finished.partitions,
        committed=finished.committed,
        rows=finished.rows,
        bytes=finished.bytes,
        degree=finished.degree,
        seconds=finished.seconds,
        spent=TimeSpent.of(
            finished.busy - finished.lost,
            finished.wait_source,
            finished.wait_target,
            finished.paced,
        )
        if finished.busy > 0
        else None,
        failed_attempts=max(0, finished.attempts - (finished.committed - before)),
        lost=finished.lost,
        slowest=tuple(map(_partition, finished.timings)),
        end=ExecutionEnd(
            before=before,
            attempts=finished.attempts,
            busy=finished.busy,
            changes=changes,
            snapshots=finished.snapshots,
            later=finished.later,
            error=finished.error,
            failures=finished.failures,
            not_copied=finished.not_copied,
        ),
    )


def _end_of_batch(finished: BatchFinished) -> RunReport:
    of_tables = (item for table in finished.tables for item in table.not_copied)
    return RunReport(
        run_id=finished.run_id,
        status=finished.status,
        rows=finished.rows,
        bytes=finished.bytes,
        seconds=finished.seconds,
        runs=tuple(map(_end_of_table, finished.tables)),
        phases=finished.phases,
        end=ExecutionEnd(not_copied=(*of_tables, *finished.not_copied)),
    )


def _end_of_table(table: BatchTable) -> RunReport:
    return RunReport(
        run_id=table.run_id,
        what=table.table,
        status=table.status,
        rows=table.rows,
        bytes=table.bytes,
        end=ExecutionEnd(
            busy=table.busy,
            warnings=table.warnings,
            error=table.error,
            failures=table.failures,
            not_copied=table.not_copied,
        ),
    )


def _partition(timing: PartitionTiming) -> PartitionFigures:
    seconds = timing.seconds
    return PartitionFigures(
        timing.partition_id,
        timing.label,
        timing.attempt,
        timing.rows,
        timing.bytes,
        seconds,
        TimeSpent.of(seconds, timing.wait_source, timing.wait_target, timing.paced),
    )
