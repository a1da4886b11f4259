"""One table of a step: its request to the core, and its events as Dagster records them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import dagster as dg

import penstock
from dagster_penstock.checks import NAMES
from dagster_penstock.claims import claim_of
from dagster_penstock.connections import source_path, with_s3_keys
from dagster_penstock.events import in_dagster, report_with_partition_keys, with_partition_keys
from dagster_penstock.identity import batch_id_of, next_id, reexecuted_by_user, request_of
from dagster_penstock.metadata import MaterializationHistory
from dagster_penstock.reports import CopyFailure, copy_report
from dagster_penstock.sources import Upstream
from dagster_penstock.workers import verified_by_worker
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
    traced,
)

# Events that a step yields, for Dagster to record.
CopyEvent = (
    dg.AssetMaterialization
    | dg.AssetObservation
    | dg.MaterializeResult[Any]
    | dg.AssetCheckEvaluation
    | dg.AssetCheckResult
    | dg.Output[Any]
)
# Options that a retry takes from the current definition; the others are those of the run's plan.
_EXECUTION_OPTIONS = (
    "attempts",
    "on_error",
    "on_snapshot_lost",
    "stall_timeout",
    "grace",
    "give_way_after",
    "max_rate",
    "max_lag",
)
CONTINUE = "re-execute the Dagster run from failure; committed partitions are not copied again"
REPAIR = "find out what changes the rows, then materialize the asset again"


class Copy(ABC):
    """A copy of one table in a step.

    The caller uses `start`, `planned`, `take` for each event, and `done` or `failed`. `run` does
    that for a single table; a batch does it for several.

    Args:
        context: the context of the step.
        asset: the key of the table's asset.
        spec: the copy as it was defined, without secrets.
        max_degree: the maximum number of concurrent streams; None for the copy's own `degree`.
        s3: an object with the fields of a `dagster_aws.s3.S3Resource`; None if the machine finds
            the keys of S3 URLs.
        upstream: what the copy reads.
    """

    keys: Mapping[str, str]
    """Partition keys by the core's ids; empty for a whole table."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        asset: dg.AssetKey,
        spec: CopySpec,
        max_degree: int | None,
        s3: Any,
        upstream: Upstream,
    ) -> None:
        self._context = context
        self.asset = asset
        self._spec_without_keys = spec
        self._s3 = s3
        self._upstream = upstream
        self.degree = spec.degree
        if max_degree is not None:
            self.degree = min(stream_count(spec.degree), stream_count(max_degree))
        self._history = MaterializationHistory(context, asset)
        self._finished: Finished | None = None
        self._verified: Verified | None = None
        self._others_work = False
        self._run_id = ""
        self.keys = {}
        self.committed = 0
        """The partitions that this worker has committed."""

    # Methods that differ between a copy by asset partitions and that of a whole table

    @abstractmethod
    def start(self) -> Generator[CopyEvent, None, TableRequest | None]:
        """Yield events that need no copy, and return the request; None if nothing is left to copy.

        Raises:
            PenstockError: the table cannot be copied.
        """

    @abstractmethod
    def on_planned(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Yield events for partitions that an earlier try has committed, after planning."""

    @abstractmethod
    def on_committed(self, event: Committed) -> Iterator[CopyEvent]:
        """Yield the events of a committed partition."""

    @abstractmethod
    def done(self, status: RunStatus | None) -> Iterator[CopyEvent]:
        """Yield the last events of a complete copy.

        Args:
            status: the status of the run; None if there was nothing to copy.
        """

    def on_covered(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Yield the events of a night whose changes another night has merged."""
        raise NotImplementedError  # copies by partitions have no nights

    @abstractmethod
    def on_failed(self) -> Iterator[CopyEvent]:
        """Yield the last events of a failed copy."""

    # A single table

    def run(self, request: TableRequest) -> Iterator[CopyEvent]:
        """Copy the table as a run without a batch, after `start`.

        Raises:
            PenstockError: some partitions could not be copied; see `failure`.
        """
        yield from self.on_planned(self._create(request, renew=request.renew))
        try:
            for event in self._resume(request):
                yield from self.take(event)
            yield from self.finish(self.status(request.run_id))
        except PenstockError:
            if overtaken := self.overtaken(request):
                yield from self.continue_after(overtaken, request)
                return
            yield from self.on_failed()
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

    def continue_after(self, overtaken: RunStatus, request: TableRequest) -> Iterator[CopyEvent]:
        """Continue after a run that another night has overtaken.

        If the other night has merged the same changes, nothing is left to do; otherwise a new run
        begins.

        Args:
            overtaken: the status of the overtaken run.
            request: its request.

        Raises:
            PenstockError: the new run failed.
        """
        assert overtaken.night is not None
        if overtaken.night.covered:
            yield from self.on_covered(overtaken)
            return
        run_id = next_id(request.run_id)
        self._context.log.warning(
            f"{self.asset.to_user_string()}: another night moved the watermark after run "
            f"{request.run_id} was planned, so that run cannot merge its rows; run {run_id} starts "
            "from the new watermark"
        )
        self._finished = self._verified = None
        spec = replace(request.spec, run_id=run_id)
        yield from self.run(replace(request, spec=spec))

    def plan(self, request: TableRequest) -> None:
        """Plan the run for its workers, after `start`.

        Raises:
            PenstockError: the run cannot be planned.
        """
        self._create(request, renew=request.renew)

    def work(self, request: TableRequest) -> Iterator[CopyEvent]:
        """Copy partitions of the planned run as one of its workers, after `start`.

        Raises:
            PenstockError: some partitions could not be copied; see `failure`.
        """
        spec = request.spec
        self._others_work = True
        # The definition may have changed since the run was planned.
        yield from self.on_planned(self._create(request, renew=False))
        options = {option: getattr(spec, option) for option in _EXECUTION_OPTIONS}
        if request.as_of_now:
            options["on_snapshot_lost"] = "accept"
        events = penstock.work(
            request.run_id,
            source=spec.source,
            target=spec.target,
            control_schema=spec.control_schema,
            streams=self.degree,
            verify=spec.verify,
            **options,
        )
        for event in self._narrated(request, events):
            if isinstance(event, Committed) and not event.already:
                self.committed += 1
            yield from self.take(event)

    @property
    def finished(self) -> Finished | None:
        """The end of this execution; None if there was none."""
        return self._finished

    @property
    def verified(self) -> Verified | None:
        """The comparison of both sides that this execution made; None if it made none."""
        return self._verified

    def _create(self, request: TableRequest, *, renew: bool) -> RunStatus:
        status = penstock.create(
            request.spec,
            partitions=request.partitions,
            series=request.series or None,
            renew=renew,
        )
        if status.renewed:
            self._context.log.warning(
                f"{self.asset.to_user_string()}: run {request.run_id} starts over: {status.renewed}"
            )
        if request.check is not None:
            request.check(status.run.plan)
        return status

    def _resume(self, request: TableRequest) -> Iterator[Event]:
        """Copy what the run has not committed yet, and yield events with partition keys.

        Raises:
            PenstockError: some partitions were not copied, or a final step failed.
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
            **{option: getattr(spec, option) for option in _EXECUTION_OPTIONS},
        )
        yield from self._narrated(request, events)

    def _narrated(
        self, request: TableRequest, events: Generator[Event, None, None]
    ) -> Iterator[Event]:
        """Execute the run, and yield events with partition keys.

        The step's log gets a line every few seconds, and a report at the end. Closing this
        iterator, as Dagster does when it interrupts a step, ends the copy at once.

        Raises:
            PenstockError: some partitions were not copied, or a final step failed.
        """
        name, log = self.asset.to_user_string(), self._context.log
        try:
            with closing(events):
                yield from narrate(
                    (with_partition_keys(event, self.keys) for event in traced(events)),
                    lambda line: log.info(f"{name}: {in_dagster(line)}"),
                    commits=not self.keys,
                    warn=lambda line: log.warning(f"{name}: {in_dagster(line)}"),
                    fail=lambda line: log.error(f"{name}: {in_dagster(line)}"),
                )
        except PenstockError:
            if not self.only_differs(self.status(request.run_id)):
                raise
        finally:
            if self._finished is not None:
                differs = self._verified is not None and not self._verified.ok
                report = report_text(self._finished, REPAIR if differs else CONTINUE)
                log.info(f"{name}: report of the run\n{in_dagster(report)}")

    # A single table or one of a batch

    def request(self, run_id: str) -> TableRequest:
        """Return the request to copy the table.

        Raises:
            UsageError: the S3 resource cannot be used.
        """
        spec = self._spec
        self._run_id = run_id
        return TableRequest(
            spec=replace(
                spec,
                run_id=run_id,
                degree=self.degree,
                # Compare nothing if no check can report it.
                verify=spec.verify if self._checked else "none",
                claim=claim_of(self._context, self._request),
            ),
            # A restarted run reads current rows anyway, all as of one moment.
            as_of_now=spec.loss_policy != "restart" and reexecuted_by_user(self._context),
            renew=reexecuted_by_user(self._context),
        )

    def use_names_of(self, status: RunStatus) -> None:
        """From now on, name tables with the schemas that planning has found."""
        stored = status.run.spec
        names = {name: stored[name] for name in ("table", "target_table") if stored[name]}
        if not place_of(self._spec.target).located:
            self._spec = replace(self._spec, **names)

    def take(self, event: Event) -> Iterator[CopyEvent]:
        """Process an event of the table's run, and yield those for Dagster."""
        if isinstance(event, Verified):
            self._verified = event
        elif isinstance(event, Finished):
            self._finished = event
        elif isinstance(event, Committed):
            yield from self.on_committed(event)

    def finish(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Finish a complete run, and yield its last events."""
        if self._checked and self._verified is None:
            # A worker compared both sides while it held the snapshot.
            self._verified = verified_by_worker(self._context, status.run.run_id)
        if self._checked and self._verified is None:
            # An earlier try completed the run, but could not report the comparison.
            self._verified = self._compare(status.run.run_id)
        yield from self.done(status)

    def only_differs(self, status: RunStatus) -> bool:
        """Whether the run is complete, except that both sides differ, which the check reports.

        False if the difference has prevented a final step, such as a swap.
        """
        if self._verified is None or self._verified.ok:
            return False
        return all(step.id in status.steps_done for step in status.run.plan.load.after)

    def failure(self, error: PenstockError, *, others_work: bool = False) -> CopyFailure:
        """Return the failure of the copy, for the failure of the step.

        A run that retries cannot help is given up, so that others need not wait for it.

        Args:
            error: the error.
            others_work: whether other workers go on with the run.
        """
        spec, run_id = self._spec_without_keys, self._run_id
        if run_id and not error.transient and not others_work:
            with suppress(PenstockError):
                penstock.give_up(
                    run_id, target=self._spec.target, control_schema=spec.control_schema
                )
        return CopyFailure(self.asset, error, self._finished, by_key=bool(self.keys))

    @property
    def pool(self) -> Hashable:
        """A value that copies have in common if they can share streams and a snapshot.

        None if this one cannot share them.

        Raises:
            UsageError: a connection cannot be resolved.
        """
        spec = self._spec
        if place_of(spec.source).located or place_of(spec.target).located:
            return None  # a URL of files names a single table
        shared = ("source", "target", "control_schema", "max_rate", "max_lag")
        return (self.degree, *(getattr(spec, name) for name in shared))

    @cached_property
    def _spec(self) -> CopySpec:
        """The spec with the keys of the S3 resource.

        Raises:
            UsageError: the S3 resource cannot be used.
        """
        return with_s3_keys(self._spec_without_keys, self._s3)

    @cached_property
    def _source_key(self) -> dg.AssetKey | None:
        """The key of the source's asset, as translated; None unless it is known which it is."""
        dependencies = [each.asset_key for each in self._asset_spec.deps]
        usual = dg.AssetKey(source_path(self._spec_without_keys))
        if usual in dependencies:
            return usual
        return dependencies[0] if len(dependencies) == 1 else None

    @property
    def _asset_spec(self) -> dg.AssetSpec:
        spec: dg.AssetSpec = self._context.assets_def.specs_by_key[self.asset]
        return spec

    @cached_property
    def batch_id(self) -> str:
        """The id of the step's batch, also if the table is copied without one."""
        return batch_id_of(self._context, self._request)

    @cached_property
    def _request(self) -> str:
        return request_of(self._context)

    @property
    def _is_first_try(self) -> bool:
        return self._request == self._context.run.run_id and not self._context.retry_number

    def _report(self) -> str:
        """Return the Markdown report of this execution and of its run."""
        finished, spec = self._finished, self._spec
        assert finished is not None
        report: RunReport | None = None
        try:
            report = penstock.report(
                finished.run_id, target=spec.target, control_schema=spec.control_schema
            )
        except PenstockError as error:  # the copy is done, even if its report cannot be read
            self._context.log.warning(
                f"{self.asset.to_user_string()}: the report of run {finished.run_id} cannot be "
                f"read: {error.message}"
            )
        return copy_report(finished, report and report_with_partition_keys(report, self.keys))

    def _compare(self, run_id: str) -> Verified:
        """Compare both sides as they are now."""
        spec = self._spec
        verification = penstock.verify(
            run_id,
            source=spec.source,
            target=spec.target,
            control_schema=spec.control_schema,
            checksum=spec.verify == "checksums",
        )
        event = Verified(
            run_id=run_id,
            ok=verification.ok,
            partitions=len(verification.checks) - 1,  # the last one covers the whole run
            mismatches=len(verification.wrong),
            method=verification.method,
            seconds=0.0,
            differences=verification.differences,
            compared=verification.compared,
        )
        renamed = with_partition_keys(event, self.keys)
        assert isinstance(renamed, Verified)
        return renamed

    def status(self, run_id: str) -> RunStatus:
        """Return the status of a run in the target."""
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
