"""Every option that a backend names works; one that it does not is refused, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.backends.api.capabilities import SOURCE_OPTIONS, TARGET_OPTIONS
from penstock.spec.modes import RECREATE

from .copying import ROWS, Pair
from .rows import Rows

# A value of each that does something.
VALUES: dict[str, Any] = {
    "conflict_columns": ("id",),
    "indexes": "defer",
    "unlogged": True,
    "partitioning": True,
    "partition_by": ("grp",),
    "file_size": 10_000,
    "row_group_size": 50,
    "compression": "gzip",
    "descendants": "exclude",
}
# Whatever the system is.
GOES_WITH = {"conflict_columns": "upsert", "unlogged": "truncate", "partitioning": "recreate"}


@pytest.mark.parametrize("option", TARGET_OPTIONS)
def test_of_a_target(inward: Pair, option: str) -> None:
    target = inward.theirs.backend.target_capabilities
    inward.make(key="id")
    given = {option: VALUES.get(option, (f"id={inward.theirs.made_type}",)), "allow_ddl": True}
    if option not in target.options:
        with inward.refused(target.system):
            inward.copy(mode=GOES_WITH.get(option, "append"), **given)
        return
    for mode in target.modes:
        if mode not in target.options[option]:
            with inward.refused():
                inward.copy(mode=mode.name, **given)
    modes = target.options[option]
    mode = RECREATE if RECREATE in modes else modes[0]
    if option == "partitioning":  # asks the source, too
        inward = Pair(inward.theirs, inward.theirs)
        with inward.refused("same"):
            inward.copy(mode=mode.name, **given)
        return
    inward.copy(mode=mode.name, **given)
    inward.check()


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
def test_of_a_source(outward: Pair, option: str) -> None:
    source = outward.mine.backend.source_capabilities
    outward.make()
    if option not in source.options:
        with outward.refused(source.system):
            outward.copy(mode="recreate", **{option: VALUES[option]})
    elif option != "partitioning":  # asks the target, too
        outward.copy(**{option: VALUES[option]})
        outward.check()


def test_some_columns_and_some_rows(outward: Pair) -> None:
    outward.mine.fill(ROWS)
    some = [row[:2] for row in ROWS.rows if row[0] >= 200]
    outward.copy(columns=("id", "day"), where="id >= 200")
    outward.check(Rows({"id": "bigint", "day": "date"}, some))


def test_a_query(outward: Pair) -> None:
    if outward.mine.table is None:
        pytest.skip("its URLs lead to rows")
    outward.mine.fill(ROWS)
    query = f"SELECT id, grp FROM {outward.mine.table} WHERE id < 100 -- some"
    outward.copy(table=None, query=query, strategy="hash", key="id", partitions=3)
    outward.check(
        Rows({"id": "bigint", "grp": "text"}, [(row[0], row[3]) for row in ROWS.rows[:100]])
    )


def test_columns_by_position(inward: Pair) -> None:
    other = Rows({f"{name}2": kind for name, kind in ROWS.columns.items()}, ROWS.rows)
    inward.mine.fill(ROWS)
    if inward.theirs.needs_table:
        inward.theirs.make(other)
    inward.copy(map="position")
    inward.check(other)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"where": "nmae = 1"}, "nmae"),
        ({"where": "id ="}, ""),
        ({"columns": ("id", "nmae")}, "nmae"),
        ({"strategy": "ntile", "key": "nmae"}, "nmae"),
        ({"table": "nowhere.t"}, "nowhere"),
    ],
)
def test_what_the_source_does_not_have(outward: Pair, options: dict[str, Any], part: str) -> None:
    outward.make()
    if "table" in options and outward.mine.table is None:
        pytest.skip("its URLs lead to rows")
    with outward.refused(part):
        outward.copy(**options)
