"""Asset partitions that are values of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from .warehouse import TABLE, copying

if TYPE_CHECKING:
    from .warehouse import Warehouse

ODD = [
    "plain",
    "two words",
    'it\'s "quoted" 100% {x}',
    "back\\slash",
    "ümläut 東京",
    "n" * 300,
    "0123456789",
    " leading",
]


def test_values_with_unusual_characters(empty: Warehouse) -> None:
    empty.both("CREATE SCHEMA IF NOT EXISTS dw", "CREATE TABLE dw.t (id int, name text)")
    for number, name in enumerate(ODD):
        for _ in range(number + 1):
            empty.source.execute("INSERT INTO dw.t VALUES (%s, %s)", [number, name])
    empty.source.execute("INSERT INTO dw.t VALUES (99, 'other'), (99, NULL)")
    spec = empty.spec(table="dw.t", key="name", verify="checksums")
    orders = copying([spec], partitions_def=dg.StaticPartitionsDefinition(ODD))
    run = empty.run(orders, keys=(ODD[0], ODD[-1]))
    assert run.ok
    assert run.rows() == {name: number + 1 for number, name in enumerate(ODD)}
    assert empty.count() == sum(range(len(ODD) + 1))
    assert {each.partition for each in run.evaluations} == {*ODD}
    # The log uses the names of the partitions, not the core's ids.
    assert f"  {ODD[1]} " in run.log
    assert empty.run(orders, key=ODD[2]).rows() == {ODD[2]: 3}
    empty.source.execute("DELETE FROM dw.t WHERE id = 99")
    empty.check_same("dw.t")


def test_the_value_of_a_failed_partition_is_named(empty: Warehouse) -> None:
    empty.both("CREATE SCHEMA IF NOT EXISTS dw", "CREATE TABLE dw.t (id int, name text)")
    empty.source.execute("INSERT INTO dw.t VALUES (1, 'two words'), (2, 'plain')")
    empty.target.execute("ALTER TABLE dw.t ADD CHECK (id <> 1)")
    orders = copying(
        [empty.spec(table="dw.t", key="name")],
        partitions_def=dg.StaticPartitionsDefinition(["plain", "two words"]),
    )
    run = empty.run(orders, keys=("plain", "two words"))
    assert run.reported() == ["plain"]
    assert run.failed == ["dw/t two words"]
    assert "dw/t: partition two words (name = two words): [23514]" in run.failure.description


def test_values_can_be_numbers_and_be_added_later(warehouse: Warehouse) -> None:
    names = dg.DynamicPartitionsDefinition(name="residues")
    warehouse.instance.add_dynamic_partitions("residues", ["0", "2"])
    orders = copying([warehouse.spec(key="id % 3", mode="append")], partitions_def=names)
    assert warehouse.run(orders, keys=("0", "2")).rows() == {"0": 334, "2": 333}
    warehouse.instance.add_dynamic_partitions("residues", ["1"])
    assert warehouse.run(orders, key="1").rows() == {"1": 333}
    warehouse.check_same()
    assert warehouse.instance.get_materialized_partitions(TABLE) == {"0", "1", "2"}


def test_invalid_or_repeated_values_are_rejected(warehouse: Warehouse) -> None:
    def failure(keys: list[str], **options: Any) -> str:
        orders = copying(
            [warehouse.spec(**options)], partitions_def=dg.StaticPartitionsDefinition(keys)
        )
        run = warehouse.run(orders, keys=(keys[0], keys[-1]))
        assert run.reported() == []
        return str(run.failure.description)

    assert "invalid input syntax for type integer" in failure(["1", "x"], key="id")
    assert "expected each value once, found '1' and '01'" in failure(["1", "01"], key="id")
