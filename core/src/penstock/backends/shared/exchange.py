"""What a user is told about a table that is built beside the one it replaces."""

from __future__ import annotations

ROOM_FOR_BOTH = (
    "{table} stays until the new table replaces it, which needs room for both; if there is none, "
    "drop it first"
)
"""A warning of a plan. Its field `table` is the table that is replaced."""
