"""DuckDB tables that other programs change during a run: no finished run has wrong rows."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import PermanentError, TargetChanged
from penstock.model.plans import Partition

from ...covering import each_value
from .duckdb_tables import TABLE, Database, between, cut, numbered

OLDER = "INSERT INTO t SELECT 1000 + i, 'older' FROM range(100) AS r (i)"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.make(tmp_path / "target.duckdb")


CHANGES = {
    "truncated": ["TRUNCATE t"],
    "deleted": ["DELETE FROM t WHERE id = 3"],
    "made again": ["DROP TABLE t", "CREATE TABLE t (id BIGINT, name VARCHAR)"],
    "replaced": ["CREATE OR REPLACE TABLE t AS SELECT 77::BIGINT AS id, 'x' AS name"],
    "truncated and filled": ["TRUNCATE t", OLDER.replace("100)", "105)")],
    "dropped": ["DROP TABLE t"],
}


MOMENTS = [
    *(("before an execution", change) for change in CHANGES),
    ("in mid-attempt", "truncated"),
    ("in mid-attempt", "dropped"),
    ("at the end", "deleted"),
    ("at the end", "truncated and filled"),
]


@pytest.mark.parametrize(
    ("at", "mode"), each_value(MOMENTS, ["append", "truncate", "replace"], 2), ids=str
)
def test_a_change_by_another_program_fails_the_run(
    database: Database, at: tuple[str, str], mode: str
) -> None:
    moment, change = at
    database.sql(OLDER)
    run = database.create("r", mode, partitions=cut(10))
    run.copy("p0000", range(10))
    if moment == "before an execution":
        database.sql(*CHANGES[change])
        with pytest.raises(TargetChanged, match="another session since run r"):
            run.check()
    elif moment == "in mid-attempt":
        with run.attempt("p0001") as attempt:
            assert attempt.begin()
            database.sql(*CHANGES[change])
            attempt.write(numbered(range(10, 20), "r"))
            with pytest.raises(TargetChanged, match="start a new run"):
                attempt.end()
    else:
        run.copy("p0001", range(10, 20))
        database.sql(*CHANGES[change])
        with pytest.raises(TargetChanged):
            run.finish()


def test_the_message_gives_expected_and_found_rows(database: Database) -> None:
    run = database.create("r", "truncate", partitions=cut(10))
    run.copy("p0000", range(10))
    database.sql("TRUNCATE t")
    with pytest.raises(
        TargetChanged,
        match=r"^target: main\.t was changed by another session since run r began to load it: "
        r"expected 10 rows, found 0 rows; start a new run$",
    ):
        run.check()
    database.sql("DROP TABLE t")
    with pytest.raises(TargetChanged, match="found no table of that name"):
        run.check()


def test_rows_added_by_others_do_not_count(database: Database) -> None:
    run = database.create("r", "append", partitions=cut(10))
    run.copy("p0000", range(10))
    database.sql(OLDER)
    run.copy("p0001", range(10, 20))
    run.finish()
    assert len(database.rows()) == 120


def test_rows_added_by_others_fail_a_run_that_owns_the_table(database: Database) -> None:
    run = database.create("r", "truncate", partitions=cut(10))
    run.copy("p0000", range(10))
    database.sql("INSERT INTO t VALUES (5, 'twice')")
    with pytest.raises(TargetChanged, match="expected 10 rows, found 11 rows"):
        run.copy("p0001", range(10, 20))


@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
def test_older_rows_can_be_deleted(tmp_path: Path, mode: str) -> None:
    """Rows that the run did not load may be deleted, if a key proves that its own rows exist."""
    database = Database.make(tmp_path / "target.duckdb", "PRIMARY KEY")
    database.sql(OLDER)
    run = database.create("r", mode, partitions=cut(10, 20)[:2], chooses_partitions=True)
    run.copy("p0000", range(10))
    database.sql("DELETE FROM t WHERE id >= 1050")
    # Another run records the missing rows, and the record stays.
    database.create("other", "append", partitions=cut(10))
    run.check()
    run.copy("p0001", range(10, 20))
    run.finish()
    assert len(database.rows()) == 70


def test_a_loss_is_still_reported_after_another_run_begins(database: Database) -> None:
    database.sql(OLDER)
    run = database.create("r", "append", partitions=cut(10))
    run.copy("p0000", range(10))
    database.sql("TRUNCATE t", OLDER, OLDER)
    run.check()  # not detectable yet, since there are more rows than before
    database.sql("DELETE FROM t WHERE id > 1000")
    other = database.create("other", "append", partitions=cut(10))
    other.copy("p0001", range(100, 210))
    with pytest.raises(TargetChanged):
        run.copy("p0001", range(10, 20))


def test_a_run_without_commits_continues(database: Database) -> None:
    database.sql(OLDER)
    run = database.create("r", "append", partitions=cut(10))
    database.sql("TRUNCATE t")
    database.create("other", "truncate", partitions=cut(10)).copy("p0000", range(-10, 0))
    run.copy("p0000", range(10))
    run.copy("p0001", range(10, 20))
    run.finish()
    assert database.ids() == Counter(range(-10, 20))


def test_a_finished_run_stays_done(database: Database) -> None:
    run = database.create("r", "truncate", partitions=cut(10))
    run.copy("p0000", range(10))
    run.copy("p0001", range(10, 20))
    run.finish()
    database.sql("TRUNCATE t")
    run.check()


@pytest.mark.parametrize(
    ("mine", "theirs"),
    each_value(["append", "truncate"], ["truncate", "recreate", "swap", "replace"]),
)
def test_another_run_deletes_the_rows(database: Database, mine: str, theirs: str) -> None:
    run = database.create("mine", mine, partitions=cut(10))
    run.copy("p0000", range(10))
    other = database.create("theirs", theirs, partitions=cut(5))
    other.copy("p0000", range(5))
    other.copy("p0001", range(5, 20))
    if theirs in ("recreate", "swap"):
        other.finish()
    with pytest.raises(TargetChanged, match="run theirs has deleted rows of"):
        run.check()
    with pytest.raises(TargetChanged, match="run theirs has deleted rows of"):
        run.copy("p0001", range(10, 20))
    other.finish()
    assert database.ids() == Counter(range(20))


def test_another_run_replaces_other_rows(database: Database) -> None:
    """The condition limits what is deleted, so no run deletes rows that the other has loaded."""
    database.sql(OLDER)
    run = database.create("mine", "append", partitions=cut(10), where="id < 20")
    run.copy("p0000", range(10))
    other = database.create("theirs", "replace", partitions=cut(1050), where="id >= 1000")
    other.copy("p0000", range(1000, 1050))
    other.copy("p0001", range(1050, 1100))
    other.finish()
    run.copy("p0001", range(10, 20))
    run.finish()
    assert database.ids() == Counter([*range(20), *range(1000, 1100)])


def test_two_runs_replace_overlapping_windows_with_different_bounds(database: Database) -> None:
    """In the end each row is there once, although no key enforces it."""
    database.sql("INSERT INTO t SELECT i, 'older' FROM range(100) AS r (i)")
    one = database.create("one", "replace", partitions=cut(20, 40), where="id < 60")
    two = database.create("two", "replace", partitions=cut(50, 70), where="id >= 30 AND id < 90")
    chosen_partitions = [Partition("g1", between(35, 45)), Partition("g2", between(80, 95))]
    three = database.create(
        "three", "replace", partitions=chosen_partitions, chooses_partitions=True
    )
    with one.attempt("p0001") as staged, two.attempt("p0000") as other:
        assert staged.begin()
        assert other.begin()
        staged.write(numbered(range(20, 40), "r"))
        other.write(numbered(range(30, 50), "r"))
        three.copy("g1", range(35, 45))
        other.commit(other.end())
        one.copy("p0002", range(40, 60))
        staged.commit(staged.end())
    two.copy("p0001", range(50, 70))
    one.copy("p0000", range(20))
    three.copy("g2", range(80, 95))
    two.copy("p0002", range(70, 90))
    for run in (one, two, three):
        run.finish()
    assert database.ids() == Counter(range(100))


def test_loaded_rows_meet_the_condition(database: Database) -> None:
    """Source and target may evaluate the condition differently, and a second run would then
    duplicate rows.
    """
    run = database.create("r", "replace", partitions=cut(10))
    with pytest.raises(
        PermanentError, match=r"select the 11 loaded rows, found that it selects 10"
    ):
        run.copy("p0000", range(11))
    assert database.rows() == []


def test_a_partition_is_copied_again_after_the_table_has_changed(database: Database) -> None:
    """A finished run ignores later changes, except in partitions that are copied again."""
    run = database.create("r", "truncate", partitions=cut(10))
    run.copy("p0000", range(10))
    run.copy("p0001", range(10, 20))
    run.finish()
    database.sql(
        "DELETE FROM t WHERE id = 3", "INSERT INTO t SELECT -i, '' FROM range(100) AS r (i)"
    )
    with closing(database.target()) as target:
        target.control.recopies.forget("r", ["p0001"], "q", rows_of=TABLE, patience=0)
    run.copy("p0001", range(10, 20), number=2)
    run.finish()
    assert len(database.rows()) == 119
