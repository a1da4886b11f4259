"""The store of records: the guarantees of each method, for one caller and for several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from penstock import create
from penstock.backends.api.execution.records import NOW, Hold, Kind, RecordStore
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.model.codec import to_json
from penstock.model.extents import Bound, Key, KeyRange, Whole
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef

from .copying import Pair

OpenStore = Callable[[], RecordStore]


@pytest.fixture
def open_store(pair: Pair) -> Iterator[OpenStore]:
    """Return a function that opens the target's store of records for another caller."""
    with ExitStack() as stack:

        def opened() -> RecordStore:
            control = stack.enter_context(pair.target()).control
            assert isinstance(control, RecordedRuns)
            return control.records

        opened().create()
        yield opened


def run(run_id: str, **values: Any) -> dict[str, Any]:
    table = TableRef("main", "t")
    partitions = tuple(Partition(name, Whole()) for name in ("p0001", "p0002"))
    plan = PartitionPlan("whole", (), partitions, (), (), "arrow", LoadPlan(table))
    return {
        "run_id": run_id,
        "generation": 1,
        "spec": {"mode": "append"},
        "plan": to_json(plan),
        "partitions": len(partitions),
        "fingerprint": plan.fingerprint,
        "source_state": to_json(SourceState("", "", "", "")),
        "snapshots": [],
        "status": "created",
        "created_at": NOW,
        "failures": [],
        **values,
    }


def status(store: RecordStore, run_id: str = "a") -> str:
    (found,) = store.read(Kind.RUN, {"run_id": run_id}, ("status",))
    return str(found["status"])


def test_creating_the_store_again_keeps_its_records(open_store: OpenStore) -> None:
    store = open_store()
    assert store.add(Kind.RUN, [run("a")]) == 1
    open_store().create()
    assert status(store) == "created"


def test_a_record_is_added_only_if_its_key_is_missing(open_store: OpenStore) -> None:
    store = open_store()
    assert store.add(Kind.RUN, [run("a")]) == 1
    assert store.add(Kind.RUN, [run("a", status="done"), run("b")]) == 1
    assert (status(store), status(store, "b")) == ("created", "created")


def test_stored_values_are_read_back(open_store: OpenStore) -> None:
    store = open_store()
    snapshots = to_json((Snapshot("1", "2024-01-01 00:00:00+00:00"),))
    documents = {"spec": {"where": 'é "quoted" \\ 🐘', "n": 2**60}, "snapshots": snapshots}
    store.add(Kind.RUN, [run("a", **documents)])
    (found,) = store.read(Kind.RUN, {"run_id": "a"}, ("spec", "snapshots", "created_at"))
    assert (found["spec"], found["snapshots"]) == (documents["spec"], documents["snapshots"])
    assert found["created_at"].startswith("20")


def test_a_missing_run_has_no_records(open_store: OpenStore) -> None:
    store = open_store()
    assert store.read(Kind.RUN, {"run_id": "a"}, ("status",)) == []
    assert store.count(Kind.COMMIT, {"run_id": "a"}) == 0
    assert (
        store.transact("a", lambda: store.change(Kind.RUN, {"run_id": "a"}, {"status": "done"}))
        == 0
    )


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({}, 1),
        ({"generation": 1}, 1),
        ({"generation": 2}, 0),
        ({"generation": (1, 2)}, 1),
        ({"generation": (2, 3)}, 0),
        ({"generation": 1, "status": "done"}, 0),
    ],
)
def test_records_that_match_a_condition_are_changed(
    open_store: OpenStore, where: dict[str, Any], count: int
) -> None:
    store = open_store()
    store.add(Kind.RUN, [run("a"), run("b")])
    where, changes = {"run_id": "a", **where}, {"status": "running"}
    assert store.transact("a", lambda: store.change(Kind.RUN, where, changes)) == count
    assert (status(store), status(store, "b")) == ("running" if count else "created", "created")


