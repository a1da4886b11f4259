"""A copy by asset partitions, which run in parallel and are committed one by one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

import penstock
from dagster_penstock.checks import partition_results
from dagster_penstock.connections import target_name
from dagster_penstock.copies.lost_rows import forget_lost
from dagster_penstock.copies.table_copy import Copy, CopyEvent
from dagster_penstock.identity import run_id_of, series_of
from dagster_penstock.metadata import (
    Loaded,
    column_lineage,
    empty_metadata,
    partition_metadata,
    version_tags,
)
from dagster_penstock.metadata_set import PenstockMetadataSet
from dagster_penstock.partitions import Ranges, copy_partitions, partition_id, stored_ranges
from dagster_penstock.sources import Upstream
from penstock import (
    CommitRecord,
    Committed,
    CopySpec,
    HashBucket,
    KeyIsNull,
    Partition,
    PartitionPlan,
    RunStatus,
    TableRequest,
    UsageError,
)

try:
    from dagster._core.definitions.source_asset import (
        SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION as _SELF_REPORTED,
    )
except ImportError:
    _SELF_REPORTED = ""  # not part of Dagster's public API

_MAX_NAMES = 20


class PartitionedCopy(Copy):
    """A copy of asset partitions.

    Args:
        context: the context of the step.
        asset: the key of the table's asset.
        spec: the copy as it was defined, without secrets.
        max_degree: see `Copy`.
        s3: see `Copy`.
        upstream: see `Copy`.
        partitions_def: the asset's partitions.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        asset: dg.AssetKey,
        spec: CopySpec,
        max_degree: int | None,
        s3: Any,
        upstream: Upstream,
        partitions_def: dg.PartitionsDefinition,
    ) -> None:
        # Partitions are independent: a failed one does not stop the others, and a retry reads the
        # current rows of the rest.
        spec = replace(spec, on_error="continue", on_snapshot_lost="accept")
        super().__init__(context, asset, spec, max_degree, s3, upstream)
        self._partitions_def = partitions_def
        self._null_excluded = False
        self._compared_keys: Sequence[str] = ()
        self._plan: PartitionPlan

    def start(self) -> Generator[CopyEvent, None, TableRequest | None]:
        """Yield events of partitions that need no copy, and return the request for the others.

        Raises:
            PenstockError: the partitions cannot be copied.
        """
        spec = self._spec
        keys = self._requested_keys()
        self.keys = _ids(keys)
        version = self._partitions_def.version if isinstance(self._partitions_def, Ranges) else ""
        series = series_of(self.asset, str(spec.target_ref), version)
        partitions = self._partitions(keys, series)
        run_id = run_id_of(self.asset, self.batch_id, keys)
        empty = [key for key in keys if key not in partitions]
        for key in empty:
            if self._is_first_try or not self._history.has_run(key, run_id):
                yield self._materialization(
                    key, empty_metadata(spec, run_id, self._request), run_id
                )
        if spec.load_mode.only_adds:
            yield from self._take_over(partitions, series, run_id)
        self._compared_keys = [*partitions, *empty]
        if not partitions:
            return None
        return replace(
            self.request(run_id),
            partitions=tuple(partitions.values()),
            series=series if spec.load_mode.only_adds else "",
            check=self._check_null,
        )

    def _requested_keys(self) -> list[str]:
        """Return the partition keys of the Dagster run.

        Raises:
            UsageError: the run has no partitions.
        """
        context = self._context
        if context.has_partition_key:
            # When clocks are put back, two hours have the same key, and `partition_keys` cannot
            # distinguish them.
            return [context.partition_key]
        if context.has_partition_key_range:
            return list(context.partition_keys)
        raise UsageError("expected a run with one or more partitions, found none: select some")

    def _partitions(self, keys: list[str], series: str) -> dict[str, Partition]:
        """Return the core's partitions by key, without the empty ones of `ranges`."""
        if not isinstance(self._partitions_def, Ranges):
            return copy_partitions(self._spec, self._partitions_def, keys)
        extents = stored_ranges(self._spec, self._partitions_def, series)
        self._null_excluded = not any(
            isinstance(extent, KeyIsNull | HashBucket) for extent in extents.values()
        )
        return {key: Partition(partition_id(key), extents[key]) for key in keys if key in extents}

    def _check_null(self, plan: PartitionPlan) -> None:
        """Check that the stored plan has a partition for rows whose key is NULL, if any.

        Raises:
            UsageError: the key can be NULL, and the stored plan has no partition for such rows.
        """
        key = self._spec.key
        if self._null_excluded and any(c.nullable for c in plan.columns if c.name == key):
            raise UsageError(
                f"ranges: {key} can be NULL now, and no range of the stored plan holds such rows: "
                "set the column NOT NULL, or pass another version"
            )

    def on_planned(self, status: RunStatus) -> Iterator[CopyEvent]:
        """Report partitions that an earlier try has committed but not reported."""
        self.use_names_of(status)
        self._plan = status.run.plan
        # The earlier try may have been killed in between.
        yield from self._unreported(status.committed, status.run.run_id)

    def on_committed(self, event: Committed) -> Iterator[CopyEvent]:
        """Report a partition, unless it has been reported."""
        if event.already:  # by another process of the same run
            id_ = partition_id(event.partition_id)
            records = self.status(event.run_id).committed
            yield from self._unreported(
                [record for record in records if record.partition_id == id_], event.run_id
            )
        else:
            yield self._committed(event.partition_id, Loaded.of(event), event.run_id, self._plan)

    def done(self, status: RunStatus | None) -> Iterator[CopyEvent]:
        """Observe the source, report the checks, and yield the outputs of the step."""
        if status is not None:
            yield from self._upstream.observation(self._spec, status)
        if self._checked:
            yield from partition_results(
                self.asset,
                self._compared_keys,
                self._spec.verify,
                self._verified,
                blocking=self._blocking,
            )
        yield from self._outputs()

    def on_failed(self) -> Iterator[CopyEvent]:
        """Report nothing more: committed partitions have been reported."""
        return iter(())

    def _unreported(self, records: Iterable[CommitRecord], run_id: str) -> Iterator[CopyEvent]:
        if self._others_work:
            # Whoever has committed a partition is about to report it. The step that ends the copy
            # reports those of workers that were killed.
            return
        for record in records:
            key = self.keys[record.partition_id]
            if not self._history.has_run(key, run_id):
                yield self._committed(key, Loaded.of(record), run_id, self._plan)

    def _take_over(
        self, partitions: dict[str, Partition], series: str, run_id: str
    ) -> Iterator[CopyEvent]:
        """Remove partitions that an earlier run appended, and report those that it did not report.

        Args:
            partitions: the partitions by key, changed in place.
            series: the name of the series of the asset's copies.
            run_id: the id of this run.

        Raises:
            UsageError: a partition is already materialized; copying it again would double its rows.
        """
        spec = self._spec
        committed = penstock.committed_in_series(
            series, target=spec.target, control_schema=spec.control_schema
        )
        needed = {partition.id for partition in partitions.values()}
        others = {run for name, (run, _) in committed.items() if name in needed and run != run_id}
        lost = forget_lost(self._context, self.asset, others, spec)
        committed = {name: found for name, found in committed.items() if found[0] not in lost}
        materialized: dict[str, CommitRecord] = {}
        for key, partition in list(partitions.items()):
            run, record = committed.get(partition.id, (run_id, None))
            if run == run_id or record is None:
                continue
            request = self._history.newest_request(key)
            if request is not None and request != self._request:
                materialized[key] = record
                continue
            if request is None:
                yield self._committed(key, Loaded.of(record), run, self.status(run).run.plan)
            del partitions[key]
        if materialized:
            raise UsageError(_append_error(spec, materialized))

    def _committed(
        self, key: str, loaded: Loaded, run_id: str, plan: PartitionPlan
    ) -> dg.AssetMaterialization:
        metadata = partition_metadata(
            self._spec,
            run_id,
            self._request,
            plan,
            partition_id(key),
            loaded,
            self._upstream.comments,
        )
        metadata |= column_lineage(self._spec, plan, self._source_key)
        return self._materialization(key, metadata, run_id)

    def _materialization(
        self, key: str, metadata: dict[str, Any], run_id: str
    ) -> dg.AssetMaterialization:
        return dg.AssetMaterialization(
            asset_key=self.asset,
            partition=key,
            metadata=metadata,
            tags=version_tags(f"{run_id}:{key}"),
        )

    def _outputs(self) -> Iterator[dg.Output[None]]:
        """Yield the outputs that downstream assets and checks in the same run wait for.

        They carry the mark of assets that report their own events. Without it, Dagster would
        materialize every partition of the run again, all with the same metadata. A Dagster that
        does not know the mark skips downstream assets, which then need a run of their own.
        """
        assets_def = self._context.assets_def
        selected = self._context.op_execution_context.selected_output_names
        for name, check in assets_def.check_specs_by_output_name.items():
            if check.asset_key == self.asset and name in selected:
                yield dg.Output(None, output_name=name)
        if not _SELF_REPORTED:
            return
        metadata: dict[str, Any] = {_SELF_REPORTED: True}
        if self._finished is not None:
            metadata |= PenstockMetadataSet(report=dg.MetadataValue.md(self._report()))
        yield dg.Output(
            None,
            output_name=assets_def.get_output_name_for_asset_key(self.asset),
            metadata=metadata,
        )


def _ids(keys: list[str]) -> dict[str, str]:
    """Return the partition keys by the core's ids.

    Raises:
        UsageError: two keys have the same id.
    """
    ids: dict[str, str] = {}
    for key in keys:
        first_key = ids.setdefault(partition_id(key), key)
        if first_key != key:
            raise UsageError(
                f"partitions {first_key!r} and {key!r} have the same id: rename one of them"
            )
    return ids


def _append_error(spec: CopySpec, materialized: Mapping[str, CommitRecord]) -> str:
    names = [
        f"{key} ({record.rows:,} rows at {record.committed_at})"
        for key, record in list(materialized.items())[:_MAX_NAMES]
    ]
    more = len(materialized) - len(names)
    return (
        f"mode append: {target_name(spec)} already has these partitions: {', '.join(names)}"
        + (f" and {more:,} more" if more else "")
        + ". Copying them again would double their rows: select only missing partitions, or use "
        "mode replace, which deletes the rows of a partition before it loads them"
    )
