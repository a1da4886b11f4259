"""Events that name partitions as the asset does, not by the ids that the core has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import Event, Finished, Verified


def keyed(event: Event, keys: Mapping[str, str]) -> Event:
    """
    Parameters:
        keys: partition keys by the core's ids; empty of a whole table.
    """

    def named(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(item, partition_id=keys.get(item.partition_id, item.partition_id))
            for item in items
        )

    if not keys:
        return event
    if isinstance(event, Finished):
        later = tuple(
            replace(item, partition_ids=tuple(keys.get(id_, id_) for id_ in item.partition_ids))
            for item in event.later
        )
        return replace(
            event, failures=named(event.failures), timings=named(event.timings), later=later
        )
    if isinstance(event, Verified):
        return replace(event, differences=named(event.differences))
    if hasattr(event, "partition_id"):
        (event,) = named((event,))
    return event
