"""The execution of one run by itself, as of a batch of one, whose error ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from penstock.backends.api.execution.control import Loss, RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.connections import Connections
from penstock.engine.continuation import Continuation
from penstock.engine.execution import Execution
from penstock.engine.failures import OneRun
from penstock.engine.finished_runs import find_losses
from penstock.engine.journals import keep_journals
from penstock.engine.opening import SnapshotOpener
from penstock.engine.planner import Planner, RunRequest
from penstock.engine.state import RunState
from penstock.events import Event
from penstock.spec.copy_spec import CopySpec
from penstock.workers.degree import streams_of
from penstock.workers.process import PendingNursery


@dataclass(frozen=True, slots=True)
class SingleRun:
    """The execution of one run by itself, with what is open for it.

    Args:
        ends: the connections.
        target: the target's catalog.
        nursery: starts the workers; it is started itself once there are rows to copy.
        snapshot_opener: takes the run's snapshots.
        started: when planning began, by the monotonic clock.
        shares: whether other executions take partitions of the run, too.
    """

    ends: Connections
    target: TargetCatalog
    nursery: PendingNursery
    snapshot_opener: SnapshotOpener
    started: float
    shares: bool = False

    def execute(
        self,
        spec: CopySpec,
        run_id: str,
        request: RunRequest,
        stored: RunRow | None,
        source: SourceCatalog | None = None,
        *,
        finish: bool = True,
    ) -> Iterator[Event]:
        """Create or continue the run, and copy what is left of it.

        Args:
            spec: the options of the run.
            run_id: the id of the run.
            request: what is asked of it, in addition.
            stored: the run as the target has it; None if it is not stored.
            source: the source's catalog, which is closed, for a run that is not stored.
            finish: see `resume`.

        Raises:
            PenstockError: the error that ended the run.
        """
        ends = self.ends
        with closing(ends.link(self.target, spec.control_schema, spec.patience)) as link:
            runs: list[RunState] = []
            execution = Execution(
                runs,
                ends=ends,
                streams=streams_of(spec.degree),
                nursery=self.nursery,
                link=link,
                max_rate=spec.max_rate,
                max_lag=spec.max_lag,
                failures=OneRun(),
                shares=self.shares,
            )
            planner = Planner(
                execution,
                {run_id: request},
                target=self.target,
                hold=self.snapshot_opener.hold,
                started=self.started,
            )
            run = planner.run_of(spec, run_id, stored, finish=finish)
            runs.append(run)
            found = {} if stored is None else {run_id: stored}
            events = execution.run(lambda window: planner.begin(window, source, found, self._loss))
            try:
                yield from keep_journals(
                    events, link, ends.wait_kind, execution.id, shares=self.shares
                )
            finally:
                run.view.close()
            run.raise_failure()

    def _loss(self, run: RunState, stored: RunRow, continuation: Continuation) -> Loss | None:
        if not continuation.complete:
            return None
        losses = find_losses({run.run_id: (run.spec, stored)}, self.target.control)
        return losses.get(run.run_id)
