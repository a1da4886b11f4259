"""Every option that a backend lists works; any other is rejected, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from penstock import MODES, CopySpec
from penstock.backends.api.capabilities import SOURCE_OPTIONS, TARGET_OPTIONS
from penstock.errors import RunFailed, UsageError
from penstock.spec.modes import RECREATE, Entry, Mode
from penstock.spec.option_values import flag_of

from .copying import ROWS, Pair
from .database import Database
from .rows import Rows

# A value for each option that changes the result or the plan.
VALUES: dict[str, Any] = {
    "conflict_columns": ("id",),
    "indexes": "defer",
    "unlogged": True,
    "partitioning": True,
    "order_by": ("id",),
    "partition_by": ("grp",),
    "file_size": 10_000,
    "row_group_size": 50,
    "compression": "gzip",
    "descendants": "exclude",
    "max_lag": "30s",
    "give_way_after": "30s",
    "set": ("grp=grp",),
    "mask": ("day=year",),
    "arrays": "json",
    "enums": "text",
}
# The rows after masking.
IN_JANUARY = Rows(ROWS.columns, [(id_, date(2024, 1, 1), *rest) for id_, _, *rest in ROWS.rows])
# The modes that support an option, regardless of the systems.
GOES_WITH = {"conflict_columns": "upsert", "unlogged": "truncate", "partitioning": "recreate"}


@pytest.mark.parametrize("option", TARGET_OPTIONS)
def test_options_of_a_target(
    inward: Pair, option: str, name: str, open_database: Callable[[str], Database]
) -> None:
    target = inward.theirs.backend.target_capabilities
    inward.make(key="id")
    arguments = {option: VALUES.get(option, (f"id={inward.theirs.made_type}",))}
    does_not = f"{target.system} as a target does not support"
    refused = f"{does_not} {flag_of(option)}"
    if option not in target.options:
        goes_with = GOES_WITH.get(option, "append")
        known = MODES[goes_with] in target.modes
        with inward.refused(refused if known else f"{does_not} --mode {goes_with}"):
            inward.copy(mode=goes_with, **arguments)
        return
    modes = target.options[option]
    for mode in target.modes:
        if mode not in modes:
            with inward.refused(refused if is_supported(mode, arguments) else flag_of(option)):
                inward.copy(mode=mode.name, **_key_option(mode), **arguments)
    mode = RECREATE if RECREATE in modes else modes[0]
    if option == "partitioning":  # also asks the source
        inward = Pair(inward.theirs, inward.theirs)
        with inward.refused("same"):
            inward.copy(mode=mode.name, **arguments)
        return
    if option in target.cross_system_options:
        same_system = Pair(open_database(name), inward.theirs)
        same_system.mine.fill(ROWS)
        value = f" {arguments[option]}" * isinstance(arguments[option], str)
        with same_system.refused(f"{refused}{value} from {target.system}; it supports "):
            same_system.copy(mode=mode.name, **arguments)
    inward.copy(mode=mode.name, **arguments)
    inward.check()


def _key_option(mode: Mode) -> dict[str, Any]:
    return {"key": "id"} if mode.entry is Entry.REPLACE else {}


def is_supported(mode: Mode, arguments: dict[str, Any]) -> bool:
    """Whether a mode supports the options, regardless of the systems."""
    try:
        CopySpec(source="x://a", target="x://b", table="a.b", mode=mode.name, **arguments)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
def test_options_of_a_source(outward: Pair, option: str) -> None:
    source = outward.mine.backend.source_capabilities
    outward.make()
    if option not in source.options:
        refused = f"{source.system} as a source does not support {flag_of(option)}"
        with outward.refused(refused):
            outward.copy(mode="recreate", **{option: VALUES[option]})
    elif option != "partitioning":  # also asks the target
        outward.copy(**{option: VALUES[option]})
        outward.check(IN_JANUARY if option == "mask" else ROWS)


def test_some_columns_and_rows_are_copied(outward: Pair) -> None:
    outward.mine.fill(ROWS)
    some = [row[:2] for row in ROWS.rows if row[0] >= 200]
    outward.copy(columns=("id", "day"), where="id >= 200")
    outward.check(Rows({"id": "bigint", "day": "date"}, some))


@pytest.mark.parametrize("end", [" -- some", " ;\n"])
def test_a_query_is_copied(outward: Pair, end: str) -> None:
    if outward.mine.table is None:
        pytest.skip("its URLs lead to rows")
    outward.mine.fill(ROWS)
    query = f"SELECT id, grp FROM {outward.mine.table} WHERE id < 100{end}"
    outward.copy(table=None, query=query, strategy="hash", key="id", partitions=3)
    outward.check(
        Rows({"id": "bigint", "grp": "text"}, [(row[0], row[3]) for row in ROWS.rows[:100]])
    )


def test_columns_are_mapped_by_position(inward: Pair) -> None:
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
def test_names_that_are_missing_in_the_source_are_rejected(
    outward: Pair, options: dict[str, Any], part: str
) -> None:
    outward.make()
    if "table" in options and outward.mine.table is None:
        pytest.skip("its URLs lead to rows")
    with outward.refused(outward.mine.in_sql(part) if "where" in options else part):
        outward.copy(**options)


def test_columns_that_do_not_match_the_target_are_rejected(
    inward: Pair, open_database: Callable[[str], Database]
) -> None:
    """A missing column and one of a wrong type are reported together."""
    if "bytes" not in inward.theirs.types:
        pytest.skip("its texts take any value")
    first = Pair(open_database(inward.mine.name), inward.theirs)
    first.make(Rows({"id": "bigint", "a": "bytes"}, [(1, b"x")]))
    first.copy()
    inward.mine.fill(Rows({"id": "bigint", "a": "double", "b": "text"}, [(1, 1.5, "y")]))
    with inward.refused("\n  a ", "\n  b "):
        inward.copy()


def test_a_value_that_does_not_fit_fails_the_partition(inward: Pair) -> None:
    """The message names column and row, and no row of the partition is in the target."""
    theirs = inward.theirs
    if "integer" not in theirs.types:
        pytest.skip("the backend has no smaller type")
    inward.mine.fill(Rows({"id": "bigint"}, [(1,), (2**40,), (3,)]))
    options: dict[str, Any] = {}
    if theirs.needs_table:
        theirs.make(Rows({"id": "integer"}, []))
    else:
        options = {"types": (f"id={theirs.types['integer'].new_column}",)}
    with pytest.raises(RunFailed) as caught:
        inward.copy(strategy="whole", **options)
    assert "column 'id', row 2" in "".join(caught.value.__notes__)
    assert theirs.read() == []
