"""One table of a step: its request to the core, and its events as reports to Dagster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Any

import dagster as dg

import penstock
from dagster_penstock.checks import NAMES
from dagster_penstock.connections import with_keys
from dagster_penstock.events import in_dagster, report_with_keys, with_partition_keys
from dagster_penstock.identity import batch_id_of, next_id, reexecuted_by_hand, request_of
from dagster_penstock.metadata import MaterializationHistory
from dagster_penstock.reports import Trouble, markdown
from penstock import (
    Committed,
    CopySpec,
    Event,
    Finished,
    PenstockError,
    RunReport,
    RunStatus,
    TableRequest,
    Verified,
    narrate,
    place_of,
    report_text,
    stream_count,
)

Copied = (
    dg.AssetMaterialization
    | dg.MaterializeResult[Any]
    | dg.AssetCheckEvaluation
    | dg.AssetCheckResult
    | dg.Output[Any]
)
# Options that a retry takes from the current definition; the others stay the run's own.
_EXECUTION = (
    "attempts",
    "on_error",
    "on_snapshot_lost",
    "stall_timeout",
    "grace",
    "snapshot_warn_after",
    "give_way_after",
    "max_rate",
    "max_lag",
)
GO_ON = "re-execute the Dagster run from failure; committed partitions are left alone"
REPAIR = "find out what changes the rows, then materialize the asset again"


class Copy(ABC):
    """A copy of one table in a step.

    The caller uses `start`, `planned`, `take` for each event, and `done` or `failed`. `run` does
    that for a table on its own; a batch does it for several.

    Parameters:
        most: the maximum number of concurrent streams, whatever the spec says.
        s3: see `with_keys`.
    """

    keys: Mapping[str, str]
    """Partition keys by the core's ids; empty for a whole table."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        asset: dg.AssetKey,
        spec: CopySpec,
        most: int | None,
        s3: Any,
    ) -> None:
        self._context = context
        self.asset = asset
        self._written = spec
        self._s3 = s3
        self.degree = spec.degree
        if most is not None:
            self.degree = min(stream_count(spec.degree), stream_count(most))
        self._history = MaterializationHistory(context, asset)
        self._finished: Finished | None = None
        self._verified: Verified | None = None
        self.keys = {}

    # The methods that differ between a copy by asset partitions and that of a whole table

    @abstractmethod
    def start(self) -> Generator[Copied, None, TableRequest | None]:
        """Report what can be reported at once, and return the request; None if nothing is left.

        Raises:
            PenstockError: the table cannot be copied.
        """

    @abstractmethod
    def planned(self, status: RunStatus) -> Iterator[Copied]:
        """Continue after planning; an earlier try may have copied some partitions."""

    @abstractmethod
    def committed(self, event: Committed) -> Iterator[Copied]:
        """Report a committed partition."""

    @abstractmethod
    def done(self, status: RunStatus | None) -> Iterator[Copied]:
        """Report that the copy is done.

        Parameters:
            status: None if there was nothing to copy.
        """

    def covered(self, status: RunStatus) -> Iterator[Copied]:
        """Report that another night has merged the same changes."""
        raise NotImplementedError  # copies by partitions have no nights

    @abstractmethod
    def failed(self) -> Iterator[Copied]:
        """Report what is known after a failure."""

    # A table on its own

    def run(self, request: TableRequest) -> Iterator[Copied]:
        """Copy the table on its own, after `start`.

        Raises:
            PenstockError: something could not be copied; see `trouble`.
        """
        status = penstock.create(
            request.spec, partitions=request.partitions, series=request.series or None
        )
        if request.check is not None:
            request.check(status.run.plan)
        yield from self.planned(status)
        try:
            for event in self._resume(request):
                yield from self.take(event)
            yield from self.finish(self.status(request.run_id))
        except PenstockError:
            if left := self.overtaken(request):
                yield from self.after(left, request)
                return
            yield from self.failed()
            raise

    def overtaken(self, request: TableRequest) -> RunStatus | None:
        """Return the status of a failed run that another night has overtaken; otherwise None."""
        if not (self._spec.incremental or self._spec.load_mode.starts_empty):
            return None
        try:
            status = self.status(request.run_id)
        except PenstockError:
            return None  # the failure itself is raised instead
        return status if status.night and status.night.overtaken_by else None

    def after(self, left: RunStatus, request: TableRequest) -> Iterator[Copied]:
        """Continue after a run that was overtaken.

        If the other night has merged the same changes, nothing is left to do; otherwise a new run
        begins.

        Parameters:
            left: the status of the overtaken run.

        Raises:
            PenstockError: the new run failed.
        """
        assert left.night is not None
        if left.night.covered:
            yield from self.covered(left)
            return
        run_id = next_id(request.run_id)
        self._context.log.warning(
            f"{self.asset.to_user_string()}: run {request.run_id} was planned before the watermark "
            f"was moved, so it cannot merge its rows; run {run_id} begins from there"
        )
        self._finished = self._verified = None
        spec = replace(request.spec, run_id=run_id)
        yield from self.run(replace(request, spec=spec))

    def _resume(self, request: TableRequest) -> Iterator[Event]:
        """Copy what the run has not committed yet, and yield events with partition keys.

        The step's log gets a line every few seconds, and a report at the end. Closing this
        iterator, as Dagster does when it interrupts a step, ends the copy at once.

        Raises:
            PenstockError: something was not copied, or a final step failed.
        """
        spec = request.spec
        events = penstock.resume(
            request.run_id,
            source=spec.source,
            target=spec.target,
            control_schema=spec.control_schema,
            degree=self.degree,
            as_of_now=request.as_of_now,
            verify=spec.verify,
            **{option: getattr(spec, option) for option in _EXECUTION},
        )
        name, log = self.asset.to_user_string(), self._context.log
        try:
            with closing(events):
                yield from narrate(
                    (with_partition_keys(event, self.keys) for event in events),
                    lambda line: log.info(f"{name}: {in_dagster(line)}"),
                    commits=not self.keys,
                    warn=lambda line: log.warning(f"{name}: {in_dagster(line)}"),
                )
        except PenstockError:
            if not self.only_differs(self.status(request.run_id)):
                raise
        finally:
            if self._finished is not None:
                differs = self._verified is not None and not self._verified.ok
                report = report_text(self._finished, REPAIR if differs else GO_ON)
                log.info(f"{name}: the run's report\n{in_dagster(report)}")

    # A table on its own or in a batch

    def request(self, run_id: str) -> TableRequest:
        """Return the request to copy the table; see `with_keys` for its errors."""
        spec = self._spec
        return TableRequest(
            spec=replace(
                spec,
                run_id=run_id,
                degree=self.degree,
                # Compare nothing without a check that can report it.
                verify=spec.verify if self._checked else "none",
            ),
            # With "restart", the new start reads current rows anyway, all as of one moment.
            as_of_now=spec.loss_policy != "restart" and reexecuted_by_hand(self._context),
        )

    def use_names_of(self, status: RunStatus) -> None:
        """From here on, name tables with the schemas in which they were found."""
        stored = status.run.spec
        named = {name: stored[name] for name in ("table", "target_table") if stored[name]}
        if not place_of(self._spec.target).located:
            self._spec = replace(self._spec, **named)

    def take(self, event: Event) -> Iterator[Copied]:
        """Process an event of the table's run."""
        if isinstance(event, Verified):
            self._verified = event
        elif isinstance(event, Finished):
            self._finished = event
        elif isinstance(event, Committed):
            yield from self.committed(event)

    def finish(self, status: RunStatus) -> Iterator[Copied]:
        """Finish a complete run."""
        if self._checked and self._verified is None:
            # An earlier try ended the run, but could not report the comparison.
            self._verified = self._compare(status.run.run_id)
        yield from self.done(status)

    def only_differs(self, status: RunStatus) -> bool:
        """Whether the run is done, except that both sides differ, which the check reports.

        False if a step, such as a swap, was held back for that reason.
        """
        if self._verified is None or self._verified.ok:
            return False
        return all(step.id in status.steps_done for step in status.run.plan.load.after)

    def trouble(self, error: PenstockError) -> Trouble:
        return Trouble(self.asset, error, self._finished, by_key=bool(self.keys))

    @property
    def pool(self) -> Hashable:
        """Copies with the same value may share streams and a snapshot; None if this one may not.

        Raises:
            UsageError: a connection cannot be resolved.
        """
        spec = self._spec
        if place_of(spec.source).located or place_of(spec.target).located:
            return None  # the URL of files stands for one table
        shared = ("source", "target", "control_schema", "max_rate", "max_lag")
        return (self.degree, *(getattr(spec, name) for name in shared))

    @cached_property
    def _spec(self) -> CopySpec:
        """The spec with the keys of the S3 resource.

        Raises:
            UsageError: see `with_keys`.
        """
        return with_keys(self._written, self._s3)

    @cached_property
    def batch_id(self) -> str:
        """The id of its step's batch, also if the table is copied on its own."""
        return batch_id_of(self._context, self._request)

    @cached_property
    def _request(self) -> str:
        return request_of(self._context)

    @property
    def _is_first_try(self) -> bool:
        return self._request == self._context.run.run_id and not self._context.retry_number

    def _report(self) -> str:
        """Return a Markdown report: what this execution did, and where the time of the run went."""
        finished, spec = self._finished, self._spec
        assert finished is not None
        found: RunReport | None = None
        try:
            found = penstock.report(
                finished.run_id, target=spec.target, control_schema=spec.control_schema
            )
        except PenstockError as error:  # the copy is done, even if its report cannot be read
            self._context.log.warning(f"where the run's time went cannot be read: {error.message}")
        return markdown(finished, found and report_with_keys(found, self.keys))

    def _compare(self, run_id: str) -> Verified:
        """Compare both sides as they are now."""
        spec = self._spec
        found = penstock.verify(
            run_id,
            source=spec.source,
            target=spec.target,
            control_schema=spec.control_schema,
            checksum=spec.verify == "checksums",
        )
        event = Verified(
            run_id=run_id,
            ok=found.ok,
            partitions=len(found.checks) - 1,  # the last one covers the whole run
            mismatches=len(found.wrong),
            method=found.method,
            seconds=0.0,
            differences=found.differences,
            compared=found.compared,
        )
        renamed = with_partition_keys(event, self.keys)
        assert isinstance(renamed, Verified)
        return renamed

    def status(self, run_id: str) -> RunStatus:
        return penstock.status(
            run_id, target=self._spec.target, control_schema=self._spec.control_schema
        )

    @property
    def _checked(self) -> bool:
        """Whether the asset has a check, and the check is selected."""
        return any(key.asset_key == self.asset for key in self._context.selected_asset_check_keys)

    @property
    def _blocking(self) -> bool:
        return any(
            check.blocking
            for check in self._context.assets_def.check_specs
            if check.asset_key == self.asset and check.name in NAMES.values()
        )
