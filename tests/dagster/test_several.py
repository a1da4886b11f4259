"""Several tables in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

U, V = dg.AssetKey(["dw", "u"]), dg.AssetKey(["dw", "v"])


def test_one_fails_and_the_others_are_copied(warehouse: Warehouse) -> None:
    for name in ("u", "v"):
        warehouse.target.execute(f"CREATE TABLE dw.{name} (LIKE dw.t INCLUDING ALL)".encode())
    warehouse.target.execute("ALTER TABLE dw.u ADD CONSTRAINT no CHECK (id <> 150)")
    specs = [
        warehouse.spec(key="day", target_table=f"dw.{name}", verify="counts")
        for name in ("t", "u", "v")
    ]
    specs.append(warehouse.spec(key="day", target_table="dw.absent"))
    orders = copying(specs, partitions_def=days())
    keys = ("2024-01-01", "2024-01-02")
    run = warehouse.run(orders, keys=keys)
    assert run.told() == run.told(V) == ["2024-01-01", "2024-01-02"]
    assert run.told(U) == ["2024-01-01"]
    assert run.failed == ["dw/u 2024-01-02", "dw/absent"]
    assert "dw/u: partition 2024-01-02" in run.failure.description
    assert "dw/absent: target: table dw.absent" in run.failure.description
    assert {each.asset_key for each in run.evaluations} == {dg.AssetKey(["dw", "t"]), V}
    # One alone, and its check with it.
    warehouse.target.execute("ALTER TABLE dw.u DROP CONSTRAINT no")
    alone = warehouse.run(orders, keys=keys, selection=dg.AssetSelection.assets(U))
    assert alone.ok
    assert alone.told(U) == ["2024-01-01", "2024-01-02"]
    assert alone.told() == alone.told(V) == []
    assert {each.asset_key for each in alone.evaluations} == {U}
