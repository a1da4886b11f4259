"""Watermarks: what advances them, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.one_copy import OneCopy

import penstock
from penstock import PlanningError
from penstock.cli.main import main

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

NAME = "public.items to public.items"
NIGHT = {"mode": "upsert", "incremental": "xmin"}
ALL = "SELECT * FROM items ORDER BY id"


@pytest.fixture
def items(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text)",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 5000) AS i",
    )
    return pair


def night(pair: Pair, **options: Any) -> OneCopy:
    arguments = {**NIGHT, "table": "public.items", **options}
    return OneCopy(source=pair.source.url, target=pair.target.url, **arguments)


def test_rows_read_in_their_current_state_leave_the_watermark_unchanged(items: Pair) -> None:
    night(items).done()
    (first,) = penstock.watermarks(target=items.target.url)
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    run = penstock.create(
        items.spec("public.items", **NIGHT, strategy="hash", key="id", partitions=2)
    ).run
    one, other = (partition.id for partition in run.plan.partitions)
    for _ in penstock.resume(run.run_id, **ends, only=[one], finish=False):
        pass
    items.source.run("UPDATE items SET word = 'later'")
    for _ in penstock.resume(run.run_id, **ends, only=[other], as_of_now=True):
        pass
    for _ in penstock.resume(run.run_id, **ends):
        pass
    (second,) = penstock.watermarks(target=items.target.url)
    assert (second.epoch, second.horizon) == (2, first.horizon)
    third = night(items).done()
    assert third.rows == 5000
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_a_watermark_that_is_set_back_keeps_the_targets_state(items: Pair) -> None:
    night(items).done()
    items.source.run("INSERT INTO items VALUES (5001, 'new')")
    night(items).done()
    penstock.set_watermark(NAME, epoch=1, target=items.target.url)
    again = items.plan("public.items", **NIGHT)
    assert again.night is not None
    assert again.night.full == ""
    items.target.run("DELETE FROM items WHERE id = 7")
    with pytest.raises(PlanningError, match=r"had 5,001 rows .* has 5,000 now"):
        items.plan("public.items", **NIGHT, on_target_changed="fail")


def test_status_shows_the_nights_of_a_watermark(
    items: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    target = items.target.url
    night(items, run_id="first").done()
    overtaken = penstock.create(items.spec("public.items", **NIGHT, run_id="overtaken")).run
    night(items, run_id="second").done()
    assert main(["status", "first", "--target", target]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"watermark {NAME} reads all rows, since this is the first night" in output
    assert "epoch 1: 5,000 inserted, 0 updated, 0 deleted" in output
    main(["status", overtaken.run_id, "--target", target])
    assert "overtaken by second, as of " in " ".join(capsys.readouterr().out.split())


def test_all_rows_are_read_occasionally(items: Pair) -> None:
    night(items, full_every="60d").done()
    assert night(items, full_every="60d").done().rows == 0
    assert night(items, full_every="1ms").done().rows == 5000