def test_records_that_match_a_condition_are_deleted(open_store: OpenStore) -> None:
    store = open_store()
    store.add(Kind.RUN, [run("a")])
    steps = [{"run_id": "a", "step_id": step} for step in ("x", "y", "z")]
    assert store.transact("a", lambda: store.add(Kind.STEP, steps)) == 3
    assert store.transact("a", lambda: store.add(Kind.STEP, steps)) == 0
    some = {"run_id": "a", "step_id": ("x", "z", "nothing")}
    store.transact("a", lambda: store.delete(Kind.STEP, some))
    assert [row["step_id"] for row in store.read(Kind.STEP, {"run_id": "a"}, ("step_id",))] == ["y"]


def test_many_records_at_once(open_store: OpenStore) -> None:
    """There are more records than fit into one statement."""
    store = open_store()
    store.add(Kind.RUN, [run("a")])
    names = tuple(f"s{number:04}" for number in range(1200))
    rows = [{"run_id": "a", "step_id": name} for name in names]
    store.transact("a", lambda: store.add(Kind.STEP, rows))
    assert store.count(Kind.STEP, {"run_id": "a", "step_id": names}) == len(names)
    most = {"run_id": "a", "step_id": names[1:]}
    store.transact("a", lambda: store.delete(Kind.STEP, most))
    assert store.count(Kind.STEP, {"run_id": "a"}) == 1


@pytest.mark.parametrize("hold", Hold)
def test_a_transaction_is_all_or_nothing(open_store: OpenStore, hold: Hold) -> None:
    store = open_store()
    store.add(Kind.RUN, [run("a")])

    def body() -> None:
        store.change(Kind.RUN, {"run_id": "a"}, {"status": "done"})
        store.add(Kind.STEP, [{"run_id": "a", "step_id": "x"}])
        raise InterruptedError

    with pytest.raises(InterruptedError):
        store.transact("a", body, hold)
    assert status(open_store()) == "created"
    assert store.count(Kind.STEP, {"run_id": "a"}) == 0


LOW, HIGH = {"partition_id": "low"}, {"partition_id": "high"}
SOME = {"partition_id": ("low", "high", "nothing")}
COMMITTED: list[tuple[dict[str, Any], list[str]]] = [
    ({"run_id": "a"}, ["a high", "a low"]),
    ({"run_id": "a", **HIGH}, ["a high"]),
    ({"run_id": "a", **SOME}, ["a high", "a low"]),
    ({"run_id": "a", "partition_id": "nothing"}, []),
    ({"run_id": "a", **SOME, "attempt": 7}, []),
    ({"run_id": "a", "attempt": (1, 7)}, ["a high", "a low"]),
    ({"series": "s"}, ["b high", "b low"]),
    ({"series": "s", **LOW}, ["b low"]),
    ({"series": "s", "partition_id": ("high", "nothing")}, ["b high"]),
    ({"series": "s", "run_id": "a"}, []),
    ({"series": "nothing"}, []),
]


