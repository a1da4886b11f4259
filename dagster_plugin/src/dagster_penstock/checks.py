"""Asset checks by counts or checksums, as of the snapshot of the copy."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import PartitionComparison, PartitionDifference, Verified

# Dagster supports partitioned checks from 1.13 on; before, a check covers the whole asset.
PARTITIONED = "partitions_def" in inspect.signature(dg.AssetCheckSpec.__new__).parameters
_MAX_DIFFERENCES = 100
NAMES = {"counts": "same_row_count", "checksums": "same_rows"}
_DESCRIPTIONS = {
    "counts": "Source, target and commit records agree on the number of rows. Values are not "
    "compared.",
    "checksums": "The target has the same rows as the source, by checksums of their values.",
}


def check_spec(
    asset: dg.AssetKey,
    verify: str,
    partitions_def: dg.PartitionsDefinition | None,
    *,
    blocking: bool,
) -> dg.AssetCheckSpec:
    """Return the check of a copied asset.

    Args:
        asset: the key of the asset.
        verify: `counts` or `checksums`.
        partitions_def: the asset's partitions; None for a whole table.
        blocking: whether a failed check keeps downstream assets from running.
    """
    options: dict[str, Any] = {}
    if partitions_def is not None and PARTITIONED:
        options["partitions_def"] = partitions_def
    with warnings.catch_warnings():
        # A preview feature that warns on every use.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            NAMES[verify],
            asset=asset,
            description=_DESCRIPTIONS[verify],
            blocking=blocking,
            **options,
        )


def whole_result(asset: dg.AssetKey, verified: Verified) -> dg.AssetCheckResult:
    """Return the result of the check of a whole table."""
    return dg.AssetCheckResult(
        asset_key=asset, check_name=NAMES[verified.method], **_outcome(verified)
    )


def partition_results(
    asset: dg.AssetKey,
    keys: Sequence[str],
    verify: str,
    verified: Verified | None,
    *,
    blocking: bool,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the results of the check of partitions: one for each, if Dagster supports that.

    Args:
        asset: the key of the asset.
        keys: the keys of the partitions.
        verify: `counts` or `checksums`.
        verified: the comparison, by partition keys; None if the partitions are empty.
        blocking: whether a failed check keeps downstream assets from running.
    """
    common: dict[str, Any] = {
        "asset_key": asset,
        "check_name": NAMES[verify],
        "severity": dg.AssetCheckSeverity.ERROR,
        "blocking": blocking,
    }
    if not PARTITIONED:
        if keys:
            yield dg.AssetCheckEvaluation(**_outcome(verified), **common)
        return
    differences = {item.partition_id: item for item in verified.differences} if verified else {}
    sides = {item.partition_id: item for item in verified.compared} if verified else {}
    for key in keys:
        # A difference in the run as a whole applies to every partition.
        difference = differences.get(key) or differences.get(None)
        yield dg.AssetCheckEvaluation(
            passed=difference is None,
            metadata={
                **PenstockMetadataSet(verify=verify),
                **_sides(sides.get(key)),
                **_difference(difference),
            },
            partition=key,
            **common,
        )


def _outcome(verified: Verified | None) -> dict[str, Any]:
    """Return whether the check has passed, and its metadata."""
    metadata: dict[str, Any] = {}
    if verified is not None:
        metadata |= PenstockMetadataSet(
            verify=verified.method,
            partitions=verified.partitions,
            differences=None if verified.ok else _differences(verified),
        )
        metadata |= _sides(verified.compared[-1] if verified.compared else None)
    return {"passed": verified is None or verified.ok, "metadata": metadata}


def _sides(comparison: PartitionComparison | None) -> PenstockMetadataSet:
    """Return the known figures of both sides; an upsert's target has other rows, too."""
    if comparison is None:
        return PenstockMetadataSet()
    return PenstockMetadataSet(
        source_rows=comparison.source,
        target_rows=comparison.target,
        source_checksum=comparison.source_digest,
        target_checksum=comparison.target_digest,
    )


def _difference(difference: PartitionDifference | None) -> PenstockMetadataSet:
    if difference is None:
        return PenstockMetadataSet()
    return PenstockMetadataSet(difference=difference.note, rows_committed=difference.committed)


def _differences(verified: Verified) -> dg.MarkdownMetadataValue:
    lines = [
        f"- {item.partition_id or 'whole run'} ({item.label}): {item.note}"
        for item in verified.differences[:_MAX_DIFFERENCES]
    ]
    return dg.MetadataValue.md("\n".join(lines))
