"""Workers in the processes of executors, one of which is killed while it copies a partition."""

from __future__ import annotations

import multiprocessing
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import penstock
from penstock import BatchSpec, CopySpec, RunFailed, RunFailedTransiently, UsageError, WorkResult

from .cli import PATIENCE, eventually
from .pair import PARTITIONS, ROWS, RUN_ID, Pair, ask, execute

OPERATE = Path(__file__).resolve().parents[2] / "docs/operate.md"
WORKERS = 3
Ends = Mapping[str, Any]
ENDS: Ends = {"source": "env:FAULTS_SOURCE", "target": "env:FAULTS_TARGET"}
NURSERY = "penstock.workers.fork_server"


def spec(**options: Any) -> CopySpec:
    return CopySpec(
        **{
            **ENDS,
            "table": "public.item",
            "run_id": RUN_ID,
            "strategy": "ctid",
            "partitions": PARTITIONS,
            **options,
        }
    )


def copying(parent: int) -> list[psutil.Process]:
    """Return the processes below one that have started a nursery, which forks their workers."""
    below = psutil.Process(parent).children(recursive=True)
    nurseries = [process for process in below if NURSERY in _command(process)]
    parents = {process.ppid() for process in nurseries} - {process.pid for process in nurseries}
    return [process for process in below if process.pid in parents]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def kill_one(before: Collection[psutil.Process]) -> None:
    """Kill a worker once all of them copy.

    Args:
        before: processes that other tests have left, and keep.
    """

    def mine() -> list[psutil.Process]:
        return [each for each in copying(os.getpid()) if each not in before]

    eventually("all copy", lambda: len(mine()) == WORKERS, PATIENCE)
    mine()[0].kill()


@contextmanager
def process_pool() -> Iterator[Executor]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        yield pool


