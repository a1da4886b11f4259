"""The core's events, reports and messages in the terms of Dagster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import CHOSEN, Event, Finished, RunReport, Verified, as_arguments


def with_partition_keys(event: Event, keys: Mapping[str, str]) -> Event:
    """Return an event with the asset's partition keys in place of the core's ids.

    Args:
        event: the event.
        keys: partition keys by the core's ids; empty for a whole table.
    """

    def renamed(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return _with_keys(items, keys)

    if not keys:
        return event
    if isinstance(event, Finished):
        later = tuple(
            replace(item, partition_ids=tuple(keys.get(id_, id_) for id_ in item.partition_ids))
            for item in event.later
        )
        return replace(
            event, failures=renamed(event.failures), timings=renamed(event.timings), later=later
        )
    if isinstance(event, Verified):
        return replace(
            event, differences=renamed(event.differences), compared=renamed(event.compared)
        )
    if hasattr(event, "partition_id"):
        (event,) = renamed((event,))
    return event


def report_with_partition_keys(report: RunReport, keys: Mapping[str, str]) -> RunReport:
    """Return a report with partition keys; see `with_partition_keys`."""
    return replace(
        report,
        slowest=_with_keys(report.slowest, keys),
        outliers=_with_keys(report.outliers, keys),
    )


def in_dagster(message: str) -> str:
    """Return a message that names options as arguments, and partitions as Dagster does."""
    return as_arguments(message).replace(CHOSEN, "chosen in Dagster")


def _with_keys(items: tuple[Any, ...], keys: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(
        replace(item, partition_id=keys.get(item.partition_id, item.partition_id)) for item in items
    )
