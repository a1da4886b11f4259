"""`penstock verify --repair`: only the ranges that differ are copied again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import (
    CopySpec,
    PermanentError,
    UsageError,
    copy,
    create,
    plan_repair,
    repair_run,
    verify,
)
from penstock.cli.main import main
from penstock.engine.repair import Repair
from penstock.events import Finished

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ROWS = 1000
RUN = "shop"
TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, note text, amount numeric(10, 2))"
FILL = "INSERT INTO public.t SELECT n, 'n' || n, n * 1.5 FROM generate_series(1, 1000) AS n"
CONTENT = "SELECT * FROM public.t ORDER BY id"


NAMED = "SELECT run_id FROM penstock.run WHERE run_id LIKE 'shop-repair-%'"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def shop(pair: Pair) -> Pair:
    pair.source.run(TABLE, FILL, "ANALYZE public.t")
    return pair


def load(pair: Pair, **options: Any) -> None:
    options = {"mode": "recreate", "table": "public.t", "degree": 2, **options}
    list(copy(CopySpec(source=pair.source.url, target=pair.target.url, run_id=RUN, **options)))


def ends(pair: Pair) -> dict[str, Any]:
    return {"source": pair.source.url, "target": pair.target.url}


def planned(pair: Pair, **options: Any) -> Repair:
    return plan_repair(RUN, **ends(pair), rows_per_range=100, **options)


def repaired(pair: Pair, **options: Any) -> Finished:
    last = list(repair_run(planned(pair, **options)))[-1]
    assert isinstance(last, Finished)
    assert pair.target.rows(CONTENT) == pair.source.rows(CONTENT)
    return last


SPOIL = (
    "UPDATE public.t SET note = 'by hand' WHERE id = 250",
    "DELETE FROM public.t WHERE id BETWEEN 410 AND 412",
    "INSERT INTO public.t VALUES (5000, 'only here', 1)",
)


@pytest.mark.parametrize("mode", ["recreate", "truncate", "append", "swap", "replace", "upsert"])
def test_only_the_ranges_that_differ_are_copied_again(shop: Pair, mode: str) -> None:
    if mode != "recreate":
        shop.target.run(TABLE)
    cut = {"strategy": "range", "key": "id", "partitions": 4} if mode == "replace" else {}
    load(shop, mode=mode, **cut)
    shop.target.run(*SPOIL)
    found = planned(shop, max_deletes="1%,10")
    assert 3 == len(found.ranges) < found.compared
    finished = repaired(shop, max_deletes="1%,10")
    assert finished.rows < ROWS / 2
    assert verify(finished.run_id, **ends(shop), checksum=True).ok
    assert not planned(shop).ranges


def test_nothing_is_written_if_nothing_differs(shop: Pair) -> None:
    load(shop)
    found = planned(shop)
    assert not found.ranges
    assert found.compared >= 8


def test_later_changes_of_the_source_arrive(shop: Pair) -> None:
    load(shop)
    shop.source.run(
        "UPDATE public.t SET note = 'new' WHERE id = 990",
        "INSERT INTO public.t VALUES (-5, 'before all others', 1), (9999, 'after them', 1)",
        "DELETE FROM public.t WHERE id = 1",
    )
    repaired(shop)


def test_a_night_is_repaired(shop: Pair) -> None:
    """The rows of many nights form one table; the next night continues where the last one ended."""
    shop.target.run(TABLE)
    night: dict[str, Any] = {"mode": "upsert", "incremental": "xmin", "deletes": "hard"}
    load(shop, **night)
    shop.target.run("UPDATE public.t SET amount = 0 WHERE id = 77")
    repaired(shop)
    shop.source.run("UPDATE public.t SET note = 'later' WHERE id = 300")
    spec = CopySpec(**ends(shop), table="public.t", run_id="next", **night)
    finished = list(copy(spec))[-1]
    assert isinstance(finished, Finished)
    assert finished.rows < 10
    assert shop.target.rows(CONTENT) == shop.source.rows(CONTENT)


def test_rows_outside_the_condition_are_kept(shop: Pair) -> None:
    shop.target.run(TABLE, "INSERT INTO public.t VALUES (9000, 'of somebody else', 1)")
    load(shop, mode="replace", strategy="range", key="id", where="id <= 600")
    shop.target.run("UPDATE public.t SET note = '' WHERE id IN (5, 600)")
    list(repair_run(planned(shop)))
    assert shop.target.rows("SELECT count(*) FROM public.t WHERE note = ''") == [(0,)]
    assert shop.target.rows("SELECT note FROM public.t WHERE id > 600") == [("of somebody else",)]


def test_rows_of_unknown_origin_are_not_deleted_unasked(shop: Pair) -> None:
    shop.target.run(TABLE, "INSERT INTO public.t VALUES (9000, 'of somebody else', 1)")
    load(shop, mode="append")
    with pytest.raises(
        PermanentError, match=r"at least 1 row of 1,001 .* in mode append they may come"
    ):
        planned(shop)
    assert len(shop.target.rows(CONTENT)) == ROWS + 1


def test_an_emptied_source_does_not_empty_the_target(shop: Pair) -> None:
    load(shop)
    shop.source.run("DELETE FROM public.t WHERE id > 2")
    with pytest.raises(PermanentError, match="at least 998 rows"):
        planned(shop, max_deletes="30%")
    repaired(shop, max_deletes="100%")


@pytest.mark.parametrize(
    ("options", "before", "message"),
    [
        ({}, "ALTER TABLE public.t DROP CONSTRAINT t_pkey", "expected public.t to have a primary"),
        (
            {"mode": "upsert", "incremental": "xmin", "deletes": "soft"},
            "",
            "marks deleted rows",
        ),
    ],
)
def test_a_run_that_cannot_be_repaired(
    shop: Pair, options: dict[str, Any], before: str, message: str
) -> None:
    load(shop, **options)
    if before:
        shop.target.run(before)
    with pytest.raises(UsageError, match=message):
        planned(shop)


def test_an_incomplete_run_is_refused(shop: Pair) -> None:
    shop.target.run(TABLE)
    create(CopySpec(**ends(shop), table="public.t", mode="append", run_id=RUN))
    with pytest.raises(
        UsageError, match=r"p0\w* not committed\); continue it with penstock resume"
    ):
        planned(shop)


def test_repair_on_the_command_line(shop: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    load(shop)
    words = ["verify", RUN, "--source", shop.source.url, "--target", shop.target.url, "--repair"]
    assert main([*words]) == 0
    assert "nothing to repair: 1 range compared" in capsys.readouterr().out
    shop.target.run(*SPOIL)
    assert main([*words, "--dry-run"]) == 65
    shown = capsys.readouterr().out
    assert "1 range of 1 differs" in shown
    assert "1,000" in shown
    assert main([*words, "--dry-run", "--json"]) == 65
    found = json.loads(capsys.readouterr().out)
    assert found["of"] == RUN
    assert [each["target"] for each in found["ranges"]] == [998]
    assert shop.target.rows(CONTENT) != shop.source.rows(CONTENT)
    assert main(words) == 0
    assert shop.target.rows(CONTENT) == shop.source.rows(CONTENT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-deletes", "1%"], "--max-deletes requires --repair"),
        (["--dry-run"], "--dry-run requires --repair"),
        (["--repair", "--show-rows"], "--show-rows, --repair: found both"),
        (["--repair", "--max-deletes", "many"], "--max-deletes: expected a percentage"),
    ],
)
def test_incompatible_options(
    shop: Pair, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load(shop)
    shop.target.run(SPOIL[2])
    command = ["verify", RUN, "--source", shop.source.url, "--target", shop.target.url, *words]
    assert main(command) == 64
    assert message in capsys.readouterr().err


def test_a_killed_repair_is_resumed(shop: Pair) -> None:
    load(shop)
    shop.target.run("UPDATE public.t SET note = ''")
    with psycopg.connect(shop.target.url) as blocker:
        blocker.execute("SELECT * FROM public.t WHERE id = 500 FOR UPDATE")
        words = ["--source", shop.source.url, "--target", shop.target.url]
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "verify", RUN, *words, "--repair"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        run_id = ""
        for _ in range(600):
            found = shop.target.rows(NAMED)
            if found and shop.target.rows(WAITING):
                run_id = found[0][0]
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        message = process.communicate()[1]
        blocker.rollback()
    assert run_id, message
    assert main(["resume", run_id, *words]) == 0
    assert shop.target.rows(CONTENT) == shop.source.rows(CONTENT)


def test_masked_columns_are_repaired(shop: Pair) -> None:
    """A range is loaded with the run's masks, and compared through them."""
    load(shop, mask=("note=hash",), exclude_columns=("amount",))
    before = shop.target.rows(CONTENT)
    shop.target.run("UPDATE public.t SET note = 'plain' WHERE id IN (3, 700)")
    found = planned(shop)
    assert len(found.ranges) == 2
    list(repair_run(found))
    assert shop.target.rows(CONTENT) == before
