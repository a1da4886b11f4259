"""Tables planned together, round by round: each table's findings are its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

SHAPES = {"a": "n int, made date", "b": "n int, label text", "c": "n int, price numeric(8, 2)"}


def finished(batch: BatchSpec) -> BatchFinished:
    last = None
    try:
        for last in copy_all(batch):  # noqa: B007
            pass
    except RunFailed:
        pass
    assert isinstance(last, BatchFinished)
    return last


def make(pair: Pair, **keys: str) -> None:
    for name, columns in SHAPES.items():
        pair.source.run(
            f"CREATE TABLE {name} ({keys.get(name, 'id')} int PRIMARY KEY, {columns})",
            f"INSERT INTO {name} SELECT g, g, NULL FROM generate_series(1, 100) AS g",
        )


def batch_of(pair: Pair, target: str, keys: dict[str, str], **defaults: Any) -> BatchSpec:
    entries = tuple({"table": f"public.{n}", "key": keys.get(n, "id")} for n in SHAPES)
    arguments: dict[str, Any] = {"mode": "replace", "strategy": "range", **defaults}
    return BatchSpec(
        source=pair.source.url, target=target, entries=entries, defaults=arguments, degree=1
    )


@pytest.mark.parametrize("system", ["postgresql", "duckdb"])
def test_conditions_on_missing_tables_of_different_columns(
    pair: Pair, tmp_path: Path, system: str
) -> None:
    """Each condition is tried on the table that will be created for it."""
    keys = {"a": "first", "b": "second", "c": "third"}
    make(pair, **keys)
    target = pair.target.url if system == "postgresql" else f"duckdb:///{tmp_path / 'x.duckdb'}"
    found = finished(batch_of(pair, target, keys))
    assert [(each.status, each.rows) for each in found.tables] == [("done", 100)] * 3, found


def test_a_table_that_fails_among_others(pair: Pair) -> None:
    """A refused query ends the transaction in which all tables are planned; only the faulty table
    is reported, and the others are unaffected."""
    make(pair)
    options = {"strategy": "values", "mode": "append", "verify": "checksums"}
    batch = batch_of(pair, pair.target.url, {"b": "id / 0 + nosuch"}, **options)
    found = finished(batch)
    assert [each.status for each in found.tables] == ["done", "failed", "done"]
    assert found.tables[1].error is not None
    assert "nosuch" in found.tables[1].error["message"]
