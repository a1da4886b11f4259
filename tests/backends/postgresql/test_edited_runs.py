"""A run whose stored row has been edited: an error that says so, and no traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql

from penstock import PenstockError, PermanentError, UsageError, resume, status, verify

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

WRONG: tuple[Any, ...] = ([], {}, "x", 7, [7], [[]], {"x": {}})
COLUMNS = ("spec", "plan", "source_state", "snapshots", "failures")


@pytest.fixture
def copied(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t SELECT generate_series(1, 10)")
    pair.copy(run_id="r", strategy="range", key="id", partitions=2)
    return pair


def write(pair: Pair, column: str, value: Any) -> None:
    update = sql.SQL("UPDATE penstock.run SET {} = %s::jsonb").format(sql.Identifier(column))
    pair.target.connection.execute(update, [json.dumps(value)])


def check(pair: Pair) -> None:
    """Everything that reads a run either succeeds or raises one of our errors."""
    ends: dict[str, Any] = {"source": pair.source.url, "target": pair.target.url}
    for call in (
        lambda: status("r", target=ends["target"]).as_json(),
        lambda: verify("r", **ends, checksum=True),
        lambda: list(resume("r", **ends)),
    ):
        with suppress(UsageError, PermanentError):
            call()


@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_column(copied: Pair, column: str) -> None:
    for wrong in WRONG:
        write(copied, column, wrong)
        check(copied)


@pytest.mark.parametrize("column", ["plan", "source_state"])
def test_an_edited_part_of_a_column(copied: Pair, column: str) -> None:
    (stored,) = copied.target.rows(f"SELECT {column} FROM penstock.run")
    for name in stored[0]:
        for wrong in WRONG:
            write(copied, column, {**stored[0], name: wrong})
            check(copied)


def test_the_error_names_the_run(copied: Pair) -> None:
    write(copied, "plan", {})
    with pytest.raises(PenstockError, match="the record of run r cannot be read"):
        status("r", target=copied.target.url)
