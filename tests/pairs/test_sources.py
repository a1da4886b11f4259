"""What depends on the source: how it is cut, and what is selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import PlanningError

from .checking import ROWS, STRATEGIES, check
from .ends import Rows

if TYPE_CHECKING:
    from .conftest import Pair


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_row_once(by_source: Pair, strategy: str) -> None:
    by_source.mine.fill(ROWS)
    by_source.theirs.make(ROWS)
    check(by_source, by_source.copy(degree=2, **STRATEGIES[strategy]), ROWS)


def test_by_files(by_source: Pair) -> None:
    by_source.mine.fill(ROWS)
    by_source.theirs.make(ROWS)
    if by_source.mine.name not in ("parquet", "s3"):
        with pytest.raises(PlanningError, match="does not support --strategy files"):
            by_source.copy(strategy="files")
        return
    finished = by_source.copy(strategy="files", partitions=6, degree=2)
    assert finished.partitions > 3  # some are row groups
    check(by_source, finished, ROWS)


def test_some_columns_and_some_rows(by_source: Pair) -> None:
    by_source.mine.fill(ROWS)
    some = Rows({"id": "bigint", "day": "date"}, [(r[0], r[2]) for r in ROWS.rows if r[0] >= 400])
    by_source.theirs.make(some)
    check(by_source, by_source.copy(columns=("id", "day"), where="id >= 400"), some)
