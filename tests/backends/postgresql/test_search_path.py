"""Tables named without a schema are looked up by the search path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import (
    BatchSpec,
    CopySpec,
    PlanningError,
    UsageError,
    copy_all,
    create,
    resume,
    status,
)
from penstock.events import BatchFinished, Event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.backends.conftest import Pair


def with_path(url: str, path: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{path}"


@pytest.fixture
def shops(pair: Pair) -> Pair:
    """A source with tables of the same name in two schemas, and a separate target."""
    pair.source.run(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders AS SELECT generate_series(1, 7) AS id",
        "CREATE TABLE public.orders AS SELECT generate_series(1, 3) AS id",
        "CREATE TABLE shop.items (id int)",
        "CREATE TABLE shop.items_log (id int)",
    )
    pair.target.run("CREATE SCHEMA dw", "CREATE TABLE dw.orders (id int)", "CREATE SCHEMA shop")
    return pair


def spec(pair: Pair, source: str, target: str, **options: object) -> CopySpec:
    return CopySpec(
        source=with_path(pair.source.url, source),
        target=with_path(pair.target.url, target),
        **{"table": "orders", **options},  # type: ignore[arg-type]
    )


class TestTable:
    def test_is_found_by_the_search_path_of_each_side(self, shops: Pair) -> None:
        request = spec(shops, "shop,public", "dw,public", run_id="r")
        created = create(request).run
        assert (created.spec["table"], created.spec["target_table"]) == ("shop.orders", "dw.orders")
        assert created.plan.reasons[:2] == (
            "table orders: shop.orders, by the source's search path",
            "target table orders: dw.orders, by the target's search path",
        )
        list(resume("r", source=request.source, target=request.target))
        assert shops.target.count("dw.orders") == 7

    def test_missing_in_the_target_is_named_as_in_the_source(self, shops: Pair) -> None:
        created = create(spec(shops, "shop", "public", mode="recreate", run_id="r")).run
        assert (created.spec["table"], created.spec["target_table"]) == (
            "shop.orders",
            "shop.orders",
        )
        assert created.plan.reasons[1] == (
            "target table orders: shop.orders, as in the source, since the target's search path "
            "(public) has no orders"
        )

    def test_of_another_name_goes_into_the_first_schema(self, shops: Pair) -> None:
        request = spec(shops, "shop", "dw", target_table="bills", mode="recreate", run_id="r")
        assert create(request).run.spec["target_table"] == "dw.bills"

    def test_not_found_is_reported_with_the_path(self, shops: Pair) -> None:
        with pytest.raises(PlanningError) as caught:
            create(spec(shops, "public,shop", "dw", table="bills"))
        assert caught.value.message == (
            "--table bills: no such table in the source's search path (public, shop); name its "
            "schema, as in SCHEMA.bills"
        )
        assert not shops.has_control_schema()

    def test_a_resumed_run_ignores_changes_of_the_path(self, shops: Pair) -> None:
        shops.target.run("CREATE TABLE public.orders (id int)")
        create(spec(shops, "shop", "dw", run_id="r"))
        again = create(spec(shops, "public", "public", run_id="r"))
        assert again.run.spec["table"] == "shop.orders"
        assert status("r", target=shops.target.url).run.spec["target_table"] == "dw.orders"

    def test_on_the_command_line_in_a_file_and_in_the_plan(
        self, shops: Pair, tmp_path: Path
    ) -> None:
        request = spec(shops, "shop", "dw")
        ends = ["--source", request.source, "--target", request.target]
        shown = shops.cli("plan", "--table", "orders", *ends)
        assert shown.returncode == 0, shown.stderr
        assert "table orders: shop.orders, by the source's search path" in shown.stdout
        file = tmp_path / "orders.toml"
        file.write_text('table = "orders"\n')
        done = shops.cli("copy", str(file), *ends)
        assert done.returncode == 0, done.stderr
        assert "target table orders: dw.orders, by the target's search path" in done.stderr
        assert shops.target.count("dw.orders") == 7


class TestBatch:
    def test_patterns_without_a_schema_follow_the_search_path(self, shops: Pair) -> None:
        request = BatchSpec.from_mapping(
            {
                "source": with_path(shops.source.url, "shop"),
                "target": shops.target.url,
                "tables": ["items*", "orders"],
                "exclude": ["*_log"],
                "mode": "recreate",
            },
            "test",
        )
        end = list(copy_all(request))[-1]
        assert isinstance(end, BatchFinished)
        assert [table.table for table in end.tables] == ["shop.items", "shop.orders"]

    def test_a_section_without_a_schema_applies_to_the_table_found(self, shops: Pair) -> None:
        request = BatchSpec.from_mapping(
            {
                "source": with_path(shops.source.url, "shop"),
                "target": with_path(shops.target.url, "dw"),
                "tables": ["shop.*"],
                "mode": "recreate",
                "table": [{"table": "orders", "mode": "truncate"}, {"table": "nowhere"}],
            },
            "test",
        )
        seen: list[Event] = []
        with pytest.raises(Exception, match="1 of 4 tables"):
            seen.extend(copy_all(request))
        end = seen[-1]
        assert isinstance(end, BatchFinished)
        assert {(table.table, table.target_table, table.status) for table in end.tables} == {
            ("shop.orders", "dw.orders", "done"),
            ("nowhere", "nowhere", "failed"),
            ("shop.items", "shop.items", "done"),
            ("shop.items_log", "shop.items_log", "done"),
        }

    def test_a_pattern_that_matches_nothing_is_reported_with_the_path(self, shops: Pair) -> None:
        request = BatchSpec.from_mapping(
            {
                "source": with_path(shops.source.url, "public"),
                "target": shops.target.url,
                "tables": ["items"],
            },
            "test",
        )
        with pytest.raises(
            UsageError, match=r"'items' matches no table of the source, whose search path is public"
        ):
            list(copy_all(request))


def test_a_duckdb_file_has_a_search_path(shops: Pair, tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    source = with_path(shops.source.url, "shop")
    into = CopySpec(source=source, target=f"duckdb:///{file}", table="orders", create=True)
    created = create(into).run
    assert created.spec["target_table"] == "shop.orders"
    named = CopySpec(source=source, target=f"duckdb:///{file}", table="orders", target_table="t")
    assert create(named).run.spec["target_table"] == "main.t"


def test_a_folder_has_no_search_path(shops: Pair, tmp_path: Path) -> None:
    created = create(
        CopySpec(source=with_path(shops.source.url, "shop"), target=f"{tmp_path}/o", table="orders")
    ).run
    assert created.spec["table"] == "shop.orders"
