"""Asset checks by counts or checksums, as of the copy's own snapshot."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from penstock import PartitionComparison, PartitionDifference, Verified

# Dagster supports partitioned checks from 1.13 on; before, a check covers the whole asset.
OF_PARTITIONS = "partitions_def" in inspect.signature(dg.AssetCheckSpec.__new__).parameters
_MOST = 100
NAMES = {"counts": "same_row_count", "checksums": "same_rows"}
_DESCRIPTIONS = {
    "counts": "The target has as many rows as the source, and as many as were committed.",
    "checksums": "The target has the same rows as the source, by a checksum of their values.",
}


def check_spec(
    asset: dg.AssetKey,
    verify: str,
    partitions_def: dg.PartitionsDefinition | None,
    *,
    blocking: bool,
) -> dg.AssetCheckSpec:
    options: dict[str, Any] = {}
    if partitions_def is not None and OF_PARTITIONS:
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
    """Return the result of comparing a whole table."""
    return dg.AssetCheckResult(
        asset_key=asset, check_name=NAMES[verified.method], **_whole(verified)
    )


def partition_results(
    asset: dg.AssetKey,
    keys: Sequence[str],
    verify: str,
    verified: Verified | None,
    *,
    blocking: bool,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Return the results of comparing partitions: one for each, if Dagster supports that.

    Parameters:
        verified: None if the partitions are empty.
    """
    common: dict[str, Any] = {
        "asset_key": asset,
        "check_name": NAMES[verify],
        "severity": dg.AssetCheckSeverity.ERROR,
        "blocking": blocking,
    }
    if not OF_PARTITIONS:
        if keys:
            yield dg.AssetCheckEvaluation(**_whole(verified), **common)
        return
    wrong = {item.partition_id: item for item in verified.differences} if verified else {}
    sides = {item.partition_id: item for item in verified.compared} if verified else {}
    for key in keys:
        # A difference in the run as a whole applies to every partition.
        found = wrong.get(key) or wrong.get(None)
        yield dg.AssetCheckEvaluation(
            passed=found is None,
            metadata={
                "penstock/compared": verify,
                **_sides(sides.get(key)),
                **(_difference(found) if found else {}),
            },
            partition=key,
            **common,
        )


def _whole(verified: Verified | None) -> dict[str, Any]:
    """Return whether the check has passed, and its metadata."""
    metadata: dict[str, Any] = {}
    if verified is not None:
        metadata["penstock/compared"] = verified.method
        metadata["penstock/partitions"] = verified.partitions
        metadata.update(_sides(verified.compared[-1] if verified.compared else None))
        if not verified.ok:
            metadata["penstock/differences"] = _differences(verified)
    return {"passed": verified is None or verified.ok, "metadata": metadata}


def _sides(found: PartitionComparison | None) -> dict[str, Any]:
    """Return the known figures of both sides; an upsert's target has other rows, too."""
    if found is None:
        return {}
    known = {
        "penstock/rows_in_source": found.source,
        "penstock/rows_in_target": found.target,
        "penstock/checksum_of_source": found.source_digest,
        "penstock/checksum_of_target": found.target_digest,
    }
    return {name: value for name, value in known.items() if value is not None}


def _difference(found: PartitionDifference) -> dict[str, Any]:
    return {"penstock/difference": found.note, "penstock/rows_committed": found.committed}


def _differences(verified: Verified) -> dg.MetadataValue:
    lines = [
        f"- {item.partition_id or 'whole run'} ({item.label}): {item.note}"
        for item in verified.differences[:_MOST]
    ]
    return dg.MetadataValue.md("\n".join(lines))
