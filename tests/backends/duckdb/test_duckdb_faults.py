"""DuckDB files while processes are killed or stopped, or hold the file: each row arrives once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock import BatchSpec, CopySpec
from penstock.backends.api.registry import find_backend
from penstock.backends.api.worker import ARROW
from penstock.backends.duckdb.writer import open_writer
from penstock.backends.shared.attempts import attempt_files
from penstock.backends.shared.attempts.attempt_files import AttemptFiles
from penstock.backends.shared.attempts.file_stage import FileStage
from penstock.backends.shared.attempts.locked_files import create
from penstock.backends.shared.values.arrow import schema_to_text
from penstock.errors import (
    PenstockError,
    PermanentError,
    RunFailed,
    Superseded,
    TransientError,
)
from penstock.events import Committed, Failed, Opened
from penstock.model.extents import Whole
from penstock.model.plans import Partition, Step
from penstock.model.snapshots import Snapshot
from penstock.model.tables import ColumnPair, Located, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter

from ...control_calls import prepare
from .duckdb_tables import Database, numbered

ROWS = 400_000
HOLDING = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "source.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS id, md5(CAST(i AS VARCHAR)) AS note, i / 7 AS part"
            f" FROM range({ROWS}) AS r (i)"
        )
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.duckdb"


def spec(source: Path, target: Path, **options: Any) -> CopySpec:
    defaults: dict[str, Any] = {
        "table": "main.t", "degree": 2, "strategy": "ctid", "partitions": 3, "mode": "truncate",
        **options,
    }  # fmt: skip
    return CopySpec(source=f"duckdb:///{source}", target=f"duckdb:///{target}", **defaults)


def check_once(target: Path) -> None:
    with duckdb.connect(str(target), read_only=True) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT id), sum(id) FROM t").fetchall()
    assert found == [(ROWS, ROWS, ROWS * (ROWS - 1) // 2)]
    assert not os.path.exists(f"{target}.penstock")


def staged(target: Path) -> list[Path]:
    return list(Path(f"{target}.penstock").glob("*.arrows"))


def is_loading(target: Path, pid: int) -> bool:
    """Whether a worker has the database open to insert staged rows."""
    lock = Path(f"{target}.penstock/lock")
    try:
        return lock.read_text() == str(pid) and any(file.stat().st_size for file in staged(target))
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_worker_that_is_killed_while_it_loads(source: Path, target: Path) -> None:
    killed: list[str] = []
    events = []
    for event in penstock.copy(spec(source, target, degree=1)):
        events.append(event)
        if isinstance(event, Opened) and not killed:
            until(partial(is_loading, target, event.pid))
            os.kill(event.pid, signal.SIGKILL)
            killed.append(event.partition_id)
    assert [e.partition_id for e in events if isinstance(e, Failed)] == killed
    assert len({e.partition_id for e in events if isinstance(e, Committed)}) == 3
    check_once(target)


def begin(source: Path, target: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "penstock.cli.main", "copy", "--source", f"duckdb:///{source}",
            "--target", f"duckdb:///{target}", "--table", "main.t", "--run-id", "run",
            "--strategy", "ctid", "--partitions", "3", "--degree", "1", "--mode", "truncate",
            "--json", *options,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def ends(source: Path, target: Path) -> dict[str, Any]:
    return {"source": f"duckdb:///{source}", "target": f"duckdb:///{target}"}


def test_a_killed_run_is_resumed(source: Path, target: Path) -> None:
    with begin(source, target) as process:
        next(event for event in events_of(process) if event["event"] == "committed")
        process.kill()
    *_, finished = penstock.resume("run", **ends(source, target))
    assert isinstance(finished, penstock.Finished)
    assert finished.status == "done"
    check_once(target)
    records = penstock.status("run", target=f"duckdb:///{target}").committed
    assert sum(record.rows for record in records) == ROWS


def test_a_run_stops_if_the_source_has_changed(source: Path, target: Path) -> None:
    with begin(source, target) as process:
        next(event for event in events_of(process) if event["event"] == "committed")
        process.kill()

    def write() -> bool:
        # Workers of the killed run end by themselves.
        try:
            with duckdb.connect(str(source)) as connection:
                connection.execute("UPDATE t SET note = 'other' WHERE id = 3")
        except duckdb.IOException:
            return False
        return True

    until(write)
    with pytest.raises(PermanentError, match="rewritten"):
        list(penstock.resume("run", **ends(source, target)))
    *_, finished = penstock.resume("run", **ends(source, target), on_snapshot_lost="restart")
    assert isinstance(finished, penstock.Finished)
    assert finished.status == "done"
    check_once(target)


def test_a_stopped_worker_changes_nothing(source: Path, target: Path) -> None:
    with begin(source, target) as process:
        pid = next(event["pid"] for event in events_of(process) if event["event"] == "opened")
        until(lambda: any(file.stat().st_size for file in staged(target)))
        os.kill(pid, signal.SIGSTOP)
        try:
            *_, finished = penstock.resume("run", **ends(source, target), grace=0.5)
            assert isinstance(finished, penstock.Finished)
            assert finished.status == "done"
        finally:
            os.kill(pid, signal.SIGCONT)
        list(events_of(process))
    check_once(target)


def test_a_stage_swept_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage is swept before its attempt locks it, or before a stalled attempt loads it."""
    path = str(tmp_path / "target.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (id BIGINT)")
    control = (
        find_backend("duckdb://", "--target")[0].target(f"duckdb:///{path}", "penstock").control
    )
    control.create()
    with duckdb.connect(path) as connection:
        connection.execute(
            "INSERT INTO penstock.run (run_id, spec, plan, fingerprint, source_state, snapshots)"
            " VALUES ('run', '{}', '{}', '', '{}', '[]')"
        )
    expected_schema = pa.schema([("id", pa.int64())])
    worker_spec = WorkerSpec(
        run_id="run", generation=1, source="", target=f"duckdb:///{path}", source_backend="",
        target_backend="", relation=Located(), target_table=TableRef("main", "t"),
        pairs=(ColumnPair("id", "id"),), format=ARROW, where=None, mode="append",
        conflict_columns=(), volatile=False, series="", snapshot=None, stall_timeout=30, grace=1,
        control_schema="penstock", schema=schema_to_text(expected_schema), writing={},
    )  # fmt: skip
    wait = Waiter(Meter(), 30)
    writer = open_writer(path, worker_spec)
    files = AttemptFiles(f"{path}.penstock")
    unswept = [files]

    def created(folder: str, name: str) -> int:
        descriptor = create(folder, name)
        if unswept:
            unswept.pop().sweep()
        return descriptor

    monkeypatch.setattr(attempt_files, "create", created)
    assert writer.begin(Partition("p0001", Whole()), 1, wait)
    writer.write(pa.record_batch([[1, 2]], schema=expected_schema), wait)
    (stage,) = staged(Path(path))
    assert files.find_all()[0].is_alive()

    def remove_stage(self: Any) -> None:
        os.unlink(stage)

    monkeypatch.setattr(FileStage, "check_held", remove_stage)
    with pytest.raises(TransientError, match="a newer one has taken its place"):
        writer.end(wait)
    writer.abandon()
    with duckdb.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


