"""The core's messages in the terms of Dagster."""

from __future__ import annotations

from penstock import CHOSEN, as_arguments


def in_dagster(message: str) -> str:
    """Return a message with options named as in Python and partitions named as in Dagster."""
    return as_arguments(message).replace(CHOSEN, "chosen in Dagster")
