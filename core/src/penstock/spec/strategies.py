"""How a table is cut into partitions."""

from __future__ import annotations

STRATEGIES = (
    "auto", "ctid", "range", "ntile", "hash", "values", "time", "children", "files", "whole",
)  # fmt: skip


WITHOUT_KEY = ("ctid", "whole", "children", "files")