@pytest.mark.parametrize(("size", "is_compressed"), [(256 << 20, False), (None, True)])
def test_large_stages_are_compressed(tmp_path: Path, size: int | None, is_compressed: bool) -> None:
    """A stream of an unknown size might fill the disk."""
    run = Database.make(tmp_path / "target.duckdb").create("run")
    ids = range(50_000)
    with run.attempt("p0000") as attempt:
        attempt.partition = replace(attempt.partition, bytes=size)
        assert attempt.begin()
        batch = numbered(ids, "a")
        attempt.write(batch)
        loaded = attempt.end()
        (stage,) = staged(run.database.path)
        assert (Path(stage).stat().st_size < batch.nbytes) == is_compressed
        attempt.commit(loaded)
    assert run.database.ids() == Counter(ids)


def test_a_target_open_in_another_process(source: Path, target: Path) -> None:
    with holding(target) as process:
        with pytest.raises(TransientError, match=rf"is open .* \(PID {process.pid}\)"):
            list(penstock.copy(spec(source, target)))
        assert process.stdin is not None
        process.stdin.close()
    list(penstock.copy(spec(source, target)))
    check_once(target)


def test_a_source_open_for_writing(source: Path, target: Path) -> None:
    with (
        holding(source) as process,
        pytest.raises(TransientError, match=rf"open for writing .* \(PID {process.pid}\)"),
    ):
        list(penstock.copy(spec(source, target)))
    assert not target.exists()


