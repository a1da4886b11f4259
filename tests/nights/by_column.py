"""Helpers to run nights by a column."""

from __future__ import annotations

from typing import Any

from tests.one_copy import OneCopy

from penstock.events import Merged

NAME = "public.items to public.items"


def by_column(source: str, target: str, **options: Any) -> OneCopy:
    usual: dict[str, Any] = {
        "table": "public.items",
        "mode": "upsert",
        "incremental": "changed",
        "lookback": "0",
        "degree": 1,
    }
    return OneCopy(source=source, target=target, **{**usual, **options})


def merged(night: OneCopy) -> Merged:
    """Return the merge event of a finished night."""
    night.done()
    (event,) = (event for event in night.events if isinstance(event, Merged))
    return event
