"""A run that is complete, and is asked to continue after others have changed its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import (
    BatchSpec,
    PermanentError,
    RunFailed,
    SpecMismatch,
    TargetChanged,
    copy_all,
    create,
    find_loss,
    resume,
    status,
)
from penstock.events import Finished, Warned

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = "CREATE TABLE t (id int PRIMARY KEY, day date NOT NULL, note text)"
FILL = (
    "INSERT INTO t SELECT i, date '2026-03-01' + i % 3, 'n' || i FROM generate_series(1, 300) AS i"
)
KEYED: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": 3}


@pytest.fixture
def loaded(pair: Pair) -> Pair:
    """Return a pair whose table was appended by run `r`."""
    pair.both(TABLE)
    pair.source.run(FILL)
    pair.events(run_id="r", **KEYED)
    return pair


def again(pair: Pair, **options: Any) -> list[Any]:
    return pair.events(**{"run_id": "r", **KEYED, **options})


LOST = {
    "truncated": ("TRUNCATE t",),
    "deleted": ("DELETE FROM t",),
    "dropped": ("DROP TABLE t",),
    "recreated": ("DROP TABLE t", TABLE),
    "swapped": (
        "CREATE TABLE other (LIKE t)",
        "INSERT INTO other SELECT i, '2026-03-01' FROM generate_series(1, 999) AS i",
        "ALTER TABLE t RENAME TO was",
        "ALTER TABLE other RENAME TO t",
    ),
    "view": ("ALTER TABLE t RENAME TO was", "CREATE VIEW t AS SELECT * FROM was"),
}


@pytest.mark.parametrize("how", LOST)
def test_a_complete_run_does_not_end_as_done_without_its_rows(loaded: Pair, how: str) -> None:
    loaded.target.run(*LOST[how])
    for events in (lambda: again(loaded), lambda: list(resume("r", **ends(loaded)))):
        with pytest.raises(TargetChanged, match="start a new run") as caught:
            events()
        assert "public.t" in caught.value.message
        assert "expected 300 rows" in caught.value.message
    # What the control tables say of the run stays, since nothing was done.
    assert status("r", target=loaded.target.url).run.status == "done"


def ends(pair: Pair) -> dict[str, Any]:
    return {"source": pair.source.url, "target": pair.target.url}


def test_the_run_that_emptied_the_table_is_named(loaded: Pair) -> None:
    loaded.events(run_id="other", mode="truncate", **KEYED)
    with pytest.raises(TargetChanged, match="was emptied by run other"):
        again(loaded)


@pytest.mark.parametrize(
    "change",
    [
        "VACUUM FULL t",
        "ALTER TABLE t ALTER COLUMN note TYPE varchar(99)",
        "UPDATE t SET note = 'x'",
        "INSERT INTO t SELECT i, '2026-03-01' FROM generate_series(301, 400) AS i",
    ],
)
def test_a_table_that_has_all_rows_is_no_reason_to_complain(loaded: Pair, change: str) -> None:
    loaded.target.run(change)
    events = again(loaded)
    assert not [event for event in events if isinstance(event, Warned)]
    assert isinstance(events[-1], Finished)
    assert events[-1].status == "done"


def test_rows_deleted_since_are_named(loaded: Pair) -> None:
    loaded.target.run("DELETE FROM t WHERE id > 101")
    events = again(loaded)
    (warning,) = [event for event in events if isinstance(event, Warned)]
    assert "expected 300 rows, found 101" in warning.message
    assert events[-1].status == "done"
    assert loaded.target.count() == 101
    # A run that is to be verified fails.
    with pytest.raises(PermanentError, match="expected 300 rows, found 101"):
        again(loaded, verify="counts")
    assert status("r", target=loaded.target.url).run.status == "done"


def test_a_part_that_a_replace_run_has_loaded_is_looked_for_by_its_condition(pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    options = {"mode": "replace", "where": "day = '2026-03-01'", "snapshot": "none"}
    pair.target.run("INSERT INTO t SELECT i, '2026-02-01' FROM generate_series(1001, 1500) AS i")
    again(pair, **options)
    pair.target.run("DELETE FROM t WHERE day = '2026-03-01' AND id < 31")
    (warning,) = [event for event in again(pair, **options) if isinstance(event, Warned)]
    assert "expected 100 rows, found 90" in warning.message
    pair.target.run("DELETE FROM t WHERE day = '2026-03-01'")
    with pytest.raises(TargetChanged, match="none of the rows that the run selects"):
        again(pair, **options)


@pytest.mark.parametrize("options", [{"mode": "upsert"}, {"mode": "upsert", "incremental": "xmin"}])
def test_merged_rows_may_be_fewer(pair: Pair, options: dict[str, Any]) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    again(pair, **options)
    pair.target.run("DELETE FROM t WHERE id > 5")
    assert not [event for event in again(pair, **options) if isinstance(event, Warned)]
    pair.target.run("DELETE FROM t")
    with pytest.raises(TargetChanged, match="is empty"):
        again(pair, **options)


def test_rows_that_a_later_night_has_deleted_are_not_missed(pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    night = {"mode": "upsert", "incremental": "xmin", "deletes": "hard,100%"}
    again(pair, **night)
    pair.source.run("DELETE FROM t")
    again(pair, **night, run_id="later")
    assert pair.target.count() == 0
    assert again(pair, **night)[-1].status == "done"


def test_swapped_and_recreated_tables_are_looked_at_under_their_final_name(pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    for mode in ("swap", "recreate", "truncate"):
        options = {"mode": mode, "run_id": mode}
        again(pair, **options)
        assert again(pair, **options)[-1].status == "done"
        pair.target.run("TRUNCATE t")
        with pytest.raises(TargetChanged):
            again(pair, **options)


def test_rows_hidden_by_a_policy_are_not_missed(loaded: Pair) -> None:
    """Nothing can be told of a table of which the user sees a part."""
    loaded.target.run(
        "CREATE ROLE penstock_reader LOGIN" if not role_exists(loaded) else "SELECT 1",
        "GRANT ALL ON ALL TABLES IN SCHEMA penstock, public TO penstock_reader",
        "GRANT USAGE ON SCHEMA penstock, public TO penstock_reader",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "ALTER ROLE penstock_reader SET row_security = on",
    )
    user = loaded.target.value("SELECT current_user")
    url = loaded.target.url.replace(f"{user}@", "penstock_reader@").replace(
        f"//{user}:", "//penstock_reader:"
    )
    if "penstock_reader" not in url:
        pytest.skip("the server's URL has no user to replace")
    assert find_loss("r", target=url) is None


def role_exists(pair: Pair) -> bool:
    return bool(pair.target.rows("SELECT FROM pg_roles WHERE rolname = 'penstock_reader'"))


# Batches


def batch(pair: Pair, **options: Any) -> BatchSpec:
    return BatchSpec(
        **ends(pair),
        tables=("public.*",),
        run_id="b",
        degree=1,
        defaults={"mode": "append", **options},
    )


def test_a_batch_names_each_table_that_has_lost_its_rows(pair: Pair) -> None:
    pair.both(TABLE, "CREATE TABLE u (LIKE t)", "CREATE TABLE v (LIKE t)")
    pair.source.run(FILL, "INSERT INTO u SELECT * FROM t", "INSERT INTO v SELECT * FROM t")
    list(copy_all(batch(pair)))
    pair.target.run("TRUNCATE t", "DELETE FROM u WHERE id > 7")
    seen: list[Any] = []
    with pytest.raises(RunFailed, match="1 of 3 tables are not done"):
        seen.extend(copy_all(batch(pair)))
    messages = [event.message for event in seen if isinstance(event, Warned)]
    assert any("public.t" in each and "expected 300 rows" in each for each in messages)
    assert any("public.u" in each and "found 7" in each for each in messages)
    assert not any("public.v" in each for each in messages)


def test_a_batch_loads_emptied_tables_again_if_asked_to(pair: Pair) -> None:
    pair.both(TABLE, "CREATE TABLE u (LIKE t)", "CREATE TABLE v (LIKE t)")
    pair.source.run(FILL, "INSERT INTO u SELECT * FROM t", "INSERT INTO v SELECT * FROM t")
    list(copy_all(batch(pair)))
    pair.target.run("TRUNCATE t", "DROP TABLE u")
    seen: list[Any] = list(copy_all(batch(pair), renew=True))
    assert seen[-1].status == "done"
    assert [pair.target.count(f"public.{name}") for name in "tuv"] == [300, 300, 300]
    assert sum("starts over" in each.message for each in seen if isinstance(each, Warned)) == 2


# Planning again


def renewed(pair: Pair, **options: Any) -> str:
    spec = pair.spec(**{"run_id": "r", **KEYED, **options})
    reason = create(spec, renew=True).renewed
    list(resume("r", **ends(pair)))
    return reason


@pytest.mark.parametrize("how", ["truncated", "deleted", "dropped", "recreated"])
def test_a_run_whose_rows_are_gone_is_planned_again(loaded: Pair, how: str) -> None:
    loaded.target.run(*LOST[how])
    assert "has lost the 300 rows" in renewed(loaded)
    assert loaded.target.count() == 300
    assert renewed(loaded) == ""
    assert loaded.target.count() == 300


def test_a_run_is_planned_again_after_another_run_has_replaced_its_rows(loaded: Pair) -> None:
    loaded.events(run_id="other", mode="truncate", **KEYED)
    loaded.target.run("ALTER TABLE t DROP CONSTRAINT t_pkey")
    assert "was emptied by run other" in renewed(loaded)
    assert loaded.target.count() == 600


@pytest.mark.parametrize("how", ["swapped", "view"])
def test_rows_are_not_added_to_a_table_that_may_have_them(loaded: Pair, how: str) -> None:
    loaded.target.run(*LOST[how])
    before = loaded.target.count()
    with pytest.raises(TargetChanged, match="may double them"):
        renewed(loaded)
    assert loaded.target.count() == before


def test_a_run_with_other_options_is_planned_again_if_that_doubles_nothing(loaded: Pair) -> None:
    with pytest.raises(SpecMismatch, match=r"has loaded 300 rows into public\.t"):
        renewed(loaded, partitions=2)
    loaded.target.run("CREATE TABLE elsewhere (LIKE t)")
    assert "--target-table" in renewed(loaded, target_table="public.elsewhere")
    assert loaded.target.count("public.elsewhere") == 300
    assert loaded.target.count() == 300
    assert "--mode" in renewed(loaded, mode="truncate")
    assert loaded.target.count() == 300


def test_a_run_that_has_loaded_nothing_is_planned_again(pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    create(pair.spec(run_id="r", **KEYED))
    changes: list[dict[str, Any]] = [{"partitions": 2}, {"where": "id < 11"}]
    for change in changes:
        assert create(pair.spec(run_id="r", **{**KEYED, **change}), renew=True).renewed
    assert len(list(resume("r", **ends(pair)))) > 1
    assert pair.target.count() == 10
