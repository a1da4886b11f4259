"""What holds for every pair of unlike systems."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from penstock import create, plan, resume, status
from penstock.events import Finished

from ..plain_rows import plain
from .checking import ROWS, STRATEGIES, check
from .ends import Rows, every_kind

if TYPE_CHECKING:
    from .conftest import Pair


def test_every_kind_of_value_arrives(pair: Pair) -> None:
    rows = every_kind()
    pair.mine.fill(rows)
    pair.theirs.make(rows)
    check(pair, pair.copy(), rows)


def test_values_are_compared_column_by_column(pair: Pair) -> None:
    """Every kind has a canonical form in every pair: nothing is left out of a checksum."""
    rows = every_kind()
    pair.mine.fill(rows)
    pair.theirs.make(rows)
    assert [p.target for p in plan(pair.spec()).pairs if not p.canonical] == []


def test_a_table_without_rows(pair: Pair) -> None:
    rows = Rows(ROWS.columns, ())
    pair.mine.fill(rows)
    pair.theirs.make(rows)
    check(pair, pair.copy(), rows)


def test_a_run_goes_on_where_it_was(pair: Pair) -> None:
    """Partitions that are committed are not read again."""
    pair.mine.fill(ROWS)
    pair.theirs.make(ROWS)
    made = create(pair.spec(run_id="r1", **STRATEGIES["range"]))
    first = made.run.plan.partitions[0].id
    ends = pair.ends
    for _ in resume("r1", **ends, only=[first]):
        pass
    assert [r.partition_id for r in status("r1", target=ends["target"]).committed] == [first]
    (*_, finished) = resume("r1", **ends)
    assert isinstance(finished, Finished)
    check(pair, finished, ROWS)
    (*_, again) = resume("r1", **ends)  # nothing is left
    assert isinstance(again, Finished)
    check(pair, again, ROWS)


def test_a_partition_is_copied_again(pair: Pair) -> None:
    pair.mine.fill(ROWS)
    pair.theirs.make(ROWS)
    finished = pair.copy(run_id="r1", **STRATEGIES["range"])
    ends = pair.ends
    (record, *_) = status("r1", target=ends["target"]).committed
    for _ in resume("r1", **ends, only=[record.partition_id], recopy="again"):
        pass
    check(pair, finished, ROWS)


def test_plain_tells_values_apart() -> None:
    """The comparison of these tests is no yes-man."""
    assert plain([1.0]) != plain([2.0])
    assert plain([b"a"]) != plain(["a"])
    assert plain([date(2024, 1, 1)]) != plain([date(2024, 1, 2)])
    assert plain([Decimal("1.50")]) == plain([Decimal("1.5")])
