"""The copies of a step's tables: those between the same databases are a batch of the core."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import dagster as dg

import penstock
from dagster_penstock.copies.table_copy import Copy, CopyEvent
from dagster_penstock.events import in_dagster, with_partition_keys
from dagster_penstock.reports import CopyFailure
from penstock import (
    BatchFinished,
    BatchTable,
    Event,
    PenstockError,
    Planned,
    Prepared,
    RunFailed,
    RunFailedTransiently,
    RunStatus,
    TableRequest,
    narrate,
    report_text,
    traced,
)


def copy_tables(
    context: dg.AssetExecutionContext, copies: Sequence[Copy]
) -> Generator[CopyEvent, None, list[CopyFailure]]:
    """Copy tables, yield what Dagster is to record, and return the failures.

    Tables between the same databases share streams and a snapshot.
    """
    failures: list[CopyFailure] = []
    started: dict[object, list[tuple[Copy, TableRequest]]] = {}
    for copy in copies:
        try:
            request = yield from copy.start()
            if request is None:
                yield from copy.done(None)
            else:
                pool = copy.pool
                started.setdefault(copy if pool is None else pool, []).append((copy, request))
        except PenstockError as error:
            failures.append(copy.failure(error))
    for group in started.values():
        if len(group) > 1:
            failures += yield from _Batch(context, group).run()
            continue
        ((copy, request),) = group
        try:
            yield from copy.run(request)
        except PenstockError as error:
            failures.append(copy.failure(error))
    # In the order of their definitions.
    positions = {copy.asset: position for position, copy in enumerate(copies)}
    return sorted(failures, key=lambda failure: positions[failure.asset])


class _Batch:
    """A batch of the core whose tables are assets."""

    def __init__(
        self, context: dg.AssetExecutionContext, copies: Sequence[tuple[Copy, TableRequest]]
    ) -> None:
        self._context = context
        self._copies = {request.run_id: copy for copy, request in copies}
        self._requests = [request for _, request in copies]
        self._planned: list[str] = []
        """The runs that have been planned."""
        self._prepared = False
        self._results: dict[str, BatchTable] = {}

    def run(self) -> Generator[CopyEvent, None, list[CopyFailure]]:
        """Copy the tables, yield what Dagster is to record, and return the failures."""
        batch_error: PenstockError | None = None
        try:
            yield from self._copy()
        except PenstockError as error:
            batch_error = error
        try:
            statuses = self._statuses()
        except PenstockError as error:
            batch_error, statuses = error, {}
        failures = []
        for run_id, copy in self._copies.items():
            try:
                status = statuses.get(run_id)
                if status is None or not self._is_done(copy, status):
                    request = self._request_of(run_id)
                    if overtaken := copy.overtaken(request):
                        yield from copy.continue_after(overtaken, request)
                        continue
                    yield from copy.on_failed()
                    raise self._error_of(run_id, batch_error)
                yield from copy.finish(status)
            except PenstockError as error:
                failures.append(copy.failure(error))
        return failures

    def _copy(self) -> Iterator[CopyEvent]:
        """Run the batch, and yield what Dagster is to record.

        Raises:
            PenstockError: some or all tables could not be copied.
        """
        log, copies = self._context.log, self._copies.values()
        batch_id = next(iter(copies)).batch_id
        events = penstock.copy_tables(
            self._requests, run_id=batch_id, degree=self._requests[0].spec.degree
        )
        with closing(events):
            for event in narrate(
                map(self._with_partition_keys, traced(events)),
                lambda line: log.info(in_dagster(line)),
                commits=not all(copy.keys for copy in copies),
                warn=lambda line: log.warning(in_dagster(line)),
                fail=lambda line: log.error(in_dagster(line)),
            ):
                yield from self._take(event)

    def _with_partition_keys(self, event: Event) -> Event:
        copy = self._copies.get(event.run_id)
        return event if copy is None else with_partition_keys(event, copy.keys)

    def _take(self, event: Event) -> Iterator[CopyEvent]:
        if isinstance(event, BatchFinished):
            self._results = {table.run_id: table for table in event.tables}
            report = report_text(event, "")
            self._context.log.info(f"report of all tables\n{in_dagster(report)}")
            return
        if isinstance(event, Planned):
            self._planned.append(event.run_id)
        elif isinstance(event, Prepared) and not self._prepared:
            # All tables are planned by now.
            self._prepared = True
            for run_id, status in self._statuses().items():
                yield from self._copies[run_id].on_planned(status)
        if copy := self._copies.get(event.run_id):
            yield from copy.take(event)

    def _statuses(self) -> dict[str, RunStatus]:
        spec = self._requests[0].spec
        statuses = penstock.statuses(
            self._planned, target=spec.target, control_schema=spec.control_schema
        )
        return {status.run.run_id: status for status in statuses}

    def _request_of(self, run_id: str) -> TableRequest:
        return next(request for request in self._requests if request.run_id == run_id)

    def _is_done(self, copy: Copy, status: RunStatus) -> bool:
        """Whether a table is copied; its check may have failed."""
        table = self._results.get(status.run.run_id)
        return (table is not None and table.status == "done") or copy.only_differs(status)

    def _error_of(self, run_id: str, batch_error: PenstockError | None) -> PenstockError:
        """Return the reason why a table is not done."""
        table = self._results.get(run_id)
        errors = [] if table is None else [failure.error for failure in table.failures]
        if table is not None and table.error is not None:
            errors = [table.error]
        if not errors:
            return batch_error or RunFailedTransiently(
                "the batch ended before this table was copied"
            )
        transient = all(error.get("transient") for error in errors)
        kind = RunFailedTransiently if transient else RunFailed
        return kind(str(errors[0].get("message")))
