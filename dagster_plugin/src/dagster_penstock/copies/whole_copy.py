"""A copy of an asset without partitions; the core partitions the table."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import dagster as dg

import penstock
from dagster_penstock.checks import whole_result
from dagster_penstock.connections import target_name
from dagster_penstock.copies.lost_rows import forget_lost
from dagster_penstock.copies.table_copy import Copy, CopyEvent
from dagster_penstock.identity import run_id_of, series_of
from dagster_penstock.metadata import column_lineage, covered_metadata, table_metadata
from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import Committed, RunStatus, TableRequest, UsageError


class WholeCopy(Copy):
    """A copy of an asset without partitions."""

    def start(self) -> Generator[CopyEvent, None, TableRequest]:
        """Return the request; a table that is appended must not have been loaded before.

        Raises:
            UsageError: an earlier materialization has appended rows.
        """
        yield from ()
        spec = self._spec
        request = self.request(run_id_of(self.asset, self.batch_id, ()))
        if not spec.load_mode.only_adds:
            return request
        series = series_of(self.asset, str(spec.target_ref))
        self._check_not_loaded(series, request.run_id)
        return replace(request, series=series)

    def on_planned(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Use the planned names of the tables."""
        self.use_names_of(status)
        return iter(())

    def on_committed(self, event: Committed) -> Iterator[CopyEvent]:
        """Report nothing: a partition of the core is no partition of the asset."""
        return iter(())

    def done(self, status: RunStatus | None) -> Iterator[CopyEvent]:
        """Observe the source, report the materialization of the table, and its check."""
        assert status is not None
        run_id = status.run.run_id
        metadata = table_metadata(
            self._spec,
            run_id,
            self._request,
            status.run.plan,
            status.committed,
            self._upstream.comments,
            status.night,
        )
        yield from self._upstream.observation(self._spec, status)
        yield dg.MaterializeResult(
            asset_key=self.asset,
            metadata={
                **metadata,
                **column_lineage(self._spec, status.run.plan, self._source_key),
                **PenstockMetadataSet(report=dg.MetadataValue.md(self._report())),
            },
            data_version=dg.DataVersion(run_id),
            tags=self._upstream.provenance,
        )
        if self._verified is not None:
            yield whole_result(self.asset, self._verified)

    def on_covered(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Report the materialization, by the night that merged the same changes."""
        night, run_id = status.night, status.run.run_id
        assert night is not None
        by = night.overtaken_by
        assert by is not None
        self._context.log.info(
            f"{self.asset.to_user_string()}: run {run_id} is covered by run {by.run_id}, which "
            f"read the source as of {by.moment}, no earlier than this run; nothing is left to do"
        )
        yield dg.MaterializeResult(
            asset_key=self.asset,
            metadata=covered_metadata(self._spec, run_id, self._request, night, by),
            data_version=dg.DataVersion(by.run_id),
            tags=self._upstream.provenance,
        )

    def on_failed(self) -> Iterator[CopyEvent]:
        """Report the check, which may be why the copy failed: a swap needs equal sides."""
        if self._verified is not None:
            yield whole_result(self.asset, self._verified)

    def _check_not_loaded(self, series: str, run_id: str) -> None:
        """Check that no earlier run has appended the table's rows.

        Raises:
            UsageError: an earlier materialization has appended rows.
        """
        spec = self._spec
        loaded = penstock.committed_in_series(
            series, target=spec.target, control_schema=spec.control_schema
        )
        lost = forget_lost(
            self._context,
            self.asset,
            {run for run, _ in loaded.values() if run != run_id},
            spec,
        )
        other_records = [
            record for run, record in loaded.values() if run != run_id and run not in lost
        ]
        if other_records:
            rows = sum(record.rows for record in other_records)
            raise UsageError(
                f"mode append: an earlier materialization has loaded {rows:,} rows into "
                f"{target_name(spec)}, the last at "
                f"{max(record.committed_at for record in other_records)}. Copying them again "
                "would double them: use mode truncate, swap, upsert or replace. If that run was "
                "interrupted, re-execute it from failure"
            )
