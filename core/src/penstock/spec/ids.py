"""Ids of runs and partitions: their length and characters."""

from __future__ import annotations

import re

from penstock.errors import UsageError

# application_name holds 63 bytes: "penstock:" + run id + ":" + partition + ":" + attempt.
MAX_RUN_ID = 36

MAX_PARTITION_ID = 10

_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{MAX_RUN_ID - 1}}}")


def check_run_id(run_id: str) -> None:
    """Raise `UsageError` unless the id fits into an application_name."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"run id: expected 1 to {MAX_RUN_ID} letters, digits or any of _.+- (starting with a "
            f"letter or digit), found {run_id!r}"
        )
