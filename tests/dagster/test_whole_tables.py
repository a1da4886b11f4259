"""Assets without partitions: a table copied whole, by as many streams as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from penstock_testkit.servers import free_port

from .warehouse import TABLE, copying

if TYPE_CHECKING:
    from .warehouse import Warehouse


@pytest.mark.parametrize("mode", ["truncate", "replace", "upsert", "recreate", "swap"])
def test_every_mode_can_be_repeated(warehouse: Warehouse, mode: str) -> None:
    warehouse.target.execute("INSERT INTO dw.t VALUES (7, '2020-01-01', 'stale')")
    options: dict[str, Any] = {"strategy": "hash", "key": "id"} if mode == "replace" else {}
    if mode == "replace":
        warehouse.target.execute("DELETE FROM dw.t")
    orders = copying([warehouse.spec(mode=mode, partitions=3, verify="checksums", **options)])
    run = warehouse.run(orders)
    assert run.ok
    metadata = run.metadata()
    assert metadata["dagster/row_count"] == 1000
    assert metadata["penstock/partitions"] == metadata["penstock/attempts"] == 3
    assert metadata["penstock/bytes"] == warehouse.value(
        "SELECT sum(bytes)::int FROM penstock.commit_record"
    )
    assert metadata["penstock/report"].startswith("**done**: 3 of 3 partitions committed; 1,000 ")
    (evaluation,) = run.evaluations
    assert evaluation.passed
    assert evaluation.asset_check_key == dg.AssetCheckKey(TABLE, "same_rows")
    warehouse.check_same()
    warehouse.source.execute("UPDATE public.t SET region = 'new' WHERE id = 5")
    assert warehouse.run(orders).ok
    warehouse.check_same()


def test_append_loads_once(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append", partitions=4)])
    first = warehouse.run(orders)
    assert first.metadata()["dagster/row_count"] == 1000
    assert warehouse.run(orders, after=first).ok
    second = warehouse.run(orders)
    assert not second.ok
    assert second.failure.description.startswith(
        "dw/t: mode append: this asset has loaded dw.t before, 1,000 rows until "
    )
    assert "would double them" in second.failure.description
    warehouse.check_same()


def test_a_part_that_fails_is_retried_alone(warehouse: Warehouse) -> None:
    """Also with append, whose other parts are there already."""
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 999)")
    # What the source has counted of its own writes may come late.
    options: dict[str, Any] = {"on_error": "continue", "on_snapshot_lost": "accept"}
    spec = warehouse.spec(mode="append", strategy="range", key="id", partitions=4, **options)
    orders = copying([spec])
    first = warehouse.run(orders)
    assert first.told() == []
    assert first.failed == ["dw/t"]
    assert "violates check constraint" in first.failure.description
    assert warehouse.run(orders).failure.description.endswith("re-execute its run from failure")
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    again = warehouse.run(orders, after=first)
    assert again.metadata()["dagster/row_count"] == 1000
    warehouse.check_same()
    assert len(warehouse.runs()) == 1


def test_a_swap_that_differs_is_not_done_and_not_told(warehouse: Warehouse) -> None:
    warehouse.target.execute("INSERT INTO dw.t VALUES (7, '2020-01-01', 'old')")
    warehouse.target.execute(
        "CREATE FUNCTION change() RETURNS event_trigger LANGUAGE plpgsql AS $$"
        " DECLARE t text; BEGIN"
        " FOR t IN SELECT objid::regclass::text FROM pg_event_trigger_ddl_commands()"
        "  WHERE object_type = 'table' AND objid::regclass::text LIKE '%t__penstock%' LOOP"
        "  EXECUTE format('CREATE TRIGGER change BEFORE INSERT ON %s FOR EACH ROW"
        "   WHEN (NEW.id = 5) EXECUTE FUNCTION public.drop_row()', t); END LOOP; END $$"
    )
    warehouse.target.execute(
        "CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.region := 'changed'; RETURN NEW; END $$"
    )
    warehouse.target.execute(
        "CREATE EVENT TRIGGER change ON ddl_command_end WHEN TAG IN ('CREATE TABLE')"
        " EXECUTE FUNCTION change()"
    )
    run = warehouse.run(copying([warehouse.spec(mode="swap", verify="checksums")]))
    assert not run.ok
    assert run.told() == []
    assert [each.passed for each in run.evaluations] == [False]
    assert "source and target differ by their checksums" in run.failure.description
    assert warehouse.count() == 1


def test_degree_is_the_lesser(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="truncate", partitions=4, degree=3)])
    for most, streams in ((1, "1 stream"), (2, "2 streams"), (8, "3 streams"), (None, "3 streams")):
        run = warehouse.run(orders, degree=most)
        planned = next(line for line in run.log.splitlines() if "planned" in line)
        assert planned.endswith(f"; {streams}"), planned


def test_what_is_missing_is_named(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = warehouse.run(copying([warehouse.spec(mode="truncate", table="public.no")]))
    assert "public.no" in absent.failure.description
    assert absent.failed == ["dw/t"]
    retry = dg.RetryPolicy(max_retries=1)
    monkeypatch.setenv("PG_SRC", f"postgresql://me:sEcReT@127.0.0.1:{free_port()}/db")
    refused = warehouse.run(copying([warehouse.spec(mode="truncate")], retry_policy=retry))
    types = [event.event_type_value for event in refused.result.all_events]
    assert "STEP_UP_FOR_RETRY" in types
    assert "source: " in refused.failure.description
    assert "refused" in refused.failure.description
    assert "sEcReT" not in "".join(str(event) for event in refused.result.all_events)
    assert "sEcReT" not in refused.log
    monkeypatch.delenv("PG_SRC")
    unset = warehouse.run(copying([warehouse.spec(mode="truncate")], retry_policy=retry))
    assert "PG_SRC" in unset.failure.description
    types = [event.event_type_value for event in unset.result.all_events]
    assert "STEP_UP_FOR_RETRY" not in types
