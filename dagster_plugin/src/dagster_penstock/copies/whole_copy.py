"""A copy of an asset without partitions; the core cuts the table."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import dagster as dg

import penstock
from dagster_penstock.checks import whole_result
from dagster_penstock.connections import target_name
from dagster_penstock.copies.table_copy import Copied, Copy
from dagster_penstock.identity import run_id_of, series_of
from dagster_penstock.metadata import covered_metadata, table_metadata
from penstock import Committed, RunStatus, TableRequest, UsageError


class WholeCopy(Copy):
    def start(self) -> Generator[Copied, None, TableRequest]:
        yield from ()
        spec = self._spec
        request = self.request(run_id_of(self.asset, self.batch_id, ()))
        if not spec.load_mode.only_adds:
            return request
        series = series_of(self.asset, str(spec.target_ref))
        self._check_not_loaded(series, request.run_id)
        return replace(request, series=series)

    def planned(self, status: RunStatus) -> Iterator[Copied]:
        self.use_names_of(status)
        return iter(())

    def committed(self, event: Committed) -> Iterator[Copied]:
        return iter(())

    def done(self, status: RunStatus | None) -> Iterator[Copied]:
        assert status is not None
        run_id = status.run.run_id
        metadata = table_metadata(
            self._spec, run_id, self._request, status.run.plan, status.committed, status.night
        )
        yield dg.MaterializeResult(
            asset_key=self.asset,
            metadata={
                **metadata,
                "penstock/report": dg.MetadataValue.md(self._report()),
            },
            data_version=dg.DataVersion(run_id),
        )
        if self._verified is not None:
            yield whole_result(self.asset, self._verified)

    def covered(self, status: RunStatus) -> Iterator[Copied]:
        night, run_id = status.night, status.run.run_id
        assert night is not None
        by = night.overtaken_by
        assert by is not None
        self._context.log.info(
            f"{self.asset.to_user_string()}: run {run_id}: covered by run {by.run_id}, which has "
            f"read the source as of {by.moment}, as late as this one or later. Nothing is left to "
            "do"
        )
        yield dg.MaterializeResult(
            asset_key=self.asset,
            metadata=covered_metadata(self._spec, run_id, self._request, night, by),
            data_version=dg.DataVersion(by.run_id),
        )

    def failed(self) -> Iterator[Copied]:
        # For instance, a difference between both sides that kept the old table in place.
        if self._verified is not None:
            yield whole_result(self.asset, self._verified)

    def _check_not_loaded(self, series: str, run_id: str) -> None:
        """Check that no earlier run has appended the table's rows.

        Raises:
            UsageError: an earlier materialization has appended the table, or a part of it.
        """
        spec = self._spec
        loaded = penstock.committed_in_series(
            series, target=spec.target, control_schema=spec.control_schema
        )
        others = [record for run, record in loaded.values() if run != run_id]
        if others:
            rows = sum(record.rows for record in others)
            raise UsageError(
                f"mode append: this asset has loaded {target_name(spec)} before, {rows:,} rows, "
                f"the last at {max(record.committed_at for record in others)}. Copying it again "
                "would double them: use mode truncate, swap, upsert or replace, which can be "
                "repeated. If that run was interrupted, re-execute it from failure"
            )
