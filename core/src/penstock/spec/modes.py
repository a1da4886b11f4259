"""How a copy treats the rows that the target has."""

from __future__ import annotations

MODES = ("append", "truncate", "replace", "upsert", "recreate", "swap")


# They begin with an empty table: what was loaded can be taken back.
FRESH_MODES = ("truncate", "recreate", "swap")
