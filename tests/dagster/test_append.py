"""Mode append: a partition is loaded once, whichever run copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_penstock import ranges

from .warehouse import TABLE, copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse


def test_only_missing_partitions_can_be_loaded(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append", key="day")], partitions_def=days())
    assert warehouse.run(orders, keys=("2024-01-02", "2024-01-03")).ok
    again = warehouse.run(orders, keys=("2024-01-02", "2024-01-04"))
    assert again.reported() == []
    assert again.failure.description.startswith(
        "dw/t: mode append: dw.t already has these partitions: 2024-01-02 (100 rows at "
    )
    assert ", 2024-01-03 (100 rows at " in again.failure.description
    assert "select only missing partitions, or use mode replace" in again.failure.description
    assert warehouse.count() == 200
    assert warehouse.run(orders, key="2024-01-04").ok
    assert warehouse.count() == 300


def test_unreported_partitions_are_taken_over(warehouse: Warehouse) -> None:
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 250)")
    orders = copying([warehouse.spec(mode="append", key="day")], partitions_def=days())
    first = warehouse.run(orders, keys=("2024-01-02", "2024-01-03"))
    assert first.reported() == ["2024-01-02"]
    warehouse.instance.wipe_assets([TABLE])
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    second = warehouse.run(orders, keys=("2024-01-02", "2024-01-04"))
    assert second.rows() == {"2024-01-02": 100, "2024-01-03": 100, "2024-01-04": 100}
    assert warehouse.count() == 300
    first_metadata, copied = second.metadata("2024-01-02"), second.metadata("2024-01-03")
    assert first_metadata["penstock/run_id"] == first.metadata("2024-01-02")["penstock/run_id"]
    assert copied["penstock/run_id"] != first_metadata["penstock/run_id"]
    # The remaining rows of the first run are already loaded.
    third = warehouse.run(orders, keys=("2024-01-02", "2024-01-03"), after=first)
    assert not third.ok
    assert warehouse.count() == 300
    assert warehouse.run(orders, keys=("2024-01-02", "2024-01-04"), after=second).reported() == []


def test_each_range_is_loaded_once(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append", key="id")], partitions_def=ranges(4))
    assert warehouse.run(orders, keys=("000", "001")).ok
    assert "dw.t already has these partitions: 001 " in (
        warehouse.run(orders, keys=("001", "002")).failure.description
    )
    assert warehouse.run(orders, keys=("002", "003")).ok
    warehouse.check_same()
    more = copying([warehouse.spec(mode="append", key="id")], partitions_def=ranges(8))
    refused = warehouse.run(more, keys=("004", "007"))
    assert "since mode append cannot reload rows" in refused.failure.description
    warehouse.check_same()
