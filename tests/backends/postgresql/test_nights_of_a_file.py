"""Nights of a file of many tables: each table with its own options, all in one snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import (
    PlanningError,
    RunFailed,
    UsageError,
    batch_of_file,
    copy_all,
    plan_all,
    resume_all,
)
from penstock.events import BatchFinished, Committed, Event, Merged

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TEXT = """
source = "{source}"
target = "{target}"
degree = 2

[defaults]
mode = "upsert"
incremental = "xmin"
deletes = "hard,50%,1000"

[tables."public.*"]

[tables."public.log_*"]
mode = "append"

[tables."public.rates"]
mode = "truncate"

[tables."public.secrets"]
skip = true
"""


@pytest.fixture
def shop(pair: Pair, tmp_path: Path) -> Pair:
    for name in ("orders", "items", "log_visits", "rates", "secrets"):
        key = "" if name == "rates" else "PRIMARY KEY"
        pair.source.run(
            f"CREATE TABLE {name} (id int {key}, v text)",
            f"INSERT INTO {name} SELECT i, 'v' || i FROM generate_series(1, 500) i",
        )
    text = TEXT.format(source=pair.source.url, target=pair.target.url)
    (tmp_path / "penstock.toml").write_text(text, encoding="utf-8")
    return pair


@pytest.fixture
def file(shop: Pair, tmp_path: Path) -> str:
    return str(tmp_path / "penstock.toml")


def night(file: str, **overrides: Any) -> list[Event]:
    return list(copy_all(batch_of_file(file, overrides)))


def failing(file: str, **overrides: Any) -> BatchFinished:
    seen: list[Event] = []
    with pytest.raises(RunFailed):
        seen.extend(copy_all(batch_of_file(file, overrides)))
    assert isinstance(seen[-1], BatchFinished)
    return seen[-1]


def statuses(end: Event) -> dict[str, str]:
    assert isinstance(end, BatchFinished)
    return {table.table.removeprefix("public."): table.status for table in end.tables}


def merged(events: list[Event]) -> dict[str, tuple[int, int, int]]:
    end = events[-1]
    assert isinstance(end, BatchFinished)
    names = {table.run_id: table.table for table in end.tables}
    return {
        names[event.run_id]: (event.inserted, event.updated, event.deleted)
        for event in events
        if isinstance(event, Merged)
    }


def change(shop: Pair) -> None:
    for name in ("orders", "items"):
        shop.source.run(
            f"UPDATE {name} SET v = 'new' WHERE id % 100 = 0",
            f"DELETE FROM {name} WHERE id <= 3",
            f"INSERT INTO {name} VALUES (1000, 'more')",
        )


def test_each_table_is_copied_as_its_sections_say(shop: Pair, file: str) -> None:
    shop.target.run(
        "CREATE TABLE log_visits (id int, v text)", "CREATE TABLE rates (id int, v text)"
    )
    assert set(statuses(night(file)[-1]).values()) == {"done"}
    change(shop)
    shop.source.run("DELETE FROM rates WHERE id > 10")
    tonight = night(file)
    assert merged(tonight) == {"public.orders": (1, 5, 3), "public.items": (1, 5, 3)}
    for name in ("orders", "items", "rates"):
        shop.assert_same(f"public.{name}")
    assert shop.target.count("log_visits") == 1000
    assert shop.target.rows("SELECT to_regclass('public.secrets')") == [(None,)]


def test_one_snapshot_serves_all_tables_of_a_night(shop: Pair, file: str) -> None:
    night(file, exclude="log_*", mode="upsert")
    change(shop)
    later = False
    for event in copy_all(batch_of_file(file, {"exclude": ["log_*"], "degree": 1})):
        if isinstance(event, Committed) and not later:
            later = True
            for name in ("orders", "items"):
                shop.source.run(f"INSERT INTO {name} VALUES (2000, 'later')")
    assert later
    for name in ("orders", "items"):
        assert shop.target.rows(f"SELECT count(*) FROM {name} WHERE id = 2000") == [(0,)]


def test_a_failed_table_is_retried_alone(shop: Pair, file: str) -> None:
    night(file, exclude="log_*")
    change(shop)
    shop.target.run("ALTER TABLE items ADD CHECK (v <> 'new')")
    end = failing(file, exclude="log_*")
    assert statuses(end) == {"orders": "done", "items": "failed", "rates": "done"}
    shop.assert_same("public.orders")
    shop.target.run("ALTER TABLE items DROP CONSTRAINT items_v_check")
    # Among the tables of the file, with its options from there.
    alone = night(file, tables="public.items")
    assert merged(alone) == {"public.items": (1, 5, 3)}
    assert statuses(alone[-1]) == {"items": "done"}
    shop.assert_same("public.items")


def test_a_batch_is_continued_by_its_name(shop: Pair, file: str) -> None:
    night(file, exclude="log_*")
    change(shop)
    shop.target.run("ALTER TABLE items ADD CHECK (v <> 'new')")
    failed = failing(file, exclude="log_*", run_id="tuesday")
    assert failed.run_id == "tuesday"
    shop.target.run("ALTER TABLE items DROP CONSTRAINT items_v_check")
    events = night(file, exclude="log_*", run_id="tuesday")
    assert set(statuses(events[-1]).values()) == {"done"}
    # The other tables were done, and are not copied again.
    assert merged(events) == {"public.items": (1, 5, 3)}


def test_a_batch_is_continued_with_another_limit_of_deletes(shop: Pair, file: str) -> None:
    """It applies to the tables that delete rows."""
    night(file)
    shop.source.run("DELETE FROM orders")
    with pytest.raises(RunFailed):
        night(file, run_id="second")
    ends: dict[str, Any] = {"source": shop.source.url, "target": shop.target.url}
    with pytest.raises(UsageError, match="--deletes soft: the tables of batch second have hard,50"):
        list(resume_all("second", **ends, deletes="soft"))
    with pytest.raises(RunFailed, match="1 of 4 tables"):  # the rows of log_visits are there
        list(resume_all("second", **ends, deletes="hard,100%"))
    assert shop.target.count("orders") == 0


def test_a_plan_changes_nothing_and_shows_how_each_table_would_be_copied(
    shop: Pair, file: str
) -> None:
    *plans, end = plan_all(batch_of_file(file))
    found = {plan.table: plan.mode for plan in plans}  # type: ignore[union-attr]
    assert found == {
        "public.items": "upsert",
        "public.log_visits": "append",
        "public.orders": "upsert",
        "public.rates": "truncate",
    }
    assert shop.target.rows("SELECT to_regclass('public.orders')") == [(None,)]
    assert end.tables == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[tables."public.order"]\n', [':19: [tables."public.order"]', "matches no table"]),
        ('[tables."public.lag_*"]\nmode = "append"\n', [':19: [tables."public.lag_*"]']),
        # An exclusion that matches nothing would let an unwanted table in.
        ('[tables."public.secret"]\nskip = true\n', [':19: [tables."public.secret"]']),
        ("[tables.nothing]\n", ["whose search path is public"]),
        (
            '[tables."public.*s"]\nmode = "append"\n[tables."public.r*"]\nmode = "swap"\n',
            ["mode: 'swap' conflicts with 'append'", "matches public.rates"],
        ),
    ],
)
def test_an_invalid_section_stops_everything_before_any_change(
    shop: Pair, file: str, section: str, words: list[str]
) -> None:
    text = (
        Path(file)
        .read_text(encoding="utf-8")
        .replace('[tables."public.rates"]\nmode = "truncate"\n', "")
    )
    Path(file).write_text(text + section, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        night(file)
    for word in words:
        assert word in error.value.message
    assert shop.target.rows("SELECT to_regclass('public.orders')") == [(None,)]


def test_tables_on_the_command_line_select_from_the_file(shop: Pair, file: str) -> None:
    shop.source.run("CREATE TABLE other (id int PRIMARY KEY)", "CREATE SCHEMA sales")
    shop.source.run("CREATE TABLE sales.other (id int PRIMARY KEY)")
    with pytest.raises(UsageError, match=r"--tables: 'public\.nothing' matches no table"):
        night(file, tables="public.nothing")
    with pytest.raises(UsageError, match=r"leaves out every table that the sections match"):
        night(file, tables="sales.*")
    assert statuses(night(file, tables="*.oth*")[-1]) == {"other": "done"}


def test_a_view_is_copied_if_it_is_named(shop: Pair, file: str) -> None:
    shop.source.run("CREATE VIEW v_rates AS SELECT * FROM rates WHERE id < 5")
    assert "v_rates" not in statuses(night(file, exclude="log_*")[-1])
    with open(file, "a", encoding="utf-8") as end:
        end.write('[tables."public.v_rates"]\nmode = "truncate"\ntarget-table = "dw.rates"\n')
    shop.target.run("CREATE SCHEMA dw", "CREATE TABLE dw.rates (id int, v text)")
    assert statuses(night(file, exclude="log_*")[-1])["v_rates"] == "done"
    assert shop.target.count("dw.rates") == 4


def test_the_command_for_the_folder(
    shop: Pair, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.cli.main import main  # noqa: PLC0415

    monkeypatch.chdir(Path(file).parent)
    assert main(["copy-all", "--exclude", "log_*", "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["status"] == "done"
    shop.target.run("ALTER TABLE items ADD CHECK (v <> 'new') NOT VALID")
    change(shop)
    assert main(["copy-all", "--exclude", "log_*"]) == 65
    assert "penstock copy-all penstock.toml --exclude 'log_*' --run-id" in capsys.readouterr().err


def test_a_mask_for_all_tables_adds_to_those_of_a_table(shop: Pair, file: str) -> None:
    shop.source.run(
        "CREATE TABLE customers (id int PRIMARY KEY, email text, phone text)",
        "INSERT INTO customers VALUES (1, 'ann@example.org', '555')",
        "CREATE TABLE contacts (id int PRIMARY KEY, work_email text)",
        "INSERT INTO contacts VALUES (1, 'bob@example.org')",
    )
    text = Path(file).read_text(encoding="utf-8")
    text = text.replace("[defaults]", '[defaults]\nmask = { "*email" = "null" }')
    text += '[tables."public.customers"]\nmask = { phone = "null" }\n'
    Path(file).write_text(text, encoding="utf-8")
    ended = statuses(night(file, exclude="log_*")[-1])
    assert ended["customers"] == ended["contacts"] == "done"
    assert shop.target.rows("SELECT * FROM customers") == [(1, None, None)]
    assert shop.target.rows("SELECT * FROM contacts") == [(1, None)]
    # Nor does it matter that a table lacks the column, whether it is copied alone or not.
    assert ended["orders"] == "done"
    assert statuses(night(file, tables="public.orders")[-1]) == {"orders": "done"}
    # A mask that matches no table's column is refused, whatever is copied.
    Path(file).write_text(text.replace("*email", "*e-mail"), encoding="utf-8")
    with pytest.raises(PlanningError, match=r"no table of the batch has a column '\*e-mail'"):
        night(file, tables="public.orders")