@contextmanager
def dask() -> Iterator[Executor]:
    pytest.importorskip("distributed", reason="no distributed: pip install distributed")
    import dask as dask_settings  # noqa: PLC0415 - it may be absent
    from distributed import Client, LocalCluster  # noqa: PLC0415

    with (
        # Otherwise Dask itself would repeat the call, without a word.
        dask_settings.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        yield client.get_executor()


def ray_executor() -> type[Executor]:
    """Return the class of the page, which is what users have."""
    text = OPERATE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n([^`]*?class OnRay.*?)```", text, re.DOTALL)
    definition, _, _ = code.partition("\nray.init")
    found: dict[str, Any] = {}
    exec(definition, found)
    executor: type[Executor] = found["OnRay"]
    return executor


@contextmanager
def ray() -> Iterator[Executor]:
    pytest.importorskip("ray", reason="no ray: pip install ray, on Linux")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray") as folder:
        # It asks nobody outside, and writes nothing into the home folder.
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        import ray as ray_core  # noqa: PLC0415 - it may be absent

        ray_core.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=80_000_000,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            yield ray_executor()()
        finally:
            ray_core.shutdown()


@pytest.fixture
def ends(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Put both connections, through the proxy, where processes inherit them."""
    pair.proxy("source")
    for side in ("source", "target"):
        monkeypatch.setenv(f"FAULTS_{side.upper()}", pair._route(side))
    return ENDS


def kill_one_of(executor: Executor, pair: Pair, run: CopySpec | str = "") -> Future[WorkResult]:
    """Copy, kill one worker while each has a partition, and return how it ended."""
    gates, before = pair.gates(1, 2, 3), copying(os.getpid())
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(
            lambda: penstock.work_on(executor, run or spec(), workers=WORKERS, streams=1)
        )
        try:
            for gate in gates:
                while not gate.wait(0.1):
                    assert not result.done(), result.exception()
            kill_one(before)
        finally:
            for gate in gates:
                gate.open()
        result.exception(PATIENCE)
    return result


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_lost_process_is_replaced(name: str, pair: Pair, ends: Ends) -> None:
    with dask() if name == "dask" else ray() as executor:
        result = kill_one_of(executor, pair).result()
        again = penstock.work_on(executor, spec(), workers=1)
    assert result.lost == 1
    assert [worker.worker for worker in result.workers] == [*range(WORKERS)]
    assert all(worker.error is None for worker in result.workers)
    # The killed worker may have committed some, and tells nobody.
    assert 3 <= result.partitions == sum(worker.partitions for worker in result.workers)
    assert result.rows == sum(worker.rows for worker in result.workers) <= ROWS
    assert (again.partitions, again.rows, again.lost) == (0, 0, 0)
    pair.check_done()


def test_a_pool_that_cannot_go_on_ends_and_another_one_does(pair: Pair, ends: Ends) -> None:
    with process_pool() as executor:
        ended = kill_one_of(executor, pair)
    with pytest.raises(RunFailedTransiently, match=f"call work_on again with '{RUN_ID}'"):
        ended.result()
    pair.check_nothing_left()
    before = len(pair.attempts())
    with process_pool() as executor:
        result = penstock.work_on(executor, RUN_ID, workers=WORKERS, streams=1, **ends)
    assert result.partitions == PARTITIONS - before
    assert result.partitions == sum(worker.partitions for worker in result.workers)
    pair.check_done()


def test_a_batch_is_shared(pair: Pair, ends: Ends) -> None:
    execute(pair.source, "CREATE TABLE other AS SELECT id FROM item WHERE id <= 100")
    execute(pair.target, "CREATE TABLE other (id bigint)")
    batch = BatchSpec(**ends, tables=("public.*",), run_id="both", defaults={"mode": "truncate"})
    with process_pool() as executor:
        result = penstock.work_on(executor, batch, workers=2, streams=1)
    assert (result.run_id, result.rows) == ("both", ROWS + 100)
    assert all(worker.error is None for worker in result.workers)
    assert ask(pair.target, "SELECT count(DISTINCT id) FROM other") == 100
    pair.check_content()


def test_errors_of_workers_are_those_of_a_copy(
    pair: Pair, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process_pool() as executor:
        with pytest.raises(UsageError, match=r"worker \d on .*: run 'faults' is not in"):
            penstock.work_on(executor, RUN_ID, workers=2, **ends)
        execute(pair.target, "ALTER TABLE item ADD CONSTRAINT small CHECK (id <= 5)")
        with pytest.raises(RunFailed, match=r"worker \d on .*violates check constraint"):
            penstock.work_on(executor, spec(), workers=2, streams=1)
        execute(pair.target, "ALTER TABLE item DROP CONSTRAINT small")
        # The pool's processes have started, and keep their environment.
        monkeypatch.delenv("FAULTS_SOURCE")
        result = penstock.work_on(executor, RUN_ID, workers=2, streams=1, **ends)
        assert result.rows == ROWS
    with process_pool() as executor, pytest.raises(UsageError, match="FAULTS_SOURCE"):
        penstock.work_on(executor, RUN_ID, workers=1, **ends)
    pair.check_done()


def test_what_is_refused(pair: Pair, ends: Ends) -> None:
    secret = "postgresql://reader:horse@localhost/shop"
    with ThreadPoolExecutor(1) as pool:
        for arguments, message in (
            ({"run": spec(source=secret)}, "source: expected env:NAME, file:/PATH or a URL"),
            ({**ends, "target": secret}, "target: expected env:NAME, file:/PATH or a URL"),
            ({"source": ends["source"]}, "target: expected a connection with the id of a run"),
            ({**ends, "workers": 0}, "workers: expected a number of at least 1, found 0"),
            ({**ends, "restarts": -1}, "restarts: expected a number of at least 0, found -1"),
            ({**ends, "streams": "many"}, "streams: expected auto or a whole number"),
        ):
            with pytest.raises(UsageError, match=message) as raised:
                penstock.work_on(pool, **{"run": RUN_ID, "workers": 1, **arguments})
            assert "horse" not in str(raised.value)
    with pytest.raises(UsageError, match=r"get_executor\(\); found object"):
        penstock.work_on(object(), RUN_ID, workers=1, **ends)  # type: ignore[arg-type]
    with closing_pool() as pool, pytest.raises(RunFailedTransiently, match="shutdown"):
        penstock.work_on(pool, RUN_ID, workers=1, **ends)


@contextmanager
def closing_pool() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        pass
    yield pool
