"""A dataset of Parquet files as a target: each row once, despite kills, and no stray files."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import PermanentError, PlanningError, TransientError
from penstock.backends.api.execution.control import NewRun
from penstock.errors import Superseded, TargetChanged
from penstock.model.extents import Bound, Key, KeyRange, Whole
from penstock.model.plans import Partition

from ...control_calls import prepare
from .parquet_datasets import SCHEMA, STATE, TABLE, hooks_of, numbered

if TYPE_CHECKING:
    from penstock.backends.roll_forward.runs import RunDocument

    from .parquet_datasets import Dataset

WRITER = "penstock.backends.roll_forward.writer:RollForwardWriter"
RECORDS = "penstock.backends.roll_forward.records:Records"
STORAGE = "penstock.backends.parquet.storage"


def test_a_whole_run(dataset: Dataset) -> None:
    run = dataset.load("r1")
    assert run.committed() == {"p0001": 10, "p0002": 10}
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []
    assert dataset.rows().schema.field("day").type == pa.date32()
    (first, *_) = dataset.data()
    assert first.startswith("r1-p0001-1-")


def test_files_are_invisible_before_the_commit(dataset: Dataset) -> None:
    run = dataset.create("r1")
    with run.attempt("p0001") as attempt:
        assert attempt.begin()
        attempt.write(numbered(0, 10))
        loaded = attempt.end()
        assert dataset.data() == []
        assert dataset.pending_uploads()
        attempt.commit(loaded)
        assert len(dataset.data()) == 1
        assert dataset.pending_uploads() == []


def test_an_attempt_that_fails_leaves_nothing(dataset: Dataset) -> None:
    run = dataset.create("r1")
    with run.attempt("p0001") as attempt:
        assert attempt.begin()
        attempt.write(numbered(0, 10))
        attempt.end()
    assert dataset.pending_uploads() == []
    assert dataset.data() == []
    assert run.committed() == {}


def test_a_committed_partition_is_not_loaded_again(dataset: Dataset) -> None:
    run = dataset.create("r1")
    assert run.copy("p0001", numbered(0, 10))
    assert not run.copy("p0001", numbered(0, 10), number=2)
    assert dataset.ids() == list(range(10))


# Where the process is killed, and whether the partition is committed by then.
DEATHS = {
    "in mid-stream": (f"{WRITER}.end", False),
    "before the record": (f"{RECORDS}.write", False),
    "after the record": (f"{RECORDS}.publish", True),
    "after the files were published": (f"{RECORDS}.publish!", True),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_killed_attempt_is_retried(dataset: Dataset, death: str) -> None:
    at, committed = DEATHS[death]
    run = dataset.create("r1")
    run.copy("p0002", numbered(10, 10))
    run.killed("p0001", 0, 10, at)
    if committed and dataset.server is None:
        # The retry finds the commit, and `begin` publishes it.
        assert len(dataset.data()) == (1 if death == "after the record" else 2)
    assert run.copy("p0001", numbered(0, 10), number=2) is not committed
    assert run.committed() == {"p0001": 10, "p0002": 10}
    assert dataset.ids() == list(range(20))
    run.finish()
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []


def test_the_next_reader_publishes_the_record_of_a_killed_attempt(dataset: Dataset) -> None:
    run = dataset.create("r1")
    run.killed("p0001", 0, 10, f"{RECORDS}.publish")
    assert dataset.data() == []
    assert run.committed() == {"p0001": 10}
    assert dataset.ids() == list(range(10))


def test_a_kill_between_two_files(dataset: Dataset) -> None:
    """Only some files of a record are visible; the others are published later."""
    run = dataset.create("r1", file_size=1, row_group_size=4)
    kind = "local_uploads:LocalUploads" if dataset.server is None else "s3_uploads:S3Uploads"
    run.killed("p0001", 0, 10, f"{STORAGE}.{kind}.publish!")
    assert len(dataset.data()) == 1
    assert run.committed() == {"p0001": 10}
    assert len(dataset.data()) == 3
    assert dataset.ids() == list(range(10))


def test_an_attempt_wakes_up_after_the_partition_was_retried(dataset: Dataset) -> None:
    run = dataset.create("r1")
    with run.attempt("p0001") as stopped:
        assert stopped.begin()
        stopped.write(numbered(0, 5))
        assert run.copy("p0001", numbered(0, 10), number=2)
        stopped.write(numbered(5, 5))
        with pytest.raises(TransientError, match="was written by another process"):
            stopped.commit(stopped.end())
    assert dataset.ids() == list(range(10))
    assert dataset.pending_uploads() == []
    with run.attempt("p0001") as again:
        assert not again.begin()


def test_an_attempt_wakes_up_after_the_run_was_done(dataset: Dataset) -> None:
    run = dataset.create("r1")
    with run.attempt("p0001") as stopped:
        assert stopped.begin()
        stopped.write(numbered(0, 10))
        run.copy("p0001", numbered(0, 10), number=2)
        run.copy("p0002", numbered(10, 10))
        run.finish()
        with pytest.raises(TransientError):
            stopped.commit(stopped.end())
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []


def test_an_attempt_wakes_up_after_the_run_started_over(dataset: Dataset) -> None:
    run = dataset.create("r1", "truncate")
    run.copy("p0002", numbered(90, 5))
    with run.attempt("p0001") as stopped, run.attempt("p0002", 2) as late:
        assert stopped.begin()
        stopped.write(numbered(0, 10))
        with closing(dataset.target()) as target:
            assert target.control.generations.start_over("r1", 1, run.plan.load, STATE, None) == 2
            assert target.control.commits.of(["r1"])["r1"] == ()
        assert dataset.data() == []
        with pytest.raises(TransientError, match="was written by another process"):
            stopped.commit(stopped.end())
        with pytest.raises(Superseded, match="expected generation 1, found 2"):
            late.begin()
    for index, partition_id in enumerate(("p0001", "p0002")):
        assert run.copy(partition_id, numbered(index * 10, 10), generation=2)
    run.finish()
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []


def test_an_attempt_commits_while_the_run_starts_over(dataset: Dataset) -> None:
    """The process that starts the run over is killed after the new generation began, and an old
    attempt commits.
    """
    run = dataset.create("r1", "truncate")
    with run.attempt("p0001") as old:
        assert old.begin()
        old.write(numbered(50, 10))
        with closing(dataset.target()) as target:
            hooks = hooks_of(target)
            real = hooks.runs.carry_out

            def carry_out(run_id: str, run: RunDocument) -> None:
                if run.generation == 2:
                    _die()
                real(run_id, run)

            hooks.runs.carry_out = carry_out  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                target.control.generations.start_over("r1", 1, run.plan.load, STATE, None)
        old.commit(old.end())
    assert len(dataset.data()) == 1
    with closing(dataset.target()) as target:
        assert target.control.commits.of(["r1"])["r1"] == ()
        assert prepare(target.control, "r1", run.plan.load)
        assert not prepare(target.control, "r1", run.plan.load)
    assert dataset.data() == []
    for index, partition_id in enumerate(("p0001", "p0002")):
        assert run.copy(partition_id, numbered(index * 10, 10), generation=2)
    run.finish()
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []


def _die() -> NoReturn:
    raise KeyboardInterrupt


def test_a_run_without_rows(dataset: Dataset) -> None:
    run = dataset.create("r1")
    for partition in run.plan.partitions:
        run.copy(partition.id, numbered(0, 0))
    assert run.committed() == {"p0001": 0, "p0002": 0}
    assert dataset.data() == []
    run.finish()
    (only,) = dataset.data()
    assert only.startswith("r1-empty-")
    assert dataset.rows().num_rows == 0
    assert dataset.rows().schema.names == SCHEMA.names
    assert dataset.stray() == []
    # The next run's rows replace the empty file.
    dataset.load("r2")
    assert dataset.ids() == list(range(20))
    assert not any("empty" in name for name in dataset.data())
    assert dataset.stray() == []


@pytest.mark.parametrize("mode", ["truncate", "recreate", "replace", "swap"])
def test_a_run_replaces_everything(dataset: Dataset, mode: str) -> None:
    dataset.load("r1")
    old = dataset.data()
    run = dataset.create("r2", mode)
    emptied = mode in ("truncate", "recreate")
    assert dataset.data() == ([] if emptied else old)
    for partition in run.plan.partitions:
        run.copy(partition.id, numbered(100, 3))
    assert set(old) <= set(dataset.data()) or emptied
    with closing(dataset.target()) as target:  # as a retry of the preparation does
        assert not prepare(target.control, "r2", run.plan.load)
    run.finish()
    assert dataset.ids() == [100, 100, 101, 101, 102, 102]
    assert dataset.stray() == []


def test_a_run_truncates_once_and_keeps_its_own_files(dataset: Dataset) -> None:
    dataset.load("r1")
    run = dataset.create("r2", "truncate")
    run.copy("p0001", numbered(100, 3))
    with closing(dataset.target()) as target:
        # Another process wakes up in the middle of the first step.
        row = target.control.runs.find("r2")
        assert row is not None
        for step in run.plan.load.before:
            hooks_of(target).do(row, step)
    assert dataset.ids() == [100, 101, 102]


def test_a_run_replaces_only_rows_of_its_condition(dataset: Dataset) -> None:
    dataset.load("r1", "replace", where="day = 1")
    dataset.load("r2", "replace", where="day = 2")
    assert len(dataset.ids()) == 40
    run = dataset.create("r3", "replace", where="day = 2")
    run.copy("p0001", numbered(500, 1))
    run.copy("p0002", numbered(501, 1))
    run.finish()
    assert dataset.ids() == [*range(20), 500, 501]
    assert dataset.stray() == []
    dataset.load("r4", "append")
    with pytest.raises(PlanningError, match="a run that selected everything"):
        dataset.create("r5", "replace", where="day = 3")


def test_a_run_replaces_files_of_a_failed_run_with_the_same_condition(dataset: Dataset) -> None:
    failed = dataset.create("r1", "replace", where="day = 1")
    failed.copy("p0001", numbered(0, 10))
    dataset.load("r2", "replace", where="day = 1", rows=3)
    assert dataset.ids() == list(range(6))
    assert dataset.stray() == []


def test_a_run_replaces_given_partitions(dataset: Dataset) -> None:
    def days(*numbers: int) -> list[Partition]:
        return [
            Partition(
                f"d{n}", KeyRange(Key("id"), Bound("int8", f"{n}"), Bound("int8", f"{n + 1}"))
            )
            for n in numbers
        ]

    dataset.load("r1", "replace", partitions=days(1, 2), chooses_partitions=True)
    run = dataset.create("r2", "replace", partitions=days(2, 3), chooses_partitions=True)
    run.copy("d2", numbered(100, 1))
    run.copy("d3", numbered(200, 1))
    run.finish()
    assert dataset.ids() == [*range(10), 100, 200]
    assert dataset.stray() == []


def test_two_concurrent_runs_into_one_folder(dataset: Dataset) -> None:
    first = dataset.create("r1", "replace", where="day = 1")
    second = dataset.create("r2", "replace", where="day = 2")
    for run, start in ((first, 0), (second, 100)):
        run.copy("p0001", numbered(start, 10))
        run.copy("p0002", numbered(start + 10, 10))
    with closing(dataset.target()) as one, closing(dataset.target()) as other:
        real = one._storage.documents.replace
        calls: list[str] = []

        def late(name: str, content: bytes, version: str) -> bool:
            if name == "manifest.json" and not calls:
                calls.append(name)
                # Between the first process's read of the manifest and its write.
                other.control.steps.finish("r2", second.plan.load.after[0])
            return real(name, content, version)

        one._storage.documents.replace = late
        one.control.steps.finish("r1", first.plan.load.after[0])
        assert calls
    first.finish()
    second.finish()
    assert dataset.ids() == [*range(20), *range(100, 120)]
    assert dataset.stray() == []


def test_a_kill_in_the_last_steps(dataset: Dataset) -> None:
    dataset.load("r1", "replace")
    run = dataset.create("r2", "replace")
    for partition in run.plan.partitions:
        run.copy(partition.id, numbered(100, 3))
    with closing(dataset.target()) as target:
        hooks_of(target).runs.write = lambda *_: _die()  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            target.control.steps.finish("r2", run.plan.load.after[0])
    run.finish()
    assert dataset.ids() == [100, 100, 101, 101, 102, 102]
    assert dataset.stray() == []


def test_leftover_uploads_are_removed_at_the_end(dataset: Dataset) -> None:
    run = dataset.create("r1")
    other = dataset.create("r1-p0001")  # a name with the same prefix
    run.killed("p0001", 0, 10, f"{RECORDS}.write")
    other.killed("p0001", 0, 10, f"{RECORDS}.write")
    assert len(dataset.pending_uploads()) == 2
    run.copy("p0001", numbered(0, 10), number=2)
    run.copy("p0002", numbered(10, 10))
    run.finish()
    (remaining,) = dataset.pending_uploads()
    assert "r1-p0001-p0001-" in remaining


def test_a_partition_is_copied_again(dataset: Dataset) -> None:
    run = dataset.load("r1")
    with closing(dataset.target()) as target:
        control = target.control
        control.recopies.check("r1")
        for _ in range(2):  # a repeated request changes nothing
            forgotten = control.recopies.forget("r1", ["p0001"], "again", rows_of=TABLE, patience=0)
            assert forgotten <= {"p0001"}
        assert control.recopies.of("r1", "again") == {"p0001"}
        assert [r.partition_id for r in control.commits.of(["r1"])["r1"]] == ["p0002"]
        assert control.steps.done(["r1"])["r1"] == frozenset()
    # The old rows remain until the new ones are committed.
    assert dataset.ids() == list(range(20))
    run.copy("p0001", numbered(50, 5), number=2)
    assert dataset.ids() == [*range(10, 20), *range(50, 55)]
    with closing(dataset.target()) as target:
        assert (
            control.recopies.forget("r1", ["p0001"], "again", rows_of=TABLE, patience=0)
            == frozenset()
        )
    run.finish()
    assert dataset.ids() == [*range(10, 20), *range(50, 55)]
    assert dataset.stray() == []


def test_an_older_attempt_cannot_undo_a_request_to_copy_again(dataset: Dataset) -> None:
    run = dataset.create("r1")
    with run.attempt("p0001") as old:
        assert old.begin()
        old.write(numbered(0, 10))
        with closing(dataset.target()) as target:
            target.control.recopies.forget("r1", ["p0001"], "again", rows_of=TABLE, patience=0)
        with pytest.raises(TransientError):
            old.commit(old.end())
    assert run.copy("p0001", numbered(50, 5), number=2)
    assert dataset.ids() == list(range(50, 55))


@pytest.mark.parametrize("at", [f"{RECORDS}.write!", f"{RECORDS}.publish", f"{RECORDS}.publish!"])
def test_a_kill_while_a_partition_is_copied_again(dataset: Dataset, at: str) -> None:
    run = dataset.load("r1")
    with closing(dataset.target()) as target:
        target.control.recopies.forget("r1", ["p0001"], "again", rows_of=TABLE, patience=0)
    run.killed("p0001", 50, 5, at)
    assert not run.copy("p0001", numbered(50, 5), number=3)
    run.finish()
    assert dataset.ids() == [*range(10, 20), *range(50, 55)]
    assert dataset.stray() == []


def test_a_series_loads_each_partition_once(dataset: Dataset) -> None:
    options: dict[str, Any] = {"series": "daily", "chooses_partitions": True}
    first, second = dataset.create("r1", **options), dataset.create("r2", **options)
    assert first.copy("p0001", numbered(0, 10))
    with pytest.raises(PermanentError, match="p0001 has already been loaded by run r1"):
        second.copy("p0001", numbered(0, 10))
    # A stopped attempt's claim is taken over, so the attempt cannot commit when it wakes up.
    with first.attempt("p0002") as stopped:
        assert stopped.begin()
        stopped.write(numbered(10, 10))
        assert second.copy("p0002", numbered(10, 10))
        with pytest.raises(TransientError):
            stopped.commit(stopped.end())
    with pytest.raises(PermanentError, match="p0002 has already been loaded by run r2"):
        first.copy("p0002", numbered(10, 10), number=2)
    with closing(dataset.target()) as target:
        loaded = target.control.commits.in_series("daily")
        assert {name: run_id for name, (run_id, _) in loaded.items()} == {
            "p0001": "r1",
            "p0002": "r2",
        }
        assert loaded["p0001"][1].rows == 10
        assert target.control.commits.in_series("weekly") == {}
    assert dataset.ids() == list(range(20))


def test_unknown_files_are_rejected(dataset: Dataset) -> None:
    foreign = pa.table({"id": [1]})
    if dataset.server is None:
        dataset.root.mkdir(parents=True)
    pq.write_table(foreign, f"{dataset.path}/part-0.parquet", filesystem=dataset.file_system)
    cases: list[dict[str, Any]] = [{"mode": "append"}, {"mode": "replace", "where": "id = 1"}]
    for options in cases:
        with pytest.raises(PlanningError, match=r"not written by Penstock.*part-0"):
            dataset.create("r1", **options)
    load = dataset.load("r2", "replace").plan.load
    assert load.warnings[0].startswith("1 Parquet file not written by Penstock will be")
    assert "remove replaced files (1 Parquet file) and leftovers" in [s.name for s in load.after]
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []
    load = dataset.load("r3", "truncate").plan.load
    assert load.before[0].name.startswith("remove 2 Parquet files from ")
    assert load.warnings == ()


def test_append_rejects_a_dataset_with_an_unfinished_run(dataset: Dataset) -> None:
    dataset.create("r1").copy("p0001", numbered(0, 10))
    with pytest.raises(PlanningError, match="files of run r1, which is not done"):
        dataset.create("r2")
    dataset.load("r3", "truncate", rows=1)
    assert dataset.ids() == [0, 1]


def test_a_run_fails_if_another_removed_its_files(dataset: Dataset) -> None:
    run = dataset.create("r1")
    run.copy("p0001", numbered(0, 10))
    run.copy("p0002", numbered(10, 10))
    dataset.load("r2", "truncate", rows=1)
    with pytest.raises(TargetChanged, match="replaced, by run r2, since run r1 began to load"):
        run.finish()
    assert dataset.ids() == [0, 1]


def test_folders_by_partition_columns(dataset: Dataset) -> None:
    run = dataset.load("r1", partition_by=("day", "name"), rows=20)
    table = dataset.rows()
    assert sorted(table["id"].to_pylist()) == list(range(40))
    names = {row["id"]: row["name"] for row in table.select(["id", "name"]).to_pylist()}
    assert names == {n: None if n % 7 == 0 else f"name {n}" for n in range(40)}
    assert any("name=__HIVE_DEFAULT_PARTITION__/" in name for name in dataset.data())
    assert any("day=2022-01-09/name=name " in name for name in dataset.data())
    schema = pq.read_schema(f"{dataset.path}/{dataset.data()[0]}", filesystem=dataset.file_system)
    assert schema.names == ["id"]
    assert run.committed() == {"p0001": 20, "p0002": 20}
    assert dataset.stray() == []
    with pytest.raises(PlanningError, match=r"--partition-by: expected day,name"):
        dataset.create("r2")
    dataset.load("r3", "truncate", partition_by=("day",))
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []


def test_files_are_split_at_row_groups(dataset: Dataset) -> None:
    run = dataset.create("r1", row_group_size=100, file_size=1500, compression="none")
    run.copy("p0001", *(numbered(n, 64) for n in range(0, 640, 64)))
    files = [
        pq.read_metadata(f"{dataset.path}/{name}", filesystem=dataset.file_system)
        for name in dataset.data()
    ]
    assert len(files) > 1
    groups = [
        found.row_group(index).num_rows for found in files for index in range(found.num_row_groups)
    ]
    assert sorted(groups) == [40, 100, 100, 100, 100, 100, 100]
    assert files[0].row_group(0).column(0).compression == "UNCOMPRESSED"
    assert dataset.ids() == list(range(640))


def test_state_of_a_run(dataset: Dataset) -> None:
    with closing(dataset.target()) as target:
        assert target.control.runs.find("r1") is None
        assert target.control.runs.outlook("r1") is None
        assert not target.control.runs.release_snapshot("r1")
    run = dataset.create("r1")
    run.copy("p0001", numbered(0, 10))
    with closing(dataset.target()) as target:
        control = target.control
        found = control.runs.find("r1")
        assert found is not None
        assert found.plan.fingerprint == run.plan.fingerprint
        assert (found.status, found.generation, found.prepared_at is None) == ("running", 1, False)
        outlook = control.runs.outlook("r1")
        assert outlook is not None
        assert (outlook.pending, outlook.released) == (1, False)
        assert control.runs.release_snapshot("r1")
        assert control.runs.find("r1").released_at  # type: ignore[union-attr]
        assert control.runs.require_snapshot("r1")
        control.runs.set_statuses({"r1": ("failed", [{"label": "p"}])})
        found = control.runs.find("r1")
        assert found is not None
        assert (found.status, found.failures, found.released_at) == (
            "failed",
            ({"label": "p"},),
            None,
        )
        with pytest.raises(TransientError, match="expected every partition to be committed"):
            control.steps.finish("r1", run.plan.load.after[0])
        assert control.presence.running_attempts("r1") == ()
        assert not control.runs.create([NewRun("r1", run.spec.stored(), run.plan, STATE, None)])
    (document,) = [name for name in dataset.names() if name.startswith("_penstock/runs/r1/plan")]
    assert document


def test_duckdb_sees_the_committed_rows(dataset: Dataset) -> None:
    if dataset.server is not None:
        pytest.skip("DuckDB needs an extension, which is not at hand here, to read S3 by itself")
    run = dataset.create("r1")
    run.copy("p0001", numbered(0, 10))
    with run.attempt("p0002") as attempt:
        attempt.begin()
        attempt.write(numbered(10, 10))
        attempt.end()
        query = f"SELECT count(*), sum(id) FROM read_parquet('{dataset.root}/**/*.parquet')"
        assert duckdb.execute(query).fetchall() == [(10, 45)]


def test_the_manifest_lists_the_files(dataset: Dataset) -> None:
    dataset.load("r1", "replace", where="id < 20")
    raw = (
        (dataset.root / "_penstock/manifest.json").read_bytes()
        if dataset.server is None
        else dataset.server.read(dataset.bucket, f"{dataset.key}/_penstock/manifest.json")
    )
    found = json.loads(raw)
    entries = [(e["rows"], e["run"], e["partition"], e["selection"]) for e in found["files"]]
    selection = {"where": "id < 20", "extent": None}
    assert entries == [(10, "r1", "p0001", selection), (10, "r1", "p0002", selection)]


def test_rows_are_compared_by_partition(dataset: Dataset) -> None:
    schema = pa.schema([*SCHEMA, pa.field("x", pa.float64())])

    def rows(first: int, count: int) -> pa.RecordBatch:
        plain = numbered(first, count)
        floats = pa.array([n / 3 for n in range(first, first + count)])
        return pa.RecordBatch.from_arrays([*plain.columns, floats], schema=schema)

    run = dataset.create("r1", "truncate", schema=schema)
    run.copy("p0001", rows(0, 10))
    run.copy("p0002", rows(10, 10))
    other = dataset.create("r2", chooses_partitions=True, schema=schema)
    other.copy("p0001", rows(0, 10))
    with closing(dataset.target()) as target:
        records = target.control.commits.of(["r1"])["r1"]
        mine = target.checksums(TABLE, None, records, run.plan.pairs, digest_others=True)
        theirs = target.checksums(
            TABLE,
            None,
            target.control.commits.of(["r2"])["r2"],
            run.plan.pairs,
            digest_others=False,
        )
        assert mine is not None
        assert theirs is not None
        assert {name: sum_.rows for name, sum_ in mine.items()} == {
            "p0001": 10,
            "p0002": 10,
            "": 10,
        }
        assert mine["p0001"] == theirs["p0001"] == mine[""]
        assert mine["p0001"].digest != mine["p0002"].digest
        counted = target.checksums(TABLE, None, records, (), digest_others=True)
        assert counted is not None
        assert counted["p0002"].rows == 10
        whole = target.checksum(TABLE, "id < 5", Whole(), run.plan.pairs)
        assert whole.rows == 10
        digests = list(
            target.row_digests(TABLE, None, Whole(), run.plan.pairs, ["id"], loaded_by=[records[0]])
        )
        assert [key for key, _ in digests] == [str(n) for n in range(10)]
        remaining = list(
            target.row_digests(TABLE, None, Whole(), run.plan.pairs, ["id"], not_loaded_by=records)
        )
        assert remaining == digests
