"""`penstock tune` into files: it writes to a folder beside the target, and removes it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock import PlanningError, Tuning, tune
from penstock.tuning.sweep import SweepNote, SweepStarted

from ..cli import Cli
from ..faults.cli import eventually

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

SMALL: dict[str, Any] = {"partitions": "128kB"}
OPTIONS = ("--table", "t", "--partitions", "128kB")
MINE = "CREATE TABLE t (n int PRIMARY KEY DEFAULT nextval('numbers'), pad text)"


@pytest.fixture
def source(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE t (n int PRIMARY KEY, pad text)",
        "INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(1, 20000) AS n",
        "VACUUM ANALYZE t",
    )
    return pair


def database(folder: Path) -> dict[str, Any]:
    """Create a database with a table, an index, and a sequence in another schema than the table."""
    path = folder / "it's ö.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in (
            "CREATE SEQUENCE numbers", "CREATE SCHEMA other", "CREATE SEQUENCE other.numbers",
            MINE, "CREATE INDEX pads ON t (pad)", "INSERT INTO t VALUES (-1, 'mine')",
        ):  # fmt: skip
            connection.execute(statement)
    return {"target": f"duckdb:///{path}", "target_table": "main.t"}


def dataset(folder: Path) -> dict[str, Any]:
    path = folder / "it's ö"
    path.mkdir()
    return {"target": str(path), "target_table": None}


every = pytest.mark.parametrize("make", [database, dataset], ids=["duckdb", "parquet"])
Make = Callable[[Path], dict[str, Any]]


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def is_as(before: dict[str, bytes], folder: Path) -> bool:
    """Whether the folder is unchanged; workers of a killed process may still be cleaning up."""
    try:
        return state(folder) == before
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("make", "mode"),
    [(database, "append"), (database, "swap"), (dataset, "truncate"), (dataset, "recreate")],
)
def test_each_setting_is_measured_and_nothing_left_behind(
    source: Pair, tmp_path: Path, make: Make, mode: str
) -> None:
    target = make(tmp_path)
    before = state(tmp_path)
    spec = source.spec(**target, **SMALL, mode=mode)
    *_, result = tune(spec, degrees=(1, 2), sample=1 << 20)
    assert isinstance(result, Tuning)
    assert [len(each.copies) for each in result.figures] == [1, 1]
    assert result.figures[0].typical.rows > 0
    assert state(tmp_path) == before


def test_the_scratch_table_is_like_the_target(source: Pair, tmp_path: Path) -> None:
    events = tune(source.spec(**database(tmp_path), **SMALL), degrees=(2,), sample=1 << 20)
    for each in events:
        if isinstance(each, SweepStarted) and each.number == 1:
            break
    (scratch,) = tmp_path.glob("*.penstock_tune_*/scratch.duckdb")
    with duckdb.connect(str(scratch)) as connection:
        found = connection.execute(
            "SELECT (SELECT count(*) FROM t) > 1000, (SELECT count(*) FROM duckdb_indexes()),"
            " (SELECT sql FROM duckdb_tables() WHERE table_name = 't')"
        ).fetchone()
    events.close()
    assert found is not None
    assert found[:2] == (True, 1)
    assert "nextval('numbers')" in found[2]
    assert "PRIMARY KEY" in found[2]


@every
def test_a_target_that_does_not_exist(source: Pair, tmp_path: Path, make: Make) -> None:
    place = "duckdb:///{}/new.duckdb" if make is database else "{}/new"
    target = {**make(tmp_path), "target": place.format(tmp_path)}
    before = state(tmp_path)
    *_, result = tune(source.spec(**target, **SMALL), degrees=(2,), sample=1 << 20)
    assert isinstance(result, Tuning)
    assert state(tmp_path) == before


def is_begun(folder: Path) -> bool:
    """Whether anything has been staged or written in the folder."""
    with suppress(FileNotFoundError):  # a folder that is removed while it is read
        return any((*folder.rglob("*.arrows"), *folder.rglob("dataset")))
    return False


@pytest.fixture
def start_tune(source: Pair, tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], Cli]]:
    """Start a tune that would take minutes, and wait for its first rows."""
    processes: list[Cli] = []

    def begin(target: dict[str, Any]) -> Cli:
        named = ["--target-table", "main.t"] if target["target_table"] else []
        with open(os.devnull, "wb") as nowhere:
            process = Cli(
                ["tune", "--source", source.source.url, "--target", target["target"], *named,
                 *OPTIONS, "--degrees", "2", "--max-rate", "20kB"],
                stderr=nowhere,
            )  # fmt: skip
        processes.append(process)
        deadline = time.monotonic() + 60
        while not is_begun(tmp_path):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@every
def test_an_interrupted_tune_leaves_no_folder(
    start_tune: Callable[[dict[str, Any]], Cli], tmp_path: Path, make: Make
) -> None:
    target = make(tmp_path)
    before = state(tmp_path)
    process = start_tune(target)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert state(tmp_path) == before


@every
def test_leftovers_of_a_killed_tune_are_removed_by_the_next(
    source: Pair, start_tune: Callable[[dict[str, Any]], Cli], tmp_path: Path, make: Make
) -> None:
    target = make(tmp_path)
    before = state(tmp_path)
    process = start_tune(target)
    (folder,) = tmp_path.glob("*.penstock_tune_*")
    spec = source.spec(**target, **SMALL)
    # The folder of a running tune is left alone.
    events = [str(each) for each in tune(spec, degrees=(2,), sample=1 << 20)]
    assert not [each for each in events if "dropped " in each]
    assert folder.is_dir()
    process.kill()
    process.wait(30)
    time.sleep(1)  # its workers end
    first, *_ = tune(spec, degrees=(2,), sample=1 << 20)
    assert isinstance(first, SweepNote)
    assert folder.name in first.text
    eventually("nothing is left", lambda: is_as(before, tmp_path), 30)


def test_unsuitable_targets_are_refused(source: Pair, tmp_path: Path) -> None:
    target = database(tmp_path)
    with duckdb.connect(target["target"].removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE TABLE child (n int REFERENCES t (n), pad text)")
    spec = source.spec(**{**target, "target_table": "main.child"}, **SMALL)
    with pytest.raises(PlanningError, match=r"main\.child has foreign keys"):
        next(tune(spec))
    bucket = source.spec(target="s3://bucket/lake?access_key_id=a&secret_access_key=b", **SMALL)
    with pytest.raises(PlanningError, match="expected a local folder") as refused:
        next(tune(bucket))
    assert "secret_access_key" not in str(refused.value)
