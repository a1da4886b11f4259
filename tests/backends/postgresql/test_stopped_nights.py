"""Interrupted nights: what happens to their stage, and to their search for deleted rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.one_copy import OneCopy

import penstock
from penstock import BatchSpec, copy_all
from penstock.errors import PenstockError, SnapshotLost
from penstock.events import Committed, Merged, SnapshotChanged, StepChanged
from penstock_testkit.waiting import until

from .test_nights import ALL, items, night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.conftest import Pair

    from penstock.events import Event

__all__ = ["items"]


def stopped(items: Pair, ends: Callable[[Event], bool], **options: Any) -> None:
    """Start a night that ends after an event, and so loses its snapshot."""
    spec = items.spec("public.items", mode="upsert", incremental="xmin", run_id="r", **options)
    with closing(penstock.copy(spec)) as events:
        next(event for event in events if ends(event))


def resumed(items: Pair, **options: Any) -> list[Event]:
    return list(penstock.resume("r", source=items.source.url, target=items.target.url, **options))


TABLE = "public.items"
PARTS = ("id <= 500", "id > 500")
CUT = {"strategy": "range", "key": "id", "partitions": 2, "degree": 1}


SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'penstock:%'"
)


def some(event: Event) -> bool:
    return isinstance(event, Committed)


def all_of_two(event: Event) -> bool:
    """Whether the next step is to look for deleted rows."""
    return isinstance(event, StepChanged)


@pytest.mark.parametrize("ends", [some, all_of_two])
@pytest.mark.parametrize("options", [{"deletes": "hard"}, {"deletes": "hard", "atomic": "table"}])
def test_a_night_whose_snapshot_is_lost_starts_over(
    items: Pair, ends: Callable[[Event], bool], options: dict[str, Any]
) -> None:
    night(items, deletes="hard").done()
    items.source.run("UPDATE items SET word = 'x' WHERE id IN (1, 999)")
    stopped(items, ends, **CUT, **options)
    items.source.run(
        "UPDATE items SET word = 'y' WHERE id IN (1, 999)", "DELETE FROM items WHERE id = 5"
    )
    events = resumed(items)
    (renewed,) = (e for e in events if isinstance(e, SnapshotChanged) and e.state == "renewed")
    assert "started over" in renewed.message
    (merged,) = (event for event in events if isinstance(event, Merged))
    assert (merged.updated, merged.deleted) == (2, 1)
    assert items.target.rows(ALL) == items.source.rows(ALL)


@pytest.mark.parametrize("ends", [some, all_of_two])
def test_a_night_set_to_fail_fails_and_says_what_to_do(
    items: Pair, ends: Callable[[Event], bool]
) -> None:
    night(items, deletes="hard").done()
    items.source.run("UPDATE items SET word = 'x' WHERE id IN (1, 999)")
    stopped(items, ends, **CUT, deletes="hard", on_snapshot_lost="fail")
    items.source.run("DELETE FROM items WHERE id = 5")
    with pytest.raises(SnapshotLost) as found:
        resumed(items)
    assert "--on-snapshot-lost restart (copy everything again" in str(found.value)
    resumed(items, on_snapshot_lost="restart")
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_a_night_that_accepts_a_later_snapshot_is_exact_after_the_next(items: Pair) -> None:
    night(items, deletes="hard").done()
    items.source.run("UPDATE items SET word = 'x' WHERE id IN (1, 999)")
    stopped(items, all_of_two, **CUT, deletes="hard")
    items.source.run(
        "UPDATE items SET word = 'y' WHERE id = 1",
        "INSERT INTO items VALUES (5000, 'new')",
        "DELETE FROM items WHERE id IN (5, 999)",
    )
    events = resumed(items, on_snapshot_lost="accept")
    assert [event.deleted for event in events if isinstance(event, Merged)] == [2]
    assert items.target.rows("SELECT word FROM items WHERE id = 1") == [("x",)]
    night(items, deletes="hard").done()
    assert items.target.rows(ALL) == items.source.rows(ALL)


@pytest.mark.parametrize("gathered", [1, 2])
def test_tables_merged_together_share_one_snapshot(items: Pair, gathered: int) -> None:
    """If one starts over, all do; if all were read, none does."""
    items.source.run("CREATE TABLE words (id int PRIMARY KEY, word text)")
    change = "INSERT INTO {} SELECT coalesce(max(id), 0) + 1 FROM {}"
    arguments: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    arguments |= {"tables": ["public.*"]}
    arguments |= {"mode": "upsert", "incremental": "xmin", "atomic": "batch", "degree": 1}
    batch = BatchSpec.from_mapping({**arguments, "run_id": "b"}, "test")
    with closing(copy_all(batch)) as events:
        for _ in range(gathered):
            next(event for event in events if isinstance(event, Committed))
    items.source.run(*(change.format(name, name) for name in ("items", "words")))
    list(copy_all(batch))
    assert [items.target.count(f"public.{name}") for name in ("items", "words")] == (
        [1001, 1] if gathered == 1 else [1000, 0]
    )
    moments = items.target.rows("SELECT DISTINCT content->>'moment' FROM penstock.watermark")
    assert len(moments) == 1


@pytest.mark.parametrize(
    ("ends", "deletes"), [(some, "ignore"), (some, "hard"), (all_of_two, "hard")]
)
def test_a_suspended_night_overtaken_by_another_merges_nothing(
    items: Pair, ends: Callable[[Event], bool], deletes: str
) -> None:
    """Its sessions have ended, so the other night did not wait for it, and dropped its stage."""
    night(items, deletes=deletes).done()
    items.source.run("UPDATE items SET word = 'x' WHERE id IN (1, 999)")
    arguments = {"mode": "upsert", "incremental": "xmin", "deletes": deletes, **CUT}
    asleep = penstock.copy(items.spec("public.items", run_id="r", **arguments))
    next(event for event in asleep if ends(event))
    items.target.run(SESSIONS)
    items.source.run("UPDATE items SET word = 'y' WHERE id IN (1, 999)")
    night(items, run_id="next", deletes=deletes).done()
    with pytest.raises(PenstockError) as caught:
        list(asleep)
    assert caught.value.transient
    assert "run next has moved it to epoch 2" in str(caught.value)
    assert items.target.rows(ALL) == items.source.rows(ALL)
    status = penstock.status("r", target=items.target.url)
    assert status.night is not None
    assert status.night.overtaken_by is not None
    assert status.night.overtaken_by.run_id == "next"


@pytest.mark.parametrize("both", [{"incremental": "xmin"}, {"atomic": "table"}])
def test_nights_of_parts_of_a_table_run_in_parallel(items: Pair, both: dict[str, Any]) -> None:
    first, second = ({"mode": "upsert", "deletes": "hard", **both, "where": w} for w in PARTS)
    if "incremental" in both:
        first["watermark"], second["watermark"] = "low", "high"
    for part in (first, second):
        OneCopy(source=items.source.url, target=items.target.url, table=TABLE, **part).done()
    items.source.run(
        "UPDATE items SET word = 'x' WHERE id IN (1, 999)", "DELETE FROM items WHERE id IN (7, 700)"
    )
    with closing(penstock.copy(items.spec(TABLE, run_id="r", **first))) as events:
        next(event for event in events if some(event))
        same = OneCopy(source=items.source.url, target=items.target.url, table=TABLE, **first)
        assert same.code == 75
        assert "run r (--mode upsert) is already writing these rows" in same.message
        OneCopy(source=items.source.url, target=items.target.url, table=TABLE, **second).done()
        list(events)
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_merges_of_parts_of_a_table_take_turns(items: Pair) -> None:
    arguments = {"mode": "upsert", "incremental": "xmin", "where": PARTS[0], "watermark": "low"}
    night(items, **arguments).done()
    items.source.run("UPDATE items SET word = 'x' WHERE id = 1")
    lock = 'SELECT pg_advisory_lock(hashtextextended(\'penstock:merge:"public"."items"\', 0))'
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(items.target.url, autocommit=True) as other:
        other.execute(lock)
        with ThreadPoolExecutor(1) as pool:
            merging = pool.submit(lambda: night(items, **arguments).done())
            until(lambda: items.target.rows(waits) == [(1,)] or None, 60, lambda: "nobody waits")
            assert items.target.rows("SELECT word FROM items WHERE id = 1") == [("w1",)]
            other.execute("SELECT pg_advisory_unlock_all()")
            merging.result()
    assert items.target.rows("SELECT word FROM items WHERE id = 1") == [("x",)]