def holding(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_worker_continues_after_a_failed_attempt(tmp_path: Path, target: Path, side: str) -> None:
    """The worker reopens the database, so the failed attempt must have closed everything."""
    path = tmp_path / "several.duckdb"
    spoilt = "'infinity'" if side == "source" else "NULL"
    with duckdb.connect(str(path)) as connection, duckdb.connect(str(target)) as target_connection:
        for number in range(4):
            connection.execute(
                f"CREATE TABLE t{number} AS SELECT i AS id, CASE WHEN i = 5000 AND {number} < 2"
                f" THEN {spoilt} ELSE DATE '2020-01-01' END::DATE AS day FROM range(200000) r (i)"
            )
            target_connection.execute(f"CREATE TABLE t{number} (id BIGINT, day DATE NOT NULL)")
    batch = BatchSpec.from_mapping(
        {
            "source": f"duckdb:///{path}", "target": f"duckdb:///{target}", "tables": ["main.*"],
            "mode": "append", "degree": 1, "on_error": "continue",
        },
        "test",
    )  # fmt: skip
    with pytest.raises(RunFailed, match="2 of 4 tables are not done"):
        list(penstock.copy_all(batch))
    with duckdb.connect(str(target), read_only=True) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM t{number}").fetchall() for number in range(4)
        ]
    assert counts == [[(0,)], [(0,)], [(200_000,)], [(200_000,)]]


def test_a_dry_run_changes_nothing(source: Path, target: Path) -> None:
    before = sorted(os.listdir(source.parent))
    plan = penstock.plan(spec(source, target))
    assert len(plan.partitions) == 3
    assert "columns created: id BIGINT, note VARCHAR, " in plan.reasons[-1]
    assert sorted(os.listdir(source.parent)) == before
    with pytest.raises(PenstockError, match="nope"):
        penstock.status("nope", target=f"duckdb:///{target}")
    assert sorted(os.listdir(source.parent)) == before


def test_two_executions_of_one_run(source: Path, target: Path) -> None:
    """An execution notices that another one has changed the run."""
    prepared = penstock.create(spec(source, target, run_id="run"))
    backend, _ = find_backend("duckdb://", "--target")
    control = backend.target(f"duckdb:///{target}", "penstock").control
    run, load = prepared.run, prepared.run.plan.load
    assert prepare(control, "run", load)
    assert not prepare(control, "run", load)
    assert control.generations.start_over("run", 1, load, run.source_state, None) == 2
    with pytest.raises(Superseded):
        control.generations.start_over("run", 1, load, run.source_state, None)
    snapshots = (Snapshot("token", "now"),)
    assert (
        control.generations.set_view(
            "run", 2, (), run.source_state, snapshots, nothing_committed=True
        )
        == 3
    )
    with pytest.raises(Superseded):
        control.generations.set_view(
            "run", 2, (), run.source_state, snapshots, nothing_committed=True
        )
    assert control.runs.release_snapshot("run")
    outlook = control.runs.outlook("run")
    assert outlook is not None
    assert (outlook.generation, outlook.pending, outlook.released) == (3, 3, True)
    assert control.runs.require_snapshot("run")
    assert not control.runs.require_snapshot("none")
    with pytest.raises(TransientError):
        control.steps.finish("run", Step("swap", "not yet", "SELECT 1", after=True))
