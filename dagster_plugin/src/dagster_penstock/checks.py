"""Source against target as an asset check: counts or checksums, as of the copy's own snapshot."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from penstock import PartitionDifference, Verified

# Dagster has checks of partitions from 1.13 on; before, a check is of the whole asset.
OF_PARTITIONS = "partitions_def" in inspect.signature(dg.AssetCheckSpec.__new__).parameters
_MOST = 100
NAMES = {"counts": "same_row_count", "checksums": "same_rows"}
_DESCRIPTIONS = {
    "counts": "The target has as many rows as the source, and as were committed.",
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
        # It is a preview feature, and says so every time.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            NAMES[verify],
            asset=asset,
            description=_DESCRIPTIONS[verify],
            blocking=blocking,
            **options,
        )


def whole_result(asset: dg.AssetKey, verify: str, verified: Verified | None) -> dg.AssetCheckResult:
    """What the comparison of a whole table came to.

    Parameters:
        verified: None where an earlier try has compared both sides, and nothing differed.
    """
    metadata: dict[str, Any] = {}
    if verified is not None:
        metadata["penstock/compared"] = f"{verified.partitions:,} partitions by {verified.method}"
        if not verified.ok:
            metadata["penstock/differences"] = _differences(verified, {})
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=NAMES[verify],
        passed=verified is None or verified.ok,
        metadata=metadata,
    )


def partition_results(
    asset: dg.AssetKey, verified: Verified, keys: Mapping[str, str], *, blocking: bool
) -> Iterator[dg.AssetCheckEvaluation]:
    """What the comparison of partitions came to: for each of them, where Dagster has that.

    Parameters:
        keys: partition keys by the core's ids.
    """
    common: dict[str, Any] = {
        "asset_key": asset,
        "check_name": NAMES[verified.method],
        "severity": dg.AssetCheckSeverity.ERROR,
        "blocking": blocking,
    }
    if not OF_PARTITIONS:
        metadata = {} if verified.ok else {"penstock/differences": _differences(verified, keys)}
        yield dg.AssetCheckEvaluation(passed=verified.ok, metadata=metadata, **common)
        return
    wrong = {item.partition_id: item for item in verified.differences}
    for id_, key in keys.items():
        # One of the run as a whole, which belongs to no partition, is each one's.
        found = wrong.get(id_) or wrong.get(None)
        yield dg.AssetCheckEvaluation(
            passed=found is None,
            metadata={"penstock/compared": verified.method, **(_rows(found) if found else {})},
            partition=key,
            **common,
        )


def _rows(found: PartitionDifference) -> dict[str, Any]:
    return {
        "penstock/difference": found.note,
        "penstock/rows_committed": found.committed,
        "penstock/rows_in_source": found.source,
        "penstock/rows_in_target": found.target,
    }


def _differences(verified: Verified, keys: Mapping[str, str]) -> dg.MetadataValue:
    lines = [
        f"- {keys.get(item.partition_id or '', item.partition_id or 'the whole')} "
        f"({item.label}): {item.note}"
        for item in verified.differences[:_MOST]
    ]
    return dg.MetadataValue.md("\n".join(lines))
