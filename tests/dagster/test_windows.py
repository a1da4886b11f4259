"""Time windows: each row in their span is copied once, even when clocks change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from .warehouse import TABLE, copying

if TYPE_CHECKING:
    from .warehouse import Warehouse

FALL = "2024-11-03"  # in New York, 01:00 to 02:00 is repeated
# Key types, and the same span of six days in each of them.
SPANS = {
    "date": "generate_series(date '2024-10-31', '2024-11-06', '1 day')",
    "timestamp": "generate_series(timestamp '2024-10-31 00:10', '2024-11-06', '20 minutes')",
    "timestamptz": "generate_series(timestamptz '2024-10-31 00:10 America/New_York',"
    " '2024-11-06 America/New_York', '20 minutes')",
}


def fill(warehouse: Warehouse, type_: str, values: str) -> None:
    warehouse.both("CREATE SCHEMA IF NOT EXISTS dw", f"CREATE TABLE dw.t (at {type_})")
    warehouse.source.execute(f"INSERT INTO dw.t SELECT v FROM {values} AS v".encode())


def keys_of(partitions_def: dg.PartitionsDefinition) -> tuple[str, str]:
    keys = partitions_def.get_partition_keys()
    return keys[0], keys[-1]


def check_same(warehouse: Warehouse) -> None:
    warehouse.check_same("dw.t", "dw.t")


def spec(warehouse: Warehouse, **options: Any) -> Any:
    # In mode append, rows that two windows share would be there twice.
    return warehouse.spec(table="dw.t", mode="append", key="at", verify="checksums", **options)


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_days_in_a_time_zone(empty: Warehouse, type_: str) -> None:
    fill(empty, type_, SPANS[type_])
    partitions = dg.DailyPartitionsDefinition(
        "2024-10-31", end_date="2024-11-07", timezone="America/New_York"
    )
    orders = copying([spec(empty)], partitions_def=partitions)
    changed = empty.run(orders, key="2024-11-03")
    assert changed.rows() == {"2024-11-03": {"date": 1, "timestamp": 72, "timestamptz": 75}[type_]}
    assert empty.run(orders, keys=("2024-10-31", "2024-11-02")).ok
    assert empty.run(orders, keys=("2024-11-04", "2024-11-06")).ok
    check_same(empty)


def test_days_as_child_tables(empty: Warehouse) -> None:
    fill(empty, "date", SPANS["date"])
    empty.target.execute("DROP TABLE dw.t; CREATE TABLE dw.t (at date) PARTITION BY RANGE (at)")
    partitions = dg.DailyPartitionsDefinition("2024-10-31", end_date="2024-11-07")
    days = copying(
        [empty.spec(table="dw.t", mode="attach", key="at", verify="checksums")],
        partitions_def=partitions,
    )
    assert empty.run(days, keys=("2024-10-31", "2024-11-03")).ok
    assert empty.run(days, keys=("2024-11-04", "2024-11-06")).ok
    empty.source.execute("INSERT INTO dw.t VALUES ('2024-11-03')")
    again = empty.run(days, key="2024-11-03")
    assert again.rows() == {"2024-11-03": 2}
    check_same(empty)
    found = empty.target.execute("SELECT count(*) FROM pg_inherits").fetchall()
    assert found == [(7,)]


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
@pytest.mark.parametrize(
    ("zone", "day", "after", "minutes"),
    [
        ("America/New_York", "2024-03-10", "2024-03-11", 60),
        ("America/New_York", FALL, "2024-11-04", 60),
        ("Europe/Berlin", "2024-10-27", "2024-10-28", 30),
    ],
)
def test_hours_when_clocks_change(
    empty: Warehouse, type_: str, zone: str, day: str, after: str, minutes: int
) -> None:
    place = "" if type_ == "timestamp" else f" {zone}"
    fill(
        empty,
        type_,
        f"generate_series({type_} '{day}{place}', '{after}{place}', '5 minutes')",
    )
    upto = "06:00"
    where = f"at < '{day} {upto}{place}'"
    partitions = dg.TimeWindowPartitionsDefinition(
        start=f"{day}-00:00",
        end=f"{day}-{upto}",
        cron_schedule="0 * * * *" if minutes == 60 else f"*/{minutes} * * * *",
        fmt="%Y-%m-%d-%H:%M",
        timezone=zone,
    )
    orders = copying([spec(empty, where=where)], partitions_def=partitions)
    run = empty.run(orders, keys=keys_of(partitions))
    assert run.ok
    assert run.reported() == sorted(partitions.get_partition_keys())
    rows = empty.source.execute(f"SELECT count(*) FROM dw.t WHERE {where}".encode()).fetchone()
    assert rows == (empty.count(),) == (sum(run.rows().values()),)
    assert [each.passed for each in run.evaluations] == [True] * len(run.reported())


def test_a_repeated_hour_with_one_run_for_each_window(empty: Warehouse) -> None:
    """Without a zone, its rows belong to the later windows, after all of them have been written."""
    fill(empty, "timestamp", f"generate_series(timestamp '{FALL}', '{FALL} 03:59', '10 minutes')")
    partitions = dg.TimeWindowPartitionsDefinition(
        start=f"{FALL}-00:30",
        end=f"{FALL}-02:30",
        cron_schedule="*/30 * * * *",
        fmt="%Y-%m-%d-%H:%M",
        timezone="America/New_York",
    )
    orders = copying([spec(empty)], partitions_def=partitions)
    rows: dict[str | None, int] = {}
    for key in partitions.get_partition_keys():
        run = empty.run(orders, key=key)
        assert run.ok, run.log
        rows |= run.rows()
    assert rows == {
        f"{FALL}-00:30": 3,
        f"{FALL}-01:00": 0,
        f"{FALL}-01:30": 0,
        f"{FALL}-01:00-0500": 3,
        f"{FALL}-01:30-0500": 3,
        f"{FALL}-02:00": 3,
    }
    assert empty.count() == 12 == empty.value("SELECT count(DISTINCT at) FROM dw.t")


def test_hours_of_a_date_column_are_rejected(empty: Warehouse) -> None:
    fill(empty, "date", SPANS["date"])
    partitions = dg.HourlyPartitionsDefinition("2024-11-01-00:00", end_date="2024-11-03-00:00")
    run = empty.run(copying([spec(empty)], partitions_def=partitions), key="2024-11-02-00:00")
    assert run.reported() == []
    assert (
        'key="at": expected bounds of type date, found [2024-11-02T00:00:00+00:00, '
        "2024-11-02T01:00:00+00:00), which has a time of day"
    ) in run.failure.description
    assert empty.count() == 0


def test_whole_months(empty: Warehouse) -> None:
    fill(empty, "timestamptz", SPANS["timestamptz"])
    partitions = dg.MonthlyPartitionsDefinition(
        "2024-10-01", end_date="2024-12-01", timezone="America/New_York"
    )
    orders = copying([spec(empty)], partitions_def=partitions)
    run = empty.run(orders, keys=("2024-10-01", "2024-11-01"))
    assert run.rows() == {"2024-10-01": 72, "2024-11-01": 363}
    check_same(empty)


def test_windows_with_offsets_in_minutes(empty: Warehouse) -> None:
    """Offsets shift the windows, and add one at the end."""
    fill(empty, "timestamptz", SPANS["timestamptz"])
    options: dict[str, Any] = {"minute_offset": 15, "hour_offset": 6, "end_offset": 1}
    partitions = dg.DailyPartitionsDefinition("2024-10-31", end_date="2024-11-04", **options)
    keys = partitions.get_partition_keys()
    run = empty.run(copying([spec(empty)], partitions_def=partitions), keys=(keys[0], keys[-1]))
    assert run.ok
    first, last = (partitions.time_window_for_partition_key(keys[at]) for at in (0, -1))
    assert (first.start.hour, first.start.minute) == (6, 15)
    selected = f"at >= '{first.start.isoformat()}' AND at < '{last.end.isoformat()}'"
    assert sum(run.rows().values()) == empty.count(where=selected) == empty.count()
    row = empty.source.execute(f"SELECT count(*) FROM dw.t WHERE {selected}".encode()).fetchone()
    assert row == (empty.count(),)


def test_excluded_windows(empty: Warehouse) -> None:
    fill(empty, "timestamptz", SPANS["timestamptz"])
    try:
        partitions = dg.DailyPartitionsDefinition(
            "2024-10-31", end_date="2024-11-06", exclusions=["0 0 * * 6", "0 0 * * 0"]
        )
    except TypeError:
        pytest.skip("this Dagster has no exclusions")
    assert partitions.get_partition_keys() == [
        "2024-10-31",
        "2024-11-01",
        "2024-11-04",
        "2024-11-05",
    ]
    run = empty.run(copying([spec(empty)], partitions_def=partitions), keys=keys_of(partitions))
    assert run.ok
    assert empty.instance.get_materialized_partitions(TABLE) == {*partitions.get_partition_keys()}
    assert empty.count() == empty.value("SELECT count(DISTINCT at) FROM dw.t")
    assert empty.count(where="extract(isodow FROM at) >= 6") == 0
    assert run.rows()["2024-11-04"] == 72
