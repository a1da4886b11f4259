"""Assets without partitions: each run copies a whole table, with all available streams."""

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
    assert "| waiting for target |" in metadata["penstock/report"]
    assert "penstock report" in metadata["penstock/report"]
    (evaluation,) = run.evaluations
    assert evaluation.passed
    assert evaluation.asset_check_key == dg.AssetCheckKey(TABLE, "same_rows")
    warehouse.check_same()
    warehouse.source.execute("UPDATE public.t SET region = 'new' WHERE id = 5")
    assert warehouse.run(orders).ok
    warehouse.check_same()


def test_the_report_lists_omitted_objects(warehouse: Warehouse) -> None:
    warehouse.source.execute("GRANT SELECT ON public.t TO PUBLIC")
    run = warehouse.run(copying([warehouse.spec(mode="recreate")]))
    grant = 'GRANT SELECT ON TABLE "dw"."t" TO PUBLIC;'
    assert f"grants (1)\n    {grant}" in run.log
    assert grant in run.metadata()["penstock/report"]


def test_a_table_without_a_schema_is_found_in_the_search_path(warehouse: Warehouse) -> None:
    spec = warehouse.spec(table="t", target_table=None, mode="recreate")
    run = warehouse.run(copying([spec]))
    metadata = run.metadata(asset=dg.AssetKey("t"))
    assert metadata["penstock/source_table"] == "public.t"
    assert metadata["penstock/target_table"] == metadata["dagster/table_name"] == "public.t"
    assert metadata["dagster/uri"].endswith("/public/t")
    assert "target table t: public.t, as in the source" in run.log


def test_append_loads_a_table_once(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append", partitions=4)])
    first = warehouse.run(orders)
    assert first.metadata()["dagster/row_count"] == 1000
    assert warehouse.run(orders, after=first).ok
    second = warehouse.run(orders)
    assert not second.ok
    assert second.failure.description.startswith(
        "dw/t: mode append: an earlier materialization has loaded 1,000 rows into dw.t, the "
        "last at "
    )
    assert "would double them" in second.failure.description
    warehouse.check_same()


def test_only_a_failed_part_is_retried(warehouse: Warehouse) -> None:
    """Mode append retries it, too, although its other parts are already loaded."""
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 999)")
    # The source's own write counters may be late.
    options: dict[str, Any] = {"on_error": "continue", "on_snapshot_lost": "accept"}
    spec = warehouse.spec(mode="append", strategy="range", key="id", partitions=4, **options)
    orders = copying([spec])
    first = warehouse.run(orders)
    assert first.reported() == []
    assert first.failed == ["dw/t"]
    assert "violates check constraint" in first.failure.description
    assert warehouse.run(orders).failure.description.endswith("re-execute it from failure")
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    again = warehouse.run(orders, after=first)
    assert again.metadata()["dagster/row_count"] == 1000
    warehouse.check_same()
    assert len(warehouse.runs()) == 1


def test_a_differing_table_is_neither_swapped_in_nor_reported(warehouse: Warehouse) -> None:
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
    assert run.reported() == []
    assert [each.passed for each in run.evaluations] == [False]
    assert "source and target differ in their checksums" in run.failure.description
    assert warehouse.count() == 1


def test_the_lesser_degree_applies(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="truncate", partitions=4, degree=3)])
    for most, streams in ((1, "1 stream"), (2, "2 streams"), (8, "3 streams"), (None, "3 streams")):
        run = warehouse.run(orders, degree=most)
        planned = next(line for line in run.log.splitlines() if "planned" in line)
        assert planned.endswith(f"; {streams}"), planned


def test_missing_tables_and_variables_are_named(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
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


MENDED = """UPDATE public.t SET region = 'good' WHERE id = 999"""


@pytest.mark.parametrize("mode", ["append", "truncate", "replace", "upsert", "recreate", "swap"])
def test_a_run_is_re_executed_after_a_row_is_corrected(warehouse: Warehouse, mode: str) -> None:
    """Re-executed from failure, the run succeeds, and so do downstream assets."""
    options: dict[str, Any] = {"strategy": "hash", "key": "id"}
    if mode in ("recreate", "swap"):
        options = {"strategy": "range", "key": "id"}
    warehouse.target.execute("ALTER TABLE dw.t ADD CHECK (region <> 'bad')")
    warehouse.source.execute("UPDATE public.t SET region = 'bad' WHERE id = 999")
    if mode == "recreate":
        # A table that recreate makes must also reject the row.
        warehouse.target.execute("DROP TABLE dw.t")
        warehouse.target.execute(
            """CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                IF to_regclass('dw.t') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_constraint
                    WHERE conrelid = to_regclass('dw.t') AND conname = 'refused') THEN
                    ALTER TABLE dw.t ADD CONSTRAINT refused CHECK (region <> 'bad');
                END IF; END $$"""
        )
        warehouse.target.execute(
            "CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE TABLE')"
            " EXECUTE FUNCTION refuse()"
        )
    orders = copying(
        [
            warehouse.spec(
                mode=mode, partitions=4, verify="checksums", on_error="continue", **options
            )
        ]
    )
    reached: list[int] = []

    @dg.asset(deps=[TABLE])
    def downstream() -> None:
        reached.append(warehouse.count())

    first = warehouse.run(orders, downstream)
    assert not first.ok
    assert reached == []

    warehouse.source.execute(MENDED)
    again = warehouse.run(orders, downstream, after=first)
    assert again.ok, again.log
    assert reached == [1000]
    warehouse.check_same()
    assert all(evaluation.passed for evaluation in again.evaluations)
    (warning,) = [line for line in again.warnings if ", as requested" in line]
    assert warning.startswith("dw/t: warning: the remaining partitions: read as of ")
    report = again.metadata()["penstock/report"]
    assert "Read later than the rest, as of " in report


def test_an_automatic_retry_follows_on_snapshot_lost(warehouse: Warehouse) -> None:
    """Dagster's own retry follows `on_snapshot_lost`, unlike a user's re-execution."""
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (region <> 'bad')")
    warehouse.source.execute("UPDATE public.t SET region = 'bad' WHERE id = 999")
    orders = copying([warehouse.spec(mode="append", partitions=4, on_error="continue")])
    first = warehouse.run(orders)
    warehouse.source.execute(MENDED)
    retried = warehouse.run(orders, after=first, tags={"dagster/retry_number": "1"})
    assert not retried.ok
    assert 'on_snapshot_lost="accept"' in retried.failure.description
    assert "--on" not in retried.failure.description
    # A user's re-execution of the retry continues.
    assert warehouse.run(orders, after=retried).ok
    warehouse.check_same()
