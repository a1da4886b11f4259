"""Write the table of what becomes of a copy whose tasks are marked and cleared into the page on
Airflow, from the cells that the tests try.

Usage: ``.venv/bin/python scripts/clearing_table.py [--check]``
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

# A script finds only what is in its own folder, and what is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.marked_tables import main, markdown
from tests.airflow.clearing import MOMENTS, ONE_TASK, ROWS

HEAD = ("what people do", "`copy_table`", "`CopyTableOperator`")
NOT_TRIED = "-"


def of_groups(ends: Mapping[str, str]) -> str:
    """The outcome of the forms with mapped tasks; exceptions are named."""
    groups = {form: end for form, end in ends.items() if form != ONE_TASK}
    if not groups:
        return NOT_TRIED
    ((usual, _),) = Counter(groups.values()).most_common(1)
    exceptions = (f"{form}: {end}" for form, end in groups.items() if end != usual)
    return "; ".join((usual, *exceptions))


def rows() -> Iterator[list[str]]:
    for moment in MOMENTS:
        yield [f"**{moment}**", "", ""]
        for row in ROWS:
            if row.moment == moment:
                acts = ", then ".join(row.acts)
                yield [acts, of_groups(row.ends), row.ends.get(ONE_TASK, NOT_TRIED)]


if __name__ == "__main__":
    sys.exit(main({"docs/airflow.md": {"clearing": markdown(HEAD, rows())}}))
