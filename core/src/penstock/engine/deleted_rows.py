"""Checks before many runs merge what they read.

They look for rows that the sources no longer have, and for tables added while they were read.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.api.optional.nights import FindsDeletedRows
from penstock.backends.api.source import SourceCatalog, VersionedSource
from penstock.backends.api.target import TargetCatalog
from penstock.engine.control_link import ControlLink
from penstock.engine.run_status import load_records
from penstock.engine.state import RunState
from penstock.errors import (
    Diagnosis,
    Interrupted,
    PenstockError,
    PermanentError,
    SnapshotLost,
    TransientError,
)
from penstock.events import Event
from penstock.model.nights import has_tables_of
from penstock.model.plans import GONE_STEP, Step
from penstock.model.tables import TableRef
from penstock.spec.modes import Ending

if TYPE_CHECKING:
    from penstock.verification.deleted_rows import DeletedRows


class TablesChanged(TransientError):
    """The tables of the source have changed while it was read."""


def find_deleted(
    runs: Sequence[RunState], link: ControlLink
) -> Generator[Event, None, dict[RunState, PenstockError]]:
    """Look for rows that the sources no longer have, while their snapshot is held.

    Returns: by run, why it cannot merge: `SnapshotLost`, no session holds the snapshot;
        `PermanentError`, more rows would be deleted than allowed; `TransientError`, the source got
        other tables while it was read.
    """
    merging = [
        run
        for run in runs
        if run.all_committed and (run.spec.load_mode.ending is Ending.MERGE or run.plan.night)
    ]
    if not merging:
        return {}
    load_records(merging, link)
    done = link.call(lambda control: control.steps.done([run.run_id for run in merging]))
    finding: dict[RunState, Step] = {}
    checked: list[RunState] = []
    for run in merging:
        step = next((step for step in run.plan.load.after if step.id == GONE_STEP), None)
        if step is not None and step.id not in done[run.run_id]:
            finding[run] = step
        elif step is None and run.plan.load.night_step not in done[run.run_id]:
            checked.append(run)
    with closing(_Search(link, list(finding))) as work:
        return (yield from work.find(finding, checked))


class _Search:
    """The connections that the runs share, and the findings.

    Args:
        runs: the runs for whose rows to look.
    """

    def __init__(self, link: ControlLink, runs: Sequence[RunState]) -> None:
        self._link = link
        self._runs = runs
        self._open = ExitStack()
        self._source: SourceCatalog | None = None
        self._target: TargetCatalog | None = None
        self.errors: dict[RunState, PenstockError] = {}

    def close(self) -> None:
        """Close the connections; later calls connect again."""
        self._source = self._target = None
        self._open.close()

    def find(
        self, finding: dict[RunState, Step], checked: Sequence[RunState]
    ) -> Generator[Event, None, dict[RunState, PenstockError]]:
        """Look for rows that are gone, and for new tables.

        Args:
            finding: the runs for whose rows to look, each with its step.
            checked: other runs, of which only the source's tables are checked.
        """
        deleted_rows: dict[RunState, DeletedRows] = {}
        began: dict[RunState, float] = {}
        for run, step in finding.items():
            began[run] = time.monotonic()
            yield run.step_changed(step, "started", began[run])
            with self._noting(run):
                deleted_rows[run] = self._find(run)
        self._check_tables([*deleted_rows, *checked])
        for run in checked:
            if run.spec.load_mode.ending is not Ending.MERGE and isinstance(
                self.errors.get(run), TablesChanged
            ):
                del self.errors[run]
                yield run.leave_watermark()
        for run, deleted in deleted_rows.items():
            if run not in self.errors:
                with self._noting(run):
                    target = self._target_catalog()
                    assert isinstance(target, FindsDeletedRows), "see its capabilities"
                    target.record_deleted_keys(
                        run.run_id, deleted.digests, deleted.check, deleted.within
                    )
                    run.record_deleted_keys(len(deleted.digests))
                    yield run.step_changed(finding[run], "done", began[run])
        return self.errors

    def _find(self, run: RunState) -> DeletedRows:
        from penstock.verification.deleted_rows import find_deleted  # noqa: PLC0415 - seldom

        stored = self._link.call(lambda control: control.runs.find(run.run_id))
        assert stored is not None
        if self._source is None:
            self._source = self._open.enter_context(closing(run.view.open()))
            relations = [each.spec.relation for each in self._runs]
            self._open.enter_context(describing(self._source, relations))
        try:
            run.view.adopt(self._source)
        except SnapshotLost:
            raise SnapshotLost(
                f"run {run.run_id}: all rows are copied, but the snapshot for finding deleted "
                "rows is lost, so nothing was merged. To continue, use --on-snapshot-lost "
                "restart (copy everything again)"
            ) from None
        target = self._target_catalog()
        try:
            return find_deleted(run.spec, stored, self._source, target, exact=run.is_of_one_moment)
        except PermanentError:
            self._check_tables([run])  # changed tables explain the error
            if run in self.errors:
                raise self.errors[run] from None
            raise

    def _target_catalog(self) -> TargetCatalog:
        if self._target is None:
            self._target = self._open.enter_context(closing(self._link.reconnect()))
            tables = [run.spec.target_ref for run in self._runs]
            self._open.enter_context(describing(self._target, tables))
        return self._target

    def _check_tables(self, runs: Sequence[RunState]) -> None:
        """Check for new tables.

        A table attached while a night reads is visible to later reads, and its rows may be of any
        age. So this runs after all reads, and checks the tables that exist now.
        """
        nights = [run for run in runs if run.plan.night and run.plan.night.source]
        if not nights:
            return
        with ExitStack() as stack:
            source: SourceCatalog | None = None
            for run in nights:
                with self._noting(run):
                    if source is None:
                        source = stack.enter_context(closing(run.view.open()))
                        relations = [each.spec.relation for each in nights]
                        stack.enter_context(describing(source, relations))
                    _check_tables(run, source)

    def _noting(self, run: RunState) -> _ErrorRecorder:
        return _ErrorRecorder(self, run)


class _ErrorRecorder:
    """A context that keeps the error of a run with that run; the next run gets new connections."""

    def __init__(self, work: _Search, run: RunState) -> None:
        self._work, self._run = work, run

    def __enter__(self) -> None:
        return

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, PenstockError) or isinstance(error, Interrupted):
            return False
        self._work.errors[self._run] = error
        self._work.close()
        return True


def _check_tables(run: RunState, source: SourceCatalog) -> None:
    """Check that the source has no new table.

    Raises:
        TransientError: the source has a new table.
    """
    night, relation = run.plan.night, run.spec.relation
    assert night is not None and isinstance(relation, TableRef), "checked with the options"
    assert isinstance(source, VersionedSource), "see its capabilities"
    if has_tables_of(night, source.versions(relation)):
        return
    raise TablesChanged(
        f"source: tables were attached to {run.spec.source_name}, or its columns or types were "
        f"altered, while run {run.run_id} read it, so nothing was merged; start a new run",
        Diagnosis(side="source"),
    )