def test_commit_records_are_found_by_a_condition(pair: Pair, open_store: OpenStore) -> None:
    pair.make()
    key, middle = Key("id"), Bound("", "150")
    halves = (("low", KeyRange(key, None, middle)), ("high", KeyRange(key, middle, None)))
    partitions = [Partition(name, extent) for name, extent in halves]
    for run_id, series in (("a", "other"), ("b", "s")):
        create(pair.spec(run_id=run_id, key="id"), partitions=partitions, series=series)
        # Otherwise Penstock would wait a long time to find out whether the source was written to.
        pair.resume(run_id, on_snapshot_lost="accept")
    store = open_store()
    for where, expected in COMMITTED:
        found = store.read(Kind.COMMIT, where, ("run_id", "partition_id"))
        assert sorted(f"{row['run_id']} {row['partition_id']}" for row in found) == expected, where
        assert store.count(Kind.COMMIT, where) == len(expected), where


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, ["x1", "x2", "y1"]),
        ({"request": "x"}, ["x1", "x2"]),
        ({"request": ("x", "y"), "partition_id": "p0001"}, ["x1", "y1"]),
        ({"request": "y", "partition_id": ("p0002", "nothing")}, []),
        ({"request": "nothing"}, []),
    ],
)
def test_recopy_records_are_found_by_a_condition(
    open_store: OpenStore, where: dict[str, Any], expected: list[str]
) -> None:
    store = open_store()
    store.add(Kind.RUN, [run("a"), run("b")])
    requests = {"x": ("p0001", "p0002"), "y": ("p0001",)}

    def body() -> None:
        for request, names in requests.items():
            rows = [{"run_id": "a", "partition_id": name, "request": request} for name in names]
            assert store.add(Kind.RECOPY, rows) == len(rows)
            assert store.add(Kind.RECOPY, rows) == 0

    store.transact("a", body)
    for run_id, steps in (("a", expected), ("b", [])):
        some = {"run_id": run_id, **where}
        found = store.read(Kind.RECOPY, some, ("request", "partition_id"))
        assert sorted(f"{row['request']}{row['partition_id'][-1]}" for row in found) == steps
        assert store.count(Kind.RECOPY, some) == len(steps)


@pytest.mark.parametrize(("where", "count"), [({"status": "created"}, 1), ({"status": "done"}, 0)])
def test_runs_are_found_by_a_condition(
    open_store: OpenStore, where: dict[str, Any], count: int
) -> None:
    store = open_store()
    store.add(Kind.RUN, [run("a")])
    where = {"run_id": "a", **where}
    assert len(store.read(Kind.RUN, where, ("plan",))) == store.count(Kind.RUN, where) == count


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def test_one_of_several_callers_adds_a_record(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]

    def add_with(store: RecordStore) -> Callable[[], int]:
        return lambda: sum(store.add(Kind.RUN, [run(f"r{number}")]) for number in range(5))

    assert sum(together([add_with(store) for store in stores])) == 5


def test_changes_by_several_callers_are_not_lost(open_store: OpenStore) -> None:
    """Each caller begins the generation after the one it has read."""
    stores = [open_store() for _ in range(3)]
    stores[0].add(Kind.RUN, [run("a")])

    def count_with(store: RecordStore) -> Callable[[], None]:
        def once() -> None:
            (found,) = store.read(Kind.RUN, {"run_id": "a"}, ("generation",))
            following = {"generation": found["generation"] + 1}
            assert store.change(Kind.RUN, {"run_id": "a"}, following) == 1

        def several() -> None:
            for _ in range(5):
                store.transact("a", once, Hold.CHANGE)

        return several

    together([count_with(store) for store in stores])
    (found,) = stores[0].read(Kind.RUN, {"run_id": "a"}, ("generation",))
    assert found["generation"] == 16


def test_one_of_several_callers_meets_a_condition(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    stores[0].add(Kind.RUN, [run("a")])
    expected, following = {"run_id": "a", "generation": 1}, {"generation": 2}

    def change_with(store: RecordStore) -> Callable[[], int]:
        return lambda: store.transact("a", lambda: store.change(Kind.RUN, expected, following))

    assert sorted(together([change_with(store) for store in stores])) == [0, 0, 1]


def test_the_last_journal_of_each_execution_is_kept(open_store: OpenStore) -> None:
    """It is kept whether or not its run exists."""
    store = open_store()
    where = {"run_id": "a"}
    assert store.read(Kind.JOURNAL, where, ("content",)) == []
    for run_id, execution, seconds in (("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("a", "x", 4)):
        row = {"run_id": run_id, "execution_id": execution}
        store.put_journal({**row, "content": {"seconds": seconds, "é": ["🐘"]}})
    found = [row["content"] for row in open_store().read(Kind.JOURNAL, where, ("content",))]
    assert sorted(content["seconds"] for content in found) == [2, 4]
    assert all(content["é"] == ["🐘"] for content in found)
