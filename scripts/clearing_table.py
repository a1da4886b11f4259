"""Write the table of marked and cleared tasks into the page on Airflow.

Its cells are those that the tests try: the outcome of a copy whose tasks are marked or cleared.

Usage: ``.venv/bin/python scripts/clearing_table.py [--check]``
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

# A script can import only from its own folder and from installed packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.marked_tables import main, markdown
from tests.airflow.clearing import MOMENTS, ONE_APPEND, ONE_TASK, ROWS

HEAD = ("what people do", "`copy_table`", "`CopyTableOperator`")
NOT_TRIED = "-"


def of_groups(ends: Mapping[str, str]) -> str:
    """Return the outcome for the forms with mapped tasks, and name exceptions."""
    groups = {form: end for form, end in ends.items() if form not in (ONE_TASK, ONE_APPEND)}
    return _outcomes(groups) if groups else NOT_TRIED


def of_one_task(ends: Mapping[str, str]) -> str:
    """Return the outcome for a single task, in all modes that were tried."""
    single = {form: end for form, end in ends.items() if form in (ONE_TASK, ONE_APPEND)}
    return _outcomes(single) if single else NOT_TRIED


def _outcomes(groups: Mapping[str, str]) -> str:
    ((usual, _),) = Counter(groups.values()).most_common(1)
    exceptions = (f"{form}: {end}" for form, end in groups.items() if end != usual)
    return "; ".join((usual, *exceptions))


def rows() -> Iterator[list[str]]:
    for moment in MOMENTS:
        yield [f"**{moment}**", "", ""]
        for row in ROWS:
            if row.moment == moment:
                acts = ", then ".join(row.acts)
                yield [acts, of_groups(row.ends), of_one_task(row.ends)]


if __name__ == "__main__":
    sys.exit(main({"docs/airflow.md": {"clearing": markdown(HEAD, rows())}}))
