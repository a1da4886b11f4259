"""A table at the end of a test run: the number of skipped tests by reason."""

from __future__ import annotations

from collections import Counter
from typing import Any


def skip_table(reports: list[Any]) -> list[str]:
    """Return the lines of the table, the most frequent reason first.

    Args:
        reports: pytest's reports of skipped tests and modules.
    """
    # pytest stores a skip as a path, a line number and a text.
    counts = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)
    )
    if not counts:
        return []
    width = max(len(f"{counts.total():,}"), len("tests"))
    return [
        f"{'tests':>{width}}  skipped because",
        *(f"{count:>{width},}  {reason}" for reason, count in counts.most_common()),
        f"{counts.total():>{width},}  in all",
    ]
