"""Mode `upsert` into a key whose collation considers texts equal that are spelled differently."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from penstock import CopySpec, RunFailed, copy
from penstock.events import Committed, Failed
from penstock_testkit import AnyMysqlServer

from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

TABLE = "CREATE TABLE item (id int, k varchar(9) COLLATE {} NOT NULL {}, note varchar(9))"


@pytest.fixture
def ends(mysql_server: AnyMysqlServer) -> Iterator[tuple[str, str]]:
    with mysql_server.new_database() as source, mysql_server.new_database() as target:
        yield source, target
    mysql_server.drop_database("penstock")


def filled(ends: tuple[str, str], mine: str, theirs: str, **options: Any) -> CopySpec:
    source, target = ends
    execute(
        source,
        TABLE.format(mine, ""),
        "ALTER TABLE item ADD INDEX (k)",
        "INSERT INTO item VALUES (1, 'a', 'new'), (2, 'B ', 'same'), (3, 'é', 'new')",
    )
    execute(
        target,
        TABLE.format(theirs, "PRIMARY KEY"),
        "INSERT INTO item VALUES (1, 'A', 'old'), (2, 'b', 'same'), (9, 'rest', 'left')",
    )
    names = (f"{url.rpartition('/')[2]}.item" for url in ends)
    return CopySpec(
        source=source,
        target=target,
        table=next(names),
        target_table=next(names),
        mode="upsert",
        degree=1,
        **{"strategy": "range", "key": "k", "partitions": 2, **options},
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "options"),
    [
        ("utf8mb4_general_ci", "utf8mb4_general_ci", {}),
        ("utf8mb4_general_ci", "utf8mb4_general_ci", {"strategy": "values"}),
        ("utf8mb4_bin", "utf8mb4_general_ci", {"strategy": "whole", "key": None}),
    ],
)
def test_a_row_gets_the_sources_spelling(
    ends: tuple[str, str], mine: str, theirs: str, options: dict[str, Any]
) -> None:
    spec = filled(ends, mine, theirs, **options)
    committed = [event for event in copy(spec) if isinstance(event, Committed)]
    expected = [(1, "a", "new"), (2, "B ", "same"), (3, "é", "new"), (9, "rest", "left")]
    assert rows(ends[1], "SELECT * FROM item ORDER BY id") == expected
    assert sum(event.inserted or 0 for event in committed) == 1
    assert sum(event.updated or 0 for event in committed) == 2


@pytest.mark.parametrize(
    "options",
    [{"strategy": "ntile", "key": "id", "partitions": 4}, {"strategy": "values"}],
)
def test_two_rows_equal_in_the_targets_key(ends: tuple[str, str], options: dict[str, Any]) -> None:
    """Each is in a partition of its own, and the last one would win."""
    spec = filled(ends, "utf8mb4_bin", "utf8mb4_general_ci", **options)
    execute(ends[0], "INSERT INTO item VALUES (7, 'É', 'other'), (8, 'x', ''), (9, 'y', '')")
    execute(ends[1], "DELETE FROM item")
    pattern = (
        r"key \(k\) treats \(([Éé])\), which is being copied, as equal to \(([Éé])\), an existing"
    )
    found = re.search(pattern, failure(spec))
    assert found is not None
    assert set(found.groups()) == {"é", "É"}


def test_two_equal_rows_in_one_partition(ends: tuple[str, str]) -> None:
    spec = filled(ends, "utf8mb4_bin", "utf8mb4_general_ci")
    execute(ends[0], "INSERT INTO item VALUES (7, 'É', 'other')")
    spec = replace(spec, strategy="whole", key=None, partitions=None)
    assert re.search(r"once .*; found \(([Éé])\) and \(([Éé])\) 2 times", failure(spec))


def failure(spec: CopySpec) -> str:
    """Return why a run fails permanently."""
    why = ""
    with suppress(RunFailed):
        for event in copy(spec):
            if isinstance(event, Failed):
                why += event.error["message"]
    return why
