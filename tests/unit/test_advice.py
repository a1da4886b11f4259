"""One line of advice for each kind of slow run, with the option that it names."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.registry import find_backend
from penstock.figures.advice import RunFacts, advice
from penstock.figures.gather import applicable, of_run
from penstock.figures.run_report import Outlier, RunReport, TimeSpent
from penstock.model.extents import Bound, Key, KeyRange
from penstock.model.journal import Journal
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.records import CommitRecord, Spent
from penstock.model.snapshots import SourceState
from penstock.model.tables import TableRef

TARGET = TimeSpent(5.0, 80.0, 15.0)
SOURCE = TimeSpent(80.0, 5.0, 15.0)
MOVER = TimeSpent(10.0, 10.0, 80.0)
EVEN = TimeSpent(33.0, 33.0, 33.0)
BOTH = {"deferrable": "--indexes defer", "unlogged": "--unlogged"}
SLOW = Outlier("p0007", "id >= 7", "seconds", 41.0, 10.0)


def facts(spent: TimeSpent | None, **changes: object) -> RunFacts:
    usual = RunFacts(spent=spent, copying=50.0, degree=4, partitions=32, median=2.0, counts=True)
    return replace(usual, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run_facts", "expected"),
    [
        (
            facts(EVEN, planning=60.0, copying=20.0, steps=20.0, tables=5000),
            "60% of the time went into planning (60 s for 5,000 tables, 12 ms each), 20 s into "
            "copying: leave out tables that need not be copied (--exclude)",
        ),
        (
            facts(EVEN, planning=60.0, copying=20.0, tables=200),
            "75% of the time went into planning (60 s for 200 tables, 300 ms each), 20 s into "
            "copying: run Penstock closer to both servers, since planning queries them for each "
            "table",
        ),
        (
            facts(EVEN, planning=60.0, copying=20.0, cheaper_plan="--strategy range"),
            "75% of the time went into planning (60 s), 20 s into copying: try --strategy range",
        ),
        # A part of the time, and less than the copy takes: no advice.
        (facts(EVEN, planning=19.0, copying=20.0), ""),
        (
            facts(TARGET, waits={"target": {"log": 0.78, "working": 0.22}}, **BOTH),
            "target-bound: 80% of the time was spent waiting for it, with 78% of its sessions "
            "waiting for its log (WAL): try --unlogged or --indexes "
            "defer",
        ),
        (
            facts(TARGET, waits={"target": {"log": 0.78}}, deferrable="--indexes defer"),
            "target-bound: 80% of the time was spent waiting for it, with 78% of its sessions "
            "waiting for its log (WAL): try --indexes defer",
        ),
        (
            facts(TARGET, waits={"target": {"log": 0.78}}),
            "target-bound: 80% of the time was spent waiting for it, with 78% of its sessions "
            "waiting for its log (WAL)",
        ),
        (
            facts(TARGET, waits={"target": {"locks": 0.6, "log": 0.4}}, degree=16, **BOTH),
            "target-bound: 80% of the time was spent waiting for it, with 60% of its sessions "
            "waiting for each other's locks: try --degree 8",
        ),
        (
            facts(TARGET, waits={"target": {"working": 0.6, "log": 0.4}}, **BOTH),
            "target-bound: 80% of the time was spent waiting for it, with 60% of its sessions "
            "computing: try --indexes defer",
        ),
        (
            facts(TARGET, waits={"target": {"storage": 0.5, "log": 0.2}}, **BOTH),
            "target-bound: 80% of the time was spent waiting for it, with 50% of its sessions "
            "waiting for its files: try --indexes defer or --unlogged",
        ),
        (
            facts(TARGET, deferrable="--indexes defer"),
            "target-bound: 80% of the time was spent waiting for it: try --indexes defer",
        ),
        (
            facts(SOURCE, waits={"source": {"storage": 0.7, "mover": 0.3}}, **BOTH),
            "source-bound: 80% of the time was spent waiting for it, with 70% of its sessions "
            "waiting for its files",
        ),
        (facts(SOURCE), "source-bound: 80% of the time was spent waiting for it"),
        (
            facts(MOVER, **BOTH),
            "mover-bound: 80% of the time was spent on Penstock's own work, not waiting for a "
            "server: use a machine with more or faster CPUs",
        ),
        (
            facts(TimeSpent(5.0, 10.0, 5.0, 60.0), **BOTH),
            "held back: 75% of the time was spent keeping to a rate (--max-rate or --max-lag)",
        ),
        (
            facts(TARGET, slow=SLOW, tail=33.0, idle=80.0, even="--strategy ntile --key id"),
            "skewed: p0007 took 41.0 s, 4.1 times the median; for the last 33.0 s, fewer than "
            "4 streams were at work, which wasted 40% of the streams' time: try --strategy ntile "
            "--key id or --partitions 128",
        ),
        (
            facts(TARGET, slow=SLOW, tail=33.0, idle=80.0, counts=False),
            "skewed: p0007 took 41.0 s, 4.1 times the median; for the last 33.0 s, fewer than 4 "
            "streams were at work, which wasted 40% of the streams' time",
        ),
        (
            facts(TARGET, tail=20.0, idle=40.0, partitions=6),
            "for the last 20.0 s, fewer than 4 streams were at work, which wasted 20% of the "
            "streams' time: try --partitions 24",
        ),
        (
            facts(TARGET, partitions=3, degree=8, idle=300.0, tail=50.0),
            "too few partitions: 3 for 8 streams, so 5 had nothing to do: try --partitions 32",
        ),
        (
            facts(TARGET, partitions=1, degree=8, counts=False),
            "too few partitions: 1 for 8 streams, so 7 had nothing to do",
        ),
        (
            facts(TARGET, partitions=4000, median=0.05, **BOTH),
            "too many partitions: 4,000, with a median of 0.05 s, mostly to begin and to commit: "
            "try --partitions 32",
        ),
        (
            facts(TARGET, lost_seconds=150.0),
            "60% of the streams' time was lost to failed attempts (150 s): try "
            "--partitions 64, to lose less with each",
        ),
        (
            facts(TARGET, steps=150.0, **BOTH),
            "75% of the time went into the steps after the load (150 s), 50 s into copying",
        ),
    ],
)
def test_each_bottleneck_has_its_advice(run_facts: RunFacts, expected: str) -> None:
    assert advice(run_facts) == expected


@pytest.mark.parametrize(
    "run_facts",
    [
        facts(EVEN, **BOTH),
        facts(None),
        facts(TARGET, copying=3.0, **BOTH),
        facts(None, copying=0.0),
        facts(EVEN, slow=SLOW, tail=1.0, idle=1.0),
        facts(EVEN, partitions=4000, median=2.0),
    ],
    ids=["even", "nothing known", "over at once", "nothing done", "slow but not last", "many"],
)
def test_a_balanced_run_has_no_advice(run_facts: RunFacts) -> None:
    assert advice(run_facts) == ""


def test_the_advised_option_depends_on_the_mode() -> None:
    def option_of(scheme: str, option: str, **spec: object) -> str:
        target = find_backend(f"{scheme}://", "--target")[0].target_capabilities
        return applicable({"mode": "truncate", **spec}, target, option)

    assert option_of("postgresql", "unlogged") == "--unlogged"
    assert option_of("postgresql", "unlogged", mode="recreate") == "--unlogged"
    assert option_of("postgresql", "unlogged", mode="append") == ""
    assert option_of("postgresql", "unlogged", unlogged=True) == ""
    assert option_of("postgresql", "indexes", mode="append") == "--indexes defer"
    assert option_of("postgresql", "indexes", indexes="defer") == ""
    assert option_of("postgresql", "indexes", mode="upsert") == ""
    # Indexes are built after the load anyway.
    assert option_of("postgresql", "indexes", mode="recreate") == ""
    assert option_of("mysql", "indexes", mode="swap") == ""
    assert option_of("mysql", "unlogged") == ""
    assert option_of("mysql", "indexes") == "--indexes defer"
    assert option_of("duckdb", "indexes") == ""


def report_of_four(
    rows: int, scheme: str = "duckdb", spent: float = 0.0, *, indexed: bool = False
) -> RunReport:
    """Return a report of a run of four partitions, of which the last took long.

    Args:
        rows: the rows of the last one; the others have ten.
        spent: the share of each one's time spent waiting for the target.
    """
    bounds = [None, *(Bound("int4", str(n)) for n in (1, 2, 3)), None]
    extents = [KeyRange(Key("a b"), *pair) for pair in pairwise(bounds)]
    partitions = tuple(Partition(f"p{n}", each) for n, each in enumerate(extents, 1))
    load = LoadPlan(TableRef("main", "t"))
    plan = PartitionPlan("range", (), partitions, (), (), "arrow", load)
    spec = {"mode": "append", "strategy": "auto", "table": "t", "target_table": "t"}
    state = SourceState("", "", "", "")
    run = RunRow("r", 1, spec, plan, state, (), "done", "", None, None, ())
    spans = [*((f"p{n}", 10, 10.0) for n in (1, 2, 3)), ("p4", rows, 50.0)]
    records = [
        CommitRecord(name, 1, count, 0, "", "", spent=Spent(seconds, 0.0, spent * seconds))
        for name, count, seconds in spans
    ]
    begun = "2026-01-01T10:00:00+00:00"
    idle = 0.0 if spent else 120.0
    journal = Journal("x", begun, begun, "done", 4, 50.0, copying=50.0, tail=40.0, idle=idle)
    target = find_backend(f"{scheme}://", "--target")[0].target_capabilities
    return of_run(run, records, [journal], target, lambda table: indexed)


def test_another_partitioning_is_advised_for_uneven_partitions() -> None:
    uneven, wide = report_of_four(1000), report_of_four(10)
    assert uneven.advice.endswith(": try --strategy ntile --key 'a b' or --partitions 16")
    assert [(each.partition_id, each.measure) for each in uneven.outliers] == [
        ("p4", "seconds"),
        ("p4", "rows"),
    ]
    assert wide.advice.endswith(": try --partitions 16")
    assert [each.measure for each in wide.outliers] == ["seconds"]


def test_deferring_indexes_is_advised_only_if_there_are_some() -> None:
    with_indexes = report_of_four(10, "postgresql", 0.9, indexed=True).advice
    assert with_indexes.endswith("waiting for it: try --indexes defer")
    assert with_indexes.startswith(report_of_four(10, "postgresql", 0.9).advice + ": try")
