"""Asset partitions of two dimensions: windows of time, crossed with values of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.definitions.partitions.subset import DefaultPartitionsSubset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

REGIONS = ["r0", "r1", "r2"]


def crossed(count: int = 10) -> dg.MultiPartitionsDefinition:
    """Return days crossed with regions, each with a third of a day's hundred rows in public.t."""
    return dg.MultiPartitionsDefinition(
        {"date": days(count), "region": dg.StaticPartitionsDefinition(REGIONS)}
    )


def key(day: int, region: str) -> dg.MultiPartitionKey:
    return dg.MultiPartitionKey({"date": f"2024-01-{day:02}", "region": region})


def selected(day: int, region: str) -> str:
    return f"day = '2024-01-{day:02}' AND region = '{region}'"


@pytest.mark.parametrize("mode", ["replace", "upsert", "append"])
def test_a_partition_has_the_rows_that_both_dimensions_select(
    warehouse: Warehouse, mode: str
) -> None:
    orders = copying(
        [warehouse.spec(key="day", mode=mode, verify="checksums")], partitions_def=crossed()
    )
    run = warehouse.run(orders, key=key(3, "r1"))
    assert run.ok, run.log
    assert run.reported() == ["2024-01-03|r1"]
    metadata = run.metadata("2024-01-03|r1")
    assert metadata["dagster/partition_row_count"] == warehouse.count() == 33
    assert warehouse.count(where=selected(3, "r1")) == 33
    assert metadata["penstock/bounds"] == "day [2024-01-03, 2024-01-04) and region = r1"
    (evaluation,) = run.evaluations
    assert evaluation.passed
    assert evaluation.partition == "2024-01-03|r1"
    assert "1 partition, chosen in Dagster" in run.log
    again = warehouse.run(orders, key=key(3, "r1"))
    assert again.ok is (mode != "append")
    assert warehouse.count() == 33
    if mode == "append":
        assert "already has these partitions: 2024-01-03|r1 (33 rows" in again.failure.description


def test_a_range_of_partitions_is_a_rectangle(warehouse: Warehouse) -> None:
    """Dagster defines a range as the days from one to another, for some values."""
    orders = copying([warehouse.spec(key="day")], partitions_def=crossed())
    run = warehouse.run(orders, keys=("2024-01-02|r1", "2024-01-04|r2"))
    assert run.ok
    expected = {f"2024-01-0{day}|{region}" for day in (2, 3, 4) for region in ("r1", "r2")}
    assert set(run.reported()) == expected
    assert len(run.reported()) == len(expected)
    assert warehouse.count() == sum(run.rows().values()) == 200
    found = warehouse.instance.get_materialized_partitions(dg.AssetKey(["dw", "t"]))
    assert found == expected


@settings(max_examples=8, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.sets(st.sampled_from([str(k) for k in crossed(4).get_partition_keys()]), min_size=1))
def test_a_backfill_copies_each_partition_once(warehouse: Warehouse, keys: set[str]) -> None:
    """Any selection is copied once by the runs into which `single_run` cuts a backfill."""
    warehouse.target.execute("TRUNCATE dw.t")
    warehouse.target.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
    definition = crossed(4)
    orders = copying([warehouse.spec(key="day", mode="append")], partitions_def=definition)
    with dg.DagsterInstance.ephemeral() as instance:
        fresh = type(warehouse)(warehouse.source, warehouse.target, instance)
        reported: list[str | None] = []
        for found in DefaultPartitionsSubset(keys).get_partition_key_ranges(definition):
            run = fresh.run(orders, keys=(found.start, found.end))
            assert run.ok, run.log
            reported += run.reported()
    assert sorted(reported, key=str) == sorted(keys)
    expected = "\n OR ".join(
        f"({selected(int(day[-2:]), region)})"
        for day, _, region in (k.partition("|") for k in keys)
    )
    query = f"SELECT t::text FROM {{}} AS t WHERE {expected} ORDER BY 1"
    theirs = warehouse.target.execute("SELECT t::text FROM dw.t AS t ORDER BY 1").fetchall()
    assert theirs == warehouse.source.execute(query.format("public.t").encode()).fetchall()


def test_only_a_failed_partition_is_retried(warehouse: Warehouse) -> None:
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 101)")
    orders = copying([warehouse.spec(key="day", mode="append")], partitions_def=crossed())
    keys = ("2024-01-01|r0", "2024-01-02|r2")
    first = warehouse.run(orders, keys=keys)
    assert first.failed == ["dw/t 2024-01-02|r2"]
    assert len(first.reported()) == 5
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    again = warehouse.run(orders, keys=keys, after=first)
    assert again.reported() == ["2024-01-02|r2"]
    assert warehouse.count() == 200


def test_replacing_a_day_of_one_region_keeps_other_regions(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="day")], partitions_def=crossed())
    assert warehouse.run(orders, keys=("2024-01-01|r0", "2024-01-02|r2")).ok
    warehouse.target.execute("UPDATE dw.t SET id = id + 10000")
    assert warehouse.run(orders, key=key(2, "r0")).ok
    assert warehouse.count() == 200
    assert warehouse.count(where="id < 10000") == warehouse.count(where=selected(2, "r0")) == 33


def test_a_hint_if_neither_key_has_an_index(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="day")], partitions_def=crossed())
    run = warehouse.run(orders, key=key(1, "r0"))
    assert "neither of day and region has an index" in run.log
    warehouse.source.execute("CREATE INDEX ON public.t (region)")
    assert "has an index" not in warehouse.run(orders, key=key(1, "r0")).log


@pytest.mark.parametrize(
    ("dimensions", "options", "expected"),
    [
        (
            {"date": days(), "region": dg.DailyPartitionsDefinition("2024-01-01")},
            {},
            "expected a dimension of time windows",
        ),
        (
            {"a": dg.StaticPartitionsDefinition(["x"]), "b": dg.StaticPartitionsDefinition(["y"])},
            {},
            "found a: StaticPartitionsDefinition, b: StaticPartitionsDefinition",
        ),
        ({}, {"key": "region"}, "key: expected the column of the time windows (date); found"),
        ({}, {"mode": "attach"}, "since the target's child tables are bounded by one key"),
        ({}, {"strategy": "time"}, "strategy: expected auto with MultiPartitionsDefinition"),
    ],
)
def test_an_invalid_definition_is_rejected(
    warehouse: Warehouse, dimensions: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    definition = dg.MultiPartitionsDefinition(dimensions) if dimensions else crossed()
    with pytest.raises(dg.DagsterInvalidDefinitionError) as raised:
        copying([warehouse.spec(**{"key": "day", **options})], partitions_def=definition)
    assert expected in str(raised.value)


def test_a_dimension_of_dynamic_values(warehouse: Warehouse) -> None:
    definition = dg.MultiPartitionsDefinition(
        {"day": days(), "region": dg.DynamicPartitionsDefinition(name="regions")}
    )
    warehouse.instance.add_dynamic_partitions("regions", ["r1"])
    orders = copying([warehouse.spec(key="day")], partitions_def=definition)
    partition_key = dg.MultiPartitionKey({"day": "2024-01-02", "region": "r1"})
    assert warehouse.run(orders, key=partition_key).rows() == {"2024-01-02|r1": 34}
